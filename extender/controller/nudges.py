"""Wake pods that kube-scheduler has parked, by one small patch each.

Why: see `extender.service.parking`. Rules: a pod is in the queue at most once; the patch carries its uid, so that a
replaced pod of the same name is never touched; only own pods are patched (S1); what cannot be patched now is tried
again when the parking book says that the pod is overdue.
"""

import asyncio
from collections.abc import Iterable

from extender.cache import ClusterCache
from extender.convert import NUDGE_ANNOTATION
from extender.errors import ApiError, ApiUnavailableError
from extender.ports import Clock, ClusterApi
from extender.telemetry import Telemetry
from scoring.ids import PodUid

_AT_ONCE = 16
"""Patches under way at the same time."""


class Nudges:
    """A queue of pods to wake, and the tasks that wake them."""

    def __init__(self, cache: ClusterCache, api: ClusterApi, clock: Clock, telemetry: Telemetry) -> None:
        self._cache = cache
        self._api = api
        self._clock = clock
        self._telemetry = telemetry
        self._queued: dict[PodUid, None] = {}
        self._ready = asyncio.Event()

    def add(self, uids: Iterable[PodUid]) -> None:
        """Wake these pods soon, in this order."""
        self._queued.update(dict.fromkeys(uids))
        if self._queued:
            self._ready.set()

    async def run(self) -> None:
        """Wake what is queued until cancelled."""
        async with asyncio.TaskGroup() as tasks:
            for number in range(_AT_ONCE):
                tasks.create_task(self._work(), name=f"nudge-{number}")

    async def _work(self) -> None:
        while True:
            await self._ready.wait()
            if not self._queued:
                self._ready.clear()
                continue
            uid = next(iter(self._queued))
            del self._queued[uid]
            await self._nudge(uid)

    async def _nudge(self, uid: PodUid) -> None:
        pod = self._cache.pod(uid)
        if pod is None or pod.node is not None or pod.deleting or not self._cache.is_own(pod):
            return
        # Any new value is an update to kube-scheduler; the time also tells people when the last one was.
        value = f"{self._clock.now_s():.3f}"
        try:
            await self._api.annotate_pod(pod.namespace, pod.name, uid, {NUDGE_ANNOTATION: value})
        except (ApiError, ApiUnavailableError):
            self._telemetry.nudged("nudge", "error")
        else:
            self._telemetry.nudged("nudge", "done")
