"""What controllers work with: the cluster as it is seen, the API server, and where they say what they do."""

from dataclasses import dataclass

from extender.cache import ClusterCache
from extender.controllers.events.recorder import PostEvent
from extender.controllers.removal.quiet_period import Quiet
from extender.controllers.removal.removals import Disruptions
from extender.notes import Notes
from extender.ports import Clock, ClusterApi
from extender.runtime.background import Background
from extender.runtime.decision_lines import Decision, DecisionLog
from extender.runtime.telemetry import Telemetry


@dataclass(frozen=True, slots=True)
class ControllerContext:
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

    def decided(self, decision: Decision) -> None:
        """A line in the log of decisions, as of now."""
        self.log.log_decision(decision, now_s=self.clock.monotonic_s())

    def background(self, place: str) -> Background:
        """For works that a controller starts beside itself; see `Background`."""
        return Background(self.telemetry, place)
