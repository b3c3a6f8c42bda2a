"""The smallest sufficient set of whole gangs of lower priority leaves (docs/how-to/preemption-and-suspension.md)."""

from collections.abc import Iterable
from functools import partial
from typing import Any

import pytest
from msgspec.structs import replace

from scoring import GangKey, NodeName, PodUid
from scoring.model import Gang, GangSource, HostPort, Node, Phase, Role
from scoring.model.policy import Policy, Preempting, QueuePolicy, ServicePolicy, ZonePolicy
from scoring.model.reasons import Reason
from scoring.model.snapshot import NodeTable, Reservation, Snapshot
from scoring.plan import plan
from scoring.preempt import Preemption, SearchLimits, preemption
from tests.builders import gang, node, pod, snapshot
from tests.scoring.plan.planned import dressed

ON = Policy(preemption=Preempting.GANGS)
NOW_S = 1000.0
QUICK = SearchLimits(sets=0)


def runs(name: str, *where: str, cpu: str = "4", priority: int = 0, at_s: float = 0.0, **fields: object) -> Gang:
    members = [
        pod(f"{name}-{i}", gang=name, cpu=cpu, node=on, priority=priority, scheduled_s=at_s)
        for i, on in enumerate(where)
    ]
    return gang(name, members=members, priority=priority, **fields)  # type: ignore[arg-type]


def waits(size: int, name: str = "wants", *, priority: int = 10) -> Gang:
    return gang(name, size, cpu="4", priority=priority)


def found(
    nodes: Iterable[Node],
    gangs: Iterable[Gang],
    policy: Policy = ON,
    *,
    spared: Iterable[str] = (),
    limits: SearchLimits = SearchLimits(),
    **fields: object,
) -> Preemption | None:
    return decided(snapshot(nodes, gangs, **fields), policy, spared=spared, limits=limits)  # type: ignore[arg-type]


def decided(
    state: Snapshot, policy: Policy = ON, *, now_s: float = NOW_S, spared: Iterable[str] = (), **how: Any
) -> Preemption | None:
    keys = frozenset(GangKey(f"default/{name}") for name in spared)
    return preemption(state, plan(state, policy, now_s=now_s), policy, now_s=now_s, spared=keys, **how)


def victims(decision: Preemption | None) -> list[str]:
    return [] if decision is None else [key.partition("/")[2] for key in decision.victims]


def with_first(one: Gang, **fields: object) -> Gang:
    return replace(one, members=(replace(one.members[0], **fields), *one.members[1:]))


def cpus(*amounts: int) -> list[Node]:
    return [node(f"n{i}", cpu=str(amount)) for i, amount in enumerate(amounts)]


NODES = cpus(4, 4, 4, 4)
WANTS, ONE = waits(2), waits(1)
LOW, FULL = runs("low", "n0", "n1"), runs("full", "n2", "n3", priority=10)
ENDING = replace(FULL, members=tuple(replace(member, deleting=True) for member in FULL.members))
PEER_N1, PEER_N3 = runs("peer", "n1", priority=10), runs("peer", "n3", priority=10)
A, B = runs("a", "n0"), runs("b", "n1", "n2")
SMALL, WIDE = runs("small", "n0"), runs("wide", "n1", cpu="8", priority=5)
PS_AND_WORKER = gang(
    "wants",
    members=[pod("ps", gang="wants", role=Role.PS, cpu="4"), pod("w", gang="wants", role=Role.WORKER, cpu="3")],
    priority=10,
)
"""By counting, a place of 4 CPU suffices for the ps as for the worker; both need 8."""
OTHER = gang("other", 1, cpu="4", priority=20, created_s=1.0)
LARGE = gang("other", 2, cpu="4", priority=5)
HALF = gang("half", members=[pod("h0", gang="half", cpu="4", node="n0"), pod("h1", gang="half", cpu="4")], priority=10)
PORT = (HostPort("TCP", "0.0.0.0", 2222),)
THIN = runs("low", "n0", cpu="1")
PORTED = replace(THIN, members=(dressed(THIN.members[0], host_ports=PORT),))
WANTS_PORT = gang("wants", members=[dressed(pod("w", gang="wants", cpu="1"), host_ports=PORT)], priority=10)
STARVES = gang("starving", 4, cpu="4", priority=10)
YOUNG = gang("wants", members=[pod(f"w{i}", gang="wants", cpu="4", created_s=NOW_S) for i in range(2)], priority=10)
STARVING = replace(ON, queue=QueuePolicy(starve_limit_s=100.0, reserve_after_s=0.0))
TWO_ZONES = [node("n0", cpu="4", zone="a"), node("n1", cpu="4", zone="b"), *NODES[2:]]
SPLIT = [runs("split", "n0", "n1"), runs("x", "n2", priority=3), runs("y", "n3", priority=3)]
TWINS = replace(LOW, members=tuple(replace(THIN.members[0], uid=PodUid(f"u{i}")) for i in range(3)))
MORE = replace(LOW, members=(*LOW.members, pod("low-2", gang="low", cpu="1")))


