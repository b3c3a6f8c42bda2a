"""What a job has reported of its training: steps, times, loss, speed, and how many workers it had then.

Why bounded and immutable: every job may report for days, and a decision must be repeatable from what it saw. Rules:

- Steps only rise. A report whose step is not above the last one says that the job went back to a checkpoint: what was
  reported from that step on is forgotten, because it is trained again. The highest step ever seen is remembered.
- When the series is full, every second report of its older half goes: old times stay visible, more coarsely.
- A loss or speed that was not reported is NaN; an infinite one is refused, by whoever takes reports in.
"""

from dataclasses import dataclass, replace

import numpy as np

from scoring.network import Floats, Ints

MOST_POINTS = 1024
"""Reports kept: 40 KB a job."""


@dataclass(frozen=True, slots=True)
class Point:
    """One report."""

    step: int
    time_s: float
    """Unix seconds."""
    loss: float | None = None
    samples_per_second: float | None = None
    workers: int = 0
    """Workers that ran at that time."""

    def __post_init__(self) -> None:
        numbers = (self.time_s, self.loss or 0.0, self.samples_per_second or 0.0)
        if self.step < 0 or self.workers < 0 or not np.isfinite(numbers).all() or numbers[2] < 0.0:
            raise ValueError("step, workers and speed must be at least 0, and all numbers finite")


@dataclass(frozen=True, slots=True, eq=False)
class Series:
    """Reports in the order of their steps; five arrays of one length."""

    step: Ints
    time_s: Floats
    loss: Floats
    samples_per_second: Floats
    workers: Ints
    top_step: int = 0
    """The highest step ever reported, forgotten reports included."""

    def __len__(self) -> int:
        return len(self.step)

    def part(self, chosen: slice | np.ndarray[tuple[int], np.dtype[np.bool_]]) -> "Series":
        """Those reports alone."""
        return replace(
            self,
            step=self.step[chosen],
            time_s=self.time_s[chosen],
            loss=self.loss[chosen],
            samples_per_second=self.samples_per_second[chosen],
            workers=self.workers[chosen],
        )

    def since(self, step: int) -> "Series":
        """Reports from `step` on."""
        return self.part(self.step >= step)

    def changed_at(self) -> int | None:
        """Step of the first report with the present worker count; `None`: it has not changed within the series."""
        other = np.flatnonzero(self.workers != self.workers[-1]) if len(self) else self.workers
        return int(self.step[other[-1] + 1]) if len(other) else None


NOTHING = Series(np.zeros(0, np.int64), np.zeros(0), np.zeros(0), np.zeros(0), np.zeros(0, np.int64))
"""Of a job that has not reported yet."""


def appended(series: Series, point: Point, *, most: int = MOST_POINTS) -> Series:
    """The series with one more report; at most `most` ones. Cost: O(n).

    >>> grown = NOTHING
    >>> for step in (10, 20, 30, 20):  # at the last the job went back to a checkpoint
    ...     grown = appended(grown, Point(step, time_s=float(step), loss=1.0))
    >>> grown.step.tolist(), grown.top_step
    ([10, 20], 30)
    >>> for step in range(21, 29):
    ...     grown = appended(grown, Point(step, time_s=float(step)), most=6)
    >>> grown.step.tolist()
    [10, 24, 25, 26, 27, 28]
    """
    kept = series.part(series.step < point.step) if len(series) and series.step[-1] >= point.step else series
    if len(kept) >= most:
        chosen = np.ones(len(kept), np.bool_)
        chosen[1 : len(kept) // 2 : 2] = False
        kept = kept.part(chosen)
    return Series(
        step=np.append(kept.step, point.step),
        time_s=np.append(kept.time_s, point.time_s),
        loss=np.append(kept.loss, np.nan if point.loss is None else point.loss),
        samples_per_second=np.append(
            kept.samples_per_second, np.nan if point.samples_per_second is None else point.samples_per_second
        ),
        workers=np.append(kept.workers, point.workers),
        top_step=max(series.top_step, point.step),
    )
