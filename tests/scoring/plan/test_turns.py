"""Who may starve, whose zone is held, in whose turn room is given (docs/safety.md S14)."""

from typing import Any

import numpy as np
import pytest
from msgspec.structs import replace

from scoring import GangKey
from scoring.explain.queue_report import report
from scoring.model import Gang, HostPort, Node, Phase, Pod
from scoring.model.policy import Order, Policy, QueuePolicy
from scoring.model.reasons import Reason
from scoring.model.snapshot import NodeTable, Snapshot
from scoring.plan import Plan, PlannerCache, plan, reservations
from scoring.plan.cache import RunningGangs
from scoring.plan.reservations import reserved_nodes
from scoring.queue.states import HOLD_S, JobState
from scoring.records import QueuedGang
from tests.builders import bound, gang, node, pod, snapshot
from tests.scoring.plan.planned import dressed

LATE_S = 5_000.0
POLICY = Policy(queue=QueuePolicy(reserve_after_s=0.0))


def queue(**fields: Any) -> Policy:
    return Policy(queue=replace(QueuePolicy(), **{"reserve_after_s": 0.0, **fields}))


def entry(state: Snapshot, name: str, *, policy: Policy = POLICY, now_s: float = LATE_S) -> QueuedGang:
    made = plan(state, policy, now_s=now_s)
    return next(one for one in report(state, made, policy, now_s=now_s).gangs if one.gang == f"default/{name}")


NODES = [node(f"n{i}", cpu="2") for i in range(4)]
BUSY = [pod(f"busy{i}", node=f"n{i}", cpu="2") for i in range(4)]


def waits(**fields: Any) -> Gang:
    return replace(gang("g", 2, cpu="2"), **fields)


STATES: dict[str, tuple[JobState, Gang]] = {
    "waits for long": (JobState.STARVING, waits()),
    "impossible": (JobState.WAITING, gang("g", 9, cpu="2")),
    "in no zone": (JobState.WAITING, gang("g", 2, options={"zones": "nowhere"})),
    "too few pods": (JobState.WAITING, waits(min_member=3)),
    "behind a foreign gate": (JobState.WAITING, gang("g", 2, cpu="2", gates=("example.com/gate",))),
    "contradicts itself": (JobState.WAITING, waits(problem=Reason.INVALID_GROUP)),
    "runs": (JobState.RUNNING, gang("g", members=[bound(pod(f"p{i}"), "n0") for i in range(2)])),
    "runs with one lost": (JobState.RUNNING, replace(gang("g", members=[pod("a", phase=Phase.FAILED, node="n0"),
        bound(pod("b"), "n1"), pod("c", created_s=1.0)], min_member=2), started=True)),
    "done": (JobState.COMPLETED, gang("g", members=[pod(f"p{i}", phase=Phase.SUCCEEDED, node="n0") for i in range(2)])),
}  # fmt: skip


@pytest.mark.parametrize(("want", "asks"), STATES.values(), ids=STATES)
def test_states(want: JobState, asks: Gang) -> None:
    """Only a gang that could start as it is, were there room, is ever STARVING."""
    state = snapshot(NODES, [asks], pods=BUSY[1:])
    found = entry(state, "g")
    assert want is found.state
    assert (found.waited_s is not None) == (want is JobState.STARVING)


def test_backing_off_gangs_do_not_starve() -> None:
    """While a gang backs off after a lapse it is WAITING; then it is what its clock says."""
    state = snapshot(NODES, [waits()], pods=BUSY, backing_off_until_s={GangKey("default/g"): LATE_S + 1.0})
    assert entry(state, "g").state is JobState.WAITING
    assert entry(state, "g", now_s=LATE_S + 2.0).state is JobState.STARVING


def test_an_impossible_gang_leads_nobody() -> None:
    """However long it has waited, a gang that can never start is behind those that starve, and holds nothing."""
    impossible, starving = gang("a", 9, cpu="2"), gang("b", 2, cpu="2", created_s=5.0)
    made = plan(snapshot(NODES, [impossible, starving], pods=BUSY), POLICY, now_s=LATE_S)
    assert [made.waiting[GangKey(f"default/{name}")].rank for name in "ba"] == [1, 2]
    assert list(made.reservations) == ["default/b"]


