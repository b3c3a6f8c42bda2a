"""Equal parts of what was read are one object, and only while one object has it."""

import json
from typing import Any

from extender.convert import pod_from_json
from extender.convert.decode import Pool, shared_tuple
from scoring.model import Controller, Pod
from tests.extender.scheduling.world import pinned_to

NAMES = "netgang.io/gang"


def member(name: str, *, node: str = "n1", cpu: str = "1") -> Pod:
    pod: dict[str, Any] = {
        "metadata": {
            "name": name,
            "labels": {"scheduling.x-k8s.io/pod-group": "g"},
            "ownerReferences": [{"apiVersion": "batch/v1", "kind": "Job", "name": "j", "uid": "u", "controller": True}],
        },
        "spec": {
            "affinity": pinned_to(node),
            "containers": [{"name": "c", "resources": {"requests": {"cpu": cpu}}}],
            "schedulingGates": [{"name": NAMES}],
        },
    }
    return pod_from_json(json.dumps(pod).encode())


def test_pods_of_one_job_share_their_parts() -> None:
    one, other = member("p"), member("q", cpu="1000m")
    assert one.member_class is other.member_class
    assert one.group is other.group
    assert one.owner is other.owner
    assert one.gates is other.gates


def test_they_share_them_after_many_others_came() -> None:
    first = member("p")
    others = [member(f"other-{number}", node=f"n{number}") for number in range(2, 600)]
    again = member("q")
    assert again.member_class is first.member_class
    assert len({id(one.member_class) for one in (*others, first, again)}) == len(others) + 1


def test_values_that_are_not_used_are_forgotten() -> None:
    pool = Pool()
    kept = [pool.one(Controller("batch/v1", "Job", f"j{number}", "u")) for number in range(100)]
    assert len(pool) == 100
    del kept[10:]
    assert len(pool) == 10
    late = pool.one(Controller("batch/v1", "Job", "j50", "u"))
    assert (len(pool), pool.one(Controller("batch/v1", "Job", "j50", "u"))) == (11, late)


def test_a_large_text_is_not_kept_for_others() -> None:
    for large in (["g" * 2000], [("name", "v" * 2000)], ["g"] * 20):
        assert shared_tuple(tuple(large)) is not shared_tuple(tuple(large))
