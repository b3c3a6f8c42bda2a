"""Scale-in: workers freed for the first gang that waits: examples and refusals (docs/explanation/elastic.md)."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import pytest

from scoring.ids import NodeName, PodUid
from scoring.model import Gang, Node, Phase, Role
from scoring.model.policy import Policy, QueuePolicy
from scoring.model.snapshot import Claim, Snapshot
from scoring.network.matrix import NetworkMatrix
from scoring.plan import PlannerCache, plan
from scoring.scaling.change import No, ScaleIn
from scoring.scaling.job import ElasticJob
from scoring.scaling.options import Condition, Options
from scoring.scaling.scale_out import scale_out
from scoring.scaling.shrink.scale_in import scale_in
from tests.builders import bound, gang, mesh, node, pod, snapshot
from tests.scoring.scaling.cases import TRUSTING, elastic, waiting, workers

GENEROUS = Options(decrement=None, cool_down_s=0.0, changes_per_hour=None)


def decide(
    nodes: Sequence[Node],
    gangs: Sequence[Gang],
    jobs: Sequence[ElasticJob],
    options: Options = GENEROUS,
    *,
    policy: Policy = TRUSTING,
    now_s: float = 1000.0,
    network: NetworkMatrix | None = None,
    claims: Mapping[str, Claim] | None = None,
) -> ScaleIn:
    """The decision for this cluster, from its own plan."""
    cluster = snapshot(nodes, gangs, network=network, claims=claims or {})
    return scale_in(cluster, plan(cluster, policy, now_s=now_s), jobs, policy, options, now_s=now_s)


def given(found: ScaleIn) -> dict[str, tuple[int, int]]:
    """Job → workers before and after."""
    return {change.job.name: (change.before, change.after) for change in found.changes}


def refusals(found: ScaleIn) -> dict[str, No]:
    """Job → why it gives up nothing."""
    return {refusal.job.name: refusal.reason for refusal in found.refusals}


def test_a_job_gives_what_the_heavier_gang_needs_and_keeps_ps_and_worker_0() -> None:
    """1 ps + 6 workers fill two nodes; a gang of 3 comes: 6 → 3, workers 5, 4 and 3 leave."""
    light = workers("l", ["n1", "n1", "n1", "n2", "n2", "n2"], ps="n1")
    heavy = waiting("h", 3, weight=9)
    found = decide([node("n1", cpu="4"), node("n2", cpu="3")], [light, heavy], [elastic(light, least=2)])
    assert given(found) == {"l": (6, 3)}
    assert found.leaving == tuple(f"uid-default-l-worker-{i}" for i in (5, 4, 3))
    assert found.beneficiary == heavy.key
    assert set(found.places.values()) == {"n2"}
    assert found.changes[0].removed == 3


def test_the_plan_is_the_shortest_prefix_whose_bound_members_suffice() -> None:
    """Workers without a node cost and free nothing: of 6 wanted the top two wait, so 6 → 3 for one worker's room."""
    light = workers("l", ["n1", "n1", "n1", "n1", None, None])
    found = decide([node("n1", cpu="4")], [light, waiting("h", 1, weight=9)], [elastic(light)])
    assert given(found) == {"l": (6, 3)}
    assert found.leaving == (PodUid("uid-default-l-worker-3"),)


def test_the_index_decides_who_leaves_even_when_another_node_would_help() -> None:
    """Worker 2 is in the way; 3 is above it and leaves first, from a node that does not matter."""
    light = workers("l", ["n1", "n1", "n2", "n1"])
    big = waiting("h", 1, cpu="2", weight=9)
    nodes = [node("n1", cpu="3"), node("n2", cpu="2", labels={"big": "yes"}), node("n3", cpu="1")]
    wanting = replace(
        big, members=tuple(pod(p.name, gang="h", role=Role.WORKER, index=0, cpu="2", node_selector={"big": "yes"})
                           for p in big.members)
    )  # fmt: skip
    found = decide(nodes, [light, wanting], [elastic(light)])
    assert given(found) == {"l": (4, 2)}
    assert found.changes[0].nodes == ("n1", "n2")


def test_two_jobs_give_together_where_one_may_not_give_enough() -> None:
    """Each may give two at once, four are needed: both do."""
    one, two = (workers(name, ["n1"] * 3, weight=w) for name, w in (("a", 1), ("b", 2)))
    found = decide(
        [node("n1", cpu="6")],
        [one, two, waiting("h", 4, weight=9)],
        [elastic(one), elastic(two)],
        replace(GENEROUS, decrement=2),
    )
    assert given(found) == {"a": (3, 1), "b": (3, 1)}


