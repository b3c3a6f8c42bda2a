"""What the elastic controller works with, and the few questions about pods and gangs that all of it asks."""

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from extender.cache import ClusterCache
from extender.controllers.elastic.jobs.objects import Autoscalers, Jobs
from extender.controllers.elastic.kinds import Kind, Seen
from extender.controllers.elastic.records import Change, Records
from extender.controllers.events.recorder import Happening, PostEvent, Subject
from extender.controllers.removal.quiet_period import Quiet
from extender.controllers.removal.removals import Disruptions
from extender.notes import Notes
from extender.ports import Clock, ClusterApi, CurrentPlan
from extender.runtime.decision_lines import Decision, DecisionLog
from extender.runtime.telemetry import Telemetry
from scoring.feasibility.quorum import quorum_of
from scoring.ids import JobKey as PodsJob
from scoring.ids import PodUid
from scoring.model import Gang, Pod, Role


@dataclass(frozen=True, slots=True)
class Parts:
    """The cluster, the plan, the jobs, and the Event recorder."""

    kinds: Mapping[str, Kind]
    """Kind and group, as `JobKey` has it → how it is read and resized"""
    cache: ClusterCache
    planner: CurrentPlan
    jobs: Jobs
    autoscalers: Autoscalers
    api: ClusterApi
    disruptions: Disruptions
    notes: Notes
    clock: Clock
    records: Records
    telemetry: Telemetry
    log: DecisionLog
    quiet: Quiet
    post_event: PostEvent
    rng: random.Random

    def workers(self, seen: Seen) -> Sequence[Pod]:
        """The job's worker pods that have not ended, by name."""
        pods = self.cache.job_pods(pods_job(seen))
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
        self.post_event(self.subject(seen), what, note, note)

    def record(self, change: Change) -> None:
        """Keep a change, and write it into the log of decisions."""
        self.records.put(change)
        what = f"{change.stage}: {change.before} to {change.after}, {change.why}"
        decision = Decision("resize", str(change.job), change.beneficiary or "", reason=what)
        self.log.log_decision(decision, now_s=self.clock.monotonic_s())


def pods_job(seen: Seen) -> PodsJob:
    """As pods name their job."""
    return PodsJob(f"{seen.key.namespace}/{seen.key.name}")


def runs(gang: Gang) -> bool:
    """Whether the gang has its quorum on nodes."""
    return quorum_of(gang).whole


def takes_room(pod: Pod | None) -> bool:
    """Whether a pod, if it is known, still has its node's room."""
    return pod is not None and pod.node is not None and not pod.terminal
