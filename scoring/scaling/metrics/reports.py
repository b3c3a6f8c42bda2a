"""Reports of one job as they come in: a bounded series by ascending step.

Why one place for it: the service, the simulator and the tests must forget the same reports, or their demands differ.
Rules:

- The newest points are all kept; of the older ones every second, fourth, eighth, … as they become too many. The start
  of a curve shows its shape, so it is thinned out and never cut off.
- A job that goes back to a checkpoint trains the steps from there again: what was reported of them is undone. The
  highest step ever reported is remembered.
"""

from collections import deque
from typing import Final

from scoring.scaling.metrics.series import NOTHING, Point, Series, series_of

MOST_POINTS: Final = 500
"""Points kept of one job."""


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
        """Errors: ValueError if thinning would leave nothing."""
        if most < 4:
            raise ValueError("room for four points at least")
        self._most = most // 2
        """Of each part"""
        self._newest: deque[Point] = deque()
        self._older: list[Point] = []
        self._stride = 1
        self._passed = 0
        """Points that have left the newest; each multiple of `stride` is among the older ones"""
        self._top_step = 0
        """The highest step ever reported, undone ones included"""
        self._series: Series | None = NOTHING
        """The same for decisions; `None`: to be made"""

    def points(self) -> tuple[Point, ...]:
        """All, by ascending step."""
        return (*self._older, *self._newest)

    def series(self) -> Series:
        """As decisions read it: the same object until something is reported. Cost: O(points) when there is news."""
        if self._series is None:
            self._series = series_of(self.points(), self._top_step)
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
        self._top_step = max(self._top_step, point.step)
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
