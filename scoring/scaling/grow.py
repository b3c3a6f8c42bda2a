"""One pass over all elastic jobs: shrink for waiting gangs, else follow the metrics and grow (PAPERS K3, K5).

1. Scale-in for the first gang that waits (`shrink`), whatever a job's metrics ask for. If workers go, nothing else
   happens in this pass: what the others would get is decided when the gang has its room.
2. Demands of metrics for fewer workers: they free room and are granted at once.
3. Growth, in the order of docs/explanation/elastic.md: what a job gave up, what it asks for and `increment` more come
   together, because each change stalls it.

Room that is not given to growth: what the plan gives to gangs, what is held for STARVING ones (docs/safety.md S14), and
where a gang that waits will go as soon as pods that are being removed are gone: room freed for it must not be lost to
another gang. With `lighter` what it cannot use now is given; with `levels` nothing grows while a gang waits for room.
"""

from collections.abc import Mapping

import numpy as np
from msgspec.structs import replace

from scoring import NodeName, PodUid
from scoring.model import Gang
from scoring.model.pod import DEVICE_CLAIMS
from scoring.model.policy import Policy
from scoring.model.snapshot import Snapshot, fit_counts
from scoring.network.matrix import Ints
from scoring.plan import Plan, PlannerCache, Run, begin_run, take_admissions, take_commitments, take_members
from scoring.plan.placement import kind_of, place_minimum, place_more
from scoring.plan.queue_order import QueueOrder
from scoring.plan.reservations import lacking, reserved_nodes
from scoring.plan.result import WANTS_ROOM, Placed
from scoring.scaling.job import (
    Change,
    ElasticCondition,
    ElasticJob,
    JobKey,
    JobRefusal,
    Jobs,
    No,
    Options,
    Scaling,
    going,
    newcomers,
    resizable,
    workers_of,
)
from scoring.scaling.shrink import scale_in

_LEAST_GROWTH = 0.25  # Of a job's workers, with `ElasticCondition.LEVELS`: each change stalls it


def adjust(
    snapshot: Snapshot,
    plan: Plan,
    jobs: Jobs,
    demands: Mapping[JobKey, int],
    policy: Policy,
    options: Options,
    *,
    now_s: float,
    cache: PlannerCache,
) -> tuple[Scaling, Scaling]:
    """One pass: scale-in, scale-out; `demands` as of `scale_out`. No job is changed twice. Cost: as both together."""
    given = scale_in(snapshot, plan, jobs, policy, options, now_s=now_s, cache=cache)
    if given.changes:
        return given, Scaling(reason=No.ROOM_IS_WANTED)
    return given, scale_out(snapshot, plan, jobs, policy, options, now_s=now_s, demands=demands, cache=cache)


def scale_out(
    snapshot: Snapshot,
    plan: Plan,
    jobs: Jobs,
    policy: Policy,
    options: Options,
    *,
    now_s: float,
    demands: Mapping[JobKey, int] = {},  # Job → workers that its metrics ask for
    cache: PlannerCache,
) -> Scaling:
    """Jobs that get fewer workers or more for their own sake. Cost: a placement for each that waits or grows."""
    levels = options.condition is ElasticCondition.LEVELS
    changes: list[Change] = []
    refusals: dict[JobKey, JobRefusal] = {}
    growing: list[tuple[ElasticJob, Gang, int]] = []  # With how many workers each may have
    for job in sorted(jobs, key=lambda job: job.key):
        gang, target = snapshot.gangs.get(job.gang), job.target(demands.get(job.key))
        refusal = resizable(job, gang, options, now_s=now_s)
        if gang is None or refusal is not None:
            refusals[job.key] = refusal or JobRefusal(job.key, No.NOT_RUNNING)
        elif target < job.workers and job.key in demands:
            changes.append(Change(job.key, job.uid, job.workers, target))
        elif target <= job.workers:
            refusals[job.key] = JobRefusal(job.key, No.AT_MAXIMUM, f"{job.workers} workers, at most {job.max_workers}")
        else:
            there = (pod for pod in workers_of(job, gang) if pod.terminal or (pod.node and not pod.deleting))
            if {job.indexes[pod.uid] for pod in there}.issuperset(range(job.workers)):
                growing.append((job, gang, target))
            else:  # Until every worker that is wanted has a node the job neither wants nor measures more
                refusals[job.key] = JobRefusal(job.key, No.STILL_STARTING)
    if levels and any(waiting.reason in WANTS_ROOM for waiting in plan.waiting.values()):
        return Scaling(None, tuple(changes), reason=No.GANGS_WAIT, refusals=tuple(sorted(refusals.values())))
    run = begin_run(snapshot, policy, cache)
    take_commitments(run)
    take_admissions(run, plan.admitted.values())
    growth = _Growth(run, _keep_for_waiting(run, plan, jobs, now_s=now_s), refusals)
    turns = QueueOrder(run, now_s=now_s)
    weights = {job.key: turns.weight(run.view.demand(gang)).key for job, gang, _ in growing}
    growing.sort(key=lambda entry: (-entry[1].priority, weights[entry[0].key], entry[1].created_s, entry[0].key))
    for job, gang, target in growing:
        growth.grow(job, gang, min(job.grow_back_to or 0, target))
    for job, gang, target in growing:
        had = max(job.workers, min(job.grow_back_to or 0, target))
        unlimited = options.increment is None or job.key in demands
        growth.grow(job, gang, target if unlimited else min(target, had + (options.increment or 0)))
        if not unlimited and options.increment == 0:
            refusals.setdefault(job.key, JobRefusal(job.key, No.AT_MAXIMUM, "elastic.increment is 0"))
    for job, nodes in growth.new.values():
        if levels and len(nodes) < _LEAST_GROWTH * job.workers:
            refusals[job.key] = JobRefusal(job.key, No.TOO_LITTLE)
            continue
        refusals.pop(job.key, None)
        changes.append(Change(job.key, job.uid, job.workers, job.workers + len(nodes), nodes=tuple(nodes.values())))
    return Scaling(None, tuple(changes), refusals=tuple(sorted(refusals.values())))


