"""What the elastic controller works with, and the few questions about pods and gangs that all of it asks."""

import random
from collections.abc import Sequence

import msgspec

from extender.controllers.context import ControllerContext
from extender.controllers.elastic.jobs.objects import Autoscalers, Jobs
from extender.controllers.elastic.kinds import Seen
from extender.controllers.elastic.records import Change, Records
from extender.controllers.events.recorder import Happening, Subject
from extender.runtime.clock import Backoff
from extender.runtime.decision_lines import Decision
from scoring.feasibility.quorum import quorum_of
from scoring.ids import JobKey as PodsJob
from scoring.ids import PodUid
from scoring.model import Gang, Pod, Role

_RETRY = Backoff(1.0, 300.0)


class Retries:
    """Jobs that could not be changed: the pause before the next try doubles and is spread by chance."""

    def __init__(self, rng: random.Random) -> None:
        self._rng = rng
        self._failures: dict[object, tuple[int, float]] = {}  # Failures in a row, next try (monotonic)

    def failed(self, key: object, *, now_s: float) -> None:
        """Another attempt failed."""
        failures = self._failures.get(key, (0, 0.0))[0] + 1
        self._failures[key] = (failures, now_s + _RETRY.delay_s(failures, rng=self._rng))

    def succeeded(self, key: object) -> None:
        """An attempt succeeded: forget the failures."""
        self._failures.pop(key, None)

    def waits(self, key: object, *, now_s: float) -> bool:
        """Whether it is too early for another attempt."""
        return key in self._failures and now_s < self._failures[key][1]

    def keep(self, keys: set[object]) -> None:
        """Forget all others."""
        self._failures = {key: one for key, one in self._failures.items() if key in keys}


class Parts(msgspec.Struct, frozen=True):
    """The cluster, the plan and the jobs."""

    context: ControllerContext
    jobs: Jobs
    autoscalers: Autoscalers
    records: Records
    retries: Retries

    def may_change(self) -> bool:
        """Whether anything may be changed now: asked before each patch."""
        return self.context.acting() and self.context.quiet.over

    def workers(self, seen: Seen) -> Sequence[Pod]:
        """The job's worker pods that have not ended, by name."""
        pods = self.context.cache.pods.of_job(pods_job(seen))
        return [pod for pod in pods if pod.role is Role.WORKER and pod.index is not None and not pod.terminal]

    def surplus(self, seen: Seen, workers: int) -> tuple[PodUid, ...]:
        """Its worker pods that go when it has `workers`: frameworks take the highest index."""
        return tuple(pod.uid for pod in self.workers(seen) if pod.index is not None and pod.index >= workers)

    def subject(self, seen: Seen) -> Subject:
        """The job, as Events are about it."""
        key = seen.key
        return Subject(seen.api_version, key.kind.partition(".")[0], key.namespace, key.name, seen.uid)

    def post_job_event(self, seen: Seen, what: Happening, note: str) -> None:
        """An Event about the job; the same note is repeated only after a while."""
        self.context.post_event(self.subject(seen), what, note, note)

    def record(self, change: Change) -> None:
        """Keep a change, and write it into the log of decisions."""
        self.records.put(change)
        intent = change.intent
        what = f"{change.stage}: {intent.before} to {intent.goal}, {intent.why}"
        self.context.decided(Decision("resize", str(change.job), intent.beneficiary or "", reason=what))


def pods_job(seen: Seen) -> PodsJob:
    """As pods name their job."""
    return PodsJob(f"{seen.key.namespace}/{seen.key.name}")


def runs(gang: Gang) -> bool:
    """Whether the gang has its quorum on nodes."""
    return quorum_of(gang).whole
