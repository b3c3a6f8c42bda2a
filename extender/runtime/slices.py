"""Keep the event loop free (docs/safety.md S15): long work in a thread, or on the loop in slices of milliseconds.

Threads: works of one are done one after the other, on values that do not change; what they find takes effect on the
event loop. There are two, so that long questions (expected starts of 64 gangs beside 5,000 nodes take a second) do not
hold up plans. Slices: one in a turn of the loop, first come, first served, for five works that each pause after 4 ms
would be a stall of 20; the first one of a work that is woken comes on top.

Lists, which tenants lengthen, are read object by object: who keeps little of each needs memory for one page. Pages, and
slices of a list, count bytes as well as objects, as tenants may write 1.5 MiB into one.
"""

import asyncio
import logging
from collections import deque
from collections.abc import AsyncGenerator, Callable, Coroutine, Generator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any, Final, Protocol, Self, TypeAlias, TypeVar
from weakref import WeakKeyDictionary

from extender.errors import TooLongError
from extender.ports import ClusterApi
from extender.runtime.telemetry import Telemetry

SLICE_S: Final = 0.004  # After this long others have their turn; the longest step comes on top
MOST_OBJECTS: Final = 500  # On one page
_SLICE_BYTES: Final = 256 * 1024  # about 1 ms of decoding
_LEAST_BYTES: Final = _SLICE_BYTES // 50  # As which the smallest object counts
_T = TypeVar("_T")
_log = logging.getLogger(__name__)
Steps: TypeAlias = Generator[None, None, _T]
"""Work on the event loop that ends with the result; each `yield` is a moment at which it can be left for a while"""


async def next_slice() -> None:
    """Let other tasks run, and come back in a turn of the loop that no other slice is in."""
    loop = asyncio.get_running_loop()
    if (line := _LINES.get(loop)) is None:
        line = _LINES[loop] = _Line()
    await line.wait(loop)


async def in_slices(steps: Steps[_T]) -> _T:
    """The result of the work; others have a turn at the first pause after each slice."""
    result, _ = await in_timed_slices(steps)
    return result


async def in_timed_slices(steps: Steps[_T]) -> tuple[_T, float]:
    """The same, and for how many seconds the work itself held the loop."""
    loop = asyncio.get_running_loop()
    await next_slice()
    spent_s, began_s = 0.0, loop.time()
    while True:
        try:
            next(steps)
        except StopIteration as done:
            result: _T = done.value
            return result, spent_s + loop.time() - began_s
        if loop.time() - began_s >= SLICE_S:
            spent_s += loop.time() - began_s
            await next_slice()
            began_s = loop.time()


class _Line:
    def __init__(self) -> None:
        self._waiting: deque[asyncio.Future[None]] = deque()
        self._moves = False

    async def wait(self, loop: asyncio.AbstractEventLoop) -> None:
        place = loop.create_future()
        self._waiting.append(place)
        if not self._moves:
            self._moves = True
            loop.call_soon(self._move, loop)
        await place

    def _move(self, loop: asyncio.AbstractEventLoop) -> None:
        """Let the first go on, in the next turn. Once more after the last one: it may be in its slice by then."""
        while self._waiting and self._waiting[0].done():  # cancelled meanwhile
            self._waiting.popleft()
        self._moves = bool(self._waiting)
        if self._waiting:
            self._waiting.popleft().set_result(None)
            loop.call_soon(self._move, loop)


_LINES: Final[WeakKeyDictionary[asyncio.AbstractEventLoop, _Line]] = WeakKeyDictionary()


class Pages:
    """Reads lists, one after the other; a page that is too long is asked for in parts, which grow again."""

    def __init__(self, api: ClusterApi, *, most: int = MOST_OBJECTS) -> None:
        self._api, self._most, self._slice_bytes = api, most, 0
        self.version = ""  # The resourceVersion of the last list that was read to its end

    async def items(self, path: str, *, not_older_than: str = "") -> AsyncGenerator[bytes, None]:
        """Raw JSON of each object, from storage or a cache `not_older_than`. Errors: those of `list_page`, at any."""
        token, most = "", self._most
        while True:
            try:
                page = await self._api.list_page(path, limit=most, continue_token=token, not_older_than=not_older_than)
            except TooLongError:
                if most == 1:
                    raise
                most = max(most // 8, 1)
                continue
            if sum(map(len, page.items)) < 8 * _SLICE_BYTES:
                most = min(most * 2, self._most)
            for raw in page.items:
                yield raw
                await self.share_the_loop(raw)
            token = page.continue_token
            if not token:
                self.version = page.resource_version
                return

    async def share_the_loop(self, raw: bytes) -> None:
        """Let others have a turn if the objects that were read since the last time are work for a slice."""
        self._slice_bytes += max(len(raw), _LEAST_BYTES)
        if self._slice_bytes >= _SLICE_BYTES:
            self._slice_bytes = 0
            await next_slice()


@dataclass(eq=False, repr=False)
class Background:
    """The works of one part that are under way; `place` is a constant word for the count of bugs."""

    telemetry: Telemetry
    place: str
    _tasks: set[asyncio.Task[None]] = field(default_factory=set, init=False)

    @property
    def busy(self) -> bool:
        """Whether any work is under way."""
        return bool(self._tasks)

    def start(self, work: Coroutine[Any, Any, None], name: str) -> asyncio.Task[None]:
        """Begin a work; `name` is the task's, for the log."""
        task = asyncio.create_task(work, name=name)
        self._tasks.add(task)
        task.add_done_callback(self._ended)
        return task

    async def over(self) -> None:
        """Wait for all that is under way."""
        if self._tasks:
            await asyncio.wait(self._tasks)

    def cancel(self) -> None:
        """Break off all that is under way."""
        for task in self._tasks:
            task.cancel()

    def _ended(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            _log.error("internal error: %s", task.get_name(), exc_info=error)
            self.telemetry.internal_error(self.place)


class Worker(Protocol):
    """Does long works."""

    async def __call__(self, work: Callable[[], _T]) -> _T:
        """What `work` returns or raises."""


class WorkerThread:
    """One thread; it begins with its first work, and none begins after the context."""

    def __init__(self, name: str) -> None:
        self._thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix=name)

    async def __call__(self, work: Callable[[], _T]) -> _T:
        """What `work` returns or raises. A caller that is cancelled leaves it to be done."""
        return await asyncio.get_running_loop().run_in_executor(self._thread, work)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._thread.shutdown(wait=False, cancel_futures=True)
