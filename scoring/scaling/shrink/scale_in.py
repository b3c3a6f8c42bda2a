"""Scale-in: which running jobs give up how many workers so that the first gang that waits can start (PAPERS K4).

Only for one gang, and only if it then starts: whole plan or nothing. Differences to the published algorithm
(`lab.simulator.kod2_scaling`): the gang is placed for real over the nodes of a zone, not on one node; the fewest
workers go; the highest index goes first, because frameworks let no caller choose.

Steps:
1. The gang: the first in the queue's order that waits for room; with `Condition.LEVELS` the first of all of them for
   which the other steps find a way: of those that ask for the same only the first is tried, and at most `MOST_KINDS`.
   With `LEVELS` room is made for all members that it asked for.
2. Nothing is done if others leave for it already, if it is promised a start that is nearer than a resize lasts, or if
   it fits as soon as pods that are going anyway are gone.
3. Jobs that may give up workers (`_givers`), of those the workers on nodes that concern the gang (`_near`). A job must
   be lighter (ω′) than the gang, or as heavy and entered later, and must not have a higher priority; for a STARVING
   gang (PAPERS K3) weights do not count. With `LEVELS` it must have a higher service level.
4. Their order (`_in_order`): lowest priority first, then the lightest (with `LEVELS` those that have had most), then
   the job whose highest workers are worth least where they are, then by name. Worth, from the highest index down, as
   they leave: first those on nodes that the beneficiary would go to if it could choose; then those that share no node
   with a ps or chief of their own (PAPERS K4); then the worst linked.
5. The fewest workers that make the gang fit, from the first jobs in this order (`fewest_workers`).
6. The planner itself must give the gang its places then: otherwise another gang would have the room.
"""

from collections.abc import Iterable, Sequence
from typing import Any, Final

import msgspec
from msgspec.structs import replace

from scoring.ids import NodeName
from scoring.model import Gang, Pod, Role
from scoring.model.policy import Policy
from scoring.model.snapshot import Snapshot
from scoring.plan import Plan, PlannerCache, Run, begin_run
from scoring.plan import plan as planned
from scoring.plan.demand import GangDemand, whole_of
from scoring.plan.placement import kind_of
from scoring.plan.queue_order import QueueOrder
from scoring.plan.result import WANTS_ROOM, Placed
from scoring.preempt.cluster_without import Without
from scoring.queue.service_levels import hours_of, is_wide, level, level_of_waiting
from scoring.scaling.change import Change, No, Refusal, ScaleIn, by_job, resizable
from scoring.scaling.job import Condition, ElasticJob, Options, going, steps_down
from scoring.scaling.shrink.fewest_workers import Taken, enough, fewer, gathered
from scoring.selection.demand import pairs_count

MOST_KINDS: Final = 16  # Different gangs for which room is looked for in one pass: each costs a look at all jobs


class Giver(msgspec.Struct, frozen=True):
    """A job that may give up workers, with its gang and what it can give up, highest index first."""

    job: ElasticJob
    gang: Gang
    weight: tuple[Any, ...]  # Smaller is heavier; with `Condition.LEVELS` the cluster-hours that it has had
    pods: list[Pod]


def scale_in(
    snapshot: Snapshot,
    plan: Plan,
    jobs: Sequence[ElasticJob],
    policy: Policy,
    options: Options,
    *,
    now_s: float,
    cache: PlannerCache | None = None,
) -> ScaleIn:
    """The jobs that give up workers for the first gang that waits, or why none does.

    `plan` is the plan of this snapshot, `now_s` Unix time. Cost: some
    placements of one gang, at most about fifty, and one run of the planner where workers go.

    >>> from scoring.plan import plan
    >>> from tests.builders import node, snapshot
    >>> from tests.scoring.scaling.cases import TRUSTING, elastic, waiting, workers
    >>> light = workers("light", ["n1", "n1", "n2", "n2"], ps="n1", cpu="2")
    >>> cluster = snapshot([node("n1", cpu="6"), node("n2", cpu="4")], [light, waiting("heavy", 1, cpu="2", weight=9)])
    >>> made = plan(cluster, policy := TRUSTING, now_s=0.0)
    >>> found = scale_in(cluster, made, [elastic(light, least=1)], policy, Options(), now_s=0.0)
    >>> found.beneficiary, [(str(c.job), c.before, c.after) for c in found.changes], dict(found.places)
    ('default/heavy', [('TFJob.kubeflow.org/default/light', 4, 3)], {'uid-default-heavy-0': 'n2'})
    """
    cache = cache if cache is not None else PlannerCache()
    if not options.enabled:
        return ScaleIn(None, reason=No.DISABLED)
    waiting = sorted((one.rank, one.gang) for one in plan.waiting.values() if one.reason in WANTS_ROOM)
    keys = [key for _, key in waiting[: None if options.condition is Condition.LEVELS else 1]]
    gangs = [snapshot.gangs[key] for key in keys if key in snapshot.gangs]
    claimed = next((gang.key for gang in gangs if gang.key in snapshot.claims), None)
    if claimed is not None:
        return ScaleIn(claimed, reason=No.ROOM_IS_COMING, detail="others leave for it")
    if len(gangs) > 1:
        kinds: dict[object, Gang] = {}  # The first of each
        run = begin_run(snapshot, policy, cache)
        for gang in gangs:
            kinds.setdefault((id(kind_of(run, run.view.demand(gang))), gang.priority), gang)
        gangs = list(kinds.values())[:MOST_KINDS]
    gone = going(snapshot, jobs)
    first: ScaleIn | None = None
    for gang in gangs:
        # A resized job would stand still for longer. A promise that is late has a later start: then jobs do shrink.
        if (wait_s := plan.starts_in_s(gang.key, now_s=now_s)) <= options.metrics.stall_s:
            first = first or ScaleIn(gang.key, reason=No.STARTS_SOON, detail=f"in {wait_s:.0f} s")
            continue
        whole = options.condition is Condition.LEVELS
        without = without_workers(snapshot, plan, gang, policy, now_s=now_s, cache=cache, leaving=gone, whole=whole)
        found = _for_one(without, plan, jobs, options, going=len(gone))
        if found.changes or (gone and found.reason is No.ROOM_IS_COMING):
            return found
        first = first or found
    return first or ScaleIn(None, reason=No.NOBODY_WAITS)


