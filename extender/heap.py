"""Have the C library keep one heap, and of that only what comes and goes: few page faults, and no growth.

Why one: glibc gives each thread a heap of its own. Beside a busy cluster, with somebody who asks what-if all the time,
that made the process a tenth larger, and larger still every hour (`bench.soak`). Only one thread runs Python at a time.
Why not give back all that is free: a plan of a thousand nodes makes arrays of a quarter to half a MiB, hundreds a
second. Each that comes from the system and goes back to it costs a page fault for every 4 KiB; on virtual machines whose
host hands out memory when it is touched, a fault can take milliseconds. Three minutes of `bench.soak` had 70 stalls
above 12 ms with such faults, and none without.
Rule: arrays below a MiB come from the heap; what is free at its end goes back when it is above 8 MiB, all but two. With
4 and 16 MiB instead the process was 7 % larger after 20 minutes than when it was warm; with these 2 % after six.
"""

import ctypes
import sys
from typing import Final

_TRIM_THRESHOLD, _TOP_PAD, _MMAP_THRESHOLD, _ARENA_MAX = -1, -2, -3, -8  # malloc.h
_MIB: Final = 1 << 20


def keep_one_heap() -> bool:
    """Tell the C library; before the first thread begins. False: it is not glibc, and nothing was changed."""
    if not sys.platform.startswith("linux"):
        return False
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is None:
        return False
    wanted = {_ARENA_MAX: 1, _MMAP_THRESHOLD: _MIB, _TRIM_THRESHOLD: 8 * _MIB, _TOP_PAD: 2 * _MIB}
    taken = [mallopt(name, value) == 1 for name, value in wanted.items()]
    return all(taken)
