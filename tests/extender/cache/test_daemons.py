"""Room that is kept free for pods of DaemonSets, and what takes none (docs/safety.md S12, S26)."""

import gc
import json
from collections.abc import Callable, Iterable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from extender.cache.cluster import ClusterCache
from extender.cache.room import MOST_SETS
from extender.convert import daemon_set_from_json, pod_from_json
from scoring import NodeName
from scoring.model import DaemonSet, MemberClass, Node, NodeSelectorTerm, Phase, Pod, Requirement
from scoring.model.gang import gang_key
from scoring.model.pod import CPU
from tests.builders import node, pod
from tests.fuzz.consistency import assert_consistent

NOW_S = 10_000.0
SETTLE_S = 100.0
PIN_N1 = (NodeSelectorTerm(fields=(Requirement("metadata.name", "In", ("n1",)),)),)


def daemon_set(name: str = "cni", *, cpu: str = "1", created_s: float = 0.0, **fields: Any) -> DaemonSet:
    namespace = fields.pop("namespace", "kube-system")
    deleting = fields.pop("deleting", False)
    made = pod("template", cpu=cpu, **fields).member_class
    return DaemonSet(namespace, name, f"{namespace}/uid-{name}", made, created_s=created_s, deleting=deleting)


def daemon(of: DaemonSet, name: str = "d", **fields: Any) -> Pod:
    fields = {"affinity": PIN_N1, "scheduler_name": "default-scheduler", "namespace": str(of.namespace)} | fields
    return replace(pod(name, **fields), daemon=of.identity)


class Desk:
    def __init__(self, *sets: DaemonSet, nodes: Iterable[Node] | None = None) -> None:
        self.cache = ClusterCache(node_settle_s=SETTLE_S)
        self.cache.expire(NOW_S)
        self.cache.nodes.replace([node("n1"), node("n2")] if nodes is None else list(nodes))
        for one in sets:
            self.cache.daemon_sets.put(one)
        self.look()

    def look(self) -> None:
        list(self.cache.daemon_sets.look_at_nodes())

    def used(self, where: str = "n1") -> int:
        assert_consistent(self.cache)
        snapshot = self.cache.snapshot()
        return int(snapshot.used[snapshot.table.index[NodeName(where)], snapshot.table.axis.index(CPU)])


YOUNG = node("n1", created_s=NOW_S - 1.0)
CNI, ON_GPUS = daemon_set(), daemon_set(node_selector={"gpu": "yes"})

PHANTOMS = {  # what is pinned to n1 and takes nothing there
    "of no scheduler": pod("p", affinity=PIN_N1, scheduler_name="none"),
    "of a DaemonSet that does not exist": daemon(daemon_set("x")),
    "of another namespace's DaemonSet": replace(daemon(daemon_set(), namespace="tenant"), daemon="tenant/uid-cni"),
    "of a DaemonSet, for long": daemon(daemon_set()),
    "of a gang of another scheduler": pod("p", affinity=PIN_N1, scheduler_name="none", gang="g", min_available=1),
}


@pytest.mark.parametrize("one", PHANTOMS.values(), ids=PHANTOMS)
def test_a_pod_takes_no_room_by_being_pinned(one: Pod) -> None:
    """Users that may create pods could fill the cluster with pods that no scheduler will ever place."""
    desk = Desk(daemon_set())
    desk.cache.pods.put(one)
    assert (desk.used(), desk.cache.counted_on(one)) == (0, None)


@pytest.mark.parametrize("node_first", [False, True])
def test_a_young_node_keeps_room_until_the_pod_is_bound(node_first: bool) -> None:
    """Its request and no more, whether the pod exists yet or not; other DaemonSets' pods change nothing.

    At once, whichever comes first: a plan may be made in the next moment.
    """
    desk = Desk(nodes=[YOUNG] if node_first else [])
    desk.cache.daemon_sets.put(CNI)
    desk.cache.nodes.put(YOUNG)
    assert desk.used() == 1000
    desk.cache.pods.put(daemon(CNI))
    assert (desk.used(), desk.cache.counted_on(daemon(CNI))) == (1000, "n1")
    desk.cache.pods.put(daemon(daemon_set("log"), "other", node="n1"))
    desk.cache.pods.put(replace(daemon(CNI, "forged", node="n1", namespace="tenant"), daemon="tenant/uid-cni"))
    assert desk.used() == 2000 + 1000
    desk.cache.pods.put(daemon(CNI, cpu="2", node="n1"))
    assert desk.used() == 2000 + 2000