def without_workers(
    snapshot: Snapshot,
    plan: Plan,
    gang: Gang,
    policy: Policy,
    *,
    now_s: float,
    cache: PlannerCache,
    leaving: Sequence[Pod] = (),
    whole: bool = False,
) -> Without:
    """What the gang would find without some workers, beside what gangs before it in the queue are given.

    `leaving` go anyway. `whole`: all members that the gang asks for must fit, not its minimum alone.
    """
    ask, waiting = cache.demands.of(gang, policy, snapshot.table.index), plan.waiting.get(gang.key)
    ahead = [one for one in plan.admitted.values() if waiting is not None and one.rank < waiting.rank]
    ask = whole_of(ask) if whole else ask
    return Without(snapshot, policy, ask, cache, now_s=now_s, planned=ahead, leaving=leaving)


def _for_one(without: Without, plan: Plan, jobs: Sequence[ElasticJob], options: Options, *, going: int) -> ScaleIn:
    """Steps 2 to 6 for one gang that waits; `going`: number of pods that go anyway."""
    run, ask, now_s = without.run, without.ask, without.now_s
    key = ask.gang.key
    if without.may_fit(()) and without.place(()) is not None:
        words = f"{going} pods are going" if going else "there is room already"
        return ScaleIn(key, reason=No.ROOM_IS_COMING, detail=words)
    turns = QueueOrder(run, now_s=now_s)
    by_level = options.condition is Condition.LEVELS and not turns.starving(ask)
    if by_level and is_wide(ask.gang, run.table, run.policy.service):
        return ScaleIn(key, reason=No.TOO_WIDE)
    able, refusals = _givers(run, jobs, turns, ask, options, now_s=now_s)
    near, elsewhere = _near(without, able)
    refusals += elsewhere
    if not near:
        return ScaleIn(key, reason=No.NO_JOB, refusals=by_job(refusals))
    everything = _pods(near, [len(one.pods) for one in near])
    best = without.place(everything) if without.may_fit(everything) else None
    if best is None:
        offered = f"{len(everything)} workers of {len(near)} jobs at most"
        return ScaleIn(key, reason=No.NOT_ENOUGH, detail=offered, refusals=by_job(refusals))
    ordered = _in_order(run, near, best)
    taken, placed = _chosen(without, ordered, best)
    some = [(one.job, one.pods[:number]) for one, number in zip(ordered, taken, strict=True)]
    refusals += [Refusal(job.key, No.NOT_NEEDED) for job, pods in some if not pods]
    then = run.snapshot.without(_pods(ordered, taken))
    after = planned(then, run.policy, now_s=now_s, previous=plan, cache=run.cache)
    if key in after.admitted and placed.nodes.keys() <= after.admitted[key].members.keys():
        changes = [Change.down(job, job.indexes[pods[-1].uid], pods) for job, pods in some if pods]
        return ScaleIn(key, tuple(changes), placed.nodes, placed.zones, refusals=by_job(refusals))
    refusals += [Refusal(job.key, No.GIVEN_TO_OTHERS) for job, pods in some if pods]
    return ScaleIn(key, reason=No.GIVEN_TO_OTHERS, refusals=by_job(refusals))


def _chosen(without: Without, ordered: Sequence[Giver], best: Placed) -> tuple[Taken, Placed]:
    """Step 5: steps of each job in this order, and where the gang goes then. `best`: the same with all of them."""

    def passes(taken: Taken) -> Placed | None:
        return without.place(_pods(ordered, taken))

    limits = [len(one.pods) for one in ordered]
    some = gathered(without, [one.pods for one in ordered])
    ways = sorted(some, key=lambda taken: (sum(taken), [-number for number in taken]))
    by_counting = ((way, there) for way in ways if (there := passes(way)) is not None)
    found = next(by_counting, None) or enough(limits, best, passes)
    return fewer(limits, sum(found[0]), lambda taken: without.may_fit(_pods(ordered, taken)), passes) or found


