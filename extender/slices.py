"""Do long work on the event loop in slices, so that everybody else has a turn every few milliseconds (S15)."""

import asyncio
from typing import Final, TypeVar

from scoring.plan.steps import Steps

SLICE_S: Final = 0.004
"""After this long others have their turn; the longest step comes on top."""
_T = TypeVar("_T")


async def in_slices(steps: Steps[_T]) -> _T:
    """The result of the work; others have a turn at the first pause after each slice."""
    made, _ = await in_timed_slices(steps)
    return made


async def in_timed_slices(steps: Steps[_T]) -> tuple[_T, float]:
    """The same, and for how many seconds the work itself held the loop."""
    loop = asyncio.get_running_loop()
    spent_s, began_s = 0.0, loop.time()
    while True:
        try:
            next(steps)
        except StopIteration as done:
            made: _T = done.value
            return made, spent_s + loop.time() - began_s
        if loop.time() - began_s >= SLICE_S:
            spent_s += loop.time() - began_s
            await asyncio.sleep(0)
            began_s = loop.time()
