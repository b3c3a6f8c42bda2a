"""The time of this machine, as the Clock port: exactly one module may ask for it.

Rule: durations come from the clock that asyncio's and uvloop's timers follow, so that deadlines of the loop and of our
code do not disagree. It is asked directly, because to find the running loop costs a system call.
"""

import random
import time

import msgspec


class SystemClock:
    """Clock port over the machine's wall clock and its monotonic clock."""

    def now_s(self) -> float:
        """Wall clock, Unix seconds; may jump when the machine's clock is set."""
        return time.time()  # noqa: TID251 - this is the adapter behind the Clock port

    def monotonic_s(self) -> float:
        """Seconds since some moment, never set back; safe in any thread."""
        return time.monotonic()


class Backoff(msgspec.Struct, frozen=True):
    """First and longest delay, seconds."""

    first_s: float
    limit_s: float

    def whole_s(self, failures: int) -> float:
        """The longest delay after the `failures`-th failure in a row, for works that need no spreading.

        >>> [Backoff(1.0, 600.0).whole_s(failures) for failures in (1, 2, 10, 100)]
        [1.0, 2.0, 512.0, 600.0]
        """
        return min(self.limit_s, self.first_s * 2.0 ** min(failures - 1, 60))

    def delay_s(self, failures: int, *, rng: random.Random, retry_after_s: float | None = None) -> float:
        """Delay after the `failures`-th failure in a row: half to all of `whole_s`, so that clients spread out.

        Never shorter than `retry_after_s`, on top of which comes up to a tenth.

        >>> one = Backoff(first_s=0.5, limit_s=30.0)
        >>> [0.5 * 2**k / 2 <= one.delay_s(k + 1, rng=random.Random(7)) <= 0.5 * 2**k for k in range(3)]
        [True, True, True]
        >>> 15.0 <= one.delay_s(50, rng=random.Random(7)) <= 30.0
        True
        """
        delay_s = self.whole_s(failures) * rng.uniform(0.5, 1.0)
        if retry_after_s is not None and retry_after_s > delay_s:
            return retry_after_s * rng.uniform(1.0, 1.1)
        return delay_s
