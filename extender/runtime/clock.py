"""The time of this machine, as the Clock port.

Why: decisions and tests take time as a value, so exactly one module may ask the machine for it.
Rule: durations come from the event loop's own clock, so that deadlines of the loop and of our code never disagree and
a test that replaces the loop's time replaces ours.
"""

import asyncio
import time


class SystemClock:
    """Clock port over the machine's wall clock and the running event loop."""

    def now_s(self) -> float:
        """Wall clock, Unix seconds; may jump when the machine's clock is set."""
        return time.time()  # noqa: TID251 - this is the adapter behind the Clock port

    def monotonic_s(self) -> float:
        """The running loop's time; outside a loop the machine's monotonic clock, which asyncio's own loops share."""
        try:
            return asyncio.get_running_loop().time()
        except RuntimeError:
            return time.monotonic()
