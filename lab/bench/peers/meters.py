"""What every process of the control plane costs while a load is scheduled: CPU and memory, read from Linux.

Why all of them: work that a scheduler leaves to the API server is not saved. Rule: a reading never waits for the
process; CPU is user and system time, memory is what is resident; processes that end are forgotten with their last
reading, those that start in between are read from then on.
"""

import asyncio
import os
from bisect import bisect_right
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from time import perf_counter
from typing import Self

_SAMPLE_S = 0.02
_PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")
_TICKS_PER_S = os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True, slots=True)
class Used:
    """What a process used in a span of time: CPU seconds, and the most memory that was resident."""

    cpu_s: float
    rss_bytes: int


@dataclass(frozen=True, slots=True)
class _Reading:
    at_s: float
    cpu_s: float
    rss_bytes: int


class Meters:
    """Reads processes fifty times a second; `pids` names those that run now. An async context manager."""

    def __init__(self, pids: Callable[[], Mapping[str, int]]) -> None:
        self._pids = pids
        self._readings: dict[tuple[str, int], list[_Reading]] = {}  # (name, pid) → oldest first
        self._reading: asyncio.Task[None] | None = None

    async def __aenter__(self) -> Self:
        self._read()
        self._reading = asyncio.create_task(self._run())
        return self

    async def __aexit__(self, *_: object) -> None:
        if self._reading is not None:
            self._reading.cancel()
            with suppress(asyncio.CancelledError):
                await self._reading

    def cpu_s(self, name: str, moment_s: float) -> float:
        """CPU that processes of this name had taken at a moment of `perf_counter`; 0.0 before they started."""
        return sum(_cpu_at(found, moment_s) for (one, _), found in self._readings.items() if one == name)

    def used(self, begin_s: float, end_s: float) -> dict[str, Used]:
        """What every process used between two moments, by name."""
        return {
            name: Used(
                cpu_s=self.cpu_s(name, end_s) - self.cpu_s(name, begin_s),
                rss_bytes=max(
                    (
                        reading.rss_bytes
                        for (other, _), found in self._readings.items()
                        if other == name
                        for reading in found
                        if begin_s <= reading.at_s <= end_s
                    ),
                    default=0,
                ),
            )
            for name in dict.fromkeys(name for name, _ in self._readings)
        }

    async def _run(self) -> None:
        while True:
            await asyncio.sleep(_SAMPLE_S)
            self._read()

    def _read(self) -> None:
        for name, pid in self._pids().items():
            with suppress(FileNotFoundError, ProcessLookupError):  # it has just ended
                reading = parsed(Path(f"/proc/{pid}/stat").read_text())
                self._readings.setdefault((name, pid), []).append(reading)


def parsed(stat: str, *, now_s: float | None = None) -> _Reading:
    """A reading from the text of /proc/PID/stat; the name in it may hold blanks and brackets.

    >>> fields = ["S"] + ["0"] * 10 + ["150", "50"] + ["0"] * 8 + ["3"]
    >>> reading = parsed("7 (a b) c) " + " ".join(fields), now_s=1.0)
    >>> reading.cpu_s == 200 / _TICKS_PER_S, reading.rss_bytes == 3 * _PAGE_BYTES
    (True, True)
    """
    fields = stat.rpartition(")")[2].split()
    ticks = int(fields[11]) + int(fields[12])  # utime and stime, see proc(5)
    return _Reading(
        at_s=perf_counter() if now_s is None else now_s,
        cpu_s=ticks / _TICKS_PER_S,
        rss_bytes=int(fields[21]) * _PAGE_BYTES,
    )


def _cpu_at(readings: list[_Reading], moment_s: float) -> float:
    """CPU at the last reading before a moment. Cost: O(log n)."""
    place = bisect_right(readings, moment_s, key=lambda reading: reading.at_s)
    return readings[place - 1].cpu_s if place else 0.0
