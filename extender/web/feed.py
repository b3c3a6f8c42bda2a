"""Server-sent events: every open page shows a change within a second.

Why one task for all viewers: what is shown is worked out and written once, however many watch, and not at all while
none is open. Rules: the work is done in slices (docs/safety.md S15) and takes at most a 25th of the loop, so the more a
look costs, the rarer it is. A viewer that reads too slowly misses intermediate states, never the last one, and holds at
most one of each section. The number of viewers is bounded, and all end with the process.
"""

import asyncio
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field
from typing import Final

from extender.runtime.slices import in_slices, in_timed_slices
from extender.web.moment import Sections
from scoring.plan.steps import Steps

MOST_VIEWERS: Final = 50
_SOONEST_S: Final = 0.4
_LATEST_S: Final = 5.0
_SHARE: Final = 25.0
_BEAT_S: Final = 15.0  # A comment after so long without news: proxies close what is silent, and the gone are found


class FullError(Exception):
    """As many watch as may."""


@dataclass(slots=True, eq=False)
class _Viewer:
    waiting: dict[str, bytes] = field(default_factory=dict)
    news: asyncio.Event = field(default_factory=asyncio.Event)


@dataclass(eq=False, repr=False)
class Feed:
    """The news for all open pages."""

    steps: Callable[[], Steps[Sections]]
    version: Callable[[], object]  # Something else than the last time when there may be news
    _viewers: set[_Viewer] = field(default_factory=set, init=False)
    _watched: asyncio.Event = field(default_factory=asyncio.Event, init=False)
    _latest: dict[str, bytes] = field(default_factory=dict, init=False)
    _seen: object = field(default=None, init=False)
    _closed: bool = field(default=False, init=False)

    @property
    def viewers(self) -> int:
        """How many watch now."""
        return len(self._viewers)

    async def look(self) -> Sections:
        """All sections of now, for a client that does not watch."""
        return await in_slices(self.steps())

    async def watch(self) -> AsyncIterator[bytes]:
        """Server-sent events for one viewer, all sections first; ends with the process. FullError: too many watch."""
        if self._closed or len(self._viewers) >= MOST_VIEWERS:
            raise FullError
        viewer = _Viewer(dict(self._latest))
        self._viewers.add(viewer)
        self._watched.set()
        return self._events(viewer)

    async def _events(self, viewer: _Viewer) -> AsyncIterator[bytes]:
        try:
            yield b"retry: 2000\n\n"
            while not self._closed:
                waiting, viewer.waiting = viewer.waiting, {}
                for name, body in waiting.items():
                    yield b"event: %s\ndata: %s\n\n" % (name.encode(), body)
                viewer.news.clear()
                if viewer.waiting or self._closed:
                    continue
                try:
                    async with asyncio.timeout(_BEAT_S):
                        await viewer.news.wait()
                except TimeoutError:
                    yield b": still here\n\n"
        finally:
            self._viewers.discard(viewer)

    async def run(self) -> None:
        """Look and send, as long as a page is open; runs until cancelled."""
        while True:
            if not self._viewers:
                self._watched.clear()
                self._latest, self._seen = {}, None  # what is old by then is sent to no page
                await self._watched.wait()
            pause_s = _SOONEST_S
            version = self.version()
            if version != self._seen:
                self._seen = version
                sections, cost_s = await in_timed_slices(self.steps())
                self._send(sections)
                pause_s = min(max(cost_s * _SHARE, _SOONEST_S), _LATEST_S)
            await asyncio.sleep(pause_s)

    def close(self) -> None:
        """Let every viewer go, for good."""
        self._closed = True
        for viewer in self._viewers:
            viewer.news.set()

    def _send(self, sections: Sections) -> None:
        changed = {name: body for name, body in sections.items() if self._latest.get(name) != body}
        self._latest.update(changed)
        for viewer in self._viewers if changed else ():
            viewer.waiting |= changed
            viewer.news.set()
