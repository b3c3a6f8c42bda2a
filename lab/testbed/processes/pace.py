"""How long a wait may last on this machine: goals are stated for a usual machine, and a slower one gets longer.

Why: a limit of seconds shows a promise ("starts within three seconds, not with the next backoff"), but machines compute
two to four times slower than others, or share their processors. Without this a limit is either a throw of the dice
there or too long to show anything here. Only a limit that has expired is measured, so a quick wait costs nothing.
"""

import asyncio
from collections.abc import AsyncIterator
from time import perf_counter
from typing import Final

LIVENESS_S: Final = 60.0
"""For what must come but has no goal: far above what a slow machine takes, below a test's time limit."""

_LOOPS: Final = 3_000_000
_USUAL_S: Final = 0.25  # for that many on a usual machine with little beside it; a quick one takes half
_SLOWEST: Final = 4.0  # what is slower than this fails: nothing waits without end


def slowness() -> float:
    """How many times slower than a usual machine this one computes right now: 1 to 4; takes some tenths of a second."""
    began_s, total = perf_counter(), 0
    for number in range(_LOOPS):
        total += number & 7
    return min(max((perf_counter() - began_s) / _USUAL_S, 1.0), _SLOWEST)


async def allowances(limit_s: float) -> AsyncIterator[float]:
    """Yields `limit_s` and, if that was not enough, how much longer this machine gets, once."""
    yield limit_s
    yield limit_s * (await asyncio.to_thread(slowness) - 1.0)
