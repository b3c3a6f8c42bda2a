"""Remove the bound members of a gang that was never whole and cannot be completed (docs/safety.md S1, S8, S10, S11).

Why at all: such members use room and do no work. Rules: a gang with a problem, such as members of another scheduler,
is never evicted; nothing is removed in the first seconds after start or re-sync, when the cache may be behind; the
gang is listed from the API server just before, and spared as soon as one member looks different than the cache says; an
owner that would fail for it keeps its pods, and its user gets an Event; the Eviction API is used, so that disruption
budgets count, with the pod's uid and the version that was read; never a forced delete.
"""

import asyncio
from collections.abc import Callable, Sequence
from typing import Final

from extender.controllers.context import ControllerContext
from extender.controllers.events.recorder import Happening, pod_subject
from extender.controllers.owners.failure_budget import KINDS, OVER, NotAllowed
from extender.controllers.removal.fresh_gang import Fresh, read_members, read_verdicts, same_as_known
from extender.controllers.removal.removals import Cause
from extender.errors import ApiError, ApiUnavailableError
from extender.runtime.decision_lines import Decision
from scoring.ids import GangKey, PodUid

_CAUSE: Final = Cause(
    Happening.EVICTED,
    "The gang did not become whole in time and there is no room for the rest of its minimum: its "
    "pods on nodes are evicted, because they use room in vain.",
)


class Evictions:
    """Carries out the permit machine's evictions, one gang at a time per task."""

    def __init__(self, context: ControllerContext, *, refused: Callable[[GangKey, Sequence[PodUid]], None]) -> None:
        self._context = context
        self._refused = refused
        self._evicting = context.background("evict")

    def add(self, gang: GangKey, uids: Sequence[PodUid]) -> None:
        """Evict these members of the gang, or report them as refused."""
        self._evicting.start(self._evict(gang, uids), f"evict {gang}")

    async def _evict(self, key: GangKey, uids: Sequence[PodUid]) -> None:
        stayed = set(uids)
        try:
            members = await self._as_the_cache_says(key, uids) if self._context.quiet.over else None
            if members is not None:
                stayed &= {member.pod.uid for member in members}  # others are gone
                for member in members:
                    if await self._evict_one(key, member, among=members):
                        stayed.discard(member.pod.uid)
        except (asyncio.CancelledError, GeneratorExit):
            stayed.clear()  # the process ends: nothing may begin because of it
            raise
        finally:
            if stayed:
                self._refused(key, tuple(uid for uid in uids if uid in stayed))

    async def _as_the_cache_says(self, key: GangKey, uids: Sequence[PodUid]) -> Sequence[Fresh] | None:
        """Those of `uids` that are there now, if the gang is as the cache says; `None`: none is to be removed."""
        gang = self._context.cache.gang(key)
        if gang is None or not gang.actionable:
            return None
        try:
            fresh = await read_members(self._context.api, key, gang.source)
            if not same_as_known(gang, fresh):
                return None
            theirs = [member for member in fresh if member.pod.uid in uids]
            verdicts = await read_verdicts(self._context.api, theirs)
        except (ApiError, ApiUnavailableError, ValueError):
            return None
        for owner, (verdict, _) in verdicts.items():  # pods of no owner, or of a kind that is not known, may go
            if owner is not None and owner.group_kind in KINDS and isinstance(verdict, NotAllowed):
                self._post_stays(key, theirs, verdict)
                return None
        return theirs

    def _post_stays(self, key: GangKey, pods: Sequence[Fresh], verdict: NotAllowed) -> None:
        if verdict.reason in OVER:
            return
        self._context.decided(Decision("evict", pods[0].pod.key, key, reason=verdict.reason))
        note = "The gang did not become whole, and this pod uses room in vain. It is not removed, because "
        for one in pods:
            self._context.post_event(pod_subject(one.pod), Happening.NOT_DISRUPTED, note + verdict.text, "partial")

    async def _evict_one(self, key: GangKey, one: Fresh, *, among: Sequence[Fresh]) -> bool:
        pod = one.pod
        try:
            await self._context.disruptions.evict(one, _CAUSE, among=among)
        except (ApiError, ApiUnavailableError) as error:
            self._context.decided(Decision("evict", pod.key, key, reason=f"refused: {type(error).__name__}"))
            return False
        self._context.telemetry.evicted("partial")
        self._context.decided(Decision("evict", pod.key, key, pod.node or ""))
        return True
