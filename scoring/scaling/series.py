"""What a job has reported of its training: steps, times, loss, speed, and how many workers it had then.

Rules: steps only rise; a loss or speed that was not reported is NaN, infinite ones are refused where reports come in.
The newest points are all kept; of the older ones every second, fourth, eighth, … as they become too many: the start of
a curve shows its shape. A job that goes back to a checkpoint trains the steps from there again: what was reported of
them is undone, and the highest step ever reported is remembered.
"""

from collections import deque
from typing import Final

import msgspec
import numpy as np

from scoring.network.matrix import Floats, Ints

MOST_POINTS: Final = 500  # Points kept of one job


class Point(msgspec.Struct, frozen=True):
    """One report of one job: how far it is, and how well it goes; numbers are finite. `None`: not reported."""

    step: int
    time_s: float = msgspec.field(name="time")  # When, by the job's clock; Unix seconds.
    loss: float | None = None
    samples_per_second: float | None = None  # Of all workers together
    accuracy: float | None = None  # A ratio, for people: no decision reads it
    workers: int | None = None  # Workers in force at that time


class Series(msgspec.Struct, frozen=True, eq=False):
    """Reports in the order of their steps; five arrays of one length."""

    step: Ints
    time_s: Floats
    loss: Floats
    samples_per_second: Floats
    workers: Ints
    top_step: int = 0  # The highest step ever reported, forgotten reports included

    def __len__(self) -> int:
        return len(self.step)

    def part(self, chosen: slice | np.ndarray[tuple[int], np.dtype[np.bool_]]) -> "Series":
        """Those reports alone."""
        speeds, top_step = self.samples_per_second[chosen], self.top_step
        return Series(self.step[chosen], self.time_s[chosen], self.loss[chosen], speeds, self.workers[chosen], top_step)

    def changed_at(self) -> int | None:
        """Step of the first report with the present worker count; `None`: it has not changed within the series."""
        other = np.flatnonzero(self.workers != self.workers[-1:])
        return int(self.step[other[-1] + 1]) if len(other) else None


NOTHING = Series(np.zeros(0, np.int64), np.zeros(0), np.zeros(0), np.zeros(0), np.zeros(0, np.int64))
"""Of a job that has not reported yet."""


class ReportHistory:
    """One job's points: the newest, and behind them every `stride`-th older one.

    >>> history = ReportHistory(most=4)
    >>> for step in range(10):
    ...     history.add(Point(step, time_s=float(step), loss=1.0))
    >>> history.series().step.tolist()
    [0, 4, 8, 9]
    >>> history.undo(9)
    >>> history.last().step, history.series().top_step
    (8, 9)
    """

    def __init__(self, most: int = MOST_POINTS) -> None:
        """`most`: at least four, so that thinning leaves some."""
        self._most = most // 2  # Of each part
        self._newest: deque[Point] = deque()
        self._older: list[Point] = []
        self._stride = 1
        self._passed = 0  # Points that have left the newest; each multiple of `stride` is among the older ones
        self.top_step = 0  # The highest step ever reported, undone ones included
        self._series: Series | None = NOTHING  # The same for decisions; `None`: to be made

    def points(self) -> tuple[Point, ...]:
        """All, by ascending step."""
        return (*self._older, *self._newest)

    def series(self) -> Series:
        """As decisions read it, NaN and 0 workers where not reported; the same object until news come, O(points)."""
        if self._series is None:
            points = self.points()
            self._series = Series(
                step=np.array([one.step for one in points], np.int64),
                time_s=np.array([one.time_s for one in points], np.float64),
                loss=np.array([one.loss for one in points], np.float64),  # None becomes NaN
                samples_per_second=np.array([one.samples_per_second for one in points], np.float64),
                workers=np.array([one.workers or 0 for one in points], np.int64),
                top_step=self.top_step,
            )
        return self._series

    def last(self) -> Point | None:
        """The newest one."""
        return self._newest[-1] if self._newest else self._older[-1] if self._older else None

    def undo(self, step: int) -> None:
        """Forget what was reported from this step on."""
        self._series = None
        while self._newest and self._newest[-1].step >= step:
            self._newest.pop()
        while self._older and self._older[-1].step >= step:
            self._older.pop()
        if not self._newest:
            self._passed = len(self._older) * self._stride

    def add(self, point: Point) -> None:
        """Append a point whose step is above the last one's: the receiver of reports has made sure of it."""
        self._series = None
        self.top_step = max(self.top_step, point.step)
        self._newest.append(point)
        if len(self._newest) <= self._most:
            return
        passed = self._newest.popleft()
        if self._passed % self._stride == 0:
            self._older.append(passed)
            if len(self._older) > self._most:
                del self._older[1::2]
                self._stride *= 2
        self._passed += 1
