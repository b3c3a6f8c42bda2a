"""Jobs as decisions and people see them: what each object says, joined with its pods, its gang, and what others do.

Rules: whatever is in doubt makes a text, and a job with a text is left alone; a job that claims to be elastic and must
be left alone for good gets an Event with it. Of thousands of jobs only those that look different are looked at closely.
"""

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

from extender.controllers.elastic.kinds import KINDS, MIN_WORKERS, NotNow, Seen, Unsafe
from extender.controllers.elastic.records import ElasticParts, JobView, pods_job
from extender.controllers.events.recorder import Happening, pod_subject
from extender.runtime.slices import Steps
from scoring.ids import GangKey
from scoring.model import Gang, Phase, Pod, Role
from scoring.queue.states import JobState
from scoring.scaling.job import ElasticJob, JobKey, Options, Wants

OTHERS_EVERY_S = 30.0


def gang_key_of(pods: Sequence[Pod]) -> GangKey | None:
    """The gang that a job's pods form; `None`: none, or several."""
    keys = {pod.group.key for pod in pods if pod.group is not None}
    return keys.pop() if len(keys) == 1 and all(pod.group is not None for pod in pods) else None


def view_of(
    seen: Seen,
    pods: Sequence[Pod],
    gang: Gang | None,
    hindrance: Unsafe | NotNow | None = None,
    *,
    default_wants: Wants = Wants.CURVE,
) -> JobView:
    """The job's view, from all pods that carry its name and the gang that they form. Cost: O(pods).

    What is not said of the bounds is as it is now. `hindrance`: what else is known that speaks against a change.
    """
    workers = [pod for pod in pods if pod.role is Role.WORKER and pod.index is not None]
    intent, bounds, standing = seen.intent, seen.bounds, 0
    if intent is not None and intent.stands(seen.workers):
        standing = intent.most or 0
    least = bounds.least if bounds.least is not None else seen.workers
    if gang is not None and not KINDS[seen.key.kind].roles:
        least = max(least, gang.min_member - (len(gang.members) - len(workers)))
    most = bounds.most if bounds.most is not None else max(standing, seen.workers)
    no_gang = None if gang is not None and gang.actionable else NotNow.NO_GANG
    there = {pod.index for pod in workers if not pod.deleting and pod.phase is not Phase.FAILED}
    unsettled = None if there == set(range(seen.workers)) else NotNow.UNSETTLED
    job = ElasticJob(
        key=seen.key,
        uid=seen.uid,
        gang=gang.key if gang is not None else GangKey(""),
        workers=seen.workers,
        min_workers=max(least, 1),
        max_workers=max(most, least, 1),
        indexes={pod.uid: pod.index for pod in workers if pod.index is not None},
        refusal=seen.unsafe or hindrance or seen.rests or no_gang or unsettled,
        wants=seen.wants or default_wants,
        changed_s=intent.at_s if intent is not None else None,
        changes_s=intent.changes_s if intent is not None else (),
        grow_back_to=intent.grow_back_to if intent is not None and intent.stands(seen.workers) else None,
    )
    elastic = gang is not None and seen.claims and seen.rests is not NotNow.ENDED and not bounds.bad
    running = JobState.RUNNING if any(pod.phase is Phase.RUNNING for pod in workers) else JobState.WAITING
    state = JobState.COMPLETED if seen.rests is NotNow.ENDED else running
    return JobView(seen, gang, hindrance, job, elastic, state)


@dataclass(eq=False, repr=False)
class JobViews:
    """Makes the views of all jobs, again and again. Bounded by the jobs there are."""

    parts: ElasticParts
    options: Options
    _others_at_s: float = field(default=math.inf, init=False)

    def look(self) -> Steps[None]:
        """Renew the records' views of all jobs, with a moment for others now and then. Cost: O(jobs that changed)."""
        parts = self.parts
        everything = parts.jobs.all()
        names = Counter(map(pods_job, everything))
        scaled = {one.job for one in parts.jobs.autoscalers.items.values()}
        under_way = {change.uid for change in parts.records.open_changes()}
        now_s = parts.context.clock.monotonic_s()
        views: dict[JobKey, JobView] = {}
        for seen in everything:
            former = parts.records.views.get(seen.key)
            against: dict[Unsafe | NotNow, bool] = {
                Unsafe.AUTOSCALED: seen.key in scaled,
                NotNow.NAMESAKE: names[pods_job(seen)] > 1,
                NotNow.UNDER_WAY: seen.uid in under_way,
                NotNow.ATTEMPT_FAILED: former is not None and now_s < former.again_s,
            }
            hindrance = next((why for why, holds in against.items() if holds), None)
            views[seen.key] = self._same_or_new(seen, former, hindrance)
            yield
        parts.records.views = views

    def look_for_others(self) -> None:
        """An Event for each gang that asks to be elastic and is no job we know. O(gangs), each `OTHERS_EVERY_S`."""
        parts, now_s = self.parts, self.parts.context.clock.monotonic_s()
        if now_s < self._others_at_s:
            self._others_at_s = min(self._others_at_s, now_s + OTHERS_EVERY_S)
            return
        self._others_at_s = now_s + OTHERS_EVERY_S
        known = set(map(pods_job, parts.jobs.all()))
        for gang in parts.context.cache.snapshot().gangs.values():
            first = gang.members[0]
            asks = not {"min-workers", "max-workers"}.isdisjoint(dict(gang.options))
            if gang.own and first.job not in known and asks:
                why, owner = "its pods belong to no controller", first.owner
                if owner is not None:
                    why = f"how jobs of kind {owner.kind} ({owner.api_version}) are resized is not known"
                note = f"It is not resized, because {why}"
                parts.context.events.post(pod_subject(first), Happening.JOB_NOT_RESIZED, note, "kind")

    def _same_or_new(self, seen: Seen, former: JobView | None, hindrance: Unsafe | NotNow | None) -> JobView:
        parts, cache = self.parts, self.parts.context.cache
        gang = former.gang if former is not None and former.seen is seen and former.hindrance == hindrance else None
        if gang is not None and cache.gang(gang.key) is gang and former is not None:
            return former  # its members are those that they were
        pods = cache.pods.of_job(pods_job(seen))
        key = gang_key_of(pods)
        gang = cache.gang(key) if key is not None else None
        view = view_of(seen, pods, gang, hindrance, default_wants=self.options.metrics.default)
        if former is not None:
            view.wish, view.failures, view.again_s = former.wish, former.failures, former.again_s
        asked, least = seen.bounds.asked, seen.bounds.least
        asks = asked is not None and (asked < seen.workers or seen.workers == 0)  # 0: its workers are not known
        if (seen.claims or asks) and view.job.refusal in list(Unsafe):
            parts.post_job_event(seen, Happening.JOB_NOT_RESIZED, f"It is not resized, because {view.job.refusal}")
        elif asked is not None and least is not None and asked < least:
            words = f"Its pods have {seen.bounds.source} {least}: it never has fewer workers than that, so"
            note = f"{words} annotation {MIN_WORKERS}={asked} has no effect; lower the label"
            parts.post_job_event(seen, Happening.MISTAKE, note)
        if seen.bad_wants:
            words = ", ".join(Wants)
            parts.post_job_event(seen, Happening.MISTAKE, f"Annotation netgang.io/scaling is none of {words}")
        return view
