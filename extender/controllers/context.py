"""What controllers are, loops beside each other, and what they work with.

Level-triggered: each turn derives what is to be done from plan and cache, so a bug in one turn, or a lost patch, is
made good by the next.
"""

import asyncio
import logging
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Generator, Sequence
from typing import ClassVar, TypeAlias

import msgspec

from extender.cache.cluster import ClusterCache
from extender.controllers.recorder import Events, Happening, Subject, owner_subject, pod_subject
from extender.controllers.removals import Disruptions, Quiet
from extender.ports import Clock, ClusterApi, CurrentPlan
from extender.runtime.decision_lines import Decision, DecisionLog
from extender.runtime.slices import Background, Steps, in_slices
from extender.runtime.telemetry import Telemetry
from extender.signed_notes import Notes
from scoring import NodeName
from scoring.model import Gang, Pod
from scoring.plan import Plan

_log = logging.getLogger(__name__)


class ControllerContext(msgspec.Struct, frozen=True):
    """The cluster, the API server, and where controllers say what they do; their own parts come beside it."""

    cache: ClusterCache
    api: ClusterApi
    clock: Clock
    telemetry: Telemetry
    log: DecisionLog
    notes: Notes
    quiet: Quiet
    disruptions: Disruptions
    events: Events
    planner: CurrentPlan
    lost_of: Callable[[Sequence[Pod]], frozenset[NodeName]]  # Nodes of these pods that are gone or silent for too long
    acting: Callable[[], bool]  # Whether this replica leads

    def plan(self) -> Plan | None:
        """The current plan; `None`: the cluster is not read yet."""
        return self.planner.current if self.planner.snapshot is not None else None

    def decided(self, decision: Decision) -> None:
        """A line in the log of decisions."""
        self.log.log_decision(decision, now_s=self.clock.monotonic_s())

    def post_gang_event(self, gang: Gang, what: Happening, note: str, topic: str = "", *, pods: Sequence[Pod]) -> None:
        """Post an Event on the gang's PodGroup, on these pods and on their owners; without pods on a member's owner."""
        about, (namespace, _, name) = list[Subject](), gang.key.partition("/")
        if (seen := self.cache.pod_groups.of_gang(gang)) is not None:
            about.append(Subject("scheduling.x-k8s.io/v1alpha1", "PodGroup", namespace, name, seen.uid))
        owners = dict.fromkeys(pod.owner for pod in pods or gang.members[:1] if pod.owner is not None)
        about += [owner_subject(namespace, owner) for owner in owners]
        for subject in (*about, *map(pod_subject, pods)):
            self.events.post(subject, what, note, topic)

    def background(self, place: str) -> Background:
        """For works beside a controller's turns."""
        return Background(self.telemetry, place)


Turn: TypeAlias = Awaitable[float | None] | Steps[float | None] | Steps[None] | None
"""Work of one turn, in steps if it is long; it may end with the least pause until the next, seconds"""


class ControlLoop(ABC):
    """A controller. Its turn is `look`; `run` it."""

    every_s: ClassVar[float] = 1.0
    leads_only: ClassVar[bool] = True  # No turn while another replica leads

    def __init__(self, context: ControllerContext) -> None:
        self.context = context
        self._woken = asyncio.Event()

    @abstractmethod
    def reconcile(self) -> Turn:
        """Do what is due."""

    def reset(self) -> None:  # noqa: B027 - most loops remember nothing
        """A term begins or ends: know nothing, as after a restart."""

    def wake(self) -> None:
        """Let the next turn begin now; turns that overlap are one."""
        self._woken.set()

    async def run(self) -> None:
        """A turn every `every_s`, and when it is woken, until cancelled."""
        pause_s = self.every_s
        while True:
            timer = asyncio.get_running_loop().call_later(pause_s, self.wake)
            await self._woken.wait()
            timer.cancel()
            self._woken.clear()
            if self.leads_only and not self.context.acting():
                continue
            try:
                turn = self.reconcile()
                if isinstance(turn, Generator):
                    turn = in_slices(turn)
                least_s = await turn if turn is not None else None
                pause_s = max(self.every_s, least_s or 0.0)
            except Exception:  # noqa: BLE001 - supervisor: the next turn starts from the facts again
                place = type(self).__name__
                _log.exception("internal error in a turn of %s", place)
                self.context.telemetry.internal_error(place)