def claim(of: Gang, *where: str, givers: tuple[GangKey, ...] = (), uids: Iterable[str] | None = None) -> dict[str, Any]:
    """A claim of the first members, or of these uids, on nodes."""
    uids = [member.uid for member in of.members] if uids is None else uids
    assignment = {PodUid(uid): NodeName(at) for uid, at in zip(uids, where, strict=False)}
    return {"claims": {of.key: Reservation(of.key, assignment, givers)}}


AHEAD = [replace(runs("x", "n0", priority=20), length_s=1100.0), waits(2, "a"), waits(1, priority=5)]
CASES: dict[str, tuple[list[str], partial[Preemption | None]]] = {  # sentence: (gangs that leave, the cluster)
    "not for room that a gang ahead is promised": ([],
        partial(found, cpus(4, 4), [*AHEAD, replace(runs("low", "n1"), length_s=1100.0)])),
    "but for what is left beside that": (["low"],
        partial(found, cpus(4, 8), [*AHEAD, replace(runs("low", "n1", "n1"), length_s=1100.0)])),
    "no set suffices beside a gang of equal priority": ([],
        partial(found, NODES, [*(runs(f"low{i}", f"n{i}") for i in range(3)), PEER_N3, waits(4)])),
    "one gang before two": (["c"],
        partial(found, NODES, [A, runs("b", "n1"), runs("c", "n2", "n3", priority=9), WANTS])),
    "lower priority": (["b"],
        partial(found, NODES, [runs("a", "n0", "n1", priority=2), runs("b", "n2", "n3", priority=1), WANTS])),
    "the highest priority of a set counts first": (["a", "c"],
        partial(found, NODES, [*(runs(n, f"n{i}", priority=of) for i, (n, of) in enumerate(
            (("a", 1), ("b", 5), ("c", 4), ("d", 4)))), WANTS])),
    "fewer pods": (["b"],
        partial(found, cpus(4, 4, 8, 4), [runs("a", "n0", "n1", "n2", at_s=9.0), runs("b", "n2", "n3"), WANTS])),
    "younger": (["b"],
        partial(found, NODES, [runs("a", "n0", "n1", at_s=5.0), runs("b", "n2", "n3", at_s=6.0), WANTS])),
    "by name": (["a"], partial(found, NODES, [runs("b", "n0", "n1"), runs("a", "n2", "n3"), WANTS])),
    "the best is spared: the next best": (["large"],
        partial(found, cpus(4, 4, 4, 4, 4), [runs("small", "n0", "n1"), runs("large", "n2", "n3", "n4"), WANTS],
                spared=["small"])),
    "all are spared": ([], partial(found, NODES, [LOW, FULL, WANTS], spared=["low"])),
    "switched off": ([], partial(found, NODES, [LOW, FULL, WANTS], Policy(preemption=Preempting.OFF))),
    "the gang backs off (docs/safety.md S5)": ([],
        partial(found, NODES, [LOW, FULL, WANTS], backing_off_until_s={WANTS.key: NOW_S + 10.0})),
    "its back-off is over": (["low"],
        partial(found, NODES, [LOW, FULL, WANTS], backing_off_until_s={WANTS.key: NOW_S - 1.0})),
    "members that are being deleted free enough": ([],
        partial(found, NODES, [LOW, ENDING, WANTS])),
    "room on its way counts beside those that leave": (["a"],
        partial(found, NODES, [A, B, with_first(runs("c", "n3", priority=10), deleting=True), WANTS])),
    "free room is used beside those that leave": (["a"], partial(found, NODES, [A, B, WANTS])),
    "committed places are not used": (["b"],
        partial(found, NODES, [A, B, OTHER, WANTS], commitments={"default/other": {"uid-default-other-0": "n3"}})),
    "claimed places are not used": (["b"], partial(found, NODES, [A, B, LARGE, WANTS], **claim(LARGE, "n3", "n0"))),
    "a claim of a gang that is gone takes nothing": (["a"],
        partial(found, NODES, [A, B, WANTS], **claim(LARGE, "n3"))),
    "a claim of a member that is gone takes nothing": (["a"],
        partial(found, NODES, [A, B, LARGE, WANTS], **claim(LARGE, "n3", uids=["former"]))),
    "a gang that starts stays (docs/safety.md S4)": ([],
        partial(found, NODES, [MORE, FULL, WANTS], commitments={"default/low": {"uid-default-low-2": "n9"}})),
    "one that leaves already": ([],
        partial(found, NODES, [LOW, FULL, WANTS], **claim(OTHER, givers=(LOW.key,)))),
    "one for which others leave": ([], partial(found, NODES, [MORE, FULL, WANTS], **claim(LOW))),
    "one zone is made free and not two halves": (["split", "x"], partial(found, TWO_ZONES, [*SPLIT, WANTS])),
    "both halves for a gang that may be spread": (["split"],
        partial(found, TWO_ZONES, [*SPLIT, WANTS], replace(ON, zone_policy=ZonePolicy.PREFERRED))),
    "host ports of those that leave become free": (["low"],
        partial(found, [node("n0")], [PORTED, WANTS_PORT], host_ports={NodeName("n0"): frozenset(PORT)})),
    "room held for a STARVING gang ahead is not used": ([],
        partial(found, NODES, [LOW, FULL, STARVES, YOUNG], STARVING)),
    "room of one that does not starve is": (["low"], partial(found, NODES, [LOW, FULL, STARVES, YOUNG])),
    "a gang that runs in part takes a place in its own zone": (["here"],
        partial(found, [*cpus(4, 4), node("n2", cpu="4", zone="b")], [HALF, runs("here", "n1"), runs("there", "n2")])),
    "gangs that ask for the same are looked at once, and neither is helped": ([],
        partial(found, NODES, [LOW, FULL, waits(3, "x"), waits(3, "y")])),
    "members on a cordoned node free nothing": ([],
        partial(found, [*cpus(4), node("n1", cpu="4", unschedulable=True)], [runs("peer", "n0", priority=10),
                                                                             runs("low", "n1"), ONE])),
    "members that share a node free it together": (["low"], partial(found, cpus(4), [TWINS, ONE])),
    "of a lower priority": (["low"], partial(found, NODES, [LOW, FULL, WANTS])),
}  # fmt: skip
STAYS = {  # case: a gang that never leaves
    "one member has equal priority": with_first(LOW, priority=10),
    "a member has succeeded": replace(LOW, members=(*LOW.members, pod("s", phase=Phase.SUCCEEDED, gang="low"))),
    "others' scheduler": replace(LOW, own=False),
    "native": replace(LOW, source=GangSource.NATIVE),
    "invalid": replace(LOW, problem=Reason.INVALID_GROUP),
    "its owner says so": replace(LOW, options=(("preemptible", "false"),)),
}
NEVER = {  # case: a gang for which none leaves
    "preemptionPolicy Never": with_first(WANTS, never_preempts=True),
    "too few pods": replace(WANTS, min_member=3),
    "would not fit the empty cluster": gang("wants", 9, priority=10, cpu="4"),
    "fits as it is": gang("wants", 1, priority=10, cpu="0"),
    "foreign gate": with_first(WANTS, gates=("example.com/quota",)),
    "its zone does not exist": replace(WANTS, options=(("zones", "b"),)),
}
CASES |= {case: ([], partial(found, NODES, [stays, FULL, WANTS])) for case, stays in STAYS.items()}
CASES |= {case: ([], partial(found, NODES, [LOW, FULL, wants])) for case, wants in NEVER.items()}