# -- reservations -----------------------------------------------------------------------------------------------------


KEY = GangKey("default/g")


def held(made: Plan) -> dict[str, list[str]]:
    return {str(key): sorted(reserved.nodes) for key, reserved in made.reservations.items()}


EIGHT = [node(f"{zone}{i}", zone=zone, cpu="2") for zone in "ab" for i in range(4)]


def full_but(*free: str) -> list[Pod]:
    """Half of each node is taken, but `free` ones are empty."""
    return [pod(f"on-{one.name}", node=one.name, cpu="1") for one in EIGHT if one.name not in free]


OTHERS = [node(f"c{i}", zone="c", cpu="1") for i in range(2)]
SHARES = {  # case: (nodes reserved, members of the gang, nodes, empty ones); in order of age as in that of weight
    "a whole zone within the share": (["b0", "b1"], 2, EIGHT[:6] + OTHERS, ["b1"]),
    "a part of it": (["b0", "b3"], 2, EIGHT, ["b3"]),
    "more than the share, because less would never do": (["b0", "b1", "b3"], 3, EIGHT, ["b1", "b3"]),
}


@pytest.mark.parametrize(("want", "size", "nodes", "empty"), SHARES.values(), ids=SHARES)
def test_what_is_held(want: list[str], size: int, nodes: list[Node], empty: list[str]) -> None:
    """The zone with most room for the gang, within the share; of a larger zone the nodes with most room."""
    state = snapshot(nodes, [gang("g", size, cpu="2")], pods=full_but(*empty))
    for order in Order:
        made = plan(state, replace(queue(order=order), spares=0), now_s=LATE_S)
        assert held(made) == {"default/g": want}
        assert (reserved_nodes(made.reservations), reserved_nodes(made.reservations, besides=KEY)) == (set(want), set())


def test_nothing_new_in_a_held_zone() -> None:
    """A gang that would fit there is refused as the room is reserved, even with a kept place; elsewhere it starts."""
    starving, small = gang("g", 4, cpu="2"), gang("s", 2, cpu="1", created_s=LATE_S, options={"zones": "a"})
    state = snapshot(EIGHT, [starving, small], pods=full_but("a0"))
    before = plan(state, POLICY, now_s=1.0)
    assert list(before.admitted) == ["default/s"]
    after = plan(replace(state, version=2), POLICY, now_s=LATE_S, previous=before, cache=PlannerCache())
    assert held(after) == {"default/g": ["a0", "a1", "a2", "a3"]}
    assert after.waiting[small.key].reason is Reason.RESERVED
    free = replace(small, options=())
    elsewhere = plan(snapshot(EIGHT, [starving, free], pods=full_but("a0")), POLICY, now_s=LATE_S)
    assert elsewhere.admitted[free.key].zones == ("b",)


def test_a_reservation_stays_where_it_is() -> None:
    """The reserved zone does not move when another one happens to have more room later."""
    asks = gang("g", 4, cpu="2")
    first = plan(snapshot(EIGHT, [asks], pods=full_but("a0")), POLICY, now_s=LATE_S)
    state = snapshot(EIGHT, [asks], pods=full_but("a0", "b0", "b1"), version=2)
    assert first.reservations == plan(state, POLICY, now_s=LATE_S, previous=first).reservations
    assert plan(state, POLICY, now_s=LATE_S).reservations[asks.key].zones == ("b",)


def test_one_reservation_for_each_resource_class(monkeypatch: pytest.MonkeyPatch) -> None:
    """CPU jobs have one zone reserved among them; a GPU job's reservation is beside it, within the same share."""
    monkeypatch.setattr(reservations, "SHARE", 0.9)
    nodes = [*EIGHT, node("c0", zone="c", cpu="2", gpu=1)]
    gangs = [gang("x", 4, cpu="2"), gang("y", 4, cpu="2", created_s=1.0), gang("z", 1, gpu=1, cpu="2", created_s=2.0)]
    busy = [*full_but(), pod("on-c0", node="c0", cpu="1")]
    made = plan(snapshot(nodes, gangs, pods=busy), POLICY, now_s=LATE_S)
    assert sorted(made.reservations) == ["default/x", "default/z"]
    assert made.reservations[GangKey("default/z")].nodes == {"c0"}