@pytest.mark.parametrize(
    ("where", "one"),
    [(node("n1"), CNI), (YOUNG, ON_GPUS), (replace(YOUNG, ready=False), CNI), (YOUNG, daemon_set(deleting=True))],
    ids=["both are old", "the node is not selected", "the node is not ready", "the DaemonSet is being deleted"],
)
def test_nothing_is_kept(where: Node, one: DaemonSet) -> None:
    assert Desk(one, nodes=[where]).used() == 0


def test_it_ends_with_the_settle_time() -> None:
    timeless = ClusterCache()  # to which the time is not known, so nothing is young
    timeless.daemon_sets.put(daemon_set(created_s=NOW_S))
    timeless.nodes.put(YOUNG)
    assert timeless.daemon_sets.kept() == []
    desk = Desk(daemon_set(), nodes=[YOUNG])
    [kept] = desk.cache.daemon_sets.kept()
    assert (kept.daemon_set, kept.nodes, kept.until_s) == ("kube-system/cni", ("n1",), NOW_S - 1.0 + SETTLE_S)
    desk.cache.expire(NOW_S + SETTLE_S)
    [over] = desk.cache.daemon_sets.kept()
    assert (desk.used(), over.nodes, over.overdue) == (0, (), 1)
    desk.cache.pods.put(daemon(daemon_set(), node="n1"))
    assert desk.cache.daemon_sets.kept() == []


READY, LABELLED = node("n1"), node("n1", labels={"gpu": "yes"})
ENDED = daemon(CNI, node="n1", phase=Phase.FAILED)
BEGINS = {  # case: (DaemonSet, node at first, what happens, millicores before and after)
    "its pod went": (CNI, READY, lambda cache: cache.pods.remove("kube-system/d"), 1000, 1000),
    "its pod failed": (CNI, READY, lambda cache: cache.pods.put(ENDED), 1000, 1000),
    "the node is ready": (CNI, replace(READY, ready=False), lambda cache: cache.nodes.put(READY), 0, 1000),
    "the node has the label": (ON_GPUS, READY, lambda cache: cache.nodes.put(LABELLED), 0, 1000),
    "the template is another": (CNI, READY, lambda cache: cache.daemon_sets.put(daemon_set(cpu="2")), 0, 2000),
}


@pytest.mark.parametrize(("one", "first", "happens", "before", "after"), BEGINS.values(), ids=BEGINS)
def test_it_begins_when_a_pod_becomes_missing(
    one: DaemonSet, first: Node, happens: Callable[[ClusterCache], None], before: int, after: int
) -> None:
    desk = Desk(one, nodes=[first])
    if before:
        desk.cache.pods.put(daemon(one, node="n1"))
    assert desk.used() == before
    happens(desk.cache)
    desk.look()
    assert desk.used() == after


@pytest.mark.parametrize("promised", [False, True])
def test_a_new_daemon_set_keeps_room_on_all_nodes_but_promised_ones(promised: bool) -> None:
    desk = Desk()
    if promised:
        desk.cache.pods.put(pod("p", gang="g", min_available=1))
        desk.cache.set_commitment(gang_key("default", "g"), {pod("p").uid: NodeName("n1")})
    desk.cache.daemon_sets.put(daemon_set(created_s=NOW_S))
    assert desk.used("n2") == 0
    desk.look()
    assert (desk.used("n1"), desk.used("n2")) == (0 if promised else 1000, 1000)
    desk.cache.daemon_sets.remove("kube-system/cni")
    assert (desk.used("n1"), desk.used("n2")) == (0, 0)


def test_daemon_sets_that_are_made_again_and_again_close_a_node_for_a_tenth_of_the_time() -> None:
    """A user that makes a new one whenever the last one's time is over keeps no node closed; others still may."""
    desk = Desk()
    closed = 0
    for second in range(2_000):
        now_s = NOW_S + second
        desk.cache.expire(now_s)
        if not desk.used():
            desk.cache.daemon_sets.replace([daemon_set(f"x{second}", created_s=now_s, namespace="tenant", cpu="8")])
            desk.look()
        closed += desk.used() > 0
    assert 200 <= closed <= 320
    desk.cache.daemon_sets.put(daemon_set(created_s=NOW_S + 2_000))
    desk.look()
    assert desk.used() in (1000, 9000)


def test_of_one_namespace_only_so_many_are_looked_at() -> None:
    many = [daemon_set(f"x{i}", namespace="tenant", cpu="1m") for i in range(MOST_SETS + 9)]
    assert Desk(*many, CNI, nodes=[YOUNG]).used() == MOST_SETS + 1000


