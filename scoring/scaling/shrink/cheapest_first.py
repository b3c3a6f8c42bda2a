"""In which order jobs give up workers, and which of their workers concern the gang at all.

Lowest priority first, then the lightest, then the job whose highest workers are worth least where they are, then by
name. Worth, from the highest index down, as they leave: first those on nodes that the beneficiary would go to if it
could choose; then those that share no node with a ps or chief of their own (PAPERS K4); then the worst linked.
"""

from collections.abc import Sequence
from dataclasses import replace

from scoring.ids import NodeName
from scoring.model import Gang, Role
from scoring.plan import Admission, Run, take_admissions
from scoring.plan.result import Placed
from scoring.scaling.change import No, Refusal
from scoring.scaling.shrink.candidates import Candidate
from scoring.scaling.shrink.would_fit import Trial
from scoring.selection.demand import pairs_count

Worth = tuple[tuple[bool, bool, float], ...]  # Highest index first: (not wanted, beside a ps, points)


def near_ones(trial: Trial, able: Sequence[Candidate]) -> tuple[list[Candidate], list[Refusal]]:
    """Each job's steps down to the last worker on a node that concerns the gang; jobs without any are refused."""
    near: list[Candidate] = []
    refused: list[Refusal] = []
    for one in able:
        last = max((n for n, step in enumerate(one.steps, start=1) if trial.concerns(step.pod)), default=0)
        if last:
            near.append(replace(one, steps=one.steps[:last]))
        else:
            refused.append(Refusal(one.job.key, No.ELSEWHERE))
    return near, refused


def in_order(run: Run, ahead: Sequence[Admission], near: Sequence[Candidate], best: Placed) -> list[Candidate]:
    """Step 4: which job gives first. Lowest priority, lightest, worth least where it is, name."""
    take_admissions(run, ahead)
    wanted = frozenset(best.nodes.values())
    worths = []
    for number, one in enumerate(near):
        leaders = {pod.node for pod in one.gang.placed if pod.role in (Role.PS, Role.CHIEF)}
        nodes = [step.pod.node for step in one.steps if step.pod.node is not None]
        points = link_points(run, one.gang, nodes)
        worth: Worth = tuple((node not in wanted, node in leaders, points.get(node, 0.0)) for node in nodes)
        worths.append((worth, one.job.key, number))
    ordered = [near[number] for _, _, number in sorted(worths)]
    ordered.sort(key=lambda one: one.weight, reverse=True)  # a smaller key is a heavier job; equal ones stay in order
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
