"""Have the C library keep one heap, and of that only what comes and goes: few page faults, and little growth.

Why one: glibc gives each thread a heap of its own. Beside a busy cluster, with what-if questions all the time,
that made the process a tenth larger, and larger still every hour (`bench.soak`). Only one thread runs Python at a time.
Why not give back all that is free: what planning a thousand nodes makes and drops cost a thousand page faults a second
when each half MiB went back; on virtual machines whose host hands out memory when it is touched, one can take
milliseconds. On one, three minutes of `bench.soak` had dozens of stalls above 12 ms; 20 minutes have at most one now.
Rule: arrays below a quarter of a MiB come from the heap; what is free at its end goes back when it is above 3 MiB, all
but one. Larger bounds cost memory: with 1 and 8 MiB the process was 5.4 % larger after 20 minutes than once warm.
Why once a minute on top of that: one small thing that stays, made at the end of a burst, holds all that is free below
it (7 MiB, for the eight minutes that were left of a `bench.soak`). Asked to, the C library gives such pages back too.
"""

import asyncio
import ctypes
import sys
from collections.abc import Callable
from functools import cache
from typing import Final

GIVE_EVERY_S: Final = 60.0
_TRIM_THRESHOLD, _TOP_PAD, _MMAP_THRESHOLD, _ARENA_MAX = -1, -2, -3, -8  # malloc.h
_MIB: Final = 1 << 20


def keep_one_heap() -> bool:
    """Set it in the C library; before the first thread begins. False: it is not glibc, and nothing was changed."""
    mallopt = _of_glibc("mallopt")
    if mallopt is None:
        return False
    wanted = {_ARENA_MAX: 1, _MMAP_THRESHOLD: _MIB // 4, _TRIM_THRESHOLD: 3 * _MIB, _TOP_PAD: _MIB}
    taken = [mallopt(name, value) == 1 for name, value in wanted.items()]
    return all(taken)


def give_back() -> bool:
    """Give free pages back, but for a MiB at the heap's end. Whether there were any; False as well if it is not glibc.

    Cost: 0.5 ms for a heap of 40 MiB in 700 pieces, and a page fault for each page that is used again (measured: 600).
    """
    malloc_trim = _of_glibc("malloc_trim")
    return malloc_trim is not None and malloc_trim(ctypes.c_size_t(_MIB)) == 1


async def give_back_each_minute(give: Callable[[], bool] = give_back) -> None:
    """Until cancelled."""
    while True:
        await asyncio.sleep(GIVE_EVERY_S)
        give()


def _of_glibc(name: str) -> Callable[..., int] | None:
    """A function of the C library, if it is the one that has it."""
    return getattr(_libc(), name, None) if sys.platform.startswith("linux") else None


@cache
def _libc() -> ctypes.CDLL:
    """Once: each has a type of its own, which is garbage in a cycle."""
    return ctypes.CDLL(None)
