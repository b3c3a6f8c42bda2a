"""Scale-in: workers freed for the first gang that waits: examples and refusals (docs/explanation/elastic.md)."""

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

import pytest
from msgspec.structs import replace

from scoring import GangKey, NodeName
from scoring.model import Gang, Phase, Role
from scoring.model.policy import Policy, QueuePolicy, ServicePolicy
from scoring.model.snapshot import Reservation
from scoring.network.matrix import NetworkMatrix
from scoring.plan import PlannerCache, plan
from scoring.queue.weights import hours_of
from scoring.scaling.grow import adjust, scale_out
from scoring.scaling.job import ElasticCondition, ElasticJob, No, Options, Scaling, steps_down
from scoring.scaling.shrink import MOST_KINDS, scale_in
from tests.builders import bound, gang, mesh, node, pod, snapshot
from tests.scoring.scaling.cases import TRUSTING, elastic, machines, waiting, workers

GENEROUS = Options(increment=2, cool_down_s=0.0, changes_per_hour=None, condition=ElasticCondition.LIGHTER)


def decide(
    nodes: str,
    *gangs: Gang,
    options: Options = GENEROUS,
    jobs: Sequence[ElasticJob] | None = None,
    policy: Policy = TRUSTING,
    now_s: float = 1000.0,
    network: NetworkMatrix | None = None,
    claims: Mapping[str, Reservation] = {},
    **fields: Any,
) -> Scaling:
    """The decision for this cluster, from its own plan; without `jobs` every gang that runs is one, with `fields`."""
    cluster = snapshot(machines(nodes), gangs, network=network, claims=claims)
    jobs = [elastic(one, **fields) for one in gangs if one.placed] if jobs is None else jobs
    return scale_in(
        cluster, plan(cluster, policy, now_s=now_s), jobs, policy, options, now_s=now_s, cache=PlannerCache()
    )


def summary(found: Scaling) -> dict[str, Any]:
    return {
        "given": {change.job.name: (change.before, change.after) for change in found.changes},
        "refused": {refusal.job.name: refusal.reason.name for refusal in found.refusals},
        "reason": found.reason.name if found.reason is not None else None,
        "to": found.beneficiary,
        "places": sorted(found.places.values()),
    }


def with_members(one: Gang, role: Role = Role.WORKER, **fields: object) -> Gang:
    changed = (replace(p, **fields) if p.role is role else p for p in one.members)
    return replace(one, members=tuple(changed))


heavy = partial(waiting, "h", weight=9)
FOUR = workers("l", ["n1"] * 4)
LEAVING = replace(FOUR, members=(*FOUR.members[:3], replace(FOUR.members[3], deleting=True)))
CLAIM = Reservation(heavy(2).key, {member.uid: NodeName("n1") for member in heavy(2).members})
A3, B3 = (workers(name, ["n1"] * 3, weight=weight) for name, weight in (("a", 1), ("b", 2)))
BIG = pod("h-0", gang="h", role=Role.WORKER, index=0, cpu="2", node_selector={"kubernetes.io/hostname": "n2"})
COMPETING = [pod(f"h-{i}", gang="h", role=Role.WORKER, index=i, cpu=cpu) for i, cpu in enumerate(("2", "1", "1"))]
COMPETE = gang("h", members=COMPETING, options={"weight": "9"})
PAIRS = [workers(f"l{i}", ["n1"] * 2, weight=1 + i) for i in range(4)]
GONE = workers("b", ["gone", "gone"])
PLAIN = Policy(queue=QueuePolicy(starve_limit_s=1800.0))
LARGE = replace(workers("l", ["n1", "n1", "n2"], cpu="2"), options=())
ABC = [workers(name, ["n0", at], weight=1 + i) for i, (name, at) in enumerate((("a", "n1"), ("b", "n2"), ("c", "n2")))]
NO_PS = [with_members(workers(name, ["n1", "n1"], ps="n2"), Role.PS, phase=Phase.FAILED) for name in "ab"]
STARVING = replace(TRUSTING, queue=replace(TRUSTING.queue, starve_limit_s=600.0))

