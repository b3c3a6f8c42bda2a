"""An event loop whose time jumps: hours of the service's timers pass in the time that its work takes.

Why an own loop: the service under simulation is asyncio code with deadlines, and must run unchanged. Rule: nothing real
is waited for. There are no sockets, threads or signals here; when nothing is ready, the time becomes that of the next
timer, and without any timer the simulation is over, which is an error of its caller.
"""

import asyncio
from collections.abc import Coroutine
from typing import Any, TypeVar

T = TypeVar("T")

START_S = 1_700_000_000.0
"""Wall clock at loop time 0: objects carry timestamps, and they must not depend on when the simulation runs."""


class NothingLeftError(RuntimeError):
    """All tasks wait and nothing will wake them."""


class VirtualLoop(asyncio.BaseEventLoop):
    """`asyncio.BaseEventLoop` on a clock that jumps to the next timer. Not for threads: no thread may call it."""

    def __init__(self) -> None:
        super().__init__()
        self._selector = self
        self._now_s = 0.0

    def time(self) -> float:
        """Seconds since the loop was made."""
        return self._now_s

    def select(self, timeout_s: float | None) -> list[object]:
        """What the loop calls to wait: time passes, and nothing has happened. NothingLeftError without a timer."""
        if timeout_s is None:
            raise NothingLeftError("every task waits for another one, and no timer is set")
        self._now_s += timeout_s
        return []

    def _process_events(self, event_list: list[object]) -> None:
        """There are none."""

    def _write_to_self(self) -> None:
        """Wake the loop from another thread or signal: there are none."""


class VirtualClock:
    """The Clock port over the running loop; the wall clock shows `START_S` when the loop began."""

    def now_s(self) -> float:
        """Wall clock, Unix seconds."""
        return START_S + asyncio.get_running_loop().time()

    def monotonic_s(self) -> float:
        """The loop's time."""
        return asyncio.get_running_loop().time()


def run_virtual(main: Coroutine[Any, Any, T]) -> T:
    """Run `main` to its end in virtual time, as `asyncio.run` does in real time.

    >>> async def hour() -> float:
    ...     await asyncio.sleep(3600.0)
    ...     return asyncio.get_running_loop().time()
    >>> run_virtual(hour())
    3600.0
    """
    with asyncio.Runner(loop_factory=VirtualLoop) as runner:
        return runner.run(main)
