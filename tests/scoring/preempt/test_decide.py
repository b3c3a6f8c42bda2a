"""The smallest sufficient set of whole gangs of lower priority leaves (docs/explanation/preemption.md)."""

from collections.abc import Iterable
from dataclasses import replace

import pytest

from scoring.ids import GangKey, NodeName, PodUid
from scoring.model import Gang, GangSource, HostPort, Node, Phase, Pod, Role
from scoring.model.policy import Algorithm, Policy, Preempting, QueuePolicy, ZonePolicy
from scoring.model.reasons import Reason
from scoring.model.snapshot import Claim, NodeTable, Snapshot
from scoring.plan import plan
from scoring.preempt.decide import Limits, Preemption, preemption
from tests.builders import gang, node, pod, snapshot

ON = Policy(preemption=Preempting.GANGS)
NOW_S = 1000.0


def runs(name: str, *where: str, cpu: str = "4", priority: int = 0, at_s: float = 0.0, **fields: object) -> Gang:
    """A gang that runs: one member of `cpu` on each of the nodes."""
    members = [
        pod(f"{name}-{i}", gang=name, cpu=cpu, node=on, priority=priority, scheduled_s=at_s)
        for i, on in enumerate(where)
    ]
    return gang(name, members=members, priority=priority, **fields)  # type: ignore[arg-type]


def found(
    nodes: Iterable[Node], gangs: Iterable[Gang], policy: Policy = ON, *, spared: Iterable[str] = (), **fields: object
) -> Preemption | None:
    """The decision for these, by the plan of these."""
    return decided(snapshot(nodes, gangs, **fields), policy, spared=spared)  # type: ignore[arg-type]


def decided(state: Snapshot, policy: Policy = ON, *, spared: Iterable[str] = ()) -> Preemption | None:
    """The decision for a snapshot."""
    planned = plan(state, policy, now_s=NOW_S)
    keys = frozenset(GangKey(f"default/{name}") for name in spared)
    return preemption(state, planned, policy, now_s=NOW_S, spared=keys)


def victims(decision: Preemption | None) -> list[str]:
    """Names of those that leave."""
    return [] if decision is None else [key.partition("/")[2] for key in decision.victims]


NODES = [node(f"n{i}", cpu="4") for i in range(4)]


def waits(size: int, name: str = "wants", *, priority: int = 10) -> Gang:
    """A gang that waits for `size` places of 4 CPU."""
    return gang(name, size, cpu="4", priority=priority)


def test_the_smallest_sufficient_gang_leaves_and_nobody_else() -> None:
    """Of gangs of one, two and three members the one of two leaves for a gang of two."""
    nodes = [node(f"n{i}", cpu="4") for i in range(6)]
    three = [runs("one", "n0"), runs("two", "n1", "n2"), runs("three", "n3", "n4", "n5")]
    decision = found(nodes, [*three, waits(2)])
    assert decision is not None
    assert victims(decision) == ["two"]
    assert decision.pods == {member.uid for member in three[1].members}
    assert sorted(decision.assignment.values()) == ["n1", "n2"]
    assert (decision.gang, decision.zones, decision.exact) == ("default/wants", ("a",), True)


def test_nobody_leaves_when_all_together_would_not_suffice() -> None:
    """Four nodes, one of them with a gang of equal priority: no place for four, however many leave."""
    others = [runs(f"low{i}", f"n{i}") for i in range(3)]
    assert found(NODES, [*others, runs("peer", "n3", priority=10), waits(4)]) is None


PREFERRED = {  # case: (gangs that run, those that leave for two members of 4 CPU)
    "one gang before two": ([runs("a", "n0"), runs("b", "n1"), runs("c", "n2", "n3", priority=9)], ["c"]),
    "lower priority": ([runs("a", "n0", "n1", priority=2), runs("b", "n2", "n3", priority=1)], ["b"]),
    "the highest of a set counts first": (
        [runs(name, f"n{i}", priority=of) for i, (name, of) in enumerate((("a", 1), ("b", 5), ("c", 4), ("d", 4)))],
        ["a", "c"],
    ),
    "fewer pods": ([runs("a", "n0", "n1", "n2", at_s=9.0), runs("b", "n2", "n3", cpu="4")], ["b"]),
    "younger": ([runs("a", "n0", "n1", at_s=5.0), runs("b", "n2", "n3", at_s=6.0)], ["b"]),
    "by name": ([runs("b", "n0", "n1"), runs("a", "n2", "n3")], ["a"]),
}  # fmt: skip