Case = tuple[dict[str, Any], partial[Scaling]]
case = partial(partial, decide)
GIVEN: dict[str, Case] = {  # sentence: (what is decided, the cluster: nodes with their CPUs, gangs)
    "1 ps + 6 workers fill two nodes; a gang of 3 comes: workers 5, 4 and 3 leave, the ps and worker 0 never": (
        {"given": {"l": (6, 3)}, "to": "default/h", "places": ["n2"] * 3},
        case("n1:4 n2:3", workers("l", ["n1"] * 3 + ["n2"] * 3, ps="n1"), heavy(3), least=2)),
    "workers without a node cost and free nothing: the shortest prefix whose bound members suffice": (
        {"given": {"l": (6, 3)}},
        case("n1:4", workers("l", ["n1"] * 4 + [None, None]), heavy(1))),
    "the index decides who leaves, even when only the next one's node helps": (
        {"given": {"l": (4, 2)}},
        case("n1:3 n2:2 n3:1", workers("l", ["n1", "n1", "n2", "n1"]), replace(heavy(1, cpu="2"), members=(BIG,)))),
    "the lightest gives first": ({"given": {"a": (3, 2)}, "refused": {"b": "NOT_NEEDED"}},
        case("n1:6", A3, B3, heavy(1))),
    "the fewest workers go, even if a heavier job gives them": ({"given": {"b": (2, 1)}},
        case("n1:5 n2:8", workers("a", ["n1"] * 5), workers("b", ["n2"] * 2, cpu="4", weight=2), heavy(1, cpu="4"))),
    "of equal jobs the one on the node that the gang wants, beside the free one": (
        {"given": {"b": (2, 1)}, "places": ["n2", "n4"]},
        case(
            "n1:2 n2:1 n3:1 n4:1", workers("a", ["n1", "n3"]), workers("b", ["n1", "n4"]), heavy(2),
            network=mesh([f"n{i}" for i in range(1, 5)], bad={"n3": {"delay_ms": 30.0}}),
        )),
    "the budget counts the last hour only": ({"given": {"l": (4, 3)}},
        case("n1:4", FOUR, heavy(1), now_s=5000.0, changes_s=(0.0, 100.0, 4000.0),
             options=replace(GENEROUS, changes_per_hour=2))),
    "a job as heavy as the gang gives if it is the later one": ({"given": {"l": (4, 3)}},
        case("n1:4", workers("l", ["n1"] * 4, weight=9, created_s=50.0), heavy(1, created_s=5.0))),
    "K3: before STARVELIMIT the heavier job keeps its workers": ({"given": {}},
        case("n1:4", workers("l", ["n1"] * 4, weight=10), heavy(1), policy=STARVING, now_s=599.0)),
    "K3: a STARVING gang outranks all that are not": ({"given": {"l": (4, 3)}},
        case("n1:4", workers("l", ["n1"] * 4, weight=10), heavy(1), policy=STARVING, now_s=601.0)),
    "whole plan or nothing: two of the three workers that are needed are not given": (
        {"given": {}, "reason": "NOT_ENOUGH", "to": "default/h"},
        case("n1:4", FOUR, heavy(3), least=2)),
    "an impossible gang does not wait for room; the one behind it does": ({"to": "default/h"},
        case("n1:4", FOUR, waiting("huge", 1, cpu="64", weight=99), heavy(1))),
    "only the first gang that waits is served, and a lighter one behind it is not": (
        {"to": "default/h", "reason": "NOT_ENOUGH"},
        case("n1:4", FOUR, heavy(4), waiting("small", 1, weight=8))),
    "no gang waits": ({"reason": "NOBODY_WAITS"}, case("n1:4", FOUR)),
    "nobody leaves for a gang that asks for what no allocatable shows": ({"given": {}, "reason": "NOBODY_WAITS"},
        case("n1:2", workers("l", ["n1"] * 2), gang("h", 1, role=Role.WORKER, gpu=1, options={"weight": "9"}))),
    "a worker that is being removed is waited for": ({"reason": "ROOM_IS_COMING"},
        case("n1:4", LEAVING, heavy(1), wanted=3)),
    "a worker whose index is not wanted any more is waited for": ({"reason": "ROOM_IS_COMING"},
        case("n1:4", FOUR, heavy(1), wanted=3)),
    "a gang for which others leave is not served twice": ({"reason": "ROOM_IS_COMING"},
        case("n1:4", FOUR, heavy(2), claims={CLAIM.gang: CLAIM})),
    "a job in a zone that the gang may not use keeps its workers": (
        {"given": {"here": (2, 1)}, "refused": {"there": "ELSEWHERE"}},
        case("a1:2 b1:2", workers("here", ["a1"] * 2), workers("there", ["b1"] * 2), heavy(1, options={"zones": "a"}))),
    "the whole gang must fit one zone, so one job gives two": ({"given": {"one": (3, 1)}},
        case("a1:3 b1:3", workers("one", ["a1"] * 3), workers("two", ["b1"] * 3), heavy(2))),
    "a zone that cannot hold the gang is passed over": ({"given": {"two": (3, 1)}, "refused": {"one": "NOT_NEEDED"}},
        case("a1:2 b1:3", workers("one", ["a1"] * 2), workers("two", ["b1"] * 3), heavy(2))),
    "a gang that may be spread is served over zones, after its wait": ({"given": {"one": (2, 1), "two": (2, 1)}},
        case("a1:2 b1:2", workers("one", ["a1"] * 2), workers("two", ["b1"] * 2),
             heavy(2, options={"zone-policy": "preferred"}))),
    "a job that does not run frees nothing": ({"given": {"l": (2, 1)}, "refused": {"idle": "NOT_RUNNING"}},
        case("n1:2", waiting("idle", 2), workers("l", ["n1"] * 2), heavy(1),
             jobs=[elastic(waiting("idle", 2)), elastic(workers("l", ["n1"] * 2))])),
    "a job on a node that is gone frees nothing, nor do its pods that are being removed": (
        {"given": {"a": (2, 1)}, "refused": {"b": "ELSEWHERE"}},
        case("n1:2", workers("a", ["n1"] * 2), GONE, with_members(workers("ends", ["gone"]), deleting=True), heavy(1),
             jobs=[elastic(workers("a", ["n1"] * 2)), elastic(GONE)])),
    "the lighter job gives, though a heavier one runs": ({"given": {"l": (2, 1)}, "refused": {"big": "NOT_LIGHTER"}},
        case("n1:4", workers("l", ["n1"] * 2), workers("big", ["n1"] * 2, weight=10), heavy(1))),
    "ω′ = w_min / (cpu + mem): two small workers outweigh a job that needs one large one": ({"given": {"l": (3, 2)}},
        case("n1:4 n2:2", LARGE, gang("h", 2, role=Role.WORKER, created_s=5.0), policy=PLAIN)),
    "ω′: one large worker does not": ({"given": {}, "refused": {"l": "NOT_LIGHTER"}},
        case("n1:4 n2:2", LARGE, gang("h", 1, role=Role.WORKER, cpu="2", created_s=5.0), policy=PLAIN)),
    "members that compete for a node: by counting two CPUs would do, together they need four": (
        {"given": {"l": (5, 1)}},
        case("n1:5", workers("l", ["n1"] * 5), COMPETE)),
    "the same with several jobs": ({"given": {f"l{i}": (2, 1) for i in range(4)}},
        case("n1:8", *PAIRS, COMPETE)),
    "what turns out not to help is not taken: the lightest job's worker, alone on its node": (
        {"given": {"b": (2, 1), "c": (2, 1)}, "refused": {"a": "NOT_NEEDED"}},
        case("n0:3 n1:1 n2:2", *ABC, heavy(1, cpu="2"))),
    "jobs whose ps has failed talk to no server: their links decide nothing": ({"given": {"a": (2, 1)}},
        case("n1:4 n2:0", *NO_PS, heavy(1), network=mesh(["n1"]))),
}  # fmt: skip


