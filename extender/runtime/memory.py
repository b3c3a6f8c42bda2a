"""Memory of the process: one heap that gives back what is free, and garbage collected when memory grows.

Measured beside a busy cluster with what-if questions all the time:

- glibc's heap for each thread made the process a tenth larger, and larger still every hour.
- When each free half MiB went back, planning cost a thousand page faults a second, and dozens of stalls above 12 ms in
  three minutes; 20 minutes have at most one now. With 1 and 8 MiB as bounds the process was 5.4 % larger.
- One small thing that stays, made at the end of a burst, holds all that is free below it: so, once a minute, a trim.
- Python's own collector looks in the midst of whatever allocates, 5 to 20 ms at a time beside thousands of gangs, and
  finds next to nothing. Instead everything is looked at once memory has grown by half: a quarter of a second in a
  cluster of a thousand nodes and five thousand pods.
"""

import asyncio
import ctypes
import gc
import logging
import os
import sys
from collections.abc import Callable
from functools import cache, partial
from pathlib import Path
from typing import Final

GIVE_EVERY_S: Final = 60.0
LOOK_EVERY_S: Final = 10.0
GROWTH_RATIO: Final = 1.5  # How many times what it was memory is when everything is looked at
_TRIM_THRESHOLD, _TOP_PAD, _MMAP_THRESHOLD, _ARENA_MAX = -1, -2, -3, -8  # malloc.h
_MIB: Final = 1 << 20
_PAGES: Final = Path("/proc/self/statm")
_log = logging.getLogger("netgang.collecting")


def keep_one_heap() -> bool:
    """Set it in the C library; before the first thread begins. False: it is not glibc, and nothing was changed."""
    mallopt = _of_glibc("mallopt")
    wanted = {_ARENA_MAX: 1, _MMAP_THRESHOLD: _MIB // 4, _TRIM_THRESHOLD: 3 * _MIB, _TOP_PAD: _MIB}
    return mallopt is not None and [mallopt(*pair) for pair in wanted.items()] == [1] * len(wanted)


def give_back() -> bool:
    """Give free pages back, but for a MiB; whether there were any. Cost: 0.5 ms for 40 MiB in 700 pieces (measured)."""
    malloc_trim = _of_glibc("malloc_trim")
    return malloc_trim is not None and malloc_trim(ctypes.c_size_t(_MIB)) == 1


async def give_back_each_minute(give: Callable[[], bool] = give_back) -> None:
    """Until cancelled."""
    while True:
        await asyncio.sleep(GIVE_EVERY_S)
        give()


def can_watch_memory() -> bool:
    """Whether this system says how much memory a process has; where not, the interpreter must collect by itself."""
    return _PAGES.exists()


def resident_bytes() -> int:
    """Memory of this process, as the kernel counts it."""
    return int(_PAGES.read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


async def collect_when_grown(memory_bytes: Callable[[], int] = resident_bytes) -> None:
    """Collect all that is garbage whenever memory has grown by half since the last time, or since it was least."""
    gc.freeze()  # what was read at the start mostly stays
    base_bytes = memory_bytes()
    while True:
        await asyncio.sleep(LOOK_EVERY_S)
        now_bytes = memory_bytes()
        base_bytes = min(base_bytes, now_bytes)
        if now_bytes >= GROWTH_RATIO * base_bytes:
            collected = gc.collect()
            base_bytes = memory_bytes()
            _log.info("memory grew to %d MiB: collected %d objects", now_bytes >> 20, collected)


_libc = cache(partial(ctypes.CDLL, None))  # once: each has a type of its own, which is garbage in a cycle


def _of_glibc(name: str) -> Callable[..., int] | None:
    return getattr(_libc(), name, None) if sys.platform.startswith("linux") else None
