"""What holds of scaling for any cluster: whole plans, bounds, fewest workers, the way back, equal answers."""

from collections.abc import Iterable
from functools import partial
from itertools import product

from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from scoring import GangKey, NodeName
from scoring.model import Gang, Phase, Pod, Role
from scoring.model.policy import ServicePolicy
from scoring.model.snapshot import Snapshot
from scoring.plan import Plan, PlannerCache, plan
from scoring.queue.weights import hours_of, level
from scoring.scaling.grow import adjust, scale_out
from scoring.scaling.job import Change, ElasticCondition, ElasticJob, No, Options, Scaling, newcomers, steps_down
from scoring.scaling.shrink import scale_in
from tests.builders import node, snapshot
from tests.scoring.scaling.cases import TRUSTING, elastic, waiting, workers

POLICY = replace(TRUSTING, service=ServicePolicy(thresholds_h=(5e-4,), wide_share=1.0))
"""Of jobs that have run for ten seconds some are of a higher level than those that wait"""
FREE = Options(decrement=None, increment=None, cool_down_s=0.0, changes_per_hour=None)
NODES = ("a1", "a2", "b1")
CPU = {"a1": 4, "a2": 3, "b1": 3}


@st.composite
def clusters(draw: st.DrawFn) -> tuple[Snapshot, list[ElasticJob]]:
    """Three nodes in two zones, up to three jobs that run in one zone each, and one or two gangs that wait."""
    left = dict(CPU)
    gangs: list[Gang] = []
    jobs: list[ElasticJob] = []
    for number in range(draw(st.integers(1, 3))):
        zone = draw(st.sampled_from("ab"))
        cpu = draw(st.integers(1, 2))
        open_nodes = [name for name in NODES if name[0] == zone]
        where: list[str | None] = []
        ps = next((name for name in open_nodes if left[name] >= cpu), None) if draw(st.booleans()) else None
        if ps is not None:
            left[ps] -= cpu
        for _ in range(draw(st.integers(2, 5))):
            name = draw(st.sampled_from([*open_nodes, None]))
            name = name if name is not None and left[name] >= cpu else None
            if name is not None:
                left[name] -= cpu
            where.append(name)
        weight, created_s = draw(st.integers(1, 2)), float(draw(st.integers(0, 2)))
        gang = workers(f"j{number}", where, ps=ps, cpu=str(cpu), weight=weight, created_s=created_s)
        least = draw(st.integers(0, max(len(where) - 1, 0)))
        jobs.append(elastic(gang, least=least, most=len(where) + draw(st.integers(0, 3))))
        gangs.append(gang)
    for number in range(draw(st.integers(0, 2) if draw(st.booleans()) else st.just(1))):
        size, cpu, weight = draw(st.integers(1, 4)), draw(st.integers(1, 3)), draw(st.integers(2, 9))
        gangs.append(waiting(f"w{number}", size, cpu=str(cpu), weight=weight, created_s=1.0))
    return snapshot([node(name, cpu=str(CPU[name]), zone=name[0]) for name in NODES], gangs), jobs


counts, conditions = st.sampled_from([None, 1, 2]), st.sampled_from(ElasticCondition)
options_of = st.builds(replace, st.just(FREE), decrement=counts, increment=counts | st.just(0), condition=conditions)


def decided(cluster: Snapshot, jobs: list[ElasticJob], options: Options) -> Scaling:
    made = plan(cluster, POLICY, now_s=10.0)
    return scale_in(cluster, made, jobs, POLICY, options, now_s=10.0, cache=PlannerCache())


def bound_workers(cluster: Snapshot, job: ElasticJob, *, least: int) -> list[Pod]:
    """Those with a node whose index is `least` or above: the pods that leave when so many are wanted."""
    members = cluster.gangs[job.gang].members
    return [pod for pod in members if pod.node is not None and job.indexes.get(pod.uid, -1) >= least]


def without_workers(cluster: Snapshot, ends: Iterable[tuple[ElasticJob, int]]) -> Snapshot:
    """Without those whose index is this or above."""
    gone = {uid for job, after in ends for uid, index in job.indexes.items() if index >= after}
    gangs = cluster.gangs.values()
    left = [replace(gang, members=tuple(p for p in gang.members if p.uid not in gone)) for gang in gangs]
    leaving = [p for gang in gangs for p in gang.members if p.uid in gone]
    return replace(cluster.without(leaving), gangs={gang.key: gang for gang in left})