@pytest.mark.parametrize(("want", "decision"), GIVEN.values(), ids=GIVEN)
def test_scale_in(want: dict[str, Any], decision: partial[Scaling]) -> None:
    found = summary(decision())
    assert {name: found[name] for name in want} == want


LIKE_WEIGHT = {  # what tells two jobs of equal weight apart, their worker 1 on n2: (a's ps, b's ps, bad node, who)
    "its worker is not beside its own ps": ("n2", "n1", None, "b"),
    "its worker is badly connected": ("n1", "n3", "n3", "b"),
    "nothing: by name": ("n1", "n1", None, "a"),
}


@pytest.mark.parametrize(("a_ps", "b_ps", "bad", "who"), LIKE_WEIGHT.values(), ids=LIKE_WEIGHT)
def test_among_jobs_of_like_weight(a_ps: str, b_ps: str, bad: str | None, who: str) -> None:
    """The one gives whose highest worker is away from its own ps, then whose is worth least where it is."""
    one, two = (workers(name, ["n1", "n2"], ps=ps) for name, ps in (("a", a_ps), ("b", b_ps)))
    names = ("n1", "n2", "n3")
    counts = (sum(p.node == name for p in (*one.members, *two.members)) for name in names)
    nodes = " ".join(f"{name}:{count}" for name, count in zip(names, counts, strict=True))
    links = mesh(names, bad={bad: {"delay_ms": 30.0}} if bad else None)
    found = summary(decide(nodes, one, two, heavy(1), network=links))
    assert (found["given"], found["places"]) == ({who: (2, 1)}, ["n2"])