def test_the_lightest_gives_first() -> None:
    """One worker is needed, both could give it: the lighter does, the other is told that it was not needed."""
    one, two = workers("a", ["n1"] * 3, weight=2), workers("b", ["n1"] * 3, weight=1)
    found = decide([node("n1", cpu="6")], [one, two, waiting("h", 1, weight=9)], [elastic(one), elastic(two)])
    assert given(found) == {"b": (3, 2)}
    assert refusals(found) == {"a": No.NOT_NEEDED}


def test_the_fewest_workers_go_even_if_a_heavier_job_gives_them() -> None:
    """Four small workers of the lightest job, or one large worker of the other: the one goes."""
    small, large = workers("a", ["n1"] * 5, weight=1), workers("b", ["n2", "n2"], cpu="4", weight=2)
    nodes = [node("n1", cpu="5"), node("n2", cpu="8")]
    found = decide(nodes, [small, large, waiting("h", 1, cpu="4", weight=9)], [elastic(small), elastic(large)])
    assert given(found) == {"b": (2, 1)}


LIKE_WEIGHT = {  # what tells two jobs of equal weight apart, their worker 1 on n2: (a's ps, b's ps, bad node, who)
    "its worker is not beside its own ps": ("n2", "n1", None, "b"),
    "its worker is badly connected": ("n1", "n3", "n3", "b"),
    "nothing: by name": ("n1", "n1", None, "a"),
}


@pytest.mark.parametrize(("a_ps", "b_ps", "bad", "who"), LIKE_WEIGHT.values(), ids=LIKE_WEIGHT)
def test_among_jobs_of_like_weight(a_ps: str, b_ps: str, bad: str | None, who: str) -> None:
    """The one gives whose highest worker is away from its own ps, then whose is worth least where it is."""
    one, two = (workers(name, ["n1", "n2"], ps=ps, weight=1) for name, ps in (("a", a_ps), ("b", b_ps)))
    names = ("n1", "n2", "n3")
    counts = {name: sum(p.node == name for p in (*one.members, *two.members)) for name in names}
    nodes = [node(name, cpu=str(counts[name])) for name in names]
    network = mesh(names, bad={bad: {"delay_ms": 30.0}} if bad else None)
    found = decide(nodes, [one, two, waiting("h", 1, weight=9)], [elastic(one), elastic(two)], network=network)
    assert given(found) == {who: (2, 1)}
    assert set(found.places.values()) == {"n2"}


def test_the_worker_on_the_node_that_the_gang_wants_goes() -> None:
    """Two workers of equal jobs would make room; the gang's ps-less pair wants the node beside the free one."""
    one, two = workers("a", ["n1", "n3"], weight=1), workers("b", ["n1", "n4"], weight=1)
    nodes = [node("n1", cpu="2"), node("n2", cpu="1"), node("n3", cpu="1"), node("n4", cpu="1")]
    network = mesh([f"n{i}" for i in range(1, 5)], bad={"n3": {"delay_ms": 30.0}})
    found = decide(nodes, [one, two, waiting("h", 2, weight=9)], [elastic(one), elastic(two)], network=network)
    assert given(found) == {"b": (2, 1)}
    assert sorted(found.places.values()) == ["n2", "n4"]


REFUSED = {  # case: (job's fields, job's weight, options, reason for the job)
    "unsafe": ({"refusal": "spec.enableDynamicWorker is not true"}, 1, {}, No.UNSAFE),
    "at its minimum": ({"least": 4}, 1, {}, No.AT_MINIMUM),
    "cool-down": ({"changed_s": 990.0}, 1, {"cool_down_s": 60.0}, No.COOL_DOWN),
    "budget": ({"changes_s": (100.0, 200.0)}, 1, {"changes_per_hour": 2}, No.OVER_BUDGET),
    "heavier": ({}, 10, {}, No.NOT_LIGHTER),
    "as heavy and earlier": ({}, 9, {}, No.NOT_LIGHTER),
    "still losing workers": ({"wanted": 3}, 1, {}, No.RESIZING),
}


