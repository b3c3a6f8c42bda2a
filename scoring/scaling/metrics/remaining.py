"""How long a job will still train, by the total of steps that it reports; and when that is not believed.

    seconds left = (total - step) / steps per second, as measured at its present size

Why so suspicious: the number moves the job forward in the queue (`scoring.queue.remaining_work`), so a wrong one takes
other jobs' time. Rules:

- The rate is the median of the reported ones with the newest worker count that has any. After a change of the count,
  until it is measured, workers share the steps evenly, so the cluster-hours that are left stay the same.
- A total may be raised; from then on the job counts with no less than what it has had, so a total that is raised again
  and again brings nothing.
- A job is not believed any more once a step is above its total, its total was lowered, or it runs on without a report
  for longer than it would still have taken.
"""

from dataclasses import dataclass, replace
from typing import Final

from scoring.lengths.reported import LATE_S
from scoring.scaling.metrics.series import Series
from scoring.scaling.metrics.speed import steps_per_second

MOST_STEPS: Final = 2**53  # As a step


@dataclass(frozen=True, slots=True)
class Total:
    """The steps that a job says it will train, as its reports came."""

    steps: int
    raised: bool = False  # It was smaller before
    doubted: bool = False  # Its reports contradict each other: it is not believed any more, for good


def total_after(before: Total | None, said: int | None, top_step: int) -> Total | None:
    """The total after one more report; `said`: the total in it, `top_step`: the highest step ever reported.

    >>> first = total_after(None, 100, 10)
    >>> first, total_after(first, None, 20) == first
    (Total(steps=100, raised=False, doubted=False), True)
    >>> total_after(first, 200, 20)
    Total(steps=200, raised=True, doubted=False)
    >>> [total_after(first, *later).doubted for later in ((90, 20), (None, 101), (200, 201), (100, 100))]
    [True, True, True, False]
    >>> total_after(total_after(first, 90, 20), 1000, 30).doubted  # for good
    True
    >>> total_after(None, None, 5) is None
    True
    """
    if before is None:
        return None if said is None else Total(said, doubted=top_step > said)
    steps = before.steps if said is None else max(said, before.steps)
    raised = before.raised or steps > before.steps
    beyond = top_step > before.steps if said is None else said < before.steps or top_step > said
    return replace(before, steps=steps, raised=raised, doubted=before.doubted or beyond)


@dataclass(frozen=True, slots=True)
class TimeLeft:
    """What a job's reports say of its end."""

    seconds: float | None  # At its present size; `None`: not known, or not believed
    raised: bool = False
    doubted: bool = False


def time_left(total: Total, series: Series, *, workers: int, runs_since_s: float, now_s: float) -> TimeLeft:
    """How long the job still trains with `workers`. Times are Unix seconds; cost: O(points).

    `runs_since_s`: since when all of it runs; a job that waits is not late.

    >>> from scoring.scaling.metrics.series import Point, ReportHistory
    >>> history = ReportHistory()
    >>> for step in range(0, 50, 10):
    ...     history.add(Point(step, time_s=float(step), workers=2))
    >>> series, total = history.series(), Total(100)
    >>> def left(**changed: float) -> float | None:
    ...     return time_left(total, series, **{"workers": 2, "runs_since_s": 0.0, "now_s": 50.0} | changed).seconds
    >>> left(), left(workers=4)  # a step a second with two workers, 40 trained
    (60.0, 30.0)
    >>> left(now_s=900.0), left(now_s=900.0, runs_since_s=700.0)  # it should have ended; it has just come back
    (None, 60.0)
    """
    rate = steps_per_second(series)
    if total.doubted or rate is None:
        return TimeLeft(None, doubted=total.doubted)
    per_second, measured_with = rate
    left_s = (total.steps - int(series.step[-1])) / per_second * measured_with / max(workers, 1)
    silent_s = now_s - max(float(series.time_s[-1]), runs_since_s)
    if silent_s > left_s + LATE_S:
        return TimeLeft(None, doubted=True)
    return TimeLeft(left_s, raised=total.raised)
