"""Do long work on the event loop in slices, so that everybody else has a turn every few milliseconds (S15)."""

import asyncio
from typing import Final, TypeVar

from scoring.plan.steps import Steps

SLICE_S: Final = 0.004
"""After this long others have their turn; the longest step comes on top."""
_T = TypeVar("_T")


async def in_slices(steps: Steps[_T]) -> _T:
    """The result of the work; others have a turn at the first pause after each slice."""
    loop = asyncio.get_running_loop()
    until_s = loop.time() + SLICE_S
    while True:
        try:
            next(steps)
        except StopIteration as done:
            made: _T = done.value
            return made
        if loop.time() >= until_s:
            await asyncio.sleep(0)
            until_s = loop.time() + SLICE_S
