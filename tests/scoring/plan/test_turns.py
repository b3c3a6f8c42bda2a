"""Who may starve, whose zone is reserved, and what a namespace's share does to a plan (docs/safety.md S14)."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from scoring.explain.queue_report import Entry, report
from scoring.ids import GangKey, Namespace, ResourceName
from scoring.model import Gang, Phase
from scoring.model.policy import Algorithm, Order, Policy, QueuePolicy
from scoring.model.reasons import Reason
from scoring.model.snapshot import Snapshot
from scoring.plan import Plan, PlannerCache, plan
from scoring.plan.starvation_reservations import reserved_nodes
from scoring.queue.states import JobState
from scoring.verbs.prioritize import RESERVATION_POINTS, prefer
from tests.builders import bound, gang, mesh, node, pod, snapshot

LATE_S = 5_000.0
POLICY = Policy()


def queue(**fields: Any) -> Policy:
    """A policy whose queue differs in these."""
    return Policy(queue=replace(QueuePolicy(), **fields))


def entry(state: Snapshot, name: str, *, policy: Policy = POLICY, now_s: float = LATE_S) -> Entry:
    """What the queue says of a gang."""
    made = plan(state, policy, now_s=now_s)
    return next(one for one in report(state, made, policy, now_s=now_s).entries if one.gang == f"default/{name}")


# -- states ------------------------------------------------------------------------------------------------------------

NODES = [node(f"n{i}", cpu="2") for i in range(4)]
BUSY = [pod(f"busy{i}", node=f"n{i}", cpu="2") for i in range(4)]


def waits(**fields: Any) -> Gang:
    """A gang of two that could start if there were room."""
    return replace(gang("g", 2, cpu="2"), **fields)


STATES: dict[str, tuple[JobState, Gang]] = {
    "waits for long": (JobState.STARVING, waits()),
    "impossible": (JobState.WAITING, gang("g", 9, cpu="2")),
    "in no zone": (JobState.WAITING, gang("g", 2, options={"zones": "nowhere"})),
    "too few pods": (JobState.WAITING, waits(min_member=3)),
    "behind a foreign gate": (JobState.WAITING, gang("g", 2, cpu="2", gates=("example.com/gate",))),
    "contradicts itself": (JobState.WAITING, waits(problem=Reason.MIXED_PRIORITIES)),
    "runs": (JobState.RUNNING, gang("g", members=[bound(pod(f"p{i}"), "n0") for i in range(2)])),
    "runs with one lost": (
        JobState.RUNNING,
        replace(gang("g", members=[pod("a", phase=Phase.FAILED, node="n0"), bound(pod("b"), "n1"),
                                   pod("c", created_s=1.0)], min_member=2), started=True),
    ),
    "done": (JobState.COMPLETED, gang("g", members=[pod(f"p{i}", phase=Phase.SUCCEEDED, node="n0") for i in range(2)])),
}  # fmt: skip


@pytest.mark.parametrize(("want", "wish"), STATES.values(), ids=STATES)
def test_states(want: JobState, wish: Gang) -> None:
    """Only a gang that could start as it is, were there room, is ever STARVING."""
    state = snapshot(NODES, [wish], pods=BUSY[1:])
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


def held(made: Plan) -> dict[str, list[str]]:
    """Gang → its reserved nodes."""
    return {str(key): list(reserved.nodes) for key, reserved in made.reservations.items()}


EIGHT = [node(f"{zone}{i}", zone=zone, cpu="2") for zone in "ab" for i in range(4)]


def full_but(*free: str) -> list:
    """Half of each node is taken, but `free` ones are empty."""
    return [pod(f"on-{one.name}", node=one.name, cpu="1") for one in EIGHT if one.name not in free]


SHARES = {  # case: (nodes reserved, share, members of the gang, empty nodes)
    "a whole zone within the share": (["b0", "b1", "b2", "b3"], 0.5, 2, ["b3"]),
    "a part of it": (["b0", "b3"], 0.25, 2, ["b3"]),
    "more than the share, because less would never do": (["b0", "b1", "b3"], 0.25, 3, ["b1", "b3"]),
    "nothing": (None, 0.0, 2, ["b3"]),
}


@pytest.mark.parametrize(("want", "share", "size", "empty"), SHARES.values(), ids=SHARES)
def test_what_is_held(want: list[str] | None, share: float, size: int, empty: list[str]) -> None:
    """The zone with most room for the gang, within the share; of a larger zone the nodes with most room."""
    policy = replace(queue(starving_share=share), spares=0)
    state = snapshot(EIGHT, [gang("g", size, cpu="2")], pods=full_but(*empty))
    assert held(plan(state, policy, now_s=LATE_S)) == ({} if want is None else {"default/g": want})


def test_nothing_new_in_a_held_zone() -> None:
    """A gang that would fit there is refused as the room is reserved, even with a kept place; elsewhere it starts."""
    starving, small = gang("g", 4, cpu="2"), gang("s", 2, cpu="1", created_s=LATE_S, options={"zones": "a"})
    policy = queue(starving_share=0.5)
    state = snapshot(EIGHT, [starving, small], pods=full_but("a0"))
    before = plan(state, policy, now_s=1.0)
    assert list(before.admitted) == ["default/s"]
    after = plan(replace(state, version=2), policy, now_s=LATE_S, previous=before, cache=PlannerCache())
    assert held(after) == {"default/g": ["a0", "a1", "a2", "a3"]}
    assert after.waiting[small.key].reason is Reason.RESERVED
    free = replace(small, options=())
    elsewhere = plan(snapshot(EIGHT, [starving, free], pods=full_but("a0")), policy, now_s=LATE_S)
    assert elsewhere.admitted[free.key].zones == ("b",)


def test_a_reservation_stays_where_it_is() -> None:
    """The reserved zone does not move when another one happens to have more room later."""
    policy = queue(starving_share=0.5)
    wish = gang("g", 4, cpu="2")
    first = plan(snapshot(EIGHT, [wish], pods=full_but("a0")), policy, now_s=LATE_S)
    state = snapshot(EIGHT, [wish], pods=full_but("a0", "b0", "b1"), version=2)
    assert first.reservations == plan(state, policy, now_s=LATE_S, previous=first).reservations
    assert plan(state, policy, now_s=LATE_S).reservations[wish.key].zones == ("b",)


def test_one_reservation_for_each_resource_class() -> None:
    """CPU jobs have one zone reserved among them; a GPU job's reservation is beside it."""
    nodes = [*EIGHT, node("c0", zone="c", cpu="2", gpu=1)]
    gangs = [gang("x", 4, cpu="2"), gang("y", 4, cpu="2", created_s=1.0), gang("z", 1, gpu=1, cpu="2", created_s=2.0)]
    busy = [*full_but(), pod("on-c0", node="c0", cpu="1")]
    made = plan(snapshot(nodes, gangs, pods=busy), queue(starving_share=0.9), now_s=LATE_S)
    assert sorted(made.reservations) == ["default/x", "default/z"]
    assert made.reservations[GangKey("default/z")].nodes == ("c0",)


