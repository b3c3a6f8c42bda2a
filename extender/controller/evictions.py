"""Remove the bound members of a gang that was never whole and cannot be completed (DESIGN §5, S8, S10, S11).

Why at all: such members hold room and do no work. Rules: nothing is removed in the first seconds after start or
re-sync, when the cache may be behind; each member is read again from the API server just before, and the gang is spared
as soon as one member looks different than the cache says; the Eviction API is used, so that disruption budgets count,
with the pod's uid and the version that was read; never a forced delete.
"""

import asyncio
import logging
from collections.abc import Callable, Mapping, Sequence

import msgspec

from extender.cache import ClusterCache
from extender.controller.quiet import Quiet
from extender.convert import pod_from_json
from extender.errors import ApiError, ApiUnavailableError
from extender.ports import Clock, ClusterApi
from extender.telemetry import Decision, DecisionLog, Telemetry
from scoring.ids import GangKey, PodUid
from scoring.model import Pod

Refused = Callable[[GangKey, Sequence[PodUid]], None]

_log = logging.getLogger(__name__)


class Evictions:
    """Carries out the permit machine's evictions, one gang at a time per task."""

    def __init__(
        self,
        cache: ClusterCache,
        api: ClusterApi,
        clock: Clock,
        telemetry: Telemetry,
        log: DecisionLog,
        *,
        refused: Refused,
        quiet: Quiet,
    ) -> None:
        self._cache = cache
        self._api = api
        self._clock = clock
        self._telemetry = telemetry
        self._log = log
        self._refused = refused
        self._quiet = quiet
        self._tasks: set[asyncio.Task[None]] = set()

    def add(self, gang: GangKey, uids: Sequence[PodUid]) -> None:
        """Evict these members of the gang, or report them as refused."""
        task = asyncio.create_task(self._evict(gang, tuple(uids)), name=f"evict {gang}")
        self._tasks.add(task)
        task.add_done_callback(self._ended)

    async def _evict(self, gang: GangKey, uids: tuple[PodUid, ...]) -> None:
        """Evict one after the other; whoever is not, for whatever reason, is reported as refused."""
        stayed = dict.fromkeys(uids)
        try:
            versions = await self._as_the_cache_says(gang) if self._quiet.over else None
            if versions is None:
                return
            for uid in uids:
                pod = self._cache.pod(uid)
                if pod is None or await self._evict_one(gang, pod, versions.get(uid, "")):
                    del stayed[uid]
        finally:
            if stayed:
                self._refused(gang, tuple(stayed))

    def _ended(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            _log.error("internal error in evicting a gang", exc_info=error)
            self._telemetry.internal_error("evict")

    async def _as_the_cache_says(self, key: GangKey) -> Mapping[PodUid, str] | None:
        """Each member's resourceVersion, read from the API server now; `None`: one is not on the node the cache knows.

        kubelets write into the status of pods that run, so a version may be outdated a moment later; then the eviction
        is refused, and the gang looked at anew.
        """
        gang = self._cache.gang(key)
        if gang is None:
            return None
        versions: dict[PodUid, str] = {}
        for member in gang.members:
            try:
                fresh = pod_from_json(await self._api.get_pod(member.namespace, member.name))
            except (ApiError, ApiUnavailableError, ValueError, msgspec.DecodeError):
                return None
            if _looks(fresh) != _looks(member):
                return None
            versions[fresh.uid] = fresh.resource_version
        return versions

    async def _evict_one(self, gang: GangKey, pod: Pod, resource_version: str) -> bool:
        try:
            await self._api.evict(pod.namespace, pod.name, pod.uid, resource_version=resource_version)
        except (ApiError, ApiUnavailableError) as error:
            self._log.log_decision(
                Decision("evict", pod.key, gang, reason=f"refused: {type(error).__name__}"),
                now_s=self._clock.monotonic_s(),
            )
            return False
        self._telemetry.evicted("partial")
        self._log.log_decision(Decision("evict", pod.key, gang, pod.node or ""), now_s=self._clock.monotonic_s())
        return True


def _looks(pod: Pod) -> tuple[object, ...]:
    """What must not have changed since the decision."""
    return pod.uid, pod.node, pod.phase, pod.deleting
