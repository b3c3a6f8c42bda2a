"""The queue of those that write many small things one by one: Events, statuses of PodGroups, conditions of pods.

Why one: a cluster full of waiting gangs could have thousands of them a minute, and the API server is busy enough with
Bindings. Rules: bounded, each item is in it once, and writes are paced. An error that `write` lets pass ends the task.
"""

import asyncio
from collections.abc import Awaitable, Callable, Hashable
from typing import Generic, TypeVar

_T = TypeVar("_T", bound=Hashable)


class WriteQueue(Generic[_T]):
    """What is to be written one by one; bounded, and each item is in it once."""

    def __init__(self, most: int, per_s: float) -> None:
        self._queue: asyncio.Queue[_T] = asyncio.Queue(most)
        self._queued: set[_T] = set()  # They wait, or their write is under way
        self._pause_s = 1.0 / per_s

    def __contains__(self, item: _T) -> bool:
        return item in self._queued

    @property
    def full(self) -> bool:
        """Whether it takes no more now."""
        return self._queue.full()

    def add(self, item: _T) -> bool:
        """Have it written soon; whether it will be."""
        if item not in self._queued:
            if self.full:
                return False
            self._queue.put_nowait(item)
            self._queued.add(item)
        return True

    async def work_off(self, write: Callable[[_T], Awaitable[bool]]) -> None:
        """Write until cancelled; `write` says whether anything was sent, which is paced."""
        while True:
            item = await self._queue.get()
            try:
                sent = await write(item)
            finally:
                self._queued.discard(item)
            if sent:
                await asyncio.sleep(self._pause_s)
