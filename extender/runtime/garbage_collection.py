"""Garbage collection when memory grows, and not before.

Why: Python's own collector starts in the midst of whatever allocates, several times a second here, and looks at all
that is young. Beside thousands of waiting gangs that took 5 to 20 ms at a time, made the slowest planner runs a fifth
slower, and found next to nothing: our records have no cycles and go with their last reference; errors, and what other
people's libraries make of a broken connection, leave a few objects a second.

Rule: with the interpreter's own collections off (`favour_the_loop` in `extender.bootstrap.serve`), everything is looked
at once the process has half as much memory again as after the last look. That stops the loop for a quarter of a second
in a cluster of a thousand nodes and five thousand pods (measured), and cycles can never hold more than half of what is
really needed.
"""

import asyncio
import gc
import logging
import os
from collections.abc import Callable
from pathlib import Path

LOOK_EVERY_S = 10.0
GROWTH_RATIO = 1.5
"""How many times what it was memory is when everything is looked at."""
_PAGES = Path("/proc/self/statm")
_log = logging.getLogger("netgang.collecting")


def can_watch_memory() -> bool:
    """Whether this system says how much memory a process has; where not, the interpreter must collect by itself."""
    return _PAGES.exists()


def resident_bytes() -> int:
    """Memory of this process, as the kernel counts it."""
    return int(_PAGES.read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


async def collect_when_grown(memory_bytes: Callable[[], int] = resident_bytes) -> None:
    """Collect all that is garbage whenever memory has grown by half; until cancelled.

    Memory that shrinks by itself counts as the new beginning. What is there when this begins is set aside: it was read
    at the start, and most of it stays.
    """
    gc.freeze()
    base_bytes = memory_bytes()
    while True:
        await asyncio.sleep(LOOK_EVERY_S)
        now_bytes = memory_bytes()
        base_bytes = min(base_bytes, now_bytes)
        if now_bytes >= GROWTH_RATIO * base_bytes:
            found = gc.collect()
            base_bytes = memory_bytes()
            _log.info("memory grew to %d MiB: collected %d objects", now_bytes >> 20, found)
