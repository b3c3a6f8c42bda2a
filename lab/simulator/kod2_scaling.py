"""Algorithms 2 and 3 of KOD2 as they were published (PAPERS K4, K5): scale-in and scale-out, node by node.

Why: results can be compared with the paper only if its own method can be run; in the simulator alone, because no
framework lets a caller choose which worker leaves (docs/safety.md S18). Rule: nothing is mended here. Whether the new
job fits is asked of one node at a time, its whole minimum on that node; workers removed from nodes that did not help
stay removed. Weights are compared as ω in floating point, which is 1 for nearly all jobs.

What the paper leaves open, and our reading: nodes in the order of their names, those with the job's ps last; on a node
the highest index goes first; growth takes the first node with room; `None` for l_dw or l_iw means no limit.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from scoring.feasibility.quorum import minimum_members
from scoring.ids import GangKey, NodeName, PodUid
from scoring.model import Gang, Pod, Role
from scoring.model.policy import Policy
from scoring.model.snapshot import Snapshot
from scoring.network.matrix import Ints
from scoring.plan import Admission, PlannerCache, Run, begin_run, take_admissions, take_commitments
from scoring.plan.queue_order import QueueOrder
from scoring.scaling.job import ElasticJob, JobKey
from scoring.scaling.workers import newcomers, workers_of


@dataclass(frozen=True, slots=True)
class Removal:
    """A worker that goes."""

    job: JobKey
    pod: PodUid
    node: NodeName


@dataclass(frozen=True, slots=True)
class LiteralScaleIn:
    """Algorithm 2's answer. The plan is applied only if it is possible."""

    possible: bool
    plan: tuple[Removal, ...]
    node: NodeName | None = None  # Where the new job's minimum fits then


def scale_in(
    snapshot: Snapshot,
    jobs: Sequence[ElasticJob],
    new: GangKey,
    policy: Policy,
    *,
    decrement: int | None,
    ahead: Sequence[Admission] = (),
) -> LiteralScaleIn:
    """Algorithm 2 for the gang `new`; `decrement`: l_dw, `ahead`: which are given room before it. Cost: O(workers).

    >>> from tests.builders import node, snapshot
    >>> from tests.scoring.scaling.cases import TRUSTING, elastic, waiting, workers
    >>> light = workers("light", ["n1", "n2", "n2"], ps="n1", cpu="2")
    >>> cluster = snapshot([node("n1", cpu="4"), node("n2", cpu="4")], [light, waiting("new", 1, cpu="2", weight=9)])
    >>> found = scale_in(cluster, [elastic(light)], GangKey("default/new"), TRUSTING, decrement=2)
    >>> found.possible, found.node, [removal.pod for removal in found.plan]  # the ps's node would come last
    (True, 'n2', ['uid-default-light-worker-2'])
    """
    run, weights = _weighed(snapshot, jobs, policy, ahead)
    gang = snapshot.gangs[new]
    wanted = _total(run, minimum_members(gang))
    turns = QueueOrder(run, now_s=gang.created_s)
    own = _omega(run, turns, gang)
    free: Ints = np.array(run.capacity.room.free)
    plan: list[Removal] = []
    lightest_first = sorted((job for job in jobs if job.key in weights), key=lambda job: job.key)
    lightest_first.sort(key=lambda job: weights[job.key], reverse=True)
    for job in lightest_first:
        running = snapshot.gangs[job.gang]
        if job.gang == new or (weights[job.key] == own and running.created_s <= gang.created_s):
            continue
        nodes = _by_node(job, running)
        left = sum(len(workers) for _, workers in nodes) - job.min_workers
        left = left if decrement is None else min(left, decrement)
        for node, workers in nodes:
            row = snapshot.table.index.get(node)
            if row is None or wanted is None:
                continue
            for pod in workers:
                if (wanted <= free[row]).all():
                    return LiteralScaleIn(True, tuple(plan), node)
                if left <= 0:
                    break
                left -= 1
                request = run.view.vector(pod.member_class)
                free[row] += request if request is not None else 0
                plan.append(Removal(job.key, pod.uid, node))
            if (wanted <= free[row]).all():
                return LiteralScaleIn(True, tuple(plan), node)
    return LiteralScaleIn(False, tuple(plan))