@pytest.mark.parametrize(("leave", "decision"), CASES.values(), ids=CASES)
def test_which_gangs_leave(leave: list[str], decision: partial[Preemption | None]) -> None:
    assert victims(decision()) == leave


def test_the_smallest_sufficient_gang_leaves_and_no_other() -> None:
    three = [runs("one", "n0"), runs("two", "n1", "n2"), runs("three", "n3", "n4", "n5")]
    decision = found(cpus(*[4] * 6), [*three, WANTS])
    assert decision is not None
    assert (victims(decision), decision.gang, decision.zones) == (["two"], "default/wants", ("a",))
    assert decision.pods == {member.uid for member in three[1].members}
    assert sorted(decision.assignment.values()) == ["n1", "n2"]


@pytest.mark.parametrize(
    ("left_s", "continued", "leaves"),
    [(41.0, False, []), (41.0, True, ["low"]), (42.0, False, ["low"])],
    ids=["sooner", "they leave already", "later"],
)
def test_none_leaves_for_a_gang_that_starts_sooner(left_s: float, continued: bool, leaves: list[str]) -> None:
    """A gang that leaves stands still for 41 s: a start that is promised by then is waited for."""
    running = replace(LOW, length_s=NOW_S + left_s)
    state = snapshot(NODES, [running, FULL, WANTS])
    made = plan(state, ON, now_s=NOW_S)
    assert made.starts_in_s(WANTS.key, now_s=NOW_S) == left_s
    keys = frozenset({WANTS.key} if continued else ())
    assert victims(preemption(state, made, ON, now_s=NOW_S, continued=keys)) == leaves


