"""Look at every job: what it says, its pods, its gang, and what others do with it.

Rules: a job that claims to be elastic and must be left alone for good gets an Event with the reason; one that claims
nothing is nobody's business. What looks as it did at the last look is not looked at more closely, because a cluster has
thousands of jobs and few of them change within a second.
"""

from collections import Counter
from dataclasses import dataclass

from extender.controllers.elastic.jobs.views import Surroundings, gang_key_of, view_of
from extender.controllers.elastic.kinds import Seen, Unsafe
from extender.controllers.elastic.parts import Parts, pods_job
from extender.controllers.elastic.records import JobView
from extender.controllers.elastic.retries import Retries
from extender.controllers.events.recorder import Happening, pod_subject
from scoring.model import Gang, Pod
from scoring.plan.steps import Steps
from scoring.scaling.job import JobKey, Wants
from scoring.scaling.options import Options

_JOBS_A_STEP = 32
OTHERS_EVERY_S = 30.0
_ASKS = frozenset({"min-workers", "max-workers"})


@dataclass(frozen=True, slots=True)
class _Known:
    """What a view was made of; the same objects make the same view."""

    seen: Seen
    gang: Gang | None
    flags: tuple[bool, ...]
    view: JobView


class Looks:
    """Makes the views of all jobs, again and again. Bounded by the jobs there are."""

    def __init__(self, parts: Parts, options: Options, retries: Retries) -> None:
        self._parts = parts
        self._options = options
        self._retries = retries
        self._known: dict[JobKey, _Known] = {}
        self._others_at_s = parts.clock.monotonic_s() + OTHERS_EVERY_S

    def look(self) -> Steps[None]:
        """Renew the records' views of all jobs, with a moment for others now and then. Cost: O(jobs that changed)."""
        parts = self._parts
        everything = parts.jobs.all()
        names = Counter(pods_job(seen) for seen in everything)
        under_way = {change.uid for change in parts.records.open_changes()}
        self._retries.keep({seen.key for seen in everything})
        now_s = parts.clock.monotonic_s()
        found: dict[JobKey, _Known] = {}
        for number, seen in enumerate(everything, start=1):
            flags = (
                parts.autoscalers.scales(seen.key),
                names[pods_job(seen)] > 1,
                seen.uid in under_way,
                self._retries.waits(seen.key, now_s=now_s),
            )
            found[seen.key] = self._known_or_new(seen, flags)
            if number % _JOBS_A_STEP == 0:
                yield
        self._known = found
        wishes = {key: view.wish for key, view in parts.records.views.items()}
        parts.records.views = {
            key: one.view if not wishes.get(key) else one.view.wishing(wishes[key]) for key, one in found.items()
        }

    def look_for_others(self) -> None:
        """Write an Event for each gang that asks to be elastic in vain: its pods belong to no job that we know.

        An annotation that does nothing looks like a fault of the cluster. Cost: O(gangs), each `OTHERS_EVERY_S`.
        """
        parts, now_s = self._parts, self._parts.clock.monotonic_s()
        if now_s < self._others_at_s:
            return
        self._others_at_s = now_s + OTHERS_EVERY_S
        known = {pods_job(seen) for seen in parts.jobs.all()}
        for gang in parts.cache.snapshot().gangs.values():
            first = gang.members[0]
            if gang.own and first.job not in known and any(name in _ASKS for name, _ in gang.options):
                note = f"It is not resized, because {_why_unknown(first)}"
                parts.post_event(pod_subject(first), Happening.JOB_NOT_RESIZED, note, "kind")

    def _known_or_new(self, seen: Seen, flags: tuple[bool, ...]) -> _Known:
        parts, known = self._parts, self._known.get(seen.key)
        if known is not None and known.seen is seen and known.flags == flags and known.gang is not None:
            gang = parts.cache.gang(known.gang.key)
            if gang is known.gang:  # its members are those that they were
                return known
        pods = parts.cache.job_pods(pods_job(seen))
        gang_key = gang_key_of(pods)
        gang = parts.cache.gang(gang_key) if gang_key is not None else None
        autoscaled, namesake, under_way, failed = flags
        around = Surroundings(
            pods=pods,
            gang=gang,
            autoscaled=autoscaled,
            namesake=namesake,
            under_way=under_way,
            failed=failed,
            default_wants=self._options.metrics.default,
        )
        view = view_of(seen, around)
        if seen.claims and view.refusal in list(Unsafe):
            parts.post_job_event(seen, Happening.JOB_NOT_RESIZED, f"It is not resized, because {view.refusal}")
        if seen.bad_wants:
            words = ", ".join(Wants)
            parts.post_job_event(seen, Happening.OPTION_IGNORED, f"Annotation netgang.io/scaling is none of {words}")
        return _Known(seen, gang, flags, view)


def _why_unknown(pod: Pod) -> str:
    if pod.owner is None:
        return "its pods belong to no controller"
    return f"how jobs of kind {pod.owner.kind} ({pod.owner.api_version}) are resized is not known"