@pytest.mark.parametrize(("holds", "leads"), [(2, "old"), (3, "young"), (4, "old")])
def test_a_reservation_that_runs_out_goes_behind(holds: int, leads: str) -> None:
    """After its time in front a gang is for as long behind others, then in front again; the first one reserves."""
    young = [pod(f"young-{i}", gang="young", index=i, cpu="2", created_s=400.0) for i in range(4)]
    gangs = [gang("old", 4, cpu="2"), gang("young", members=young, created_s=400.0)]
    at_s = 600.0 + holds * HOLD_S + 200.0  # the older one's holds have begun 400 s before the younger one's
    made = plan(snapshot(EIGHT, gangs, pods=full_but()), POLICY, now_s=at_s)
    assert made.waiting[GangKey(f"default/{leads}")].rank == 1
    assert [key.partition("/")[2] for key in made.reservations] == [leads]


def test_the_weights_follow_the_clusters_totals() -> None:
    """Weights are computed again when nodes come, also with a cache: CPU-bound and memory-bound jobs change places."""
    cache = PlannerCache()
    cpu_job = gang("cpu", members=[pod("c", cpu="1", memory="1Gi")])
    memory_job = gang("mem", members=[pod("m", cpu="500m", memory="3Gi")])
    few = [node("n0", cpu="4", memory="64Gi")]
    many = [*few, *(node(f"m{i}", cpu="64", memory="1Gi") for i in range(4))]
    for nodes, first in ((few, "default/mem"), (many, "default/cpu")):
        state = snapshot(nodes, [cpu_job, memory_job], version=len(nodes))
        state = replace(state, table=replace(state.table, version=len(nodes)))
        made = plan(state, POLICY, now_s=0.0, cache=cache)
        assert min(made.admitted.values(), key=lambda one: one.rank).gang == first


# -- members beyond the minimum ----------------------------------------------------------------------------------------

LEFT = [node("n0", cpu="2"), node("n1", cpu="1")]
"""One core is left beside the member that runs, and one on the other node."""


def started(further: int, *, priority: int = 0) -> Gang:
    """A gang that runs with its minimum of one, and asks for further members."""
    members = [bound(pod("heavy-0", gang="heavy", index=0), "n0")]
    members += [pod(f"heavy-{i}", gang="heavy", index=i) for i in range(1, further + 1)]
    return replace(gang("heavy", members=members, min_member=1), priority=priority)


LIGHT = gang("light", 2, created_s=10.0)
FIRST = gang("first", 3, min_member=1, created_s=1.0)
PART = gang("part", members=[bound(pod("part-0", gang="part"), "n0"), *gang("part", 3).members[1:]], created_s=50.0)
RULES: dict[str, tuple[str, tuple[Gang, ...], Order]] = {
    # case: (pods that get the cores, gangs, order)
    "the heavier first": ("light-0 light-1", (started(2), LIGHT), Order.WEIGHT),
    "first come, first served": ("heavy-1 heavy-2", (started(2), LIGHT), Order.FIFO),
    "a higher priority goes before": ("heavy-1 heavy-2", (started(2, priority=1), LIGHT), Order.WEIGHT),
    "not behind a gang that does not fit anyway": ("heavy-1 heavy-2", (started(2), gang("wide", 3)), Order.WEIGHT),
    "nor alone": ("heavy-1", (started(1),), Order.WEIGHT),
    "the first to start takes all that fit": ("first-0 first-1 first-2",
        (FIRST, gang("second", 2, created_s=2.0)), Order.FIFO),
    "a lost member of the minimum comes before all": ("part-1 part-2", (PART, gang("older", 2)), Order.WEIGHT),
}  # fmt: skip