@pytest.mark.parametrize(("at_s", "leads"), [(1900.0, "old"), (1900.0 + 600.0, "young"), (1900.0 + 1200.0, "old")])
def test_a_reservation_that_runs_out_goes_behind(at_s: float, leads: str) -> None:
    """After its time in front a gang is for as long behind others, then in front again; the first one reserves."""
    policy = queue(starving_hold_s=600.0, starving_share=0.5)
    gangs = [gang("old", 4, cpu="2"), gang("young", members=_aged("young", 4, 400.0), created_s=400.0)]
    made = plan(snapshot(EIGHT, gangs, pods=full_but()), policy, now_s=at_s)
    assert made.waiting[GangKey(f"default/{leads}")].rank == 1
    assert [key.partition("/")[2] for key in made.reservations] == [leads]


def _aged(name: str, size: int, created_s: float) -> list:
    return [pod(f"{name}-{i}", gang=name, index=i, cpu="2", created_s=created_s) for i in range(size)]


def test_fifo_starves_and_holds_too() -> None:
    """In order of age a large gang would be passed by back-fill without end just as well."""
    made = plan(snapshot(EIGHT, [gang("g", 4, cpu="2")], pods=full_but()), queue(order=Order.FIFO), now_s=LATE_S)
    assert list(made.reservations) == ["default/g"]


def test_held_and_planned_nodes_score_lower_for_others() -> None:
    """/prioritize: nodes planned for a heavier gang, or held for a STARVING one, are worth less to lighter ones."""
    heavy, light = gang("light-name-heavy-job", 2, cpu="1"), gang("a", 1, cpu="1")
    state = snapshot(NODES, [heavy, light], network=mesh(NODES))
    made = plan(state, POLICY, now_s=0.0)
    wanted = {state.table.index[made.node_of[one.uid]] for one in heavy.members}

    def lowered(gang_: Gang | None) -> set[int]:
        member = gang_.members[0] if gang_ is not None else pod("plain")
        points = prefer(state, made, member, gang_, POLICY).reservation
        return {row for row, value in enumerate(points.tolist()) if value == -RESERVATION_POINTS}

    assert made.admitted[heavy.key].rank < made.admitted[light.key].rank
    assert lowered(light) == wanted
    assert lowered(heavy) == set()
    assert lowered(None) >= wanted
    holding = plan(snapshot(EIGHT, [gang("g", 4, cpu="2")], pods=full_but()), queue(starving_share=0.5), now_s=LATE_S)
    assert reserved_nodes(holding.reservations) == {"a0", "a1", "a2", "a3"}
    assert reserved_nodes(holding.reservations, besides=GangKey("default/g")) == set()


# -- shares ------------------------------------------------------------------------------------------------------------


