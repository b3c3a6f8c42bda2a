"""What tenants write as JSON is measured before it is read (docs/safety.md S21); a cluster in a file is read."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from extender.convert import clusterfile, node_from_json, pod_from_json, pod_group_from_json
from extender.convert.clusterfile import ClusterFile, parse_cluster, read_cluster
from extender.convert.decode import NOTE_CHARS, NOTE_LEVELS, Pool, note_from_json, shallow, shared_tuple
from extender.errors import ConfigError
from scoring.model import Controller, Pod
from tests.extender.scheduling.world import GATED, node_json, pinned_to, pod_json

_ANY: msgspec.json.Decoder[object] = msgspec.json.Decoder()

_JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-9, 9) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=12,
)


def _cut(value: object, levels: int) -> object:
    if isinstance(value, list):
        return [_cut(one, levels - 1) for one in value] if levels else None
    if isinstance(value, dict):
        return {key: _cut(one, levels - 1) for key, one in value.items()} if levels else None
    return value


@given(_JSON, st.integers(1, 4))
def test_what_lies_deeper_is_null_and_the_rest_as_it_was(value: object, levels: int) -> None:
    for text in (json.dumps(value), json.dumps(value, ensure_ascii=False, indent=1)):
        assert _cut(value, levels) == json.loads(shallow(text.encode(), levels=levels))


NO_NOTES = [
    *("[" * 200_000, '{"x":' * 200_000, '{"victims": ' + "[" * 100_000 + "]" * 100_000 + "}"),
    *("[" * (NOTE_LEVELS + 1) + "]" * (NOTE_LEVELS + 1), '"' + "a" * NOTE_CHARS + '"', "]" * 50 + "[" * 2000),
    *('"\ud800"', '"unended', '\\"[[[[', "", None, {"a": 1}),
]


@pytest.mark.parametrize("text", NO_NOTES, ids=lambda value: repr(value)[:20])
def test_what_cannot_be_read_is_no_note(text: object) -> None:
    assert note_from_json(_ANY, text) is None
    for bound in ("[" * NOTE_LEVELS + "]" * NOTE_LEVELS, f'"{"a" * (NOTE_CHARS - 2)}"'):  # read themselves
        assert json.loads(bound) == note_from_json(_ANY, bound)


@pytest.mark.parametrize("read", [pod_from_json, node_from_json, pod_group_from_json])
def test_an_object_nested_too_deeply_is_a_value_error(read: Callable[[bytes], object]) -> None:
    deep = b'{"metadata": {"name": "x"}, "spec": {"y": %s}}' % (b"[" * 9_000 + b"]" * 9_000)
    with pytest.raises(ValueError, match="nested too deeply"):
        read(deep)


def member(name: str, *, node: str = "n1", cpu: str = "1") -> Pod:
    job = {"apiVersion": "batch/v1", "kind": "Job", "name": "j", "uid": "u", "controller": True}
    pod = pod_json(name, group="g", cpu=cpu, owner=job, affinity=pinned_to(node), **GATED)
    return pod_from_json(json.dumps(pod).encode())


def test_pods_of_one_job_share_their_parts() -> None:
    """Also after many others came."""
    first = member("p")
    others = [member(f"other-{number}", node=f"n{number}") for number in range(2, 600)]
    again = member("q", cpu="1000m")
    for part in ("member_class", "group", "owner", "gates"):
        assert getattr(again, part) is getattr(first, part)
    assert len({id(one.member_class) for one in (*others, first, again)}) == len(others) + 1


def test_values_that_are_not_used_are_forgotten() -> None:
    pool = Pool()
    kept = [pool.one(Controller("batch/v1", "Job", f"j{number}", "u")) for number in range(100)]
    assert len(pool.known) == 100
    del kept[10:]
    assert len(pool.known) == 10
    late = pool.one(Controller("batch/v1", "Job", "j50", "u"))
    assert (len(pool.known), pool.one(Controller("batch/v1", "Job", "j50", "u"))) == (11, late)


def test_a_large_text_is_not_kept_for_others() -> None:
    for large in (["g" * 2000], [("name", "v" * 2000)], ["g"] * 20):
        assert shared_tuple(tuple(large)) is not shared_tuple(tuple(large))


ZONE = "topology.kubernetes.io/zone"


def parsed(document: Any, *, zone_label: str = ZONE) -> ClusterFile:
    return parse_cluster(json.dumps(document).encode(), name="c.json", zone_label=zone_label)


@pytest.mark.parametrize("kind", ["List", "PodList"])
def test_a_list_is_read_in_its_order(kind: str) -> None:
    """`kubectl get pods,nodes` prints a List, the API server a PodList; a pod's JSON is kept as it came."""
    group = {"kind": "PodGroup", "metadata": {"name": "g"}, "spec": {"minMember": 2}}
    other, pod = {"kind": "Service", "spec": 7}, pod_json("p2", cpu="1.50")
    items = [pod, other, node_json("n2"), group, {}, pod_json("p1"), node_json("n1")]
    saved = parsed({"kind": kind, "apiVersion": "v1", "items": items})
    assert [node.name for node in saved.nodes] == ["n2", "n1"]
    assert [pod.name for pod in saved.pods] == ["p2", "p1"]
    assert [(one.key, one.min_member) for one in saved.pod_groups] == [("default/g", 2)]
    assert json.loads(saved.pods_json["default/p2"]) == pod
    node = node_json("n", zone="z")
    node["metadata"]["labels"]["rack"] = "r7"
    assert parsed(node, zone_label="rack").nodes[0].zone == "r7", "a single object, and the zone label of the settings"


@pytest.mark.parametrize("body", [b"", b"\xff\xfe", b"[" * 100_000, b"null", b"3", b'"List"', b'{"items": 3}'])
def test_what_is_no_list_is_refused(body: bytes) -> None:
    with pytest.raises(ConfigError, match=r"^c\.json: not a JSON List as `kubectl get nodes,pods -A -o json` prints"):
        parse_cluster(body, name="c.json", zone_label=ZONE)


def test_the_item_that_is_wrong_is_counted_from_0() -> None:
    """As in jq's .items[2]."""
    with pytest.raises(ConfigError, match=r"^c\.json: items\[2\]: Pod default/bad: .*containers\[0\].*: cpu: "):
        parsed({"kind": "List", "items": [node_json("n"), pod_json("p"), pod_json("bad", cpu="x")]})


def test_a_huge_file_is_not_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(clusterfile, "_LARGEST_BYTES", 3)
    path = tmp_path / "c.json"
    path.write_text("[[[]]]")
    with pytest.raises(ConfigError, match="larger than 1 GiB"):
        read_cluster(path, zone_label=ZONE)