def _pods(givers: Sequence[Giver], taken: Sequence[int]) -> list[Pod]:
    return [pod for one, number in zip(givers, taken, strict=True) for pod in one.pods[:number]]


def _givers(
    run: Run, jobs: Iterable[ElasticJob], turns: QueueOrder, ask: GangDemand, options: Options, *, now_s: float
) -> tuple[list[Giver], list[Refusal]]:
    """Jobs that may give up workers for the gang of `ask`, and those that may not. Cost: O(members of their gangs)."""
    found: list[Giver] = []
    refused: list[Refusal] = []
    total = run.table.allocatable.sum(axis=0) if options.condition is Condition.LEVELS else None
    for job in sorted(jobs, key=lambda one: one.key):
        if job.gang == ask.gang.key:
            continue
        gang = run.snapshot.gangs.get(job.gang)
        refusal = resizable(job, gang, options, now_s=now_s)
        if refusal is None and gang is not None:
            hours = hours_of(gang, run.snapshot, now_s=now_s, total=total) if total is not None else 0.0
            refusal = _outranks(job, gang, run, turns, ask, options, hours)
            pods = steps_down(job, gang, most=options.decrement)
            if refusal is None and pods:
                weight = (hours,) if total is not None else turns.weight(run.view.demand(gang)).key
                found.append(Giver(job, gang, weight, pods))
                continue
        refused.append(refusal or Refusal(job.key, No.AT_MINIMUM, f"{job.workers} workers, at least {job.floor}"))
    return found, refused


def _outranks(
    job: ElasticJob, gang: Gang, run: Run, turns: QueueOrder, ask: GangDemand, options: Options, hours: float
) -> Refusal | None:
    """Why the job need not shrink for the gang of `ask`; `hours`: cluster-hours that it has had, for `LEVELS`."""
    if gang.priority > ask.gang.priority:
        return Refusal(job.key, No.HIGHER_PRIORITY, f"{gang.priority} and {ask.gang.priority}")
    if options.condition is Condition.LEVELS:
        service = run.policy.service
        had, asks = level(hours, service), level_of_waiting(ask.gang.key, run.snapshot, service)
        return None if had > asks else Refusal(job.key, No.NOT_ABOVE, f"level {had}, the gang's {asks}")
    mine, its = (turns.weight(run.view.demand(one)) for one in (ask.gang, gang))
    if turns.starving(ask) or (mine.key, ask.gang.created_s, ask.gang.key) < (its.key, gang.created_s, gang.key):
        return None
    return Refusal(job.key, No.NOT_LIGHTER, f"ω′ {its.omega_prime:.6g}, the gang's {mine.omega_prime:.6g}")


def _near(without: Without, able: Sequence[Giver]) -> tuple[list[Giver], list[Refusal]]:
    """Each job's workers down to the last on a node that concerns the gang; jobs without any are refused."""
    near: list[Giver] = []
    refused: list[Refusal] = []
    for one in able:
        rows = [without.row(pod) for pod in one.pods]
        last = max((n for n, row in enumerate(rows, start=1) if row is not None and without.reached[row]), default=0)
        if last:
            near.append(replace(one, pods=one.pods[:last]))
        else:
            refused.append(Refusal(one.job.key, No.ELSEWHERE))
    return near, refused


def _in_order(run: Run, near: Sequence[Giver], best: Placed) -> list[Giver]:
    """Step 4: which job gives first; `best`: where the gang would go if it could choose."""
    wanted = frozenset(best.nodes.values())

    def worth(one: Giver) -> tuple[Any, ...]:
        leaders = {pod.node for pod in one.gang.placed if pod.role in (Role.PS, Role.CHIEF)}
        nodes = [pod.node for pod in one.pods if pod.node is not None]
        points = link_points(run, one.gang, nodes)
        return tuple((node not in wanted, node in leaders, points.get(node, 0.0)) for node in nodes), one.job.key

    ordered = sorted(near, key=worth)
    ordered.sort(key=lambda one: one.weight, reverse=True)  # A smaller key is a heavier job; equal ones stay in order
    ordered.sort(key=lambda one: one.gang.priority)
    return ordered


def link_points(run: Run, gang: Gang, nodes: Sequence[NodeName]) -> dict[NodeName, float]:
    """Node → mean points to the placed members a worker there exchanges data with, rounded: equal ones tie."""
    all_reduce = not any(pod.role is Role.PS for pod in gang.members)
    index = run.table.index
    ends = tuple(
        sorted(
            pod.node
            for pod in gang.placed
            if pod.node is not None and pod.node in index and pairs_count(Role.WORKER, pod.role, all_reduce=all_reduce)
        )
    )
    names = tuple(sorted({node for node in nodes if node in index}))
    if not ends or not names:
        return {}
    points = run.scores.toward(names, ends, run.view.score(run.view.demand(gang))).points.mean(axis=1)
    return {node: round(float(value), 6) for node, value in zip(names, points, strict=True)}
