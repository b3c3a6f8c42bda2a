"""What runs beside a test: programs, a count of the loop's turns; and works that are done at once instead."""

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any, TypeVar

from extender.runtime.slices import Steps
from lab.testbed.beside import beside

T = TypeVar("T")


@asynccontextmanager
async def playing(*programs: Any) -> AsyncIterator[None]:
    """Run these coroutines beside the test; one that ends by an error fails it."""
    async with AsyncExitStack() as stack:
        for one in programs:
            await stack.enter_async_context(beside(one))
        yield


@asynccontextmanager
async def counting_turns() -> AsyncIterator[Callable[[], int]]:
    turns = 0

    async def count() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    async with playing(count()):
        yield lambda: turns


def finish(steps: Steps[T]) -> T:
    while True:
        try:
            next(steps)
        except StopIteration as done:
            made: T = done.value
            return made


def at_once(work: Coroutine[Any, Any, T]) -> T:
    try:
        work.send(None)
    except StopIteration as done:
        made: T = done.value
        return made
    raise AssertionError("it waits")
