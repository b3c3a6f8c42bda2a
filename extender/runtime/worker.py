"""Threads that decide, so that the event loop stays free (docs/safety.md S15).

Why a thread: a plan of a thousand gangs takes a tenth of a second, and kube-scheduler's calls, held binds and the lease
are the event loop's. Why two: long questions (expected starts of 64 gangs beside 5,000 nodes take a second) must not
hold up plans. Rule: works of one thread are done one after the other, in the order in which they are asked for, on
values that do not change; what they find takes effect on the event loop.
"""

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Protocol, Self, TypeVar

T = TypeVar("T")


class Worker(Protocol):
    """Does long works."""

    async def __call__(self, work: Callable[[], T]) -> T:
        """What `work` returns or raises."""


async def at_once(work: Callable[[], T]) -> T:
    """A worker for tests in virtual time, and for looks at a saved cluster: the caller itself."""
    return work()


class WorkerThread:
    """One thread; it begins with its first work, and none begins after the context."""

    def __init__(self, name: str) -> None:
        self._thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix=name)

    async def __call__(self, work: Callable[[], T]) -> T:
        """What `work` returns or raises. A caller that is cancelled leaves it to be done."""
        return await asyncio.get_running_loop().run_in_executor(self._thread, work)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._thread.shutdown(wait=False, cancel_futures=True)
