"""In which order jobs give up workers, and which of their workers concern the gang at all.

Rule: lowest priority first, then the lightest, then the job whose highest workers are worth least where they are, then
by name. A worker on a node that no member of the gang could go to is no help. Worth is judged worker by worker from the
highest index down, because in this order they leave: first those on nodes that the beneficiary would go to if it could
choose; then those that share no node with a ps or chief of their own (PAPERS K4: nodes with a ps come last); then those
whose links to their siblings are worth least.
"""

from collections.abc import Sequence
from dataclasses import replace

from scoring.ids import NodeName
from scoring.model import Gang, Role
from scoring.plan import Admission, Run, take_admissions
from scoring.plan.result import Placed
from scoring.plan.steps import Steps
from scoring.scaling.change import No, Refusal
from scoring.scaling.shrink.eligible import JOBS_A_STEP, Candidate
from scoring.scaling.shrink.trial import Trial
from scoring.scaling.workers import Step
from scoring.selection.demand import pairs_count

_WORTHS_A_STEP = 4
"""Jobs whose links are looked at between two moments to pause: up to 2 ms each where the network data are new."""
Worth = tuple[tuple[bool, bool, float], ...]
"""Per worker, highest index first: (not wanted, beside its own ps, points of its links); smaller goes first."""


def near_ones(trial: Trial, able: Sequence[Candidate]) -> Steps[tuple[list[Candidate], list[Refusal]]]:
    """Each job's steps down to the last worker on a node that concerns the gang; jobs without any are refused."""
    near: list[Candidate] = []
    refused: list[Refusal] = []
    for number, one in enumerate(able, start=1):
        if number % (4 * JOBS_A_STEP) == 0:
            yield
        last = max((n for n, step in enumerate(one.steps, start=1) if trial.concerns(step.pod)), default=0)
        if last:
            near.append(replace(one, steps=one.steps[:last]))
        else:
            refused.append(Refusal(one.job.key, No.ELSEWHERE))
    return near, refused


def in_order(run: Run, ahead: Sequence[Admission], near: Sequence[Candidate], best: Placed) -> Steps[list[Candidate]]:
    """Step 4: which job gives first. Lowest priority, lightest, worth least where it is, name."""
    take_admissions(run, ahead)
    wanted = frozenset(best.nodes.values())
    worths = []
    for number, one in enumerate(near):
        worths.append((worth_of(run, one.gang, one.steps, wanted), one.job.key, number))
        if number % _WORTHS_A_STEP == _WORTHS_A_STEP - 1:
            yield
    ordered = [near[number] for _, _, number in sorted(worths)]
    yield
    ordered.sort(key=lambda one: one.weight, reverse=True)  # a smaller key is a heavier job; equal ones stay in order
    ordered.sort(key=lambda one: one.gang.priority)
    yield
    return ordered


def worth_of(run: Run, gang: Gang, steps: Sequence[Step], wanted: frozenset[NodeName]) -> Worth:
    """What the workers that `steps` would take are worth where they are. Cost: O(steps · members) and their links."""
    leaders = {pod.node for pod in gang.placed if pod.role in (Role.PS, Role.CHIEF)}
    points = link_points(run, gang, [step.pod.node for step in steps if step.pod.node is not None])
    return tuple(
        (step.pod.node not in wanted, step.pod.node in leaders, points.get(step.pod.node, 0.0))
        for step in steps
        if step.pod.node is not None
    )


def link_points(run: Run, gang: Gang, nodes: Sequence[NodeName]) -> dict[NodeName, float]:
    """Node → mean points between it and the gang's placed members that a worker there exchanges data with.

    Rounded to the millionth, so that sums of equal links are equal on every machine.
    """
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