@pytest.mark.parametrize(("running", "leave"), PREFERRED.values(), ids=PREFERRED)
def test_which_of_several_sufficient_sets_leaves(running: list[Gang], leave: list[str]) -> None:
    """Fewest gangs, then lowest priority, then fewest pods, then the youngest, then by name."""
    nodes = [node(f"n{i}", cpu="8" if len(running) == 2 and i == 2 else "4") for i in range(4)]
    assert victims(found(nodes, [*running, waits(2)])) == leave


WANTS = waits(2)
LOW = runs("low", "n0", "n1")
FULL = runs("full", "n2", "n3", priority=10)


def with_first(one: Gang, **fields: object) -> Gang:
    """The gang with other fields of its first member."""
    return replace(one, members=(replace(one.members[0], **fields), *one.members[1:]))  # type: ignore[arg-type]


STAYS = {  # case: a gang that stays
    "equal priority": runs("low", "n0", "n1", priority=10),
    "higher priority": runs("low", "n0", "n1", priority=11),
    "one member has equal priority": with_first(LOW, priority=10),
    "a member has succeeded": replace(LOW, members=(*LOW.members, pod("s", phase=Phase.SUCCEEDED, gang="low"))),
    "others' scheduler": replace(LOW, own=False),
    "native": replace(LOW, source=GangSource.NATIVE),
    "invalid": replace(LOW, problem=Reason.MIXED_PRIORITIES),
    "its owner says so": replace(LOW, options=(("preemptible", "false"),)),
}


@pytest.mark.parametrize("stays", STAYS.values(), ids=STAYS)
def test_who_never_leaves(stays: Gang) -> None:
    """Neither equals nor betters, nor a gang that is about to finish, is not ours, or is protected."""
    assert victims(found(NODES, [LOW, FULL, WANTS])) == ["low"]
    assert found(NODES, [stays, FULL, WANTS]) is None


def test_a_gang_that_starts_stays() -> None:
    """A committed gang is not disturbed; neither is one that others leave for, or one that leaves already.

    docs/safety.md S4.
    """
    more = replace(LOW, members=(*LOW.members, pod("low-2", gang="low", cpu="1")))
    claim = Claim(GangKey("default/other"), {}, (LOW.key,))
    assert victims(found(NODES, [more, FULL, WANTS])) == ["low"]
    committed = snapshot(NODES, [more, FULL, WANTS], commitments={"default/low": {"uid-default-low-2": "n9"}})
    assert decided(committed) is None
    assert decided(snapshot(NODES, [LOW, FULL, WANTS], claims={claim.gang: claim})) is None
    mine = Claim(LOW.key, {}, ())
    assert decided(snapshot(NODES, [more, FULL, WANTS], claims={LOW.key: mine})) is None


def test_a_spared_gang_stays_and_the_next_best_leaves() -> None:
    """An owner or a disruption budget says no: others are looked at as if it were of equal priority."""
    nodes = [*NODES, node("n4", cpu="4")]
    others = [runs("small", "n0", "n1"), runs("large", "n2", "n3", "n4")]
    assert victims(found(nodes, [*others, WANTS])) == ["small"]
    assert victims(found(nodes, [*others, WANTS], spared=["small"])) == ["large"]
    assert found(nodes, [*others, WANTS], spared=["small", "large"]) is None


