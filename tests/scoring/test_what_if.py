"""What is supposed makes this of a snapshot and of the plan, and what does not fit."""

import re

import numpy as np
import pytest
from msgspec.structs import replace

from scoring import GangKey, Namespace, NodeName
from scoring.model import Gang, HostPort, Role
from scoring.model.pod import CPU
from scoring.model.policy import Policy, QueuePolicy
from scoring.plan import plan
from scoring.records import Supposed
from scoring.what_if import MisfitError, Situation, WhatIf, supposed, what_if
from tests.builders import bound, gang, mesh, node, pod, snapshot
from tests.scoring.plan.planned import dressed

NODES = [node("a1", zone="a", cpu="4"), node("b1", zone="b", cpu="2")]
RUNS = gang(
    "runs",
    members=[bound(pod(f"runs-{i}", gang="runs", job="runs", role=Role.WORKER, index=i), "a1") for i in range(3)],
    min_member=2,
)
WAITS = gang("waits", 3, created_s=5.0)
PLAIN = pod("plain", cpu="1", node="a1", scheduler_name="x")
NETWORK = mesh(NODES)
A1, B1 = NodeName("a1"), NodeName("b1")
RUNS_GONE = WhatIf(remove_jobs=("default/runs",))


def base(*gangs: Gang, now_s: float = 10.0, **fields: object) -> Situation:
    """Two zones, a job of three in the first one beside a plain pod, and a gang of three that waits."""
    state = snapshot(NODES, gangs or (RUNS, WAITS), pods=[PLAIN], network=NETWORK, **fields)  # type: ignore[arg-type]
    return Situation(state, Policy(), now_s)


def test_a_job_that_is_gone_leaves_its_room_and_the_original_stays() -> None:
    before = base()
    used = before.snapshot.used.copy()
    after = supposed(before, RUNS_GONE).snapshot
    left = (after.table.allocatable - after.used)[:, after.table.axis.index(CPU)].tolist()
    assert (after.table.names, left, set(after.gangs)) == (("a1", "b1"), [3000, 2000], {"default/waits"})
    assert np.array_equal(before.snapshot.used, used)
    assert set(before.snapshot.gangs) == {"default/runs", "default/waits"}


def test_what_is_gone_takes_its_promises_along() -> None:
    both = {"uid-default-waits-0": "b1", "uid-default-waits-1": "b1"}
    of = base(RUNS, WAITS, commitments={WAITS.key: both}, backing_off_until_s={WAITS.key: 99.0})
    after = supposed(of, WhatIf(remove_jobs=(WAITS.key,))).snapshot
    assert (after.commitments, after.backing_off_until_s, list(after.gangs)) == ({}, {}, [RUNS.key])
    parts = [gang(name, members=[bound(pod(f"{name}-0", gang=name, job="train"), "a1")]) for name in ("p", "q")]
    assert supposed(base(*parts), WhatIf(remove_jobs=("default/train",))).snapshot.gangs == {}


def test_host_ports_are_free_again() -> None:
    port = HostPort("TCP", "0.0.0.0", 80)
    member = bound(dressed(pod("g-0", gang="g"), host_ports=(port,)), "a1")
    of = base(gang("g", members=[member]), host_ports={A1: frozenset({port})})
    assert supposed(of, WhatIf(remove_jobs=("default/g",))).snapshot.host_ports == {"a1": frozenset()}


def test_pods_that_are_submitted_are_as_old_as_the_moment() -> None:
    new = gang("new", 2)
    after = supposed(base(), WhatIf(advance_s=89.0), gangs=(new,))
    made = after.snapshot.gangs[new.key]
    assert (after.now_s, made.created_s, {pod.created_s for pod in made.members}) == (99.0, 99.0, {99.0})
    assert after.snapshot.network is NETWORK


def test_nodes_are_cordoned_and_no_longer_so() -> None:
    shut = supposed(base(), WhatIf(cordon=(A1, B1), uncordon=(B1,))).snapshot.table
    assert [one.unschedulable for one in shut.nodes] == [True, False]
    assert shut.version != base().snapshot.table.version