@pytest.mark.parametrize(("fields", "weight", "options", "reason"), REFUSED.values(), ids=REFUSED)
def test_who_gives_nothing(fields: dict[str, Any], weight: int, options: dict[str, Any], reason: No) -> None:
    """Nothing is changed, and the reason is a constant of the closed set."""
    light = workers("l", ["n1"] * 4, weight=weight)
    heavy = waiting("h", 2, weight=9, created_s=5.0)
    cluster = [node("n1", cpu="4")]
    found = decide(cluster, [light, heavy], [elastic(light, **fields)], replace(GENEROUS, **options))
    assert given(found) == {}
    assert refusals(found) == {"l": reason}
    assert found.reason is No.NO_JOB


def test_budget_counts_the_last_hour_only() -> None:
    """Two changes an hour are allowed: those of before the hour do not count."""
    light = workers("l", ["n1"] * 4)
    job = elastic(light, changes_s=(0.0, 100.0, 4000.0))
    options = replace(GENEROUS, changes_per_hour=2)
    found = decide([node("n1", cpu="4")], [light, waiting("h", 1, weight=9)], [job], options, now_s=5000.0)
    assert given(found) == {"l": (4, 3)}


def test_equal_weight_gives_way_only_to_who_came_earlier() -> None:
    """A job as heavy as the gang gives if it is the later one."""
    light = workers("l", ["n1"] * 4, weight=9, created_s=50.0)
    early = waiting("h", 1, weight=9, created_s=5.0)
    assert given(decide([node("n1", cpu="4")], [light, early], [elastic(light)])) == {"l": (4, 3)}


def test_a_higher_priority_never_gives_way() -> None:
    """Priority goes before weight: a lighter job of higher priority keeps its workers."""
    light = workers("l", ["n1"] * 4, weight=1, priority=5)
    found = decide([node("n1", cpu="4")], [light, waiting("h", 1, weight=9)], [elastic(light)])
    assert refusals(found) == {"l": No.HIGHER_PRIORITY}


def test_a_starving_gang_is_given_way_by_heavier_jobs() -> None:
    """K3: a STARVING job outranks all that are not, so the running one's greater weight does not help it."""
    heavy = workers("l", ["n1"] * 4, weight=10)
    policy = replace(TRUSTING, queue=replace(TRUSTING.queue, starve_limit_s=600.0))
    cluster = [node("n1", cpu="4")], [heavy, waiting("h", 1, weight=9)], [elastic(heavy)]
    assert given(decide(*cluster, policy=policy, now_s=599.0)) == {}
    assert given(decide(*cluster, policy=policy, now_s=601.0)) == {"l": (4, 3)}


def test_not_enough_changes_nothing() -> None:
    """Whole plan or nothing: two of the three workers that are needed are not given."""
    light = workers("l", ["n1"] * 4)
    found = decide([node("n1", cpu="4")], [light, waiting("h", 3, weight=9)], [elastic(light, least=2)])
    assert (given(found), found.reason, found.beneficiary) == ({}, No.NOT_ENOUGH, "default/h")


def test_l_dw_bounds_what_one_job_gives_at_once() -> None:
    """With a decrement of 2 a gang of 3 does not fit, and nothing is given."""
    light = workers("l", ["n1"] * 6)
    cluster = [node("n1", cpu="6")], [light, waiting("h", 3, weight=9)], [elastic(light)]
    assert decide(*cluster, replace(GENEROUS, decrement=2)).reason is No.NOT_ENOUGH
    assert given(decide(*cluster, replace(GENEROUS, decrement=3))) == {"l": (6, 3)}


def test_a_gang_that_could_never_start_moves_nobody() -> None:
    """Impossible gangs do not count among those that wait for room; the one behind does."""
    light = workers("l", ["n1"] * 4)
    gangs = [light, waiting("huge", 1, cpu="64", weight=99), waiting("h", 1, weight=9)]
    assert decide([node("n1", cpu="4")], gangs, [elastic(light)]).beneficiary == "default/h"


def test_only_the_first_gang_that_waits_is_served() -> None:
    """The heaviest does not fit even so; the lighter one behind it, which would, moves no gang."""
    light = workers("l", ["n1"] * 4)
    gangs = [light, waiting("h", 4, weight=9), waiting("small", 1, weight=8)]
    found = decide([node("n1", cpu="4")], gangs, [elastic(light)])
    assert (found.beneficiary, found.reason) == ("default/h", No.NOT_ENOUGH)


def test_nobody_waits() -> None:
    """Without a gang that waits for room nothing is looked at."""
    light = workers("l", ["n1"] * 4)
    assert decide([node("n1", cpu="4")], [light], [elastic(light)]).reason is No.NOBODY_WAITS