NEVER = {  # case: a gang for which nobody leaves
    "preemptionPolicy Never": with_first(WANTS, never_preempts=True),
    "too few pods": replace(WANTS, min_member=3),
    "would not fit the empty cluster": gang("wants", 9, priority=10, cpu="4"),
    "fits as it is": gang("wants", 1, priority=10, cpu="0"),
    "foreign gate": with_first(WANTS, gates=("example.com/quota",)),
    "its zone does not exist": replace(WANTS, options=(("zones", "b"),)),
}


@pytest.mark.parametrize("wants", NEVER.values(), ids=NEVER)
def test_for_whom_nobody_leaves(wants: Gang) -> None:
    """Room would not help it, or it must not take any."""
    assert found(NODES, [LOW, FULL, wants]) is None


def test_nobody_leaves_unless_it_is_switched_on() -> None:
    """Off by default; and the published algorithm knows no priorities."""
    assert found(NODES, [LOW, FULL, WANTS], Policy()) is None
    literal = replace(ON, queue=QueuePolicy(algorithm=Algorithm.LITERAL))
    assert found(NODES, [LOW, FULL, WANTS], literal) is None


def test_nobody_leaves_for_one_that_backs_off() -> None:
    """Its last admission came to nothing: it waits its time first (docs/safety.md S5)."""
    assert found(NODES, [LOW, FULL, WANTS], backing_off_until_s={WANTS.key: NOW_S + 10.0}) is None
    assert victims(found(NODES, [LOW, FULL, WANTS], backing_off_until_s={WANTS.key: NOW_S - 1.0})) == ["low"]


def test_nobody_leaves_when_enough_room_is_on_its_way() -> None:
    """Members that are being deleted free what it needs: it waits for that."""
    going = replace(FULL, members=tuple(replace(one, deleting=True) for one in FULL.members))
    assert found(NODES, [LOW, going, WANTS]) is None


def test_room_on_its_way_counts_beside_those_that_leave() -> None:
    """One place comes by itself, so a gang of one suffices for two members."""
    running = [runs("a", "n0"), runs("b", "n1", "n2"), with_first(runs("c", "n3", priority=10), deleting=True)]
    assert victims(found(NODES, [*running, WANTS])) == ["a"]


def test_free_room_is_used_beside_those_that_leave() -> None:
    """One node is free: a gang of one makes two places."""
    assert victims(found(NODES, [runs("a", "n0"), runs("b", "n1", "n2"), WANTS])) == ["a"]


def test_room_promised_to_others_is_not_used() -> None:
    """Committed places and claimed ones stay theirs: the last free node does not help."""
    other = gang("other", 1, cpu="4", priority=20, created_s=1.0)
    running = [runs("a", "n0"), runs("b", "n1", "n2")]
    committed = {"default/other": {"uid-default-other-0": "n3"}}
    assert victims(found(NODES, [*running, other, WANTS], commitments=committed)) == ["b"]
    large = replace(gang("other", 2, cpu="4", priority=5), min_member=2)
    claim = Claim(large.key, {large.members[0].uid: NodeName("n3"), large.members[1].uid: NodeName("n0")}, ())
    taken = snapshot(NODES, [*running, large, WANTS], claims={large.key: claim})
    assert victims(decided(taken)) == ["b"]


def test_who_is_first_in_the_queue_is_helped_first() -> None:
    """The plan's order decides; one whom nothing helps does not keep the next from being helped."""
    first = gang("first", 1, cpu="4", priority=30)
    decision = found(NODES, [LOW, FULL, first, WANTS])
    assert decision is not None
    assert decision.gang == first.key
    hopeless = gang("first", 4, cpu="4", priority=9)
    decision = found(NODES, [LOW, FULL, hopeless, gang("second", 2, cpu="4", priority=5)])
    assert (decision is not None and decision.gang, victims(decision)) == ("default/second", ["low"])


def test_a_gang_leaves_whole_wherever_its_members_are() -> None:
    """Only two of three places are needed; all three members leave."""
    decision = found(NODES, [runs("low", "n0", "n1", "n2"), runs("peer", "n3", priority=10), WANTS])
    assert decision is not None
    assert len(decision.pods) == 3