MISFITS = {  # case: (the beginning of what is said, what is supposed)
    "no such node": ("cordon: there is no node x", WhatIf(cordon=(NodeName("x"),))),
    "no such node to uncordon": ("uncordon: there is no node x", WhatIf(uncordon=(A1, NodeName("x")))),
    "an unknown job": ("remove_jobs: no gang and no job default/x is known; gangs of default: runs, waits",
        WhatIf(remove_jobs=("default/x",))),
    "one job twice": ("remove_jobs: no gang and no job default/runs", WhatIf(remove_jobs=(RUNS.key, RUNS.key))),
}  # fmt: skip


@pytest.mark.parametrize(("said", "what"), MISFITS.values(), ids=MISFITS)
def test_what_does_not_fit(said: str, what: WhatIf) -> None:
    with pytest.raises(MisfitError, match=f"^{re.escape(said)}"):
        supposed(base(), what)
    with pytest.raises(MisfitError, match=r"^pods: gang default/waits exists already"):
        supposed(base(), WhatIf(), gangs=(WAITS,))


def differs(what: WhatIf, of: Situation | None = None, policy: Policy | None = None) -> Supposed:
    before = of or base()
    return what_if(before, plan(before.snapshot, before.policy, now_s=before.now_s), what, policy=policy)


SMALL = base(RUNS, gang("small", 2))
TWO = base(RUNS, gang("one", 2, created_s=1.0), gang("two", 2, created_s=2.0, options={"weight": "10000"}))
WEIGHED = replace(Policy(), queue=QueuePolicy(weight_namespaces=frozenset({Namespace("default")})))
DIFFERENCES: dict[str, tuple[dict[str, list[str]], WhatIf, Situation | None, Policy | None]] = {  # case: (by list, …)
    "nothing differs": ({}, WhatIf(advance_s=1.0), None, None),
    "a gang is admitted, another is gone": (
        {"admitted": ["default/waits"], "other": ["default/runs"]}, RUNS_GONE, None, None),
    "a gang is refused": ({"refused": ["default/small"]}, WhatIf(cordon=(B1,)), SMALL, None),
    "a gang moves": ({"moved": ["default/small"], "other": ["default/runs"]},
        WhatIf(cordon=(B1,), remove_jobs=(RUNS.key,)), SMALL, None),
    "better room moves no gang that has a place": ({"other": ["default/runs"]}, RUNS_GONE, SMALL, None),
    "weights decide which of two is admitted": (
        {"admitted": ["default/two"], "refused": ["default/one"]}, WhatIf(settings={"queue": {}}), TWO, WEIGHED),
}  # fmt: skip


@pytest.mark.parametrize(("want", "what", "of", "policy"), DIFFERENCES.values(), ids=DIFFERENCES)
def test_difference(want: dict[str, list[str]], what: WhatIf, of: Situation | None, policy: Policy | None) -> None:
    found = differs(what, of, policy)
    lists = {name: getattr(found, name) for name in ("admitted", "refused", "moved", "other")}
    assert {name: [one.gang for one in some] for name, some in lists.items() if some} == want
    assert differs(what, of, policy) == found


def test_before_and_after() -> None:
    found = differs(RUNS_GONE)
    [one] = found.admitted
    assert (one.before.state, one.before.code) == ("waiting", "NO_ROOM")
    assert one.after.members == {f"waits-{i}": "a1" for i in range(3)}
    assert found.other[0].after.state == "absent"
    assert found.gangs == {"admitted": 1, "waiting": 0}


def test_who_would_wait_is_told_behind_whom() -> None:
    ahead, new = gang("ahead", 2, created_s=1.0), gang("new", 2)
    of = base(RUNS, ahead)
    made = plan(of.snapshot, of.policy, now_s=of.now_s)
    [one] = what_if(of, made, WhatIf(), gangs=(new,)).other
    assert (one.gang, one.after.code, one.after.behind) == (new.key, "BEHIND", (GangKey("default/ahead"),))