REFUSED = {  # reason: (job's fields, job's weight and priority, options)
    "UNSAFE": ({"refusal": "spec.enableDynamicWorker is not true"}, {}, {}),
    "AT_MINIMUM": ({"least": 4}, {}, {}),
    "COOL_DOWN": ({"changed_s": 990.0}, {}, {"cool_down_s": 60.0}),
    "OVER_BUDGET": ({"changes_s": (100.0, 200.0)}, {}, {"changes_per_hour": 2}),
    "NOT_LIGHTER": ({}, {"weight": 10}, {}),
    "NOT_LIGHTER: as heavy and earlier": ({}, {"weight": 9}, {}),
    "RESIZING": ({"wanted": 3}, {}, {}),
    "HIGHER_PRIORITY": ({}, {"priority": 5}, {}),
}


@pytest.mark.parametrize(("case", "fields", "weight", "options"), [(name, *one) for name, one in REFUSED.items()])
def test_jobs_that_give_nothing(
    case: str, fields: dict[str, Any], weight: dict[str, Any], options: dict[str, Any]
) -> None:
    light = workers("l", ["n1"] * 4, **weight)
    found = summary(decide("n1:4", light, heavy(2, created_s=5.0), options=replace(GENEROUS, **options), **fields))
    assert (found["given"], found["refused"], found["reason"]) == ({}, {"l": case.partition(":")[0]}, "NO_JOB")


def test_a_gang_ahead_that_would_take_the_room_prevents_the_plan() -> None:
    """A gang ahead that the plan did not know yet would get the room in the next one: no job gives any for it."""
    light, ahead = workers("l", ["n1"] * 2), waiting("ahead", 1, weight=20)
    cluster = snapshot(machines("n1:2"), [light, ahead, heavy(1)])
    stale = plan(replace(cluster, gangs={g.key: g for g in (light, heavy(1))}), TRUSTING, now_s=0.0)
    found = summary(scale_in(cluster, stale, [elastic(light)], TRUSTING, GENEROUS, now_s=0.0, cache=PlannerCache()))
    assert (found["reason"], found["given"], found["refused"]) == ("GIVEN_TO_OTHERS", {}, {"l": "GIVEN_TO_OTHERS"})


@pytest.mark.parametrize(("left_s", "reason"), [(41.0, "STARTS_SOON"), (42.0, None)], ids=["sooner", "later"])
def test_no_job_shrinks_for_a_gang_that_starts_sooner(left_s: float, reason: str | None) -> None:
    """A resize stops a job for 41 s: a start that is promised by then is waited for."""
    running = replace(FOUR, length_s=left_s)
    found = summary(decide("n1:4", running, heavy(1)))
    assert (found["reason"], found["given"]) == (reason, {"l": (4, 3)} if reason is None else {})