def test_room_that_is_coming_is_waited_for() -> None:
    """A worker is being removed already, or its index is not wanted any more: nobody is shrunk for the same room."""
    light = workers("l", ["n1"] * 4)
    leaving = replace(
        light, members=tuple(replace(p, deleting=p.index == 3) if p.role is Role.WORKER else p for p in light.members)
    )
    heavy = waiting("h", 1, weight=9)
    assert decide([node("n1", cpu="4")], [leaving, heavy], [elastic(leaving, wanted=3)]).reason is No.ROOM_IS_COMING
    assert decide([node("n1", cpu="4")], [light, heavy], [elastic(light, wanted=3)]).reason is No.ROOM_IS_COMING


def test_a_gang_for_which_others_leave_is_not_served_twice() -> None:
    """A claim says that room is being freed for it: nothing is shrunk beside."""
    light = workers("l", ["n1"] * 4)
    heavy = waiting("h", 2, weight=9)
    claim = Claim(heavy.key, {member.uid: NodeName("n1") for member in heavy.members})
    found = decide([node("n1", cpu="4")], [light, heavy], [elastic(light)], claims={heavy.key: claim})
    assert found.reason is No.ROOM_IS_COMING


def test_workers_elsewhere_do_not_help() -> None:
    """A job in a zone that the gang may not use keeps its workers."""
    here, there = workers("here", ["a1"] * 2), workers("there", ["b1"] * 2)
    heavy = waiting("h", 1, weight=9, options={"zones": "a"})
    nodes = [node("a1", cpu="2", zone="a"), node("b1", cpu="2", zone="b")]
    found = decide(nodes, [here, there, heavy], [elastic(here), elastic(there)])
    assert given(found) == {"here": (2, 1)}
    assert refusals(found) == {"there": No.ELSEWHERE}


def test_the_whole_gang_must_fit_one_zone() -> None:
    """A worker in each of two zones would do by number; the gang stays in one zone, so one job gives two."""
    one, two = workers("one", ["a1"] * 3), workers("two", ["b1"] * 3)
    nodes = [node("a1", cpu="3", zone="a"), node("b1", cpu="3", zone="b")]
    found = decide(nodes, [one, two, waiting("h", 2, weight=9)], [elastic(one), elastic(two)])
    assert given(found) == {"one": (3, 1)}


def test_a_job_that_does_not_run_gives_nothing() -> None:
    """A gang of which nobody has a node frees nothing; it waits behind the heavier one."""
    idle = waiting("idle", 2)
    runs = workers("l", ["n1"] * 2)
    found = decide([node("n1", cpu="2")], [idle, runs, waiting("h", 1, weight=9)], [elastic(idle), elastic(runs)])
    assert given(found) == {"l": (2, 1)}
    assert refusals(found)["idle"] is No.NOT_RUNNING


def test_a_gang_ahead_that_would_take_the_room_prevents_the_plan() -> None:
    """A gang ahead that the plan did not know yet would get the room in the next one: nobody gives any for it."""
    light = workers("l", ["n1"] * 2)
    ahead = waiting("ahead", 1, weight=20)
    heavy = waiting("h", 1, weight=9)
    cluster = snapshot([node("n1", cpu="2")], [light, ahead, heavy])
    stale = plan(replace(cluster, gangs={g.key: g for g in (light, heavy)}), TRUSTING, now_s=0.0)
    found = scale_in(cluster, stale, [elastic(light)], TRUSTING, GENEROUS, now_s=0.0)
    assert (found.reason, given(found)) == (No.GIVEN_TO_OTHERS, {})
    assert refusals(found) == {"l": No.GIVEN_TO_OTHERS}


def test_the_published_condition() -> None:
    """`heaviest`: a gang lighter than some job that runs moves no gang, not even lighter ones."""
    light, heavy = workers("l", ["n1"] * 2, weight=1), workers("big", ["n1"] * 2, weight=10)
    cluster = [node("n1", cpu="4")], [light, heavy, waiting("h", 1, weight=9)], [elastic(light)]
    assert given(decide(*cluster)) == {"l": (2, 1)}
    assert decide(*cluster, replace(GENEROUS, condition=Condition.HEAVIEST)).reason is No.NOT_HEAVIEST


