"""Scale-in: which running jobs give up how many workers so that the first gang that waits can start (PAPERS K4, S18).

Only for that gang, and only if it then starts: whole plan or nothing. Differences to the published algorithm, which is
in `scoring.scaling.literal`: the gang is placed for real over the nodes of a zone, not on one node; the fewest workers
go; the highest index goes first, because frameworks let nobody choose.

Steps:
1. The gang: the first in the queue's order that waits for room.
2. Nothing is done if others leave for it already, or if it fits as soon as pods that are going anyway are gone.
3. Jobs that may give up workers (`eligible`), of those the workers on nodes that concern the gang.
4. Their order: lightest first; of equal weight the one whose highest workers are worth least where they are (`worth`).
5. The fewest workers that make the gang fit, from the first jobs in this order (`fewest`).
6. The planner itself must give the gang its places then: otherwise another gang would have the room.
"""

from collections.abc import Sequence
from dataclasses import replace

from scoring.ids import GangKey
from scoring.model import Pod
from scoring.plan import Admission, Memo, Plan, plan_in_steps, take_admissions, take_commitments
from scoring.plan.ask import Ask
from scoring.plan.outcome import Placed
from scoring.plan.run import Run
from scoring.plan.steps import Steps, finish
from scoring.plan.turns import Turns
from scoring.policy import Policy
from scoring.scaling.change import Change, Refusal, ScaleIn
from scoring.scaling.eligible import JOBS_A_STEP, Candidate, candidates, weight_key
from scoring.scaling.fewest import Taken, enough, fewer, gathered
from scoring.scaling.job import ElasticJob
from scoring.scaling.leaving import going
from scoring.scaling.options import Condition, Options
from scoring.scaling.reasons import No
from scoring.scaling.trial import WANTS_ROOM, Trial, in_turn
from scoring.scaling.worth import worth_of
from scoring.snapshot import Snapshot

_WORTHS_A_STEP = 4
"""Jobs whose links are looked at between two moments to pause: up to 2 ms each where the network data are new."""


def scale_in(
    snapshot: Snapshot,
    plan: Plan,
    jobs: Sequence[ElasticJob],
    policy: Policy,
    options: Options,
    *,
    now_s: float,
    memo: Memo | None = None,
) -> ScaleIn:
    """Who gives up workers for the first gang that waits, or why nobody does.

    `plan` is the plan of this snapshot, `now_s` Unix time. Cost: some placements of one gang, at most about fifty, and
    one run of the planner where workers go.

    >>> from scoring.plan import plan
    >>> from tests.builders import node, snapshot
    >>> from tests.scoring.scaling import TRUSTING, elastic, waiting, workers
    >>> light = workers("light", ["n1", "n1", "n2", "n2"], ps="n1", cpu="2")
    >>> cluster = snapshot([node("n1", cpu="6"), node("n2", cpu="4")], [light, waiting("heavy", 1, cpu="2", weight=9)])
    >>> made = plan(cluster, policy := TRUSTING, now_s=0.0)
    >>> found = scale_in(cluster, made, [elastic(light, least=1)], policy, Options(), now_s=0.0)
    >>> found.beneficiary, [(str(c.job), c.before, c.after) for c in found.changes], dict(found.places)
    ('default/heavy', [('TFJob.kubeflow.org/default/light', 4, 3)], {'uid-default-heavy-0': 'n2'})
    """
    return finish(scale_in_in_steps(snapshot, plan, jobs, policy, options, now_s=now_s, memo=memo))