def test_one_zone_is_made_free_and_not_two_halves() -> None:
    """A member's place in each of two zones makes no place for a gang that stays in one."""
    nodes = [node("n0", cpu="4", zone="a"), node("n1", cpu="4", zone="b"), *(node(f"n{i}", cpu="4") for i in (2, 3))]
    running = [runs("split", "n0", "n1"), runs("x", "n2", priority=3), runs("y", "n3", priority=3)]
    assert victims(found(nodes, [*running, WANTS])) == ["split", "x"]
    spread = replace(ON, zone_policy=ZonePolicy.PREFERRED)
    assert victims(found(nodes, [*running, WANTS], spread)) == ["split"]


def test_host_ports_of_those_that_leave_become_free() -> None:
    """The port is the only thing that is missing."""
    port = (HostPort("TCP", "0.0.0.0", 2222),)

    def with_port(one: Pod) -> Pod:
        constraints = replace(one.member_class.constraints, host_ports=port)
        return replace(one, member_class=replace(one.member_class, constraints=constraints))

    low = replace(runs("low", "n0", cpu="1"), members=(with_port(runs("low", "n0", cpu="1").members[0]),))
    wants = gang("wants", members=[with_port(pod("w", gang="wants", cpu="1"))], priority=10)
    assert victims(found([node("n0")], [low, wants], host_ports={NodeName("n0"): frozenset(port)})) == ["low"]


def test_room_held_for_a_starving_gang_ahead_is_not_used() -> None:
    """Another gang of the same priority starves and holds the zone: who leaves there would leave for that one."""
    starving = gang("starving", members=[pod(f"s{i}", gang="starving", cpu="4", created_s=0.0) for i in range(4)])
    starving = replace(starving, priority=10)
    wants = gang("wants", members=[pod(f"w{i}", gang="wants", cpu="4", created_s=NOW_S) for i in range(2)], priority=10)
    queue = QueuePolicy(starve_limit_s=100.0, starving_share=1.0)
    running = [runs("low", "n0", "n1"), FULL]
    assert found(NODES, [*running, starving, wants], replace(ON, queue=queue)) is None
    assert victims(found(NODES, [*running, starving, wants])) == ["low"]


def test_a_missing_member_may_have_another_gangs_place() -> None:
    """A gang that runs in part takes a place in its own zone."""
    nodes = [node("n0", cpu="4"), node("n1", cpu="4"), node("n2", cpu="4", zone="b")]
    half = gang(
        "half", members=[pod("h0", gang="half", cpu="4", node="n0"), pod("h1", gang="half", cpu="4")], priority=10
    )
    assert victims(found(nodes, [half, runs("here", "n1"), runs("there", "n2")])) == ["here"]


def test_beyond_the_bound_the_set_suffices_and_nobody_of_it_can_stay() -> None:
    """Found by adding and taking away; it says that it may not be the smallest."""
    nodes = [node(f"n{i}", cpu="4") for i in range(8)]
    running = [runs(f"g{i}", f"n{i}", priority=8 - i) for i in range(6)] + [runs("pair", "n6", "n7", priority=9)]
    state = snapshot(nodes, [*running, waits(3)])
    planned = plan(state, ON, now_s=NOW_S)
    exact = preemption(state, planned, ON, now_s=NOW_S)
    assert (victims(exact), exact is not None and exact.exact) == (["g5", "pair"], True)
    for limits in (Limits(sets=10), Limits(placed=1)):
        quick = preemption(state, planned, ON, now_s=NOW_S, limits=limits)
        assert quick is not None
        assert (victims(quick), quick.exact) == (["g5", "pair"], limits.placed == 1)
    none = preemption(state, planned, ON, now_s=NOW_S, limits=Limits(placed=0))
    assert (victims(none), none is not None and none.exact) == (["g5", "pair"], False)