def test_switched_off() -> None:
    """`enabled: false` looks at nothing."""
    light = workers("l", ["n1"] * 2)
    off = replace(GENEROUS, enabled=False)
    found = decide([node("n1", cpu="2")], [light, waiting("h", 1, weight=9)], [elastic(light)], off)
    assert (found.beneficiary, found.reason) == (None, No.DISABLED)


def test_computed_weights_decide_without_annotations() -> None:
    """ω′ = w_min / (cpu + mem): two small workers outweigh a job that needs one large one; one such does not."""
    light = replace(workers("l", ["n1", "n1", "n2"], cpu="2"), options=())
    cluster = [node("n1", cpu="4"), node("n2", cpu="2")]
    plain = Policy(queue=QueuePolicy())
    two_small = gang("h", 2, role=Role.WORKER, created_s=5.0)
    one_large = gang("h", 1, role=Role.WORKER, cpu="2", created_s=5.0)
    assert given(decide(cluster, [light, two_small], [elastic(light)], policy=plain)) == {"l": (3, 2)}
    assert refusals(decide(cluster, [light, one_large], [elastic(light)], policy=plain)) == {"l": No.NOT_LIGHTER}


def test_a_partly_bound_leader_is_never_taken() -> None:
    """Even an index map that names a ps or a chief by mistake removes none of them."""
    light = workers("l", ["n1", "n1"], ps="n1")
    chief = bound(pod("l-chief-0", gang="l", role=Role.CHIEF, index=7), "n1")
    mixed = replace(light, members=(*light.members, chief))
    job = replace(elastic(mixed), workers=8, max_workers=8, indexes={m.uid: m.index or 0 for m in mixed.members})
    found = decide([node("n1", cpu="4")], [mixed, waiting("h", 2, weight=9)], [job])
    leaders = {m.uid for m in mixed.members if m.role is not Role.WORKER}
    assert not leaders & set(found.leaving)


def test_kinds_of_members_that_compete_for_a_node() -> None:
    """By counting, two CPUs hold the large member or the two small ones; together they need four."""
    light = workers("l", ["n1"] * 5)
    members = [pod(f"h-{i}", gang="h", role=Role.WORKER, index=i, cpu=cpu) for i, cpu in enumerate(("2", "1", "1"))]
    heavy = gang("h", members=members, options={"weight": "9"})
    assert given(decide([node("n1", cpu="5")], [light, heavy], [elastic(light)])) == {"l": (5, 1)}
    several = [workers(f"l{i}", ["n1"] * 2, weight=1 + i) for i in range(4)]
    found = decide([node("n1", cpu="8")], [*several, heavy], [elastic(one) for one in several])
    assert given(found) == {f"l{i}": (2, 1) for i in range(4)}


def test_a_gang_that_may_be_spread_is_served_over_zones() -> None:
    """`preferred`, after its wait: one worker in each zone makes room for the two."""
    one, two = workers("one", ["a1"] * 2), workers("two", ["b1"] * 2)
    nodes = [node("a1", cpu="2", zone="a"), node("b1", cpu="2", zone="b")]
    spread = waiting("h", 2, weight=9, options={"zone-policy": "preferred"})
    found = decide(nodes, [one, two, spread], [elastic(one), elastic(two)])
    assert given(found) == {"one": (2, 1), "two": (2, 1)}


def test_what_turns_out_not_to_help_is_not_taken() -> None:
    """No single worker makes room for two CPUs. The lightest job's, alone on its node, helps nobody and stays."""
    jobs = [
        workers(name, ["n0", where], weight=1 + i)
        for i, (name, where) in enumerate(zip("abc", ("n1", "n2", "n2"), strict=True))
    ]
    nodes = [node("n0", cpu="3"), node("n1", cpu="1"), node("n2", cpu="2")]
    found = decide(nodes, [*jobs, waiting("h", 1, cpu="2", weight=9)], [elastic(job) for job in jobs])
    assert given(found) == {"b": (2, 1), "c": (2, 1)}
    assert refusals(found) == {"a": No.NOT_NEEDED}


def test_a_ps_job_with_nobody_else_has_no_links() -> None:
    """Jobs whose ps has failed: their workers talk to no server for now, so their links decide nothing."""
    one, two = (workers(name, ["n1", "n1"], ps="n2", weight=1) for name in "ab")
    ended = [
        replace(g, members=tuple(replace(p, phase=Phase.FAILED) if p.role is Role.PS else p for p in g.members))
        for g in (one, two)
    ]
    nodes = [node("n1", cpu="4"), node("n2", cpu="1", labels={"x": "y"}, unschedulable=True)]
    found = decide(nodes, [*ended, waiting("h", 1, weight=9)], [elastic(g) for g in ended], network=mesh(["n1"]))
    assert given(found) == {"a": (2, 1)}