@given(clusters(), options_of)
def test_a_plan_is_whole_and_within_bounds(made: tuple[Snapshot, list[ElasticJob]], options: Options) -> None:
    """No ps; never below the minimum; from the top; and then the gang starts."""
    cluster, jobs = made
    found = decided(cluster, jobs, options)
    by_key = {job.key: job for job in jobs}
    assert bool(found.changes) == (found.reason is None)
    for change in found.changes:
        job = by_key[change.job]
        assert job.min_workers <= change.after < change.before == job.workers
        leaving = bound_workers(cluster, job, least=change.after)
        assert {pod.role for pod in leaving} == {Role.WORKER}
        assert min(job.indexes[pod.uid] for pod in leaving) == change.after, (
            "the prefix ends with a worker that has a node"
        )
        assert options.decrement is None or len(leaving) <= options.decrement
    if found.changes:
        then = without_workers(cluster, [(by_key[change.job], change.after) for change in found.changes])
        before = plan(cluster, POLICY, now_s=10.0)
        assert found.beneficiary in before.waiting
        assert found.beneficiary in plan(then, POLICY, now_s=10.0, previous=before).admitted


@given(clusters(), options_of)
def test_no_plan_removes_fewer(made: tuple[Snapshot, list[ElasticJob]], options: Options) -> None:
    """By trying all ways: no way with fewer workers lets the gang start; and where none is found, there is none.

    Gangs ahead keep the places that the plan has given them. With `levels` all members start that wait.
    """
    cluster, jobs = made
    found = decided(cluster, jobs, options)
    if found.beneficiary is None or found.reason not in (None, No.NOT_ENOUGH):
        return
    whole = options.condition is ElasticCondition.LEVELS
    start = {pod.uid for pod in cluster.gangs[found.beneficiary].members if whole and pod.node is None}
    refused = {refusal.job for refusal in found.refusals if refusal.reason is not No.NOT_NEEDED}
    able = [job for job in jobs if job.key not in refused and job.gang != found.beneficiary]
    steps = [steps_down(job, cluster.gangs[job.gang], most=options.decrement) for job in able]
    best: int | None = None
    planned = plan(cluster, POLICY, now_s=10.0)
    for taken in product(*(range(len(one) + 1) for one in steps)):
        removed = sum(taken)
        if best is not None and removed >= best:
            continue
        some = ((job, one[number - 1]) for job, one, number in zip(able, steps, taken, strict=True) if number)
        ends = [(job, job.indexes[last.uid]) for job, last in some]
        then = plan(without_workers(cluster, ends), POLICY, now_s=10.0, previous=planned)
        admitted = then.admitted.get(found.beneficiary)
        best = removed if admitted is not None and start <= admitted.members.keys() else best
    by_key = {job.key: job for job in jobs}
    left = [bound_workers(cluster, by_key[one.job], least=one.after) for one in found.changes]
    assert best == (sum(map(len, left)) if found.reason is None else None)


@given(clusters(), options_of, st.data())
def test_the_same_snapshot_gives_the_same_answer(
    made: tuple[Snapshot, list[ElasticJob]], options: Options, data: st.DataObject
) -> None:
    """Whatever the order in which the jobs are named."""
    cluster, jobs = made
    planned = plan(cluster, POLICY, now_s=10.0)
    decide = partial(adjust, cluster, planned, demands={}, policy=POLICY, options=options, now_s=10.0)
    assert decide(jobs, cache=PlannerCache()) == decide(data.draw(st.permutations(jobs)), cache=PlannerCache())


@given(clusters(), options_of)
def test_growth_stays_within_bounds_and_takes_nothing_from_gangs(
    made: tuple[Snapshot, list[ElasticJob]], options: Options
) -> None:
    cluster, jobs = made
    planned = plan(cluster, POLICY, now_s=10.0)
    found = scale_out(cluster, planned, jobs, POLICY, options, now_s=10.0, cache=PlannerCache())
    by_key = {job.key: job for job in jobs}
    used = cluster.used.copy()
    for change in found.changes:
        job = by_key[change.job]
        gang = cluster.gangs[job.gang]
        assert job.workers == change.before < change.after <= job.max_workers
        assert len(change.nodes) == change.after - change.before
        assert options.increment is None or len(change.nodes) <= options.increment
        request = cluster.table.vector(next(p for p in gang.members if p.role is Role.WORKER).requests)
        zone = {cluster.table.nodes[cluster.table.index[p.node]].zone for p in gang.members if p.node is not None}
        for name in change.nodes:
            used[cluster.table.index[name]] += request
            assert cluster.table.nodes[cluster.table.index[name]].zone in zone
    assert (used <= cluster.table.allocatable).all()
    assert plan(replace(cluster, used=used), POLICY, now_s=10.0).admitted.keys() >= {
        key for key, one in planned.admitted.items() if key not in {job.gang for job in jobs}
    }


# -- pass after pass ---------------------------------------------------------------------------------------------------