def test_a_namespace_gets_no_more_than_its_share() -> None:
    """The gang over the share waits for a constant reason, without starving or keeping others; those behind start."""
    policy = queue(share_cap_by_namespace=((Namespace("default"), 0.5),))
    gangs = [gang("a", 2, cpu="2"), gang("b", 2, cpu="1", created_s=1.0), gang("c", 2, cpu="2", namespace="other")]
    state = snapshot(NODES, gangs)
    made = plan(state, policy, now_s=LATE_S)
    assert sorted(made.admitted) == ["default/a", "other/c"] or sorted(made.admitted) == ["default/b", "other/c"]
    [refused] = made.waiting.values()
    assert refused.reason is Reason.OVER_SHARE
    assert "may have 4000 of cpu" in refused.detail
    found = {one.gang: one for one in report(state, made, policy, now_s=LATE_S).entries}
    assert found[refused.gang].state is JobState.WAITING
    assert made.reservations == {}


def test_what_runs_counts_and_the_rest_is_cut() -> None:
    """Running members are in the share; beyond the minimum only as many join as the share allows."""
    policy = queue(share_cap=0.5)
    runs = gang("runs", members=[bound(pod("r", cpu="1"), "n0")])
    wish = gang("wish", 8, cpu="1", min_member=2)
    made = plan(snapshot(NODES, [runs, wish]), policy, now_s=0.0)
    assert len(made.admitted[wish.key].members) == 3
    again = plan(snapshot(NODES, [runs, wish], version=2), policy, now_s=0.0, previous=made)
    assert made.admitted[wish.key].members == again.admitted[wish.key].members
    less = plan(snapshot(NODES, [runs, wish], version=3), queue(share_cap=0.375), now_s=0.0, previous=made)
    assert len(less.admitted[wish.key].members) == 2


def test_a_gang_that_runs_in_part_is_completed_over_its_share() -> None:
    """It uses room without doing work: its missing members come first, whatever its namespace has."""
    half = gang("half", members=[bound(pod("h0", cpu="2"), "n0"), pod("h1", cpu="2")])
    made = plan(snapshot(NODES, [half]), queue(share_cap=0.25), now_s=0.0)
    assert sorted(made.admitted) == ["default/half"]


# -- the published algorithm -------------------------------------------------------------------------------------------

LITERAL = queue(algorithm=Algorithm.LITERAL)


def literal(*gangs: Gang, now_s: float = 0.0) -> tuple[list[str], dict[str, str]]:
    """Who starts, and what waits for which reason, by Algorithm 1."""
    made = plan(snapshot(NODES, gangs), LITERAL, now_s=now_s)
    started = sorted(made.admitted.values(), key=lambda one: one.rank)
    return [one.gang.partition("/")[2] for one in started], {
        one.gang.partition("/")[2]: one.reason.name for one in made.waiting.values()
    }


def runs_with(weight_of: int) -> Gang:
    """A running gang of that many members of a tenth of a CPU: its ω′ is 80 times as much."""
    return gang("runs", members=[bound(pod(f"r{i}", cpu="100m"), "n0") for i in range(weight_of)])


PUBLISHED: dict[str, tuple[list[str], dict[str, str], Callable[[], list[Gang]]]] = {
    # case: (started, refused, gangs)
    "nothing runs: the heaviest alone": (
        ["w2"],
        {"w1": "NOT_TRIED"},
        lambda: [gang("w1", 1, cpu="1"), gang("w2", 2, cpu="1")],
    ),
    "the heaviest does not fit: nobody starts": (
        [],
        {"big": "NO_ROOM", "w1": "NOT_TRIED"},
        lambda: [gang("w1", 1, cpu="1"), gang("big", 9, cpu="1")],
    ),
    "heavier runs: everybody that fits": (
        ["w2", "w1"],
        {"big": "NO_ROOM"},
        lambda: [runs_with(5), gang("w1", 1, cpu="1"), gang("w2", 2, cpu="1"), gang("big", 9, cpu="1")],
    ),
    "summed room is not a place": ([], {"wide": "IMPOSSIBLE"}, lambda: [gang("wide", 1, cpu="7")]),
}


@pytest.mark.parametrize(("started", "refused", "gangs"), PUBLISHED.values(), ids=PUBLISHED)
def test_algorithm_1(started: list[str], refused: dict[str, str], gangs: Callable[[], list[Gang]]) -> None:
    """Both branches, and the fit test over the cluster's summed idle resources, as published."""
    assert (started, refused) == literal(*gangs())


def test_algorithm_1_raises_the_weight_of_those_that_starve() -> None:
    """A job that has waited longer than STARVELIMIT outweighs everything, and everybody waits for it."""
    light = gang("light", 1, cpu="2")
    heavy = gang("heavy", members=_aged("heavy", 2, LATE_S), created_s=LATE_S)
    assert literal(light, heavy, runs_with(5), now_s=LATE_S) == (["light"], {"heavy": "NOT_TRIED"})
    assert literal(light, heavy, runs_with(5), now_s=1.0)[0] == ["heavy", "light"]


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


def test_extended_resources_of_the_cluster_count_by_option() -> None:
    """With GPUs in the sum a GPU job is lighter than the same job without."""
    policy = queue(extended=(ResourceName("nvidia.com/gpu"),))
    nodes = [node("n0", cpu="8", gpu=2)]
    made = plan(snapshot(nodes, [gang("a", 1, gpu=1), gang("b", 1)]), policy, now_s=0.0)
    assert made.admitted[GangKey("default/b")].rank == 1