def test_a_leader_is_never_taken() -> None:
    """Even an index map that names a ps or a chief by mistake removes none of them."""
    light = workers("l", ["n1", "n1"], ps="n1")
    chief = bound(pod("l-chief-0", gang="l", role=Role.CHIEF, index=7), "n1")
    mixed = replace(light, members=(*light.members, chief))
    job = replace(elastic(mixed), workers=8, max_workers=8, indexes={m.uid: m.index or 0 for m in mixed.members})
    assert {one.role for one in steps_down(job, mixed, most=None)} == {Role.WORKER}


def test_many_jobs_with_pauses_between_them() -> None:
    """Seventy jobs: the decision can be left and taken up again, and is the same; the lightest give."""
    jobs = [workers(f"j{i:02}", ["n1"] * 2, weight=2 if i else 1) for i in range(70)]
    cluster = snapshot([node("n1", cpu="140", pods=300)], [*jobs, heavy(2)])
    made = plan(cluster, TRUSTING, now_s=0.0)
    listed = [elastic(job) for job in jobs]
    found = scale_in(cluster, made, listed, TRUSTING, GENEROUS, now_s=0.0, cache=PlannerCache())
    assert summary(found)["given"] == {"j00": (2, 1), "j01": (2, 1)}
    grown = scale_out(
        cluster, made, [replace(j, max_workers=3) for j in listed], TRUSTING, GENEROUS, now_s=0.0, cache=PlannerCache()
    )
    assert {refusal.reason.name for refusal in grown.refusals} == {"NO_ROOM"}


def test_many_like_jobs_are_cut_short_and_still_minimal() -> None:
    """Twelve jobs, eleven workers needed: the search is bounded, and nothing can be given back from its answer."""
    jobs = [workers(f"j{i:02}", [f"n{i:02}"] * 3) for i in range(12)]
    nodes = " ".join(f"n{i:02}:3" for i in range(12))
    found = decide(nodes, *jobs, heavy(11), options=replace(GENEROUS, decrement=1))
    assert sum(change.removed for change in found.changes) == 11


# -- condition: levels -------------------------------------------------------------------------------------------------

HOUR_S = 3600.0
POLICY = Policy(service=ServicePolicy(wide_share=1.0))
LEVELS = replace(GENEROUS, condition=ElasticCondition.LEVELS, increment=None)
QUAD = workers("four", ["n1"] * 4)
ALIKE = [waiting(f"h{i:02}", 4, weight=9) for i in range(40)]
UNLIKE = [waiting(f"h{i:02}", 4, weight=9, cpu=f"{999 - i}m") for i in range(MOST_KINDS)]


def one_pass(
    cpu: str,
    gangs: list[Gang],
    *jobs: ElasticJob,
    now_s: float = HOUR_S,
    options: Options = LEVELS,
    policy: Policy = POLICY,
    **had_h: float,
) -> tuple[Scaling, Scaling]:
    attained_h = {GangKey(f"default/{name}"): hours for name, hours in had_h.items()}
    cluster = replace(snapshot([node("n1", cpu=cpu)], gangs), attained_h=attained_h)
    made = plan(cluster, policy, now_s=now_s)
    return adjust(cluster, made, jobs, {}, policy, options, now_s=now_s, cache=PlannerCache())


def after(found: tuple[Scaling, Scaling]) -> dict[str, int]:
    return {change.job.name: change.after for one in found for change in one.changes}