def test_a_daemon_set_that_selects_by_much_keeps_nothing() -> None:
    """A namespace's 64 such took 90 ms at each change of a node."""
    terms = (NodeSelectorTerm((Requirement("gpu", "NotIn", tuple(map(str, range(500)))),)),)
    desk = Desk(daemon_set("x", affinity=terms, created_s=NOW_S), daemon_set(cpu="2", created_s=NOW_S))
    assert desk.used() == 2000


def test_a_daemon_set_that_is_changed_all_the_time_leaves_nothing_behind() -> None:
    desk = Desk(nodes=[node(f"n{i}") for i in range(10)])

    def there() -> int:
        gc.collect()
        return sum(type(one) in (DaemonSet, MemberClass) for one in gc.get_objects())

    before = there()
    for second in range(90):
        desk.cache.expire(NOW_S + second)
        desk.cache.daemon_sets.put(daemon_set(created_s=NOW_S, cpu=f"{second + 1}m"))
        desk.look()
    assert there() <= before + 4
    assert desk.used() == 90


def test_a_daemon_set_is_read_as_its_pods_would_be() -> None:
    """Requests and constraints of the template, and the tolerations that the controller adds."""
    spec = {
        "hostNetwork": True,
        "nodeSelector": {"gpu": "yes"},
        "containers": [{"name": "c", "resources": {"requests": {"cpu": "250m"}}, "ports": [{"containerPort": 80}]}],
    }
    metadata = {"name": "cni", "namespace": "kube-system", "uid": "u", "creationTimestamp": "1970-01-01T00:01:00Z"}
    read = daemon_set_from_json(json.dumps({"metadata": metadata, "spec": {"template": {"spec": spec}}}).encode())
    assert (read.key, read.identity, read.created_s, read.deleting) == ("kube-system/cni", "kube-system/u", 60.0, False)
    limits = read.member_class.constraints
    assert (read.member_class.requests.get(CPU), limits.node_selector) == (250, (("gpu", "yes"),))
    assert ([port.port for port in limits.host_ports], len(limits.tolerations)) == ([80], 7)
    for broken in (b"{}", b'{"metadata": {"name": "x"}, "spec": {"template": {"spec": 1}}}'):
        with pytest.raises(ValueError, match="DaemonSet"):
            daemon_set_from_json(broken)


def test_whose_pod_it_is() -> None:
    its = {"apiVersion": "apps/v1", "kind": "DaemonSet", "name": "d", "uid": "u", "controller": True}
    others = (its | {"apiVersion": "x/v1"}, its | {"controller": False}, its | {"kind": "ReplicaSet"})
    owned = ({"name": "p", "namespace": "team", "ownerReferences": [owner]} for owner in (its, *others))
    pods = [pod_from_json(json.dumps({"metadata": metadata, "spec": {}}).encode()) for metadata in owned]
    assert [one.daemon for one in pods] == ["team/u", "", "", ""]


SETS = [daemon_set("a"), daemon_set("b", cpu="2"), daemon_set("c", namespace="tenant", node_selector={"gpu": "yes"})]
NODES = [node("n1"), YOUNG, node("n1", labels={"gpu": "yes"}), node("n1", ready=False), node("n2", created_s=NOW_S)]
PHASES = st.sampled_from([Phase.PENDING, Phase.RUNNING, Phase.FAILED])
EVENTS = st.one_of(
    st.sampled_from(NODES),
    st.sampled_from(["n1", "n2", "kube-system/a", "tenant/c", "kube-system/d", "tenant/d", "look"]),
    st.builds(replace, st.sampled_from(SETS), created_s=st.sampled_from([0.0, NOW_S]), deleting=st.booleans()),
    st.builds(daemon, st.sampled_from(SETS), node=st.sampled_from([None, "n1", "n2"]), phase=PHASES),
    st.integers(1, int(SETTLE_S)),
)


@given(st.lists(EVENTS, max_size=30))
def test_the_books_agree_whatever_happens(events: list[Any]) -> None:
    desk, now_s = Desk(nodes=[]), NOW_S
    for event in events:
        match event:
            case Node():
                desk.cache.nodes.put(event)
            case Pod():
                desk.cache.pods.put(event)
            case DaemonSet():
                desk.cache.daemon_sets.put(event)
            case int():
                desk.cache.expire(now_s := now_s + event)
            case "look":
                desk.look()
            case name:
                for sink in (desk.cache.nodes, desk.cache.daemon_sets, desk.cache.pods):
                    sink.remove(name)
        assert_consistent(desk.cache)
        assert all(now_s < kept.until_s <= now_s + SETTLE_S for kept in desk.cache.daemon_sets.kept() if kept.nodes)
    desk.look()
    desk.cache.expire(now_s + SETTLE_S)
    assert_consistent(desk.cache)
    assert not any(kept.nodes for kept in desk.cache.daemon_sets.kept())
