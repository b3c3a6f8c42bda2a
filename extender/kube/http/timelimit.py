"""Time limits for many waits at once, with one timer for all of them.

Why: every exchange has a time limit and hardly any reaches it; a timer of its own, set and taken back, is an eighth of
the CPU of a Binding.
Rule: the same promise as `asyncio.timeout`. The timer is set for the limit that ends first; one that ended before its
time is forgotten when the timer comes round.
"""

import asyncio
import math
from types import TracebackType


class TimeLimits:
    """All limits of one event loop's tasks that are running."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._running: dict[TimeLimit, float] = {}  # limit → when it ends, on the loop's clock
        self._timer: asyncio.TimerHandle | None = None
        self._rings_at_s = math.inf

    def within(self, limit_s: float) -> "TimeLimit":
        """A limit for the body of a `with` in the current task; TimeoutError comes out of it when time is up."""
        return TimeLimit(self, limit_s)

    def close(self) -> None:
        """Take the timer back, when nothing is limited any more."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self._rings_at_s = math.inf

    def _begin(self, one: "TimeLimit", limit_s: float) -> None:
        ends_s = self._running[one] = self._loop.time() + limit_s
        if ends_s < self._rings_at_s:
            self._set(ends_s)

    def _end(self, one: "TimeLimit") -> None:
        self._running.pop(one, None)

    def _ring(self) -> None:
        """Stop what is over; ring again at the next end. Cost: linear in the limits that are running."""
        self.close()
        now_s = self._loop.time()
        for one in [one for one, ends_s in self._running.items() if ends_s <= now_s]:
            del self._running[one]
            one.stop()
        if self._running:
            self._set(min(self._running.values()))

    def _set(self, at_s: float) -> None:
        self.close()
        self._timer = self._loop.call_at(at_s, self._ring)
        self._rings_at_s = at_s


class TimeLimit:
    """One limit; see `TimeLimits.within`."""

    __slots__ = ("_all", "_asked", "_limit_s", "_over", "_task")

    def __init__(self, limits: TimeLimits, limit_s: float) -> None:
        self._all = limits
        self._limit_s = limit_s
        self._over = False

    def __enter__(self) -> None:
        task = asyncio.current_task()
        if task is None:
            raise RuntimeError("a time limit needs a task")
        self._task = task
        self._asked = task.cancelling()
        self._all._begin(self, self._limit_s)

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._all._end(self)
        # Another cancellation, even if it came together with ours, goes on as one.
        if self._over and self._task.uncancel() <= self._asked and kind is asyncio.CancelledError:
            raise TimeoutError from error

    def stop(self) -> None:
        """Time is up: interrupt the task."""
        self._over = True
        self._task.cancel()
