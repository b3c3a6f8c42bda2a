"""Among jobs of like weight: whose highest workers are the ones to take.

Rule: judged worker by worker from the highest index down, because in this order they leave. First those on nodes that
the beneficiary would go to if it could choose; then those that share no node with a ps or chief of their own (PAPERS
K4: nodes with a ps come last); then those whose links to their siblings are worth least; then by name.
"""

from collections.abc import Sequence

from scoring.ids import NodeName
from scoring.model import Gang, Role
from scoring.plan import Run
from scoring.scaling.shrink.leaving import Step
from scoring.selection.demand import pairs_count

Worth = tuple[tuple[bool, bool, float], ...]
"""Per worker, highest index first: (not wanted, beside its own ps, points of its links); smaller goes first."""


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
