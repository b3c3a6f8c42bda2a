"""netgang's CPU while a load is scheduled, read from Linux fifty times a second."""

import asyncio
import os
from bisect import bisect_right
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from time import perf_counter

import msgspec

_SAMPLE_S = 0.02
_TICKS_PER_S = os.sysconf("SC_CLK_TCK")


class CpuMeter(msgspec.Struct):
    """(moment of `perf_counter`, CPU seconds of user and system until then), oldest first."""

    readings: list[tuple[float, float]] = []

    def cpu_s(self, begin_s: float, end_s: float) -> float | None:
        """What was taken between two moments; `None`: it did not run."""
        return self._until(end_s) - self._until(begin_s) if self.readings else None

    def _until(self, moment_s: float) -> float:
        place = bisect_right(self.readings, moment_s, key=lambda reading: reading[0])
        return self.readings[place - 1][1] if place else 0.0


@asynccontextmanager
async def cpu_meter(pid: Callable[[], int | None]) -> AsyncGenerator[CpuMeter, None]:
    """Read the process, as soon as there is one, until the block ends."""
    meter = CpuMeter()

    def read(number: int) -> None:
        with suppress(FileNotFoundError, ProcessLookupError):  # it has just ended
            meter.readings.append((perf_counter(), parsed_s(Path(f"/proc/{number}/stat").read_text())))

    async def run() -> None:
        while True:
            if (number := pid()) is not None:
                read(number)
            await asyncio.sleep(_SAMPLE_S)

    reading = asyncio.create_task(run())
    try:
        yield meter
    finally:
        reading.cancel()
        with suppress(asyncio.CancelledError):
            await reading


def parsed_s(stat: str) -> float:
    """CPU seconds in the text of /proc/PID/stat; the name in it may hold blanks and brackets (see proc(5)).

    >>> parsed_s("7 (a b) c) " + " ".join(["S"] + ["0"] * 10 + ["150", "50"])) == 200 / _TICKS_PER_S
    True
    """
    fields = stat.rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / _TICKS_PER_S
