"""Scale-in: which running jobs give up how many workers so that the first gang that waits can start (PAPERS K4).

Only for one gang, and only if it then starts: whole plan or nothing. Differences to the published algorithm
(`lab.simulator.kod2_scaling`): the gang is placed for real over the nodes of a zone, not on one node; the fewest
workers go; the highest index goes first, because frameworks let no caller choose.

Steps:
1. The gang: the first in the queue's order that waits for room; with `Condition.LEVELS` the first of all of
   them for which the other steps find a way. With `LEVELS` room is made for all members that it asked for.
2. Nothing is done if others leave for it already, if it is promised a start that is nearer than a resize lasts, or if
   it fits as soon as pods that are going anyway are gone.
3. Jobs that may give up workers (`candidates`), of those the workers on nodes that concern the gang.
4. Their order: lightest first, of equal ones that whose workers are worth least where they are (`cheapest_first`).
5. The fewest workers that make the gang fit, from the first jobs in this order (`fewest_workers`).
6. The planner itself must give the gang its places then: otherwise another gang would have the room.
"""

from collections.abc import Sequence

from scoring.ids import GangKey
from scoring.model import Pod
from scoring.model.policy import Policy
from scoring.model.snapshot import Snapshot
from scoring.plan import Plan, PlannerCache, Run, begin_run
from scoring.plan.queue_order import QueueOrder
from scoring.plan.result import Placed
from scoring.queue.service_levels import is_wide
from scoring.scaling.change import Change, No, Refusal, ScaleIn
from scoring.scaling.job import ElasticJob
from scoring.scaling.options import Condition, Options
from scoring.scaling.shrink.candidates import Candidate, candidates, different, waiting_for_room
from scoring.scaling.shrink.cheapest_first import in_order, near_ones
from scoring.scaling.shrink.fewest_workers import Taken, enough, fewer, gathered
from scoring.scaling.shrink.would_fit import Trial
from scoring.scaling.workers import going


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
    keys = waiting_for_room(plan)
    if options.condition is not Condition.LEVELS:
        keys = keys[:1]
    gangs = tuple(snapshot.gangs[key] for key in keys if key in snapshot.gangs)
    claimed = next((gang.key for gang in gangs if gang.key in snapshot.claims), None)
    if claimed is not None:
        return ScaleIn(claimed, reason=No.ROOM_IS_COMING, detail="others leave for it")
    if len(gangs) > 1:
        gangs = different(begin_run(snapshot, policy, cache), gangs)
    gone = going(snapshot, jobs)
    first: ScaleIn | None = None
    for gang in gangs:
        # A resized job would stand still for longer. A promise that is late has a later start: then jobs do shrink.
        if (wait_s := plan.starts_in_s(gang.key, now_s=now_s)) <= options.metrics.stall_s:
            first = first or ScaleIn(gang.key, reason=No.STARTS_SOON, detail=f"in {wait_s:.0f} s")
            continue
        whole = options.condition is Condition.LEVELS
        trial = Trial(snapshot, plan, gang, policy, now_s=now_s, cache=cache, whole=whole)
        found = _for_one(trial, jobs, options, gone)
        if found.changes or (gone and found.reason is No.ROOM_IS_COMING):
            return found
        first = first or found
    return first or ScaleIn(None, reason=No.NOBODY_WAITS)


def _for_one(trial: Trial, jobs: Sequence[ElasticJob], options: Options, gone: Sequence[Pod]) -> ScaleIn:
    """Steps 2 to 6 for one gang that waits; `gone`: pods that go anyway."""
    run, ask = trial.run, trial.ask
    key = ask.gang.key
    if trial.may_fit(gone) and trial.place(gone) is not None:
        words = f"{len(gone)} pods are going" if gone else "there is room already"
        return ScaleIn(key, reason=No.ROOM_IS_COMING, detail=words)
    turns = QueueOrder(run, now_s=trial.now_s)
    by_level = options.condition is Condition.LEVELS and not turns.starving(ask)
    if by_level and is_wide(ask.gang, run.table, run.policy.service):
        return ScaleIn(key, reason=No.TOO_WIDE)
    able, refusals = candidates(run, jobs, turns, ask, options, now_s=trial.now_s)
    near, elsewhere = near_ones(trial, able)
    refusals = (*refusals, *elsewhere)
    if not near:
        return ScaleIn(key, reason=No.NO_JOB, refusals=_sorted(refusals))
    everything = [*gone, *_pods(near, [len(one.steps) for one in near])]
    perhaps = trial.may_fit(everything)
    best = trial.place(everything) if perhaps else None
    if best is None:
        offered = f"{sum(len(one.steps) for one in near)} workers of {len(near)} jobs at most"
        return ScaleIn(key, reason=No.NOT_ENOUGH, detail=offered, refusals=_sorted(refusals))
    ordered = in_order(run, trial.ahead, near, best)
    taken, placed = _chosen(run, trial, gone, ordered, best)
    made = _answer(key, ordered, taken, placed, refusals)
    after = trial.plan([*gone, *_pods(ordered, taken)])
    if key in after.admitted and placed.nodes.keys() <= after.admitted[key].members.keys():
        return made
    refusals = (*made.refusals, *(Refusal(change.job, No.GIVEN_TO_OTHERS) for change in made.changes))
    return ScaleIn(key, reason=No.GIVEN_TO_OTHERS, refusals=_sorted(refusals))


def _chosen(
    run: Run, trial: Trial, gone: Sequence[Pod], ordered: Sequence[Candidate], best: Placed
) -> tuple[Taken, Placed]:
    """Step 5: steps of each job in this order, and where the gang goes then. `best`: the same with all of them."""

    def gone_with(taken: Taken) -> list[Pod]:
        return [*gone, *_pods(ordered, taken)]

    def passes(taken: Taken) -> Placed | None:
        return trial.place(gone_with(taken))

    limits = [len(one.steps) for one in ordered]
    some = gathered(trial.ledger, gone, [[step.pod for step in one.steps] for one in ordered])
    found: tuple[Taken, Placed] | None = None
    for way in sorted(some, key=lambda taken: (sum(taken), [-number for number in taken])):
        there = passes(way)
        if there is not None:
            found = way, there
            break
    found = found or enough(limits, best, passes)
    return fewer(limits, sum(found[0]), lambda some: trial.may_fit(gone_with(some)), passes) or found


def _answer(
    key: GangKey, ordered: Sequence[Candidate], taken: Taken, placed: Placed, refusals: Sequence[Refusal]
) -> ScaleIn:
    changes: list[Change] = []
    spared: list[Refusal] = []
    for one, number in zip(ordered, taken, strict=True):
        if not number:
            spared.append(Refusal(one.job.key, No.NOT_NEEDED))
            continue
        leaving = [step.pod for step in one.steps[:number]]
        changes.append(
            Change(
                job=one.job.key,
                uid=one.job.uid,
                before=one.job.workers,
                after=one.steps[number - 1].after,
                leaving=tuple(pod.uid for pod in leaving),
                nodes=tuple(pod.node for pod in leaving if pod.node is not None),
            )
        )
    return ScaleIn(key, tuple(changes), placed.nodes, placed.zones, refusals=_sorted((*refusals, *spared)))


def _pods(candidates: Sequence[Candidate], taken: Sequence[int]) -> list[Pod]:
    return [step.pod for one, number in zip(candidates, taken, strict=True) for step in one.steps[:number]]


def _sorted(refusals: Sequence[Refusal]) -> tuple[Refusal, ...]:
    return tuple(sorted(refusals, key=lambda one: one.job))
