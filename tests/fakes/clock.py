"""Clocks for tests: one that moves only when asked, and one that follows a loop with virtual time."""

import asyncio


class FakeClock:
    """Stands still until `advance`."""

    def __init__(self, now_s: float = 1_700_000_000.0) -> None:
        self._wall_s = now_s
        self._monotonic_s = 0.0

    def now_s(self) -> float:
        return self._wall_s

    def monotonic_s(self) -> float:
        return self._monotonic_s

    def advance(self, seconds: float) -> None:
        if seconds < 0.0:
            raise ValueError("time does not go back")
        self._wall_s += seconds
        self._monotonic_s += seconds


class LoopClock:
    """Follows the running loop's time (virtual under looptime); the wall clock starts at `start_s` at loop time 0."""

    def __init__(self, start_s: float = 1_700_000_000.0) -> None:
        self._start_s = start_s

    def now_s(self) -> float:
        return self._start_s + asyncio.get_running_loop().time()

    def monotonic_s(self) -> float:
        return asyncio.get_running_loop().time()
