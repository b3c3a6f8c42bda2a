"""What controllers work with: the cluster as it is seen, the API server, and where they say what they do."""

from collections.abc import Callable, Sequence

import msgspec

from extender.cache import ClusterCache
from extender.controllers.events.recorder import Happening, PostEvent, group_subject, pod_subject
from extender.controllers.removal.removals import Disruptions, Quiet, owner_subject
from extender.notes import Notes
from extender.ports import Clock, ClusterApi, CurrentPlan
from extender.runtime.decision_lines import Decision, DecisionLog
from extender.runtime.slices import Background
from extender.runtime.telemetry import Telemetry
from scoring.ids import NodeName
from scoring.model import Gang, Pod
from scoring.plan import Plan


class ControllerContext(msgspec.Struct, frozen=True):
    """Handed to each controller; what is its own comes beside it."""

    cache: ClusterCache
    api: ClusterApi
    clock: Clock
    telemetry: Telemetry
    log: DecisionLog
    notes: Notes
    quiet: Quiet
    disruptions: Disruptions
    post_event: PostEvent
    planner: CurrentPlan
    lost_of: Callable[[Sequence[Pod]], frozenset[NodeName]]  # Nodes of these pods that are gone or silent for too long
    acting: Callable[[], bool]  # Whether this replica leads

    def plan(self) -> Plan | None:
        """The current plan; `None`: the cluster is not read yet."""
        return self.planner.current if self.planner.snapshot is not None else None

    def decided(self, decision: Decision) -> None:
        """A line in the log of decisions, as of now."""
        self.log.log_decision(decision, now_s=self.clock.monotonic_s())

    def post_gang_event(self, gang: Gang, what: Happening, note: str, topic: str = "", *, pods: Sequence[Pod]) -> None:
        """Post the same Event soon on the gang's PodGroup, where it has one, on these pods and on what owns them.

        Without pods, on the owner of a member. Owners: the job is what its author describes. See `PostEvent`.
        """
        seen = self.cache.pod_groups.of(gang)
        about = [group_subject(gang.key, seen.uid)] if seen is not None else []
        owners = {pod.owner: pod.namespace for pod in pods or gang.members[:1] if pod.owner is not None}
        about += [owner_subject(namespace, owner) for owner, namespace in owners.items()]
        for one in (*about, *map(pod_subject, pods)):
            self.post_event(one, what, note, topic)

    def background(self, place: str) -> Background:
        """For works that a controller starts beside itself; see `Background`."""
        return Background(self.telemetry, place)
