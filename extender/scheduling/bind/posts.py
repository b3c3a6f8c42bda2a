"""Post the Bindings that the permit machines ask for, and report the outcome of each exactly once.

Rule: success is reported only after the API server confirmed it. A Binding begins when the in-flight limiter allows it,
at the latest when half of the commit timeout has passed since the hold limit of the call that asked for it, and takes
`BINDING_MAX_S` at most; kube-scheduler waits for that (`extender.settings.times`). What changed meanwhile is
looked at again: a gang that became invalid or too small posts no further Binding (docs/safety.md S24), and after a
long wait all of a gang's places must still do before the first of its Bindings.
"""

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import KW_ONLY, dataclass
from typing import TypeAlias

import msgspec

from extender.controllers.context import ControllerContext
from extender.errors import ApiError, ApiUnavailableError, ConflictError, NotFoundError
from extender.ports import Binding
from extender.runtime.decision_lines import Decision
from extender.scheduling.bind.in_flight import Batch, InFlightLimiter
from extender.scheduling.unfit_nodes import NodeHealth
from scoring.feasibility.recheck import members_without_room
from scoring.ids import GangKey, NodeName, PodUid
from scoring.model import Gang, Reason
from scoring.permit.protocol import BindFailed, MemberBound

_STALE_S = 1.0  # Places that were looked at longer ago are looked at again

Outcome: TypeAlias = MemberBound | BindFailed


class Group(msgspec.Struct):
    """The Bindings that one step of a gang's machine asked for."""

    key: GangKey
    places: Mapping[PodUid, NodeName]
    asked_s: float
    batch: Batch
    gang: Gang | None  # As it was when it was found that they may go on
    looked_at: bool = False
    begun: bool = False


@dataclass(eq=False, repr=False)
class Posts:
    """Bindings under way, and those that wait for their turn."""

    context: ControllerContext
    health: NodeHealth
    _: KW_ONLY
    hold_s: float
    commit_s: float
    report: Callable[[GangKey, Outcome], None]  # Called once for each Binding, whatever happens
    may_go_on: Callable[[Group], bool]

    def __post_init__(self) -> None:
        self.limiter = InFlightLimiter(self.context.clock)
        self._posting = self.context.background("post")
        self.over = self._posting.over  # Waits for the Bindings under way

    async def alone(self, binding: Binding) -> Reason | None:
        """Post the Binding of a pod without a gang. `None`: the API server confirmed it."""
        begin_by_s = self.context.clock.monotonic_s() + self.hold_s
        if not await self.limiter.take(Batch(begin_by_s, begin_by_s)):
            return Reason.COMMIT_FAILED
        began_s = self.context.clock.monotonic_s()
        error: Exception | None = TimeoutError()
        try:
            error = await self._tried(binding)
        finally:
            self.limiter.give_back(began_s=began_s, answered=error is None or was_answered(error))
        return None if error is None else self._post_failed(binding, error)

    def begin(self, key: GangKey, places: Mapping[PodUid, NodeName], *, due_s: float, partly_bound: bool) -> None:
        """Post these Bindings: the first by `due_s` and a quarter of the commit timeout, the others by half of it."""
        now_s = self.context.clock.monotonic_s()
        batch = Batch(due_s + self.commit_s / 4.0, due_s + self.commit_s / 2.0, urgent=partly_bound)
        group = Group(key, places, now_s, batch, self.context.cache.gang(key))
        for uid in places:
            self._posting.start(self._post(uid, group), f"bind {key}")

    async def _post(self, uid: PodUid, group: Group) -> None:
        outcome: Outcome | None = None
        try:
            outcome = await self._posted(uid, group)
        finally:
            self.report(group.key, outcome or self._failed(uid, "broken off"))

    async def _posted(self, uid: PodUid, group: Group) -> Outcome:
        if not await self.limiter.take(group.batch):
            return self._failed(uid, "it got no turn")
        began_s, answered = self.context.clock.monotonic_s(), True
        try:
            pod = self.context.cache.pod(uid)
            if pod is None:
                return self._failed(uid, "the pod is gone", terminal=True)
            if not self._still_good(group, now_s=began_s):
                return self._failed(uid, "its gang changed, or its places are gone")
            group.begun = True
            binding = Binding(pod.namespace, pod.name, uid, group.places[uid])
            error = await self._tried(binding)
            if error is None:
                return MemberBound(uid, binding.node, self.context.clock.monotonic_s())
            answered = was_answered(error)
            self._post_failed(binding, error)
            return self._failed(uid, str(error), terminal=isinstance(error, ApiError) and error.status in (404, 422))
        finally:
            self.limiter.give_back(began_s=began_s, answered=answered)

    async def _tried(self, binding: Binding) -> Exception | None:
        """One Binding within the commit timeout. `None`: the API server confirmed it."""
        try:
            async with asyncio.timeout(self.commit_s):
                await self.context.api.bind(binding)
        except (ApiError, ApiUnavailableError, TimeoutError) as error:
            return error
        self.context.cache.assume(binding.uid, binding.node)
        self.context.telemetry.binding_posted("bound")
        return None

    def _still_good(self, group: Group, *, now_s: float) -> bool:
        """Whether the gang still may start, and its places are what they were; these are looked at once, if late."""
        if group.batch.over:
            return False
        gang, places = self.context.cache.gang(group.key), group.places
        if gang is not group.gang:
            group.gang = gang
            if not self.may_go_on(group):
                self.limiter.refuse(group.batch)
                return False
        if group.looked_at or now_s - group.asked_s <= _STALE_S:
            return True
        group.looked_at = True
        if (
            gang is not None
            and not self.health.lost(set(places.values()))
            and not members_without_room(self.context.cache.snapshot(), gang, places)
        ):
            return True
        self.limiter.refuse(group.batch)
        return False

    def _failed(self, uid: PodUid, error: str, *, terminal: bool = False) -> BindFailed:
        return BindFailed(uid, error, terminal=terminal, now_s=self.context.clock.monotonic_s())

    def _post_failed(self, binding: Binding, error: Exception) -> Reason:
        conflict = isinstance(error, ConflictError)
        self.context.telemetry.binding_posted("conflict" if conflict else "error")
        decision = Decision(
            what="post", pod=f"{binding.namespace}/{binding.name}", node=binding.node, reason=Reason.COMMIT_FAILED
        )
        self.context.decided(decision)
        if isinstance(error, NotFoundError):
            return Reason.POD_DELETED
        return Reason.POD_CHANGED if conflict else Reason.COMMIT_FAILED


def was_answered(error: Exception) -> bool:
    """Whether the API server was there and not too busy, though it said no.

    >>> was_answered(ConflictError(409, "is bound")), was_answered(ApiError(429, "later")), was_answered(TimeoutError())
    (True, False, False)
    """
    return isinstance(error, ApiError) and error.status < 500 and error.status != 429