@pytest.mark.parametrize(("want", "gangs", "order"), RULES.values(), ids=RULES)
def test_members_beyond_the_minimum_get_room(want: str, gangs: tuple[Gang, ...], order: Order) -> None:
    """They come in their gang's turn, and with its start."""
    made = plan(snapshot(LEFT, gangs), queue(order=order), now_s=0.0)
    assert want.split() == sorted(str(uid).removeprefix("uid-default-") for uid in made.node_of)


TABLE = NodeTable.from_nodes([node("n1"), node("n2")])


def runs(name: str, *nodes: str, said_s: float | None = 60.0, since_s: float | None = 5.0) -> Gang:
    members = [replace(bound(pod(f"{name}-{at}", cpu="2"), at), scheduled_s=since_s) for at in nodes]
    return replace(gang(name, members=members, min_member=len(members)), length_s=said_s)


def test_entries_of_all_gangs_of_known_length_are_read_once() -> None:
    """A gang of two nodes has two entries; one of unknown length none, and neither has one that waits.

    Read again is what changed: another object of the same gang, a gang that is gone, other nodes.
    """
    kept, waits = RunningGangs(), replace(gang("waits", 1), length_s=9.0)
    gangs = [runs("a", "n1", "n2"), runs("b", "n1", said_s=None), waits, runs("c", "n2", since_s=None)]
    first = kept.read(gangs, TABLE, 1)
    assert first.gangs == ("default/a", "default/c")
    assert (first.rows.tolist(), first.owner.tolist()) == ([0, 1, 1], [0, 0, 1])
    assert first.amounts[:, TABLE.axis.index("cpu")].tolist() == [2000, 2000, 2000]
    assert first.length_s.tolist() == [60.0] * 2
    assert np.isnan(first.since_s).tolist() == [False, True]
    assert kept.read(gangs, TABLE, 1) is first
    assert kept.read([runs("a", "n2"), *gangs[1:]], TABLE, 1).rows.tolist() == [1, 1]
    assert kept.read(gangs[1:], TABLE, 1).gangs == ("default/c",)
    assert kept.read(gangs[1:], TABLE, 2) is not kept.read(gangs[1:], TABLE, 3)


# -- the second look: a gang starts below the size it asked for only in room that no waiting gang can use whole -----


FIFO = Policy(queue=QueuePolicy(order=Order.FIFO, starve_limit_s=600.0))
LARGE = gang("large", 4, min_member=1, created_s=1.0)


def planned(cpu: str, *gangs: Gang, now_s: float = 100.0) -> Plan:
    return plan(snapshot([node("n1", cpu=cpu)], gangs), FIFO, now_s=now_s)


def members(made: Plan) -> dict[str, int]:
    return {key.partition("/")[2]: len(one.members) for key, one in made.admitted.items()}


def later(size: int, *, least: int | None = None) -> Gang:
    return gang("later", size, min_member=least or size, created_s=2.0)


SPREAD = replace(LARGE, options=(("zone-policy", "preferred"),))
RUNS = replace(LARGE, members=(bound(LARGE.members[0], "n1"), *LARGE.members[1:]), started=True)
CASES = {  # case: (CPUs, members with a place, gangs, moment)
    "whole": ("5", {"large": 4, "later": 1}, [LARGE, later(1)], 100.0),
    "a later one that fits whole goes first, and the rest is used": ("3",
        {"later": 2, "large": 1}, [LARGE, later(2)], 100.0),
    "no gang fits whole": ("3", {"large": 3}, [LARGE, later(4)], 100.0),
    "of two that are cut the first in order gets all": ("3", {"large": 3}, [LARGE, later(4, least=1)], 100.0),
    "one that no empty cluster holds whole starts at once": ("3", {"large": 3}, [LARGE], 100.0),
    "a STARVING gang is not passed by": ("3", {"large": 3}, [LARGE, later(2)], 600.0),
    "a minimum in one zone is worth more to a spread gang than all": ("3", {"large": 3}, [SPREAD, later(2)], 100.0),
    "one that runs gets further members in its turn": ("3", {"large": 2}, [RUNS, later(2)], 100.0),
}  # fmt: skip