def scale_out(
    snapshot: Snapshot,
    jobs: Sequence[ElasticJob],
    policy: Policy,
    *,
    increment: int | None,
    ahead: Sequence[Admission] = (),
) -> tuple[tuple[JobKey, NodeName], ...]:
    """Algorithm 3: a further worker of which job goes to which node. Cost: O(workers · nodes).

    `increment`: l_iw; `ahead`: which are given room before any job grows.

    >>> from tests.builders import node, snapshot
    >>> from tests.scoring.scaling.cases import TRUSTING, elastic, workers
    >>> light, heavy = (workers(name, ["n1"], weight=weight) for name, weight in (("light", 1), ("heavy", 2)))
    >>> cluster = snapshot([node("n1", cpu="4"), node("n2", cpu="1")], [light, heavy])
    >>> jobs = [elastic(gang, most=3) for gang in (light, heavy)]
    >>> [(key.name, where) for key, where in scale_out(cluster, jobs, TRUSTING, increment=2)]
    [('heavy', 'n1'), ('heavy', 'n1'), ('light', 'n2')]
    """
    run, weights = _weighed(snapshot, jobs, policy, ahead)
    free: Ints = np.array(run.capacity.room.free)
    given: list[tuple[JobKey, NodeName]] = []
    for job in sorted((job for job in jobs if job.key in weights), key=lambda job: (weights[job.key], job.key)):
        gang = snapshot.gangs[job.gang]
        most = job.can_gain if increment is None else min(job.can_gain, increment)
        for pod in newcomers(job, gang, first=job.workers, number=most, zone_label=policy.zone_label):
            request = run.view.vector(pod.member_class)
            if request is None:
                break
            rows = np.flatnonzero((request <= free).all(axis=1) & run.capacity.mask(pod.member_class))
            if not len(rows):
                break
            free[rows[0]] -= request
            given.append((job.key, snapshot.table.names[rows[0]]))
    return tuple(given)


def _weighed(
    snapshot: Snapshot, jobs: Sequence[ElasticJob], policy: Policy, ahead: Sequence[Admission]
) -> tuple[Run, Mapping[JobKey, float]]:
    """The room, and the weight of each job that runs and may be resized."""
    run = begin_run(snapshot, policy, PlannerCache())
    take_commitments(run)
    take_admissions(run, ahead)
    turns = QueueOrder(run, now_s=0.0)
    running = [job for job in jobs if job.refusal is None and (gang := snapshot.gangs.get(job.gang)) and gang.placed]
    return run, {job.key: _omega(run, turns, snapshot.gangs[job.gang]) for job in running}


def _omega(run: Run, turns: QueueOrder, gang: Gang) -> float:
    """ω as a sort key: smaller is heavier."""
    return -turns.weight(run.view.demand(gang)).omega


def _by_node(job: ElasticJob, gang: Gang) -> list[tuple[NodeName, list[Pod]]]:
    """The job's workers by node, highest index first; nodes that hold its ps last."""
    found: dict[NodeName, list[Pod]] = {}
    for _, pod in sorted(workers_of(job, gang).items(), reverse=True):
        if pod.node is not None:
            found.setdefault(pod.node, []).append(pod)
    with_ps = {pod.node for pod in gang.placed if pod.role is Role.PS}
    return sorted(found.items(), key=lambda one: (one[0] in with_ps, one[0]))


def _total(run: Run, pods: Sequence[Pod]) -> Ints | None:
    """What they request together (resources,); `None`: no node has one of the resources."""
    vectors = [run.view.vector(pod.member_class) for pod in pods]
    known = [vector for vector in vectors if vector is not None]
    return np.asarray(sum(known, np.zeros(len(run.table.axis), np.int64))) if len(known) == len(vectors) else None