def scale_in_in_steps(
    snapshot: Snapshot,
    plan: Plan,
    jobs: Sequence[ElasticJob],
    policy: Policy,
    options: Options,
    *,
    now_s: float,
    memo: Memo | None = None,
) -> Steps[ScaleIn]:
    """The same with a chance to do something else between two placements (S15)."""
    memo = memo if memo is not None else Memo()
    if not options.enabled:
        return ScaleIn(None, reason=No.DISABLED)
    key = first_waiting(plan)
    gang = snapshot.gangs.get(key) if key is not None else None
    if key is None or gang is None:
        return ScaleIn(None, reason=No.NOBODY_WAITS)
    if key in snapshot.claims:
        return ScaleIn(key, reason=No.ROOM_IS_COMING, detail="others leave for it")
    run = Run(snapshot, policy, memo)
    take_commitments(run)
    ask = run.ask(gang)
    ahead = in_turn(plan, before=plan.waiting[key].rank)
    trial = Trial(snapshot, ahead, ask, policy, now_s=now_s, memo=memo)
    gone = going(snapshot, jobs)
    if trial.may_fit(gone) and (yield from trial.place_in_steps(gone)) is not None:
        words = f"{len(gone)} pods are going" if gone else "there is room already"
        return ScaleIn(key, reason=No.ROOM_IS_COMING, detail=words)
    yield from run.pause()
    turns = Turns(run, now_s=now_s, previous=plan)
    if options.condition is Condition.HEAVIEST and not turns.starving(ask) and not _is_heaviest(run, turns, ask):
        return ScaleIn(key, reason=No.NOT_HEAVIEST)
    able, refusals = yield from candidates(snapshot, jobs, run, turns, ask, options, now_s=now_s)
    near, elsewhere = yield from _near(run, trial, able)
    refusals = (*refusals, *elsewhere)
    if not near:
        return ScaleIn(key, reason=No.NO_JOB, refusals=_sorted(refusals))
    everything = [*gone, *_pods(near, [len(one.steps) for one in near])]
    perhaps = yield from trial.may_fit_in_steps(everything)
    best = (yield from trial.place_in_steps(everything)) if perhaps else None
    yield from run.pause()
    if best is None:
        return ScaleIn(key, reason=No.NOT_ENOUGH, detail=_offered(near), refusals=_sorted(refusals))
    chosen = yield from _chosen(run, trial, gone, (yield from _in_order(run, ahead, near, best)), best)
    made = _answer(key, chosen, refusals)
    return (yield from _if_the_planner_agrees(trial, plan, made, chosen, gone, policy, now_s=now_s, memo=memo))


def first_waiting(plan: Plan) -> GangKey | None:
    """The first gang in the queue's order that waits for room."""
    waiting = [one for one in plan.waiting.values() if one.reason in WANTS_ROOM]
    return min(waiting, key=lambda one: (one.rank, one.gang)).gang if waiting else None


def _chosen(
    run: Run, trial: Trial, gone: Sequence[Pod], ordered: Sequence[Candidate], best: Placed
) -> Steps[tuple[tuple[tuple[Candidate, int], ...], Placed]]:
    """Step 5: steps of each job in this order, and where the gang goes then. `best`: the same with all of them."""

    def gone_with(taken: Taken) -> list[Pod]:
        return [*gone, *_pods(ordered, taken)]

    def passes(taken: Taken) -> Steps[Placed | None]:
        return trial.place_in_steps(gone_with(taken))

    limits = [len(one.steps) for one in ordered]
    some: list[Taken] = []
    for way in gathered(trial.ledger, gone, [[step.pod for step in one.steps] for one in ordered]):
        if way is not None:
            some.append(way)
        yield from run.pause()
    found: tuple[Taken, Placed] | None = None
    for way in sorted(some, key=lambda taken: (sum(taken), [-number for number in taken])):
        there = yield from passes(way)
        yield from run.pause()
        if there is not None:
            found = way, there
            break
    if found is None:
        for look in enough(limits, best, passes):
            found = look or found
            yield from run.pause()
    taken, placed = found if found is not None else (tuple(limits), best)
    for look in fewer(limits, sum(taken), lambda some: trial.may_fit(gone_with(some)), passes):
        taken, placed = look or (taken, placed)
        yield from run.pause()
    return tuple(zip(ordered, taken, strict=True)), placed