def test_the_quick_way_gives_up_those_that_are_not_needed() -> None:
    """The gang of three helps most and is taken first; with the two that are added it is not needed any more."""
    nodes = [node(f"n{i}", cpu="4") for i in range(5)]
    running = [runs("three", "n0", "n1", "n2", priority=5), runs("b", "n3"), runs("c", "n4")]
    state = snapshot(nodes, [*running, waits(4)])
    decision = preemption(state, plan(state, ON, now_s=NOW_S), ON, now_s=NOW_S, limits=Limits(sets=0))
    assert (victims(decision), decision is not None and decision.exact) == (["b", "three"], False)


def test_a_count_that_says_perhaps_is_not_enough() -> None:
    """A ps and a worker each fit the place of `small` alone, and not together: the larger gang leaves."""
    nodes = [node("n0", cpu="4"), node("n1", cpu="8")]
    members = [pod("ps", gang="wants", role=Role.PS, cpu="4"), pod("w", gang="wants", role=Role.WORKER, cpu="3")]
    wants = gang("wants", members=members, priority=10)
    running = [runs("small", "n0"), runs("wide", "n1", cpu="8", priority=5)]
    decision = found(nodes, [*running, wants])
    assert (victims(decision), decision is not None and decision.exact) == (["wide"], True)
    state = snapshot(nodes, [*running, wants])
    hurried = preemption(state, plan(state, ON, now_s=NOW_S), ON, now_s=NOW_S, limits=Limits(placed=1))
    assert (victims(hurried), hurried is not None and hurried.exact) == (["wide"], False)


def test_gangs_that_share_a_node_leave_together() -> None:
    """Neither frees a whole place alone."""
    nodes = [node("n0", cpu="4"), node("n1", cpu="4")]
    running = [runs("a", "n0", cpu="2"), runs("b", "n0", cpu="2"), runs("peer", "n1", priority=10)]
    assert victims(found(nodes, [*running, waits(1)])) == ["a", "b"]
    state = snapshot(nodes, [*running, waits(1)])
    quick = preemption(state, plan(state, ON, now_s=NOW_S), ON, now_s=NOW_S, limits=Limits(sets=0))
    assert victims(quick) == ["a", "b"]


def test_the_quick_way_keeps_the_only_one_it_needs() -> None:
    """A set of one that suffices has nobody who could stay."""
    state = snapshot(NODES, [LOW, FULL, WANTS])
    decision = preemption(state, plan(state, ON, now_s=NOW_S), ON, now_s=NOW_S, limits=Limits(sets=0))
    assert victims(decision) == ["low"]


def test_the_quick_way_adds_more_when_counting_was_too_hopeful() -> None:
    """By counting the place of `small` suffices for the ps as for the worker; both need that of `wide`."""
    nodes = [node("n0", cpu="4"), node("n1", cpu="8")]
    members = [pod("ps", gang="wants", role=Role.PS, cpu="4"), pod("w", gang="wants", role=Role.WORKER, cpu="3")]
    running = [runs("small", "n0"), runs("wide", "n1", cpu="8", priority=5)]
    state = snapshot(nodes, [*running, gang("wants", members=members, priority=10)])
    planned = plan(state, ON, now_s=NOW_S)
    decision = preemption(state, planned, ON, now_s=NOW_S, limits=Limits(sets=0))
    assert victims(decision) == ["wide"]
    hopeless = snapshot(
        [node("n0", cpu="4"), node("n1", cpu="4")],
        [runs("small", "n0"), runs("peer", "n1", priority=10), gang("wants", members=members, priority=10)],
    )
    planned = plan(hopeless, ON, now_s=NOW_S)
    assert preemption(hopeless, planned, ON, now_s=NOW_S, limits=Limits(sets=0)) is None
    assert preemption(hopeless, planned, ON, now_s=NOW_S) is None


def test_two_gangs_that_ask_for_the_same_are_looked_at_once() -> None:
    """And neither is helped."""
    assert found(NODES, [LOW, FULL, waits(3, "x"), waits(3, "y")]) is None


