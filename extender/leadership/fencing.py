"""Let nothing be sent that could arrive as a former leader's (docs/safety.md S11).

One guard around the port holds for every write, also for those that are yet to be added: what is not known to read only
is a write. Rule: a write begins only while the lease is ours, and is given up when that is over. Reading is free.
"""

import asyncio
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any, Final, TypeVar

from extender.errors import ApiUnavailableError
from extender.ports import ClusterApi

READS: Final = frozenset({"list_page", "watch", "get_pod", "get_object", "labelled_owners"})
_T = TypeVar("_T")


class FencedApi:
    """Has every call of ClusterApi. `room_s`: how long a write may take that begins now; 0 or less: none may."""

    def __init__(self, api: ClusterApi, room_s: Callable[[], float]) -> None:
        self._api = api
        self._room_s = room_s
        self._under_way = 0
        self._idle = asyncio.Event()
        self._idle.set()

    async def idle(self) -> None:
        """Wait until no write is under way. Each has its time limit, so this ends."""
        await self._idle.wait()

    def __getattr__(self, name: str) -> Any:
        """A call of the port; one that writes raises ApiUnavailableError when the lease is not or no longer ours."""
        call = getattr(self._api, name)
        return call if name in READS else partial(self._write, name, call)

    async def _write(self, name: str, call: Callable[..., Awaitable[_T]], *arguments: Any, **more: Any) -> _T:
        room_s = self._room_s()
        if room_s <= 0.0:
            raise ApiUnavailableError(f"{name}: not sent, this replica does not hold the lease")
        self._under_way += 1
        self._idle.clear()
        try:
            async with asyncio.timeout(room_s) as limit:
                return await call(*arguments, **more)
        except TimeoutError as error:
            if not limit.expired():
                raise
            raise ApiUnavailableError(f"{name}: given up before the lease ends, outcome unknown") from error
        finally:
            self._under_way -= 1
            if not self._under_way:
                self._idle.set()
