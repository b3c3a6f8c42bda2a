"""One pass over all elastic jobs: shrink for waiting gangs, else follow the metrics and grow (PAPERS K3, second half).

Steps:
1. Scale-in for the first gang that waits. If workers go for it, nothing else happens in this pass: what the others
   would get is decided when the gang has its room. A job's demand never keeps its workers from going.
2. Demands of metrics for fewer workers: they free room and are granted at once.
3. Growth, into room that is there now; what step 2 frees is there when its pods are gone. A demand for more is only a
   target: the queue's order decides which job gets room.
"""

from collections.abc import Mapping, Sequence

import msgspec

from scoring.model.policy import Policy
from scoring.model.snapshot import Snapshot
from scoring.plan import Plan, PlannerCache
from scoring.scaling.change import Change, No, Refusal, ScaleIn, ScaleOut, resizable
from scoring.scaling.job import ElasticJob, JobKey, Options, steps_down
from scoring.scaling.scale_out import scale_out
from scoring.scaling.shrink.scale_in import scale_in


class Adjustment(msgspec.Struct, frozen=True):
    """What one pass decides. Changes of `scale_in` are for its beneficiary, and applied all or none."""

    scale_in: ScaleIn
    scale_out: ScaleOut
    fewer: tuple[Change, ...] = ()  # Jobs whose metrics ask for fewer workers
    fewer_refused: tuple[Refusal, ...] = ()

    @property
    def changes(self) -> tuple[Change, ...]:
        """All of them; no job is among them twice."""
        return (*self.scale_in.changes, *self.fewer, *self.scale_out.changes)


def adjust(
    snapshot: Snapshot,
    plan: Plan,
    jobs: Sequence[ElasticJob],
    demands: Mapping[JobKey, int],
    policy: Policy,
    options: Options,
    *,
    now_s: float,
    cache: PlannerCache | None = None,
) -> Adjustment:
    """One pass; `demands`: job → workers that its metrics ask for. Cost: as scale-in and scale-out together."""
    cache = cache if cache is not None else PlannerCache()
    given = scale_in(snapshot, plan, jobs, policy, options, now_s=now_s, cache=cache)
    if not options.enabled:
        return Adjustment(given, ScaleOut(reason=No.DISABLED))
    if given.changes:
        return Adjustment(given, ScaleOut(reason=No.ROOM_IS_WANTED))
    down, refused = fewer(snapshot, jobs, demands, options, now_s=now_s)
    growth = scale_out(snapshot, plan, jobs, policy, options, now_s=now_s, demands=demands, cache=cache)
    return Adjustment(given, growth, down, refused)


def fewer(
    snapshot: Snapshot, jobs: Sequence[ElasticJob], demands: Mapping[JobKey, int], options: Options, *, now_s: float
) -> tuple[tuple[Change, ...], tuple[Refusal, ...]]:
    """Jobs that want fewer workers than they have, and those that must not be changed now; both by job."""
    changes: list[Change] = []
    refused: list[Refusal] = []
    for job in sorted(jobs, key=lambda one: one.key):
        demand = demands.get(job.key)
        after = job.target(demand)
        if demand is None or after >= job.workers:
            continue
        gang = snapshot.gangs.get(job.gang)
        refusal = resizable(job, gang, options, now_s=now_s)
        if refusal is not None or gang is None:
            refused.append(refusal or Refusal(job.key, No.NOT_RUNNING))
            continue
        leaving = [pod for pod in steps_down(job, gang, most=None) if job.indexes[pod.uid] >= after]
        changes.append(Change.down(job, after, leaving))
    return tuple(changes), tuple(refused)
