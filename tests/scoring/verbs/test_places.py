"""Places by a plan: lists of nodes for admitted pods, another node for one, a native group's first zone."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from scoring import NodeName, ZoneName
from scoring.model import GATE, Gang, GangSource, NodeSelectorTerm, Pod, Requirement
from scoring.model.policy import AdmitTo, Policy
from scoring.model.snapshot import Snapshot
from scoring.plan import PlannerCache, plan
from scoring.verbs.places import MOST_LISTED, Alternative, FirstZone, Listing, PlanPlaces, first_zone
from tests.builders import gang, mesh, node, pod, snapshot

POLICY = Policy(spares=2)
GPU_NODES = NodeSelectorTerm(expressions=(Requirement("disk", "Exists"),))


def lists(state: Snapshot, policy: Policy = POLICY) -> list[Listing]:
    made = plan(state, policy, now_s=0.0)
    one = next(found for key, found in state.gangs.items() if key.endswith("/g"))
    return list(PlanPlaces(state, made, policy).listings(one, made.admitted[one.key]).values())


def gated(size: int, *, cpu: str = "8", **fields: object) -> Gang:
    return gang("g", size, cpu=cpu, gates=(GATE,), **fields)  # type: ignore[arg-type]


NAMES = [f"n{i}" for i in range(1, 7)]
SLOWER = {"n4": {"delay_ms": 30.0}, "n5": {"delay_ms": 10.0}, "n6": {"delay_ms": 20.0}}
AHEAD = gang("f", 1, cpu="8", created_s=-1.0)
SPARES: dict[str, tuple[list[str], Snapshot]] = {  # sentence: (planned nodes and spares, cluster)
    "spares have room, are measured well towards the planned nodes, and are in their zone": (
        ["n1", "n2", "n5", "n6"],
        snapshot([*map(node, NAMES), node("z1", zone="z")], [gated(2)], pods=[pod("x", node="n3")],
                 network=mesh(NAMES, bad=SLOWER))),
    "a full node is a spare where none has room: it may be empty by the time it is needed": (
        ["n2", "n1"], snapshot([node("n1"), node("n2")], [gated(1)], pods=[pod("x", node="n1")])),
    "nodes that another gang will fill are the last": (["n2", "n3", "n4"],
        snapshot([node(f"n{i}") for i in range(1, 5)], [gated(1), AHEAD])),
}  # fmt: skip


@pytest.mark.parametrize(("nodes", "state"), SPARES.values(), ids=SPARES)
def test_planned_nodes_then_spares(nodes: list[str], state: Snapshot) -> None:
    [listing] = lists(state)
    assert (listing.zones, list(listing.nodes)) == (("a",), nodes)


def test_members_of_a_native_gang_get_their_planned_nodes_without_spares_however_many() -> None:
    """Each of them names one node, so that a long list costs nothing."""
    native = replace(gated(MOST_LISTED + 1), source=GangSource.GATED_NATIVE)
    [listing] = lists(snapshot([node(f"n{i:03}") for i in range(MOST_LISTED + 5)], [native]))
    assert listing.nodes == tuple(f"n{i:03}" for i in range(MOST_LISTED + 1))
    assert listing.only(NodeName("n007")).nodes == ("n007",)


def test_a_kind_of_member_gets_its_own_list_and_all_of_one_kind_the_same() -> None:
    """Otherwise a gang of 64 would be 64 kinds to the planner."""
    small = [pod(f"g-{i}", gang="g", cpu="1", gates=(GATE,)) for i in range(3)]
    large = [pod(f"g-{i}", gang="g", cpu="8", gates=(GATE,)) for i in range(3, 5)]
    found = lists(snapshot([node(f"n{i}") for i in range(1, 7)], [gang("g", members=[*small, *large])]))
    assert len(found) == 2
    assert all(len(set(listing.nodes)) == len(listing.nodes) for listing in found)


TWO = gated(2)
REFUSED = {"exclusions": {TWO.members[0].member_class: frozenset({NodeName("n001")})}}
TERMS = (NodeSelectorTerm((Requirement("kubernetes.io/hostname", "Exists"),)),) * 64
ZONE_ONLY: dict[str, tuple[str, Gang, Policy, dict[str, Any]]] = {  # case: (part of the reason, gang, policy, cluster)
    "the operator wants it": ("admit_to is zone", TWO, replace(POLICY, admit_to=AdmitTo.ZONE), {}),
    "a volume claim": ("persistentVolumeClaim", gated(2, unmodelled=("persistentVolumeClaim",)), POLICY, {}),
    "too many nodes": ("too many", gated(MOST_LISTED), replace(POLICY, spares=1), {}),
    "that many terms would be unreadable (docs/safety.md S21)": ("of 64 terms", gated(2, affinity=TERMS), POLICY, {}),
    "nodes refused such pods (docs/safety.md S27)": ("left out", TWO, POLICY, REFUSED),
    "a resource that no node's allocatable shows": ("uncounted", gang("g", 2, gpu=1, gates=(GATE,)), POLICY, {}),
}  # fmt: skip


@pytest.mark.parametrize(("why", "asked", "policy", "fields"), ZONE_ONLY.values(), ids=ZONE_ONLY)
def test_only_the_zone(why: str, asked: Gang, policy: Policy, fields: dict[str, Any]) -> None:
    [listing] = lists(snapshot([node(f"n{i:03}") for i in range(MOST_LISTED + 5)], [asked], **fields), policy=policy)
    assert (listing.zones, listing.nodes, listing.hostnames) == (("a",), (), ())
    assert why in listing.why_zone


def test_only_the_zone_after_named_nodes_would_not_do() -> None:
    """Once is enough: whatever removes pods for it says so (docs/safety.md S27)."""
    state = snapshot([node(f"n{i}") for i in range(1, 5)], [TWO])
    made = plan(state, POLICY, now_s=0.0)
    [listing] = PlanPlaces(state, made, POLICY).listings(TWO, made.admitted[TWO.key], may_name=False).values()
    assert (listing.zones, listing.nodes, listing.hostnames, bool(listing.why_zone)) == (("a",), (), (), True)


def test_pods_with_terms_of_their_own_are_narrowed_by_host_name() -> None:
    """The terms stay, so each gets the names of hosts; nodes without such a label are left out, or force the zone."""
    state = snapshot(
        [node(f"n{i}", labels={"disk": "ssd", "kubernetes.io/hostname": f"host-{i}"}) for i in range(1, 5)],
        [gated(2, affinity=(GPU_NODES,))],
    )
    [listing] = lists(state)
    assert listing.nodes == ("n1", "n2", "n3", "n4")
    assert listing.hostnames == ("host-1", "host-2", "host-3", "host-4")
    nameless = [replace(one, labels=(("disk", "ssd"),)) for one in state.table.nodes[:1]]
    bare = snapshot([*nameless, *state.table.nodes[1:2]], state.gangs.values())
    assert lists(bare)[0].why_zone == "a planned node has no label kubernetes.io/hostname"


@given(
    cpus=st.lists(st.sampled_from(["2", "4", "8"]), min_size=1, max_size=12),
    zones=st.lists(st.sampled_from("ab"), min_size=12, max_size=12),
    size=st.integers(1, 4),
    spares=st.integers(0, 5),
)
def test_a_list_holds_all_planned_nodes_and_only_allowed_ones(
    cpus: list[str], zones: list[str], size: int, spares: int
) -> None:
    nodes = [node(f"n{i}", cpu=cpu, zone=zones[i]) for i, cpu in enumerate(cpus)]
    state = snapshot(nodes, [gated(size, cpu="2")])
    policy = replace(POLICY, spares=spares)
    for admission in plan(state, policy, now_s=0.0).admitted.values():
        listing = lists(state, policy=policy)[0]
        planned = sorted(set(admission.members.values()))
        assert list(listing.nodes[: len(planned)]) == planned
        assert len(listing.nodes) <= len(planned) + spares
        assert len(set(listing.nodes)) == len(listing.nodes)
        zone_of: dict[str, Pod | str] = {one.name: one.zone for one in nodes}
        assert {zone_of[name] for name in listing.nodes} == set(admission.zones)
        assert lists(state, policy=policy)[0] == listing


def asked(state: Snapshot, member: int, *nodes: str) -> Alternative:
    """What member `member` of gang `g` may have instead, of these nodes."""
    made = plan(state, POLICY, now_s=0.0)
    one = state.gangs["default/g"]  # type: ignore[index]
    return PlanPlaces(state, made, POLICY).instead(one, one.members[member], [NodeName(name) for name in nodes])


def test_the_best_link_to_the_siblings_wins() -> None:
    """Of the nodes asked about; those not asked about are named, but for the places of the gang itself."""
    network = mesh(NAMES, bad={"n3": {"delay_ms": 30.0}, "n5": {"delay_ms": 20.0}})
    state = snapshot(map(node, NAMES), [gang("g", 2, cpu="8")], network=network)
    found = asked(state, 1, "n3", "n5")
    places = set(plan(state, POLICY, now_s=0.0).node_of.values())
    assert (found.node, set(found.absent)) == ("n5", set(NAMES) - {"n3", "n5"} - places)


OTHER = gang("h", 1, cpu="8", created_s=1.0)
NONE = {  # case: (cluster, nodes asked about)
    "a node of another zone": (snapshot([node("n1"), node("n2"), node("z1", zone="z")], [gang("g", 2, cpu="8")]),
        ["z1"]),
    "nodes that are full, or that the plan gives to another gang": (
        snapshot(map(node, NAMES[:3]), [gang("g", 1, cpu="8"), OTHER], pods=[pod("x", node="n3")]), ["n2", "n3"]),
    "a gang that is not admitted": (snapshot([node("n1")], [gang("g", 2, cpu="8")]), ["n1"]),
}  # fmt: skip


@pytest.mark.parametrize(("state", "nodes"), NONE.values(), ids=NONE)
def test_no_alternative(state: Snapshot, nodes: list[str]) -> None:
    assert asked(state, 0, *nodes).node is None


def tried(cluster: Snapshot, *failed: str) -> FirstZone:
    zones = [ZoneName(zone) for zone in failed]
    wish = next(one for key, one in cluster.gangs.items() if key == "default/g")
    return first_zone(wish, cluster, Policy(), failed=zones, cache=PlannerCache(), now_s=0.0)


A, B, SMALL = node("a1", zone="a"), node("b1", zone="b"), node("b1", zone="b", cpu="1")
PAIR, PROMISED = gang("g", 2, cpu="4"), {"default/other": {"uid-default-other-0": "a1"}}
OWN = {"default/g": {f"uid-default-g-{i}": "a1" for i in range(2)}}
TRIES: dict[str, tuple[str | None, Snapshot, str]] = {  # case: (zone, cluster, zones of earlier tries)
    "zone a is promised to another gang": (
        "b", snapshot([A, B], [PAIR, gang("other", 1, cpu="8")], commitments=PROMISED), ""),
    "its own promise, from before it was a native group": ("a", snapshot([A, SMALL], [PAIR], commitments=OWN), ""),
    "no zone that it may not use": ("b", snapshot([A, B], [gang("g", 2, options={"zones": "b"})]), "b"),
    "an unknown zone": (None, snapshot([A, B], [gang("g", 2, options={"zones": "x"})]), ""),
}  # fmt: skip


@pytest.mark.parametrize(("zone", "cluster", "failed"), TRIES.values(), ids=TRIES)
def test_first_zone(zone: str | None, cluster: Snapshot, failed: str) -> None:
    assert tried(cluster, *failed).zone == zone


@given(st.lists(st.tuples(st.sampled_from("abcd"), st.integers(0, 8)), min_size=1, max_size=8))
def test_no_zone_is_tried_twice_before_all_were(machines: list[tuple[str, int]]) -> None:
    nodes = [node(f"n{i}", zone=zone) for i, (zone, _) in enumerate(machines)]
    busy = [pod(f"x{i}", cpu=str(used), node=f"n{i}") for i, (_, used) in enumerate(machines)]
    cluster = snapshot(nodes, [gang("g", 3, cpu="3")], pods=busy)
    zones = {zone for zone, _ in machines}
    order: list[str] = []
    for _ in zones:
        found = tried(cluster, *order)
        assert found.zone is not None
        assert sorted(found.failed) == sorted(order)
        order.append(found.zone)
    assert sorted(order) == sorted(zones)
    again = tried(cluster, *order)
    assert (again.zone, again.failed) == (order[0], frozenset())