def _answer(
    key: GangKey, chosen: tuple[tuple[tuple[Candidate, int], ...], Placed], refusals: tuple[Refusal, ...]
) -> ScaleIn:
    parts, placed = chosen
    changes: list[Change] = []
    spared: list[Refusal] = []
    for one, number in parts:
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


def _if_the_planner_agrees(
    trial: Trial,
    plan: Plan,
    made: ScaleIn,
    chosen: tuple[tuple[tuple[Candidate, int], ...], Placed],
    gone: Sequence[Pod],
    policy: Policy,
    *,
    now_s: float,
    memo: Memo,
) -> Steps[ScaleIn]:
    """Step 6: the answer, if a plan made when the pods are gone lets the gang start."""
    then = trial.after([*gone, *_pods([one for one, _ in chosen[0]], [number for _, number in chosen[0]])])
    after = yield from plan_in_steps(then, policy, now_s=now_s, previous=plan, memo=memo)
    if made.beneficiary in after.admitted:
        return made
    refusals = [*made.refusals, *(Refusal(change.job, No.GIVEN_TO_OTHERS) for change in made.changes)]
    return ScaleIn(made.beneficiary, reason=No.GIVEN_TO_OTHERS, refusals=_sorted(refusals))


def _near(run: Run, trial: Trial, able: Sequence[Candidate]) -> Steps[tuple[list[Candidate], list[Refusal]]]:
    """Each job's steps down to the last worker on a node that concerns the gang; jobs without any are refused."""
    near: list[Candidate] = []
    refused: list[Refusal] = []
    for number, one in enumerate(able, start=1):
        if number % (4 * JOBS_A_STEP) == 0:
            yield from run.pause()
        last = max((n for n, step in enumerate(one.steps, start=1) if trial.concerns(step.pod)), default=0)
        if last:
            near.append(replace(one, steps=one.steps[:last]))
        else:
            refused.append(Refusal(one.job.key, No.ELSEWHERE))
    return near, refused


def _in_order(run: Run, ahead: Sequence[Admission], near: Sequence[Candidate], best: Placed) -> Steps[list[Candidate]]:
    """Step 4: who gives first. Lowest priority, lightest, worth least where it is, name."""
    take_admissions(run, ahead)
    wanted = frozenset(best.nodes.values())
    worths = []
    for number, one in enumerate(near):
        worths.append((worth_of(run, one.gang, one.steps, wanted), one.job.key, number))
        if number % _WORTHS_A_STEP == _WORTHS_A_STEP - 1:
            yield from run.pause()
    ordered = [near[number] for _, _, number in sorted(worths)]
    yield from run.pause()
    ordered.sort(key=lambda one: one.weight, reverse=True)  # a smaller key is a heavier job; equal ones stay in order
    ordered.sort(key=lambda one: one.gang.priority)
    yield from run.pause()
    return ordered


def _is_heaviest(run: Run, turns: Turns, ask: Ask) -> bool:
    """The published condition: the gang weighs at least as much as the heaviest that runs."""
    own = weight_key(run, turns, ask.gang)
    running = (gang for gang in run.snapshot.gangs.values() if gang.own and gang.key != ask.gang.key and gang.placed)
    return all(own <= weight_key(run, turns, gang) for gang in running)


def _pods(candidates: Sequence[Candidate], taken: Sequence[int]) -> list[Pod]:
    """Pods that leave when this many steps of each job are taken."""
    return [step.pod for one, number in zip(candidates, taken, strict=True) for step in one.steps[:number]]


def _offered(near: Sequence[Candidate]) -> str:
    return f"{sum(len(one.steps) for one in near)} workers of {len(near)} jobs at most"


def _sorted(refusals: Sequence[Refusal]) -> tuple[Refusal, ...]:
    return tuple(sorted(refusals, key=lambda one: one.job))