def test_of_many_gangs_those_that_help_most_leave() -> None:
    """Twenty singles and one of four on a cluster of 24 nodes: the one of four and a single for five members."""
    nodes = [node(f"n{i:02}", cpu="4") for i in range(24)]
    singles = [runs(f"g{i:02}", f"n{i:02}") for i in range(20)]
    state = snapshot(nodes, [*singles, runs("four", "n20", "n21", "n22", "n23", priority=1), waits(5)])
    planned = plan(state, ON, now_s=NOW_S)
    for limits in (Limits(), Limits(sets=30)):
        assert victims(preemption(state, planned, ON, now_s=NOW_S, limits=limits)) == ["four", "g00"]


def test_members_whose_room_nobody_can_have_free_nothing() -> None:
    """One is on a node that is gone, another on one that is cordoned; they leave with the third, which is of use."""
    nodes = [node("n0", cpu="4"), node("n1", cpu="4", unschedulable=True), node("n2", cpu="4")]
    low = runs("low", "n0", "n1")
    gone = replace(low, members=(*low.members, replace(low.members[0], uid=PodUid("x"), node=NodeName("n9"))))
    decision = decided(snapshot(nodes, [low, runs("peer", "n2", priority=10), waits(1)]))
    assert victims(decision) == ["low"]
    state = snapshot(nodes, [gone, runs("peer", "n2", priority=10), waits(1)])
    decision = decided(state)
    assert decision is not None
    assert decision.pods == {pod.uid for pod in gone.members}
    useless = runs("low", "n1")
    assert decided(snapshot(nodes, [useless, runs("peer", "n0", "n2", priority=10), waits(1)])) is None


def test_a_member_with_a_resource_that_no_node_has_any_more() -> None:
    """What it takes cannot be said; its gang leaves no less whole, for what the others free."""
    low = runs("low", "n0", "n1")
    odd = replace(low, members=(*low.members, pod("odd", gang="low", gpu=1, cpu="0", node="n2")))
    state = snapshot([node(f"n{i}", cpu="4", gpu=1 if i == 2 else 0) for i in range(4)], [odd, FULL, WANTS])
    bare = NodeTable.of([node(f"n{i}", cpu="4") for i in range(4)])
    axis = [state.table.axis.index(name) for name in bare.axis]
    without = replace(state, table=bare, used=state.used[:, axis])
    decision = decided(without)
    assert decision is not None
    assert (victims(decision), len(decision.pods)) == (["low"], 3)


def test_claims_of_gangs_that_are_gone_or_have_changed_take_nothing() -> None:
    """Only what a waiting member is to have is taken: the last free node is used for the rest."""
    running = [runs("a", "n0"), runs("b", "n1", "n2")]
    other = gang("other", 5, cpu="4", priority=5)
    gone = Claim(GangKey("default/gone"), {PodUid("x"): NodeName("n3")}, ())
    changed = Claim(other.key, {PodUid("former"): NodeName("n3")}, ())
    state = snapshot(NODES, [*running, other, WANTS], claims={gone.gang: gone, changed.gang: changed})
    assert victims(decided(state)) == ["a"]


def test_members_that_share_a_node_free_it_together() -> None:
    """Three of one class on one node make one place."""
    low = runs("low", "n0", cpu="1")
    twins = tuple(replace(low.members[0], uid=PodUid(f"low-{i}")) for i in range(3))
    state = snapshot([node("n0", cpu="4")], [replace(low, members=twins), waits(1)])
    assert victims(decided(state)) == ["low"]


def test_the_quick_way_passes_over_zones_that_only_counting_allows() -> None:
    """In zone a a ps and a worker would need the same node; in zone b there is one for both."""
    nodes = [node("n0", cpu="4"), node("n1", cpu="8", zone="b")]
    members = [pod("ps", gang="wants", role=Role.PS, cpu="4"), pod("w", gang="wants", role=Role.WORKER, cpu="3")]
    running = [runs("small", "n0"), runs("wide", "n1", cpu="8", priority=5)]
    state = snapshot(nodes, [*running, gang("wants", members=members, priority=10)])
    planned = plan(state, ON, now_s=NOW_S)
    for limits in (Limits(), Limits(sets=0)):
        assert victims(preemption(state, planned, ON, now_s=NOW_S, limits=limits)) == ["wide"]