def test_a_zone_that_cannot_hold_the_gang_is_passed_over() -> None:
    """Zone a has one worker to give and the gang needs two; zone b has two."""
    one, two = workers("one", ["a1"] * 2), workers("two", ["b1"] * 3)
    nodes = [node("a1", cpu="2", zone="a"), node("b1", cpu="3", zone="b")]
    found = decide(nodes, [one, two, waiting("h", 2, weight=9)], [elastic(one), elastic(two)])
    assert given(found) == {"two": (3, 1)}
    assert refusals(found) == {"one": No.NOT_NEEDED}


def test_many_jobs_with_pauses_between_them() -> None:
    """Seventy jobs: the decision can be left and taken up again, and is the same; the lightest give."""
    jobs = [workers(f"j{i:02}", ["n1"] * 2, weight=2 if i else 1) for i in range(70)]
    cluster = snapshot([node("n1", cpu="140", pods=300)], [*jobs, waiting("h", 2, weight=9)])
    made = plan(cluster, TRUSTING, now_s=0.0)
    listed = [elastic(job) for job in jobs]
    found = scale_in(cluster, made, listed, TRUSTING, GENEROUS, now_s=0.0)
    assert given(found) == {"j00": (2, 1), "j01": (2, 1)}
    grown = scale_out(cluster, made, [replace(j, max_workers=3) for j in listed], TRUSTING, GENEROUS, now_s=0.0)
    assert {refusal.reason for refusal in grown.refusals} == {No.NO_ROOM}


def test_many_like_jobs_are_cut_short_and_still_minimal() -> None:
    """Twelve jobs, eleven workers needed: the search is bounded, and nothing can be given back from its answer."""
    jobs = [workers(f"j{i:02}", [f"n{i:02}"] * 3) for i in range(12)]
    nodes = [node(f"n{i:02}", cpu="3") for i in range(12)]
    heavy = waiting("h", 11, weight=9)
    cache = PlannerCache()
    cluster: Snapshot = snapshot(nodes, [*jobs, heavy])
    made = plan(cluster, TRUSTING, now_s=0.0, cache=cache)
    listed = [elastic(job) for job in jobs]
    found = scale_in(cluster, made, listed, TRUSTING, replace(GENEROUS, decrement=1), now_s=0.0, cache=cache)
    assert sum(change.removed for change in found.changes) == 11


def test_a_job_on_a_node_that_is_gone_frees_nothing() -> None:
    """A job whose node is gone is nowhere in the way, and its pods that are being removed free nothing."""
    one, two = workers("a", ["n1", "n1"], weight=1), workers("b", ["n1", "n1"], weight=1)
    gone = replace(two, members=tuple(replace(p, node=NodeName("gone")) for p in two.members))
    ends = workers("ends", ["gone"])
    ends = replace(ends, members=tuple(replace(p, deleting=True) for p in ends.members))
    found = decide([node("n1", cpu="2")], [one, gone, ends, waiting("h", 1, weight=9)], [elastic(one), elastic(gone)])
    assert given(found) == {"a": (2, 1)}
    assert refusals(found) == {"b": No.ELSEWHERE}


def test_a_pod_that_asks_for_what_no_node_has_any_more_leaves_nothing() -> None:
    """Its node lost the resource while it ran: what it took cannot be told, so it is not counted on."""
    table = snapshot([node("n1")], []).table
    assert not table.footprint([bound(pod("p", gpu=1), "n1")])[1].any()


def test_a_gang_that_asks_for_what_no_node_has_is_no_beneficiary() -> None:
    """It is impossible, so nobody is shrunk for it."""
    light = workers("l", ["n1"] * 2)
    gpu = gang("h", 1, role=Role.WORKER, gpu=1, options={"weight": "9"})
    found = decide([node("n1", cpu="2")], [light, gpu], [elastic(light)])
    assert (found.changes, found.reason) == ((), No.NOBODY_WAITS)


def test_bounds_of_a_job_are_checked() -> None:
    """A minimum above the maximum is nobody's job."""
    with pytest.raises(ValueError, match="0 <= minimum <= maximum"):
        replace(elastic(workers("l", ["n1"])), min_workers=5)