def test_the_first_in_the_queue_is_helped_first() -> None:
    """The plan's order decides; a gang that nothing helps does not keep the next from being helped."""
    first, hopeless = gang("first", 1, cpu="4", priority=30), gang("first", 4, cpu="4", priority=9)
    second = gang("second", 2, cpu="4", priority=5)
    decisions = [found(NODES, [LOW, FULL, first, WANTS]), found(NODES, [LOW, FULL, hopeless, second])]
    assert [decision and decision.gang for decision in decisions] == [first.key, second.key]


def test_a_gang_leaves_whole_wherever_its_members_are() -> None:
    """Only two of three places are needed, one member's node is gone, and one asks for what no node has any more."""
    low = runs("low", "n0", "n1", "n2")
    gone = replace(low.members[0], uid=PodUid("x"), node=NodeName("n9"))
    odd = replace(low, members=(*low.members, gone, pod("odd", gang="low", gpu=1, cpu="0", node="n2")))
    state = snapshot([node(f"n{i}", cpu="4", gpu=1 if i == 2 else 0) for i in range(4)], [odd, PEER_N3, WANTS])
    bare = NodeTable.from_nodes(NODES)
    axis = [state.table.axis.index(name) for name in bare.axis]
    decision = decided(replace(state, table=bare, used=state.used[:, axis]))
    assert decision is not None
    assert decision.pods == {member.uid for member in odd.members}


BOUNDED: dict[str, tuple[list[str], list[Node], list[Gang]]] = {  # sentence: (gangs that leave, nodes, gangs)
    "a set that is found by adding and taking away": (["g5", "pair"], cpus(*[4] * 8),
        [*(runs(f"g{i}", f"n{i}", priority=8 - i) for i in range(6)), runs("pair", "n6", "n7", priority=9), waits(3)]),
    "the only one that is needed": (["low"], NODES, [LOW, FULL, WANTS]),
    "a count that says perhaps is not enough: the larger gang": (["wide"], cpus(4, 8), [SMALL, WIDE, PS_AND_WORKER]),
    "a zone that only counting allows is passed over": (["wide"],
        [*cpus(4), node("n1", cpu="8", zone="b")], [SMALL, WIDE, PS_AND_WORKER]),
    "nothing is enough": ([], cpus(4, 4), [SMALL, PEER_N1, PS_AND_WORKER]),
    "gangs that share a node": (["a", "b"], cpus(4, 4),
        [runs("a", "n0", cpu="2"), runs("b", "n0", cpu="2"), PEER_N1, ONE]),
    "of many those that help most": (["four", "g00"], [node(f"n{i:02}", cpu="4") for i in range(24)],
        [*(runs(f"g{i:02}", f"n{i:02}") for i in range(20)), runs("four", "n20", "n21", "n22", "n23", priority=1),
         waits(5)]),
}  # fmt: skip


@pytest.mark.parametrize(("leave", "nodes", "gangs"), BOUNDED.values(), ids=BOUNDED)
def test_beyond_the_bound_the_set_suffices(leave: list[str], nodes: list[Node], gangs: list[Gang]) -> None:
    for limits in (SearchLimits(), QUICK, SearchLimits(placed=0), SearchLimits(placed=1)):
        assert victims(found(nodes, gangs, limits=limits)) == leave


