"""One pass over all elastic jobs: shrink for waiting gangs, else follow the metrics and grow (PAPERS K3, second half).

Steps:
1. Scale-in for the first gang that waits. If workers go for it, nothing else happens in this pass: what the others
   would get is decided when the gang has its room.
2. Demands for fewer workers.
3. Growth, into room that is there now; what step 2 frees is there when its pods are gone.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from scoring.model.policy import Policy
from scoring.model.snapshot import Snapshot
from scoring.plan import Plan, PlannerCache
from scoring.plan.steps import Steps, at_once
from scoring.scaling.change import Change, No, Refusal, ScaleIn, ScaleOut
from scoring.scaling.job import ElasticJob, JobKey
from scoring.scaling.metrics.wishes import fewer
from scoring.scaling.options import Options
from scoring.scaling.scale_out import scale_out_in_steps
from scoring.scaling.shrink.scale_in import scale_in_in_steps

_LATER = ScaleOut(reason=No.ROOM_IS_WANTED)


@dataclass(frozen=True, slots=True)
class Adjustment:
    """What one pass decides. Changes of `scale_in` are for its beneficiary, and applied all or none."""

    scale_in: ScaleIn
    fewer: tuple[Change, ...] = ()
    """Jobs whose metrics ask for fewer workers."""
    fewer_refused: tuple[Refusal, ...] = ()
    scale_out: ScaleOut = _LATER

    @property
    def changes(self) -> tuple[Change, ...]:
        """All of them; no job is among them twice."""
        return (*self.scale_in.changes, *self.fewer, *self.scale_out.changes)


def adjust_in_steps(
    snapshot: Snapshot,
    plan: Plan,
    jobs: Sequence[ElasticJob],
    wishes: Mapping[JobKey, int],
    policy: Policy,
    options: Options,
    *,
    now_s: float,
    cache: PlannerCache | None = None,
) -> Steps[Adjustment]:
    """One pass, in steps between placements; `wishes`: job → workers that its metrics ask for.

    Cost: as scale-in and scale-out together.
    """
    cache = cache if cache is not None else PlannerCache()
    given = yield from scale_in_in_steps(snapshot, plan, jobs, policy, options, now_s=now_s, cache=cache)
    if not options.enabled:
        return Adjustment(given, scale_out=ScaleOut(reason=No.DISABLED))
    if given.changes:
        return Adjustment(given)
    down, refused = fewer(snapshot, jobs, wishes, options, now_s=now_s)
    growth = yield from scale_out_in_steps(
        snapshot, plan, jobs, policy, options, now_s=now_s, wishes=wishes, cache=cache
    )
    return Adjustment(given, down, refused, growth)


adjust = at_once(adjust_in_steps)