class _Growth:
    """What each job got of the room that is not `withheld` (nodes, resources), or why it got none."""

    def __init__(self, run: Run, withheld: Ints, refusals: dict[JobKey, JobRefusal]) -> None:
        self._run, self._kept, self._refusals = run, withheld, refusals
        self.new: dict[JobKey, tuple[ElasticJob, Mapping[PodUid, NodeName]]] = {}  # In the order of turns

    def grow(self, job: ElasticJob, gang: Gang, target: int) -> None:
        """Give the job up to `target` workers altogether, as far as there is room."""
        run, key, (_, had) = self._run, job.key, self.new.get(job.key, (job, {}))
        first, zone_label = job.workers + len(had), run.policy.zone_label
        if not (pods := newcomers(job, gang, first=first, number=max(target - first, 0), zone_label=zone_label)):
            return
        demand = run.view.demand(gang)
        zones = run.view.zones_of(node for _, node in demand.siblings)  # None if all its nodes are gone
        if not zones or run.table.uncounted(pods[0].requests) or DEVICE_CLAIMS in pods[0].unmodelled:
            self._refusals[key] = JobRefusal(key, No.NO_ROOM)
            return
        ask = replace(demand, need=(), more=((pods[0].member_class, pods),))
        near = [(pods[0].role, node) for node in had.values()]
        placed = place_more(run, ask, zones, near)
        if placed is not None:
            self.new[key] = job, {**had, **placed.nodes}
        elif not had:
            member_class, free = pods[0].member_class, np.maximum(run.capacity.room.free, 0) + self._kept
            counts = np.where(run.capacity.mask(member_class), fit_counts(free, run.view.vector(member_class)), 0)
            wanted = counts[run.view.rows(zones)].any()
            self._refusals[key] = JobRefusal(key, No.ROOM_IS_WANTED if wanted else No.NO_ROOM)


def _keep_for_waiting(run: Run, plan: Plan, jobs: Jobs, *, now_s: float) -> Ints:
    """Take the room that growth must leave to gangs that wait; gives it (nodes, resources).

    That is reserved nodes, what a start that is promised soon lacks (new workers are there then), places for whose sake
    others leave, and those of a gang that fits once pods that are going are gone. Cost: one placement for each kind of
    gang that waits, and only while pods are going.
    """
    free = np.array(run.capacity.room.free)
    if gone := going(run.snapshot, jobs):
        then = begin_run(run.snapshot.without(gone), run.policy, run.cache)
        take_commitments(then)
        take_admissions(then, plan.admitted.values())
        refused: set[int] = set()  # Kinds of which one found no room: room only shrinks during a run
        for waiting in sorted(plan.waiting.values(), key=lambda waiting: (waiting.rank, waiting.gang)):
            gang = run.snapshot.gangs.get(waiting.gang)
            if gang is None or waiting.gang in run.snapshot.claims or waiting.reason not in WANTS_ROOM:
                continue
            ask = then.view.demand(gang)
            kind = id(kind_of(then, ask))
            outcome = place_minimum(then, ask, now_s=now_s) if kind not in refused else None
            if isinstance(outcome, Placed):
                take_members(run, ((pod.member_class, outcome.nodes[pod.uid]) for _, pods in ask.need for pod in pods))
            else:
                refused.add(kind)
    for key, claim in sorted(run.snapshot.claims.items()):
        gang = run.snapshot.gangs.get(key)
        pods = gang.pending if gang is not None and key not in plan.admitted else ()
        take_members(run, ((p.member_class, claim.assignment[p.uid]) for p in pods if p.uid in claim.assignment))
    saved = {key: reserved for key, reserved in plan.reservations.items() if key not in run.snapshot.claims}
    run.capacity.take_nodes([run.table.index[node] for node in reserved_nodes(saved) if node in run.table.index])
    if (promise := plan.promise_due(now_s=now_s)) is not None:
        due, lacks = lacking(run.snapshot, promise)
        run.capacity.room.take_places(due, np.minimum(lacks, np.maximum(run.capacity.room.free[due], 0)))
    return np.asarray(np.maximum(free, 0) - np.maximum(run.capacity.room.free, 0))
