"""The parts of the scale benchmark that are not a cluster: its objects, its replay, its ratios."""

import msgspec
import pytest

from extender.cache import ClusterCache
from extender.convert import node_from_json, pod_from_json
from extender.convert.wire import decode_filter
from extender.kube.calls import NODES, PODS
from lab.bench.scale import objects
from lab.bench.scale.objects import Shape
from lab.bench.scale.replay import Replay
from lab.bench.scale.run import faster_than_linear, question, questions, ratios
from lab.testbed.apiserver.store import ApiStore

SMALL = Shape(nodes=400, pods=1000, waiting=12, size=8, preferred=4)


def filled() -> ClusterCache:
    cache = ClusterCache()
    cache.nodes.replace([node_from_json(raw) for raw in objects.nodes(SMALL).values()])
    cache.pods.replace([pod_from_json(raw) for raw in objects.pods(SMALL).values()])
    return cache


def test_the_cluster_is_as_big_as_asked() -> None:
    cache = filled()
    sizes = cache.sizes()
    assert (sizes.nodes, sizes.pods) == (400, 1000)
    waiting = [gang for gang in cache.snapshot().gangs.values() if gang.pending]
    assert len(waiting) == 12
    assert {8} == {len(gang.members) for gang in waiting}
    assert sum(bool(gang.members[0].gates) for gang in waiting) == 6
    assert sum(("zone-policy", "preferred") in gang.options for gang in waiting) == 3


def test_every_kind_of_pod_is_there() -> None:
    cache = filled()
    pods = list(cache.all_pods())
    assert sum(not cache.is_own(one) for one in pods) == 400
    pinned = [one for one in pods if one.member_class.constraints.affinity is not None]
    assert len(pinned) == 200
    assert sum(cache.is_own(one) and one.node is not None for one in pods) == 504


def test_gangs_of_whole_nodes_fit_only_where_nothing_runs() -> None:
    snapshot = filled().snapshot()
    column = snapshot.table.axis.index("nvidia.com/gpu")
    free = snapshot.table.allocatable[:, column] - snapshot.used[:, column]
    empty = [objects.is_empty(int(name.removeprefix("node-"))) for name in snapshot.table.names]
    assert (free == 8).tolist() == empty
    assert not (free < 0).any()


def test_the_same_shape_gives_the_same_bytes() -> None:
    assert objects.pods(SMALL) == objects.pods(SMALL)
    assert objects.mesh(SMALL) == objects.mesh(SMALL)
    assert objects.mesh(SMALL) != objects.mesh(SMALL, round_number=1)


def test_the_replay_never_contradicts_itself() -> None:
    store = ApiStore()
    store.load(NODES, objects.nodes(SMALL))
    store.load(PODS, objects.pods(SMALL))
    before = store.version
    replay = Replay(store, SMALL)
    for _ in range(1000):
        replay.pod_event()
    for _ in range(4):
        replay.node_leaves_or_returns()
        replay.heartbeat()
        replay.cordon()
    assert 1000 + 12 > store.version - before > 900  # the first foreign pods are not old enough to go
    assert 150 < replay.decided < 400
    assert len(store.bodies(NODES)) == 400
    for raw in store.bodies(PODS).values():
        pod_from_json(raw)


@pytest.mark.parametrize("verb", ["filter", "prioritize"])
def test_questions_are_what_the_service_reads(verb: str) -> None:
    named = question(verb, {"metadata": {"name": "ä"}}, b'["n"]').partition(b"\r\n\r\n")
    assert f"Content-Length: {len(named[2])}".encode() in named[0]
    asked = dict(zip(range(8), questions(SMALL), strict=False))
    found = [message for kind, message in asked.values() if kind == f"{verb}_all"]
    head, _, body = found[0].partition(b"\r\n\r\n")
    assert head.startswith(b"POST /%b " % verb.encode())
    assert int(head.rpartition(b"Content-Length: ")[2].split(b"\r\n")[0]) == len(body)
    assert len(decode_filter(body).node_names) == 400
    assert not msgspec.json.decode(body)["Pod"]["spec"].get("schedulingGates")


def test_ratios_name_what_grows_faster() -> None:
    small = {"sync_s": 2.0, "rss_mib": 100.0, "plan_full_ms": 0.0}
    large = {"sync_s": 6.0, "rss_mib": 400.0, "plan_full_ms": 9.0, "nodes": 15000.0}
    found = ratios(small, large)
    assert found == {"sync_s": 3.0, "rss_mib": 4.0}
    assert faster_than_linear(found, 3.0) == ["rss_mib"]