MOST_PASSES = 40


class Cluster:
    def __init__(self, start: Snapshot, jobs: list[ElasticJob]) -> None:
        self.nodes = start.table.nodes
        self.gangs = dict(start.gangs)
        self.jobs = {job.key: job for job in jobs}
        self.plan: Plan | None = None

    @property
    def snapshot(self) -> Snapshot:
        return snapshot(self.nodes, self.gangs.values())

    def pass_once(self, options: Options) -> None:
        self.plan = plan(self.snapshot, POLICY, now_s=10.0, previous=self.plan)
        jobs, cache = list(self.jobs.values()), PlannerCache()
        found = adjust(self.snapshot, self.plan, jobs, {}, POLICY, options, now_s=10.0, cache=cache)
        for key, admission in self.plan.admitted.items():
            at = admission.members
            members = self.gangs[key].members
            self._set(key, [replace(p, node=at[p.uid], phase=Phase.RUNNING) if p.uid in at else p for p in members])
        for change in (*found[0].changes, *found[1].changes):
            self._carry_out(change)

    def rest(self, options: Options) -> None:
        """Pass after pass until one changes nothing; AssertionError if that never comes, or bounds do not hold."""
        for _ in range(MOST_PASSES):
            before = {key: gang.members for key, gang in self.gangs.items()}
            self.pass_once(options)
            now = self.snapshot
            assert (now.used <= now.table.allocatable).all()
            assert all(job.min_workers <= job.workers <= job.max_workers for job in self.jobs.values())
            if before == {key: gang.members for key, gang in self.gangs.items()}:
                return
        raise AssertionError("it goes on and on")

    def _carry_out(self, change: Change) -> None:
        job = self.jobs[change.job]
        gang = self.gangs[job.gang]
        gone = {uid for uid, index in job.indexes.items() if index >= change.after}
        members = [p for p in gang.members if p.uid not in gone]
        new = newcomers(job, gang, first=change.before, number=max(-change.removed, 0), zone_label="zone")
        if change.removed < 0:
            places = zip(new, change.nodes, strict=True)
            members += [replace(p, node=NodeName(node), phase=Phase.RUNNING) for p, node in places]
        self._set(job.gang, members)
        indexes = {p.uid: p.index for p in members if p.role is Role.WORKER and p.index is not None}
        debt = job.grow_back_to if job.grow_back_to is not None else change.before
        back = debt if change.after < debt else None
        self.jobs[change.job] = replace(job, workers=change.after, indexes=indexes, grow_back_to=back)

    def _set(self, key: GangKey, members: list[Pod]) -> None:
        self.gangs[key] = replace(self.gangs[key], members=tuple(members))


@given(clusters(), options_of)
def test_everything_comes_to_rest(made: tuple[Snapshot, list[ElasticJob]], options: Options) -> None:
    """No job is shrunk and grown without end; room is never given twice; bounds hold all the way."""
    Cluster(*made).rest(options)


@given(clusters(), options_of, st.data())
def test_when_the_beneficiary_ends_everybody_is_as_before(
    made: tuple[Snapshot, list[ElasticJob]], options: Options, data: st.DataObject
) -> None:
    """At rest, somebody comes, is made room for, and ends: nobody who gave up workers is left with fewer.

    But by less than a quarter with `levels`, where no job grows by less.
    """
    start, jobs = made
    cluster, levels = Cluster(start, jobs), options.condition is ElasticCondition.LEVELS
    cluster.rest(options)
    givers = [job for job in cluster.jobs.values() if steps_down(job, cluster.gangs[job.gang], most=None)]
    if levels:
        had_h = {job.key: hours_of(cluster.gangs[job.gang], cluster.snapshot, now_s=10.0) for job in givers}
        givers = [job for job in givers if level(had_h[job.key], POLICY.service)]
    if not givers or cluster.plan is None or cluster.plan.waiting:
        return
    sizes = {key: job.workers for key, job in cluster.jobs.items()}
    giver = data.draw(st.sampled_from(sorted(givers, key=lambda job: job.key)))
    worker = next(p for p in cluster.gangs[giver.gang].members if p.role is Role.WORKER)
    cpu = f"{start.table.vector(worker.requests)[0]}m"
    newcomer = waiting("late", 1, cpu=cpu, weight=99, created_s=5.0)
    cluster.gangs[newcomer.key] = newcomer
    cluster.rest(options)
    assert newcomer.key not in cluster.plan.waiting, "a worker's room is enough for it"
    del cluster.gangs[newcomer.key]
    cluster.rest(options)
    left = {key: job.workers for key, job in cluster.jobs.items()}
    assert left == sizes or (levels and all(sizes[key] < 1.25 * left[key] for key in sizes))