def test_the_quick_way_gives_up_those_that_are_not_needed() -> None:
    """The gang of three helps most and is taken first; with the two that are added one is not needed any more."""
    running = [runs("three", "n0", "n1", "n2", priority=5), runs("b", "n3"), runs("c", "n4")]
    decision = found(cpus(*[4] * 5), [*running, waits(4)], limits=QUICK)
    assert victims(decision) == ["b", "three"]


LEVELS = Policy(preemption=Preempting.LEVELS, min_run_s=300.0, service=ServicePolicy(wide_share=1.0))
SUSPENDABLE = {"suspendable": "true"}
PEERS: dict[str, tuple[dict[str, Any], dict[str, Any], float, bool]] = {
    # case: (how the gang that runs is, the snapshot, when, whether it leaves for a gang of the same priority)
    "a level more": ({"options": SUSPENDABLE}, {}, 3600.0, True),
    "it never said that it may": ({}, {}, 3600.0, False),
    "a quarter of a level": ({"options": SUSPENDABLE}, {}, 320.0, False),
    "of a higher priority": ({"options": SUSPENDABLE, "priority": 11}, {}, 3600.0, False),
    "of a lower one": ({"options": SUSPENDABLE, "priority": 9}, {}, 320.0, True),
    "of a lower one, and it never said so": ({"priority": 9}, {}, 3600.0, False),  # but with `gangs`
    "protected": ({"options": {**SUSPENDABLE, "preemptible": "false"}}, {}, 3600.0, False),
    "just started, long before": (
        {"options": SUSPENDABLE, "at_s": 3500.0}, {"attained_h": {"long": 2.0}}, 3600.0, False),
    "started again": ({"options": SUSPENDABLE, "at_s": 3000.0}, {"attained_h": {"long": 2.0}}, 3600.0, True),
    "both have had much": ({"options": SUSPENDABLE}, {"attained_h": {"wants": 0.5}}, 3600.0, False),
}  # fmt: skip


@pytest.mark.parametrize(("runs_as", "fields", "now_s", "leaves"), PEERS.values(), ids=PEERS)
def test_levels(runs_as: dict[str, Any], fields: dict[str, Any], now_s: float, leaves: bool) -> None:
    """A gang that has half of the cluster is one level up after 7.5 minutes; with `off` it always stays."""
    long = runs("long", "n1", **{"priority": 10, **runs_as})
    attained_h = {GangKey(f"default/{name}"): hours for name, hours in fields.get("attained_h", {}).items()}
    nodes = [node("n1", cpu="4"), node("n2", cpu="4", zone="b", unschedulable=True)]
    state = replace(snapshot(nodes, [long, waits(1)]), attained_h=attained_h)
    lower = long.priority < 10
    for mode, goes in ((Preempting.LEVELS, leaves), (Preempting.GANGS, leaves or lower), (Preempting.OFF, False)):
        made = decided(state, replace(LEVELS, preemption=mode), now_s=now_s)
        assert (made is not None) is goes, mode
        assert made is None or made.attained_h.keys() == ({*()} if lower else {long.key})


def test_for_a_wide_gang_no_gang_leaves_by_level_before_it_starves_for_a_day() -> None:
    """It asks for half of the cluster; for one of a higher priority they leave all the same."""
    policy = replace(LEVELS, service=ServicePolicy(wide_share=0.25))
    for priority, now_s, leaves in ((10, 86_999.0, False), (10, 87_001.0, True), (11, 500.0, True)):
        wide = gang("wide", 1, cpu="4", priority=priority)
        long = runs("long", "n1", "n2", priority=10, options=SUSPENDABLE)
        state = snapshot([node("n1", cpu="4"), node("n2", cpu="4")], [long, wide])
        assert (decided(state, policy, now_s=now_s) is not None) is leaves


def test_those_that_had_most_leave_first() -> None:
    most = runs("most", "n1", "n2", cpu="2", priority=10, options=SUSPENDABLE)
    late = runs("late", "n3", priority=10, options=SUSPENDABLE, at_s=2000.0)
    state = snapshot([node("n1", cpu="4"), node("n2", cpu="2"), node("n3", cpu="4")], [most, late, waits(1)])
    assert victims(decided(state, LEVELS, now_s=9000.0)) == ["most"]