@pytest.mark.parametrize(("cpu", "want", "gangs", "now_s"), CASES.values(), ids=CASES)
def test_sizes(cpu: str, want: dict[str, int], gangs: list[Gang], now_s: float) -> None:
    assert members(planned(cpu, *gangs, now_s=now_s)) == want


def test_its_reason_is_that_of_its_minimum() -> None:
    made = planned("2", gang("large", 4, min_member=2, created_s=1.0), later(1))
    waits = made.waiting[GangKey("default/large")]
    assert (waits.rank, waits.reason, waits.detail) == (1, Reason.BEHIND, "most room in zone a: 1 of 2 members")


def test_a_place_that_was_given_is_kept() -> None:
    """The plan after a start below its size does not take the gang's place away for one that would fit whole."""
    cache = PlannerCache()
    first = plan(snapshot([node("n1", cpu="3")], [LARGE]), FIFO, now_s=100.0, cache=cache)
    again = snapshot([node("n1", cpu="3")], [LARGE, later(2)])
    assert members(plan(again, FIFO, now_s=101.0, previous=first, cache=cache)) == {"large": 3}


SIX = [node(f"{zone}{i}", zone=zone, cpu="4") for zone in "ab" for i in range(3)]


def test_a_long_queue_is_told_the_same_objects_again() -> None:
    state = snapshot(SIX, [gang(f"g{i:03}", 3, cpu="4", memory=f"{i + 1}Mi") for i in range(300)])
    full = replace(state, used=state.table.allocatable)
    cache, policy = PlannerCache(), Policy()
    first = plan(full, policy, now_s=0.0, cache=cache)
    again = plan(replace(full, version=2), policy, now_s=0.0, cache=cache, previous=first)
    assert len(again.waiting) == 300
    assert all(again.waiting[key] is first.waiting[key] for key in first.waiting)


def test_a_gang_that_asks_for_more_than_its_minimum_is_told_in_its_turn() -> None:
    """Not what is left once those behind it have had their room."""
    large = gang("large", 6, min_member=4, created_s=1.0)
    found = planned("3", large, later(3))
    assert (set(found.admitted), found.waiting[large.key].reason) == ({later(3).key}, Reason.IMPOSSIBLE)
    busy = [bound(pod("x", cpu="4", gang=None), "m")]
    roomy = snapshot([node("n", cpu="3"), node("m", cpu="4")], [large, later(3)], pods=busy)
    told = plan(roomy, FIFO, now_s=3.0).waiting[large.key]
    assert (told.reason, told.detail) == (Reason.NO_ROOM, "most room in zone a: 3 of 4 members")


def test_new_gangs_beyond_a_number_are_the_next_run_s() -> None:
    """The heaviest are this one's. What was planned before, runs in part or is committed never waits for a run."""
    nodes, old = [node(f"n{i}", cpu="2") for i in range(9)], [gang("old", 1, cpu="2"), gang("large", 10, cpu="2")]
    before = plan(snapshot(nodes, old), POLICY, now_s=0.0)
    broken = gang("broken", members=[bound(pod("a"), "n8"), pod("b", cpu="2")])
    new = [gang("held", 1, cpu="2"), *(gang(f"new{size}", size, cpu="2") for size in (1, 2, 3))]
    held = {str(new[0].members[0].uid): "n7"}
    state = snapshot(nodes, [*old, broken, *new], version=2, commitments={"default/held": held})
    first = plan(state, POLICY, now_s=1.0, previous=before, most_new=2)
    assert first.later == {"default/new1"}
    fewer = replace(state, gangs={key: asked for key, asked in state.gangs.items() if key not in first.later})
    assert replace(first, later=frozenset()) == plan(fewer, POLICY, now_s=1.0, previous=before)
    assert plan(state, POLICY, now_s=1.0, previous=first, most_new=1).later == frozenset()
    ports = tuple(HostPort("TCP", "", at) for at in range(64))
    for huge in (gang("huge", 99, priority=1), gang("huge", members=[dressed(pod("h"), host_ports=ports)], priority=1)):
        state = snapshot(nodes, [huge, *new], version=3)
        assert plan(state, POLICY, now_s=1.0, most_new=2).later == {asked.key for asked in new}
