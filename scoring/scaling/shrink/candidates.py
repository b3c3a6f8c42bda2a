"""Which running jobs may give up workers for a waiting gang, and in which order.

A job must be lighter (ω′) than the gang, or as heavy and entered later, and must not have a higher priority; for a
STARVING gang (PAPERS K3) weights do not count. With `Condition.LEVELS` it must have a higher service level, and those
that have had most come first (`scoring.queue.service_levels`). Jobs that must not be resized, that do not run, or whose
last change is not over are left alone.

Order (`in_order`): lowest priority first, then the lightest, then the job whose highest workers are worth least where
they are, then by name. Worth, from the highest index down, as they leave: first those on nodes that the beneficiary
would go to if it could choose; then those that share no node with a ps or chief of their own (PAPERS K4); then the
worst linked.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from scoring.feasibility.quorum import quorum_of
from scoring.ids import NodeName
from scoring.model import Gang, Pod, Role
from scoring.plan import Run
from scoring.plan.demand import GangDemand
from scoring.plan.queue_order import QueueOrder
from scoring.plan.result import Placed
from scoring.preempt.cluster_without import Without
from scoring.queue.service_levels import hours_of, level, level_of_waiting
from scoring.queue.states import JobState, state_of
from scoring.scaling.change import No, Refusal
from scoring.scaling.job import Condition, ElasticJob, Options, steps_down, workers_of
from scoring.selection.demand import pairs_count

_HOUR_S = 3600.0


@dataclass(frozen=True, slots=True)
class Candidate:
    """A job that may give up workers, with its gang and what it can give up, highest index first."""

    job: ElasticJob
    gang: Gang
    weight: tuple[Any, ...]  # Smaller is heavier; with `Condition.LEVELS` the cluster-hours that it has had
    pods: list[Pod]


def candidates(
    run: Run, jobs: Iterable[ElasticJob], turns: QueueOrder, ask: GangDemand, options: Options, *, now_s: float
) -> tuple[list[Candidate], list[Refusal]]:
    """Jobs that may give up workers for the gang of `ask`, and those that may not. Cost: O(members of their gangs)."""
    found: list[Candidate] = []
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
                weight = (hours,) if total is not None else weight_key(run, turns, gang)
                found.append(Candidate(job, gang, weight, pods))
                continue
        refused.append(refusal or Refusal(job.key, No.AT_MINIMUM, f"{job.workers} workers, at least {job.floor}"))
    return found, refused


def resizable(job: ElasticJob, gang: Gang | None, options: Options, *, now_s: float) -> Refusal | None:
    """Why the job must not get another worker count now, for any gang; `None`: it may.

    >>> from tests.scoring.scaling.cases import elastic, workers
    >>> gang = workers("g", ["n1", "n1"])
    >>> resizable(elastic(gang), gang, Options(), now_s=100.0) is None
    True
    >>> recent = elastic(gang, changed_s=70.0)
    >>> str(resizable(recent, gang, Options(cool_down_s=60.0), now_s=100.0).reason), resizable(
    ...     recent, gang, Options(cool_down_s=30.0), now_s=100.0)
    ('the job was changed a short time ago', None)
    """
    if job.refusal is not None:
        return Refusal(job.key, No.UNSAFE, job.refusal)
    if gang is None or not gang.own or gang.problem is not None:
        return Refusal(job.key, No.NOT_RUNNING)
    if state_of(gang, quorum_of(gang), starving=False) is not JobState.RUNNING:
        return Refusal(job.key, No.NOT_RUNNING)
    leaving = [uid for uid, index in job.indexes.items() if index >= job.workers]
    present = {pod.uid for pod in gang.members if pod.node is not None and not pod.terminal}
    if not present.isdisjoint(leaving):
        return Refusal(job.key, No.RESIZING, f"{len(present.intersection(leaving))} pods are still there")
    if job.changed_s is not None and now_s < job.changed_s + options.cool_down_s:
        return Refusal(job.key, No.COOL_DOWN, f"for another {job.changed_s + options.cool_down_s - now_s:.0f} s")
    recent = sum(1 for at_s in job.changes_s if at_s > now_s - _HOUR_S)
    if options.changes_per_hour is not None and recent >= options.changes_per_hour:
        return Refusal(job.key, No.OVER_BUDGET, f"{recent} changes within the hour")
    return None


def all_placed(job: ElasticJob, gang: Gang) -> bool:
    """Whether every worker that is wanted has a node: only then does the job want, and measure, more."""
    there = [pod for pod in workers_of(job, gang) if pod.terminal or (pod.node is not None and not pod.deleting)]
    return {job.indexes[pod.uid] for pod in there}.issuperset(range(job.workers))


def weight_key(run: Run, turns: QueueOrder, gang: Gang) -> tuple[Any, ...]:
    """Sort key of a gang's weight as the queue compares it: smaller is heavier."""
    return turns.weight(run.view.demand(gang)).key


def _outranks(
    job: ElasticJob, gang: Gang, run: Run, turns: QueueOrder, ask: GangDemand, options: Options, hours: float
) -> Refusal | None:
    """Why the job need not shrink for the gang of `ask`; `hours`: cluster-hours that it has had, for `LEVELS`."""
    starving = turns.starving(ask)
    if gang.priority > ask.gang.priority:
        return Refusal(job.key, No.HIGHER_PRIORITY, f"{gang.priority} and {ask.gang.priority}")
    if options.condition is Condition.LEVELS:
        service = run.policy.service
        had, asks = level(hours, service), level_of_waiting(ask.gang.key, run.snapshot, service)
        return None if had > asks else Refusal(job.key, No.NOT_ABOVE, f"level {had}, the gang's {asks}")
    mine, its = weight_key(run, turns, ask.gang), weight_key(run, turns, gang)
    if starving or (mine, ask.gang.created_s, ask.gang.key) < (its, gang.created_s, gang.key):
        return None
    ours, theirs = (turns.weight(one).omega_prime for one in (ask, run.view.demand(gang)))
    return Refusal(job.key, No.NOT_LIGHTER, f"ω′ {theirs:.6g}, the gang's {ours:.6g}")


def near_ones(without: Without, able: Sequence[Candidate]) -> tuple[list[Candidate], list[Refusal]]:
    """Each job's workers down to the last on a node that concerns the gang; jobs without any are refused."""
    near: list[Candidate] = []
    refused: list[Refusal] = []
    for one in able:
        rows = [without.row(pod) for pod in one.pods]
        last = max((n for n, row in enumerate(rows, start=1) if row is not None and without.reached[row]), default=0)
        if last:
            near.append(replace(one, pods=one.pods[:last]))
        else:
            refused.append(Refusal(one.job.key, No.ELSEWHERE))
    return near, refused


def in_order(run: Run, near: Sequence[Candidate], best: Placed) -> list[Candidate]:
    """Step 4: which job gives first; `best`: where the gang would go if it could choose."""
    wanted = frozenset(best.nodes.values())

    def worth(one: Candidate) -> tuple[Any, ...]:
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
