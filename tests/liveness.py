"""How long a test waits for what must come: no test's outcome depends on the machine's speed.

Where real processes, sockets or threads are waited for, the only bound is this one. What takes long is measured by
`bench`, in ratios.
"""

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager

from extender.runtime.slices import SLICE_S
from lab.testbed.processes.pace import LIVENESS_S as LIVENESS_S


@contextmanager
def every_pause_is_taken() -> Iterator[None]:
    """During the block each look at the running loop's clock finds it a slice later: every slice of work is full.

    Work in slices (`extender.runtime.slices`) gives the loop back at the first pause after some milliseconds, so how
    often it does depends on the machine. Here it does at every pause that it has.
    """
    loop = asyncio.get_running_loop()
    true_time, looks = loop.time, 0

    def later() -> float:
        nonlocal looks
        looks += 1
        return true_time() + looks * SLICE_S

    loop.time = later  # type: ignore[method-assign]
    try:
        yield
    finally:
        loop.time = true_time  # type: ignore[method-assign]
