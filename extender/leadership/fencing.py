"""Let nothing be sent that could arrive as a former leader's (docs/safety.md S11).

Why here: every write goes through one port, so one guard around it holds for Bindings, patches, evictions and Events
alike, and for those that are yet to be invented. Rule: a write begins only while the lease is ours, gets no more time
than the lease has left, and is given up when that is over. Reading is free.
"""

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any

from extender.errors import ApiUnavailableError
from extender.ports import Binding, ClusterApi, Labelled, Page, WatchEvent
from scoring.ids import PodUid


class FencedApi:
    """ClusterApi for a leader. `room_s`: how long a write may take that begins now; 0 or less: none may."""

    def __init__(self, api: ClusterApi, room_s: Callable[[], float]) -> None:
        self._api = api
        self._room_s = room_s
        self._under_way = 0
        self._idle = asyncio.Event()
        self._idle.set()

    async def idle(self) -> None:
        """Wait until no write is under way. Each has its time limit, so this ends."""
        await self._idle.wait()

    @asynccontextmanager
    async def _written(self, what: str) -> AsyncIterator[None]:
        room_s = self._room_s()
        if room_s <= 0.0:
            raise ApiUnavailableError(f"{what}: not sent, this replica does not hold the lease")
        self._under_way += 1
        self._idle.clear()
        try:
            async with asyncio.timeout(room_s) as limit:
                yield
        except TimeoutError as error:
            if not limit.expired():
                raise
            raise ApiUnavailableError(f"{what}: given up before the lease ends, outcome unknown") from error
        finally:
            self._under_way -= 1
            if not self._under_way:
                self._idle.set()

    async def list_page(self, path: str, *, limit: int, continue_token: str = "", not_older_than: str = "") -> Page:
        """See ClusterApi."""
        return await self._api.list_page(
            path, limit=limit, continue_token=continue_token, not_older_than=not_older_than
        )

    def watch(self, path: str, *, resource_version: str, timeout_s: int) -> AsyncIterator[WatchEvent]:
        """See ClusterApi."""
        return self._api.watch(path, resource_version=resource_version, timeout_s=timeout_s)

    async def get_pod(self, namespace: str, name: str) -> bytes:
        """See ClusterApi."""
        return await self._api.get_pod(namespace, name)

    async def get_object(self, api_version: str, kind: str, namespace: str, name: str) -> bytes:
        """See ClusterApi."""
        return await self._api.get_object(api_version, kind, namespace, name)

    async def labelled_owners(self, label: str) -> Sequence[Labelled]:
        """See ClusterApi."""
        return await self._api.labelled_owners(label)

    async def patch_object(self, api_version: str, kind: str, namespace: str, name: str, patch: bytes) -> bytes:
        """See ClusterApi."""
        async with self._written("patch"):
            return await self._api.patch_object(api_version, kind, namespace, name, patch)

    async def bind(self, binding: Binding) -> None:
        """See ClusterApi. All attempts together end before the lease does."""
        async with self._written("bind"):
            await self._api.bind(binding)

    async def annotate_pod(self, namespace: str, name: str, uid: PodUid, annotations: Mapping[str, str]) -> None:
        """See ClusterApi."""
        async with self._written("patch"):
            await self._api.annotate_pod(namespace, name, uid, annotations)

    async def admit_pod(self, namespace: str, name: str, uid: PodUid, patch: bytes) -> None:
        """See ClusterApi."""
        async with self._written("patch"):
            await self._api.admit_pod(namespace, name, uid, patch)

    async def evict(self, namespace: str, name: str, uid: PodUid, *, resource_version: str = "") -> None:
        """See ClusterApi."""
        async with self._written("evict"):
            await self._api.evict(namespace, name, uid, resource_version=resource_version)

    async def patch_group_status(self, namespace: str, name: str, patch: bytes) -> bytes:
        """See ClusterApi."""
        async with self._written("patch"):
            return await self._api.patch_group_status(namespace, name, patch)

    async def create_event(self, namespace: str, event: Mapping[str, Any]) -> None:
        """See ClusterApi."""
        async with self._written("event"):
            await self._api.create_event(namespace, event)

    async def create_object(self, api_version: str, kind: str, namespace: str, content: Mapping[str, Any]) -> None:
        """See ClusterApi."""
        async with self._written("create"):
            await self._api.create_object(api_version, kind, namespace, content)

    async def delete_object(self, api_version: str, kind: str, namespace: str, name: str) -> None:
        """See ClusterApi."""
        async with self._written("delete"):
            await self._api.delete_object(api_version, kind, namespace, name)