CASES: dict[str, tuple[dict[str, int], list[Gang], dict[str, Any]]] = {  # case: (workers then, gangs, how)
    "one that had an hour gives what a new one asks for": ({"four": 2}, [QUAD, waiting("new", 2)], {}),
    "not before it is of a higher level": ({}, [QUAD, waiting("new", 2)], {"now_s": 224.0}),
    "from then on": ({"four": 2}, [QUAD, waiting("new", 2)], {"now_s": 226.0}),
    "not to one of its own level": ({}, [QUAD, waiting("was", 2)], {"was": 1.0}),
    "nor to one of a lower priority": ({}, [workers("four", ["n1"] * 4, priority=5), waiting("new", 2)], {}),
    "all that it asked for, not its minimum alone": ({"four": 1}, [QUAD, gang("new", 3, min_member=1)], {}),
    "or nothing": ({}, [QUAD, gang("new", 4, min_member=1)], {}),
    "for the one behind a gang that cannot be helped": (
        {"four": 3}, [QUAD, waiting("large", 4, weight=9), waiting("new", 1, weight=1)], {}),
    "of many gangs that ask for the same one is tried": ({"four": 3}, [QUAD, *ALIKE, waiting("new", 1, weight=1)], {}),
    "of different ones all but one too many": ({"four": 3}, [QUAD, *UNLIKE[1:], waiting("new", 1, weight=1)], {}),
    "behind too many different ones no gang is served": ({}, [QUAD, *UNLIKE, waiting("new", 1, weight=1)], {}),
    "whatever they weigh": ({"four": 3}, [workers("four", ["n1"] * 4, weight=9), waiting("new", 1, weight=1)], {}),
}  # fmt: skip


@pytest.mark.parametrize(("want", "gangs", "how"), CASES.values(), ids=CASES)
def test_who_shrinks(want: dict[str, int], gangs: list[Gang], how: dict[str, Any]) -> None:
    assert after(one_pass("4", gangs, elastic(gangs[0], least=1), **how)) == want


def test_no_job_shrinks_for_a_wide_gang_before_it_starves_for_a_day() -> None:
    """Of four CPUs a quarter is one."""
    policy = replace(POLICY, service=ServicePolicy())
    found = {
        (size, now_s): one_pass("4", [QUAD, waiting("new", size)], elastic(QUAD, least=1), now_s=now_s, policy=policy)
        for size, now_s in ((1, 500.0), (2, 601.0), (2, 87_001.0))
    }
    assert [after(one) for one in found.values()] == [{"four": 3}, {}, {"four": 2}]
    assert found[2, 601.0][0].reason is No.TOO_WIDE


def test_the_one_that_had_most_shrinks_first() -> None:
    most, less = workers("most", ["n1"] * 2), workers("less", ["n1"] * 2, created_s=1000.0)
    found = one_pass("4", [less, most, waiting("new", 1)], elastic(less), elastic(most))
    assert after(found) == {"most": 1}


def test_jobs_grow_while_no_gang_waits() -> None:
    job = elastic(QUAD, most=8)
    assert after(one_pass("8", [QUAD], job)) == {"four": 8}
    held = one_pass("8", [QUAD, waiting("large", 9)], job)
    assert after(held) == {"four": 8}, "one that no cluster of this size can hold keeps no job small"
    held = one_pass("8", [QUAD, waiting("large", 7, priority=-1)], job)
    assert (after(held), held[1].reason) == ({}, No.GANGS_WAIT)


def test_jobs_grow_by_a_quarter_at_least() -> None:
    five = workers("five", ["n1"] * 5)
    assert after(one_pass("6", [five], elastic(five, most=8))) == {}
    assert after(one_pass("7", [five], elastic(five, most=8))) == {"five": 7}


def test_without_an_increment_jobs_get_back_what_they_gave_and_no_more() -> None:
    """`elastic.increment: 0`; a job that gave nothing keeps its size, and says why."""
    options = replace(LEVELS, increment=0)
    assert after(one_pass("8", [QUAD], elastic(QUAD, most=8, grow_back_to=6), options=options)) == {"four": 6}
    kept = one_pass("8", [QUAD], elastic(QUAD, most=8), options=options)
    assert after(kept) == {}
    assert [(one.reason, one.detail) for one in kept[1].refusals] == [(No.AT_MAXIMUM, "elastic.increment is 0")]


def test_hours_count_worker_by_worker() -> None:
    """A worker that came later has had less, and what leaves takes its hours along."""
    early, late = pod("g-0", gang="g"), pod("g-1", gang="g")
    members = [replace(bound(one, "n1"), scheduled_s=at_s) for one, at_s in ((early, 0.0), (late, 1800.0))]
    cluster = snapshot([node("n1", cpu="2")], [gang("g", members=members)])
    for some, hours in ((members, 0.75), (members[:1], 0.5)):
        assert hours_of(gang("g", members=some), cluster, now_s=HOUR_S) == hours
