"""The reflectors of a running netgang over an API server that says what it is given: hostile objects, one by one.

An event that is given is read when `take` returns, so that the time it took can be measured.
"""

import asyncio
import random
from collections.abc import AsyncGenerator, Sequence
from functools import partial
from typing import Any, Self, cast

from extender.bootstrap import empty_cache, reflectors_of
from extender.bootstrap.common import feeds_of
from extender.cache.state import UnreadableObjects
from extender.kube.reflector import Reflector
from extender.ports import ClusterApi, Page, SystemClock, WatchEvent
from extender.settings.settings import Settings
from extender.signed_notes import UncheckedNotes


class _Told:
    def __init__(self) -> None:
        self.queues: dict[str, asyncio.Queue[WatchEvent]] = {}

    async def list_page(self, path: str, **_: Any) -> Page:
        self.queues.setdefault(path, asyncio.Queue())
        return Page([], "1")

    async def watch(self, path: str, **_: Any) -> AsyncGenerator[WatchEvent, None]:
        queue = self.queues[path]
        while True:
            event = await queue.get()
            try:
                yield event
            finally:
                queue.task_done()


class Followed:
    def __init__(self) -> None:
        settings = Settings().changed({"elastic": {"enabled": True}})
        self.cache = empty_cache(settings)
        self.unreadable = UnreadableObjects()
        self._told = _Told()
        notes = UncheckedNotes()
        follow = partial(Reflector, cast(ClusterApi, self._told), clock=SystemClock(), rng=random.Random(0))
        feeds = feeds_of(settings, follow, self.unreadable, notes)
        assert feeds is not None
        made = reflectors_of(settings, self.cache, follow, self.unreadable, notes)
        self.reflectors: dict[str, Reflector[Any]] = {  # plural of the kind → what follows it
            one.status().path.rpartition("/")[2]: one for one in (*made.values(), *feeds.reflectors.values())
        }
        self._tasks: list[asyncio.Task[Any]] = []

    async def __aenter__(self) -> Self:
        self._tasks = [asyncio.create_task(one.run()) for one in self.reflectors.values()]
        for one in self.reflectors.values():
            await one.synced.wait()
        return self

    async def __aexit__(self, *_: object) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def take(self, kind: str, objects: Sequence[bytes], *, what: str = "MODIFIED") -> None:
        """These objects are so now, or gone; all have been read, or cannot be, when it returns."""
        queue = self._told.queues[self.reflectors[kind].status().path]
        for raw in objects:
            queue.put_nowait(WatchEvent(what, raw))
        await queue.join()

    def relists_and_errors(self) -> dict[str, tuple[int, int]]:
        """Kind → how often it was listed again, and how often following failed; nothing of all that did neither."""
        found = {kind: one.status() for kind, one in self.reflectors.items()}
        counts = {kind: (one.relists - 1, one.errors) for kind, one in found.items()}
        return {kind: count for kind, count in counts.items() if count != (0, 0)}
