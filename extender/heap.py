"""Have the C library give back memory that is not needed, so that the process stays as large as what it holds.

Why: glibc gives each thread a heap of its own, and keeps what large arrays leave behind for arrays as large, up to tens
of MiB. Beside a busy cluster, with somebody who asks what-if all the time, that made the process a tenth larger, and
larger still every hour (`bench.soak`). Rule: one heap for all threads, since only one of them runs Python at a time;
arrays of a quarter of a MiB and more come from the system and go back to it; so does the heap's unused end.
"""

import ctypes
import sys

_TRIM_THRESHOLD, _MMAP_THRESHOLD, _ARENA_MAX = -1, -3, -8  # malloc.h
_ARRAY_BYTES = 256 << 10


def keep_heap_tight() -> bool:
    """Tell the C library; before the first thread begins. False: it is not glibc, and nothing was changed."""
    if not sys.platform.startswith("linux"):
        return False
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is None:
        return False
    wanted = {_ARENA_MAX: 1, _MMAP_THRESHOLD: _ARRAY_BYTES, _TRIM_THRESHOLD: 2 * _ARRAY_BYTES}
    taken = [mallopt(name, value) == 1 for name, value in wanted.items()]
    return all(taken)
