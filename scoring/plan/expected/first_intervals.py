"""The first interval that each waiting gang was given, until it is known whether the gang started in it.

Why the first: it is the one that its user plans by, and the hardest. Rules: each gang counts once a wait; an interval
that is over while its gang still waits is late at once, so what is learned from it comes in time. One that was deleted
before it started does not count. Bounded by the gangs that the caller keeps.
"""

from collections.abc import Collection, Mapping

from scoring.ids import GangKey
from scoring.plan.expected.interval import Calibration, Result
from scoring.plan.expected.result import AnyStart, ExpectedStart

TOLERANCE_S = 1.0
"""Times of API objects are whole seconds"""


class FirstIntervals:
    """Those that count, and what they have taught."""

    def __init__(self) -> None:
        self.calibration = Calibration()
        self._first: dict[GangKey, ExpectedStart | None] = {}
        """gang → its interval; `None`: it was counted"""

    def given(self, starts: Mapping[GangKey, AnyStart]) -> None:
        """These were shown; of gangs that have one already nothing changes."""
        for key, one in starts.items():
            if isinstance(one, ExpectedStart):
                self._first.setdefault(key, one)

    @property
    def gangs(self) -> tuple[GangKey, ...]:
        """Gangs that have one."""
        return tuple(self._first)

    def of(self, gang: GangKey) -> ExpectedStart | None:
        """The interval that still counts; `None`: there is none."""
        return self._first.get(gang)

    def started(self, gang: GangKey, at_s: float) -> Result | None:
        """The gang has started; `None`: it does not count, or was counted."""
        first = self._first.pop(gang, None)
        return None if first is None else self._counted(first, result_of(first, at_s))

    def overdue(self, waiting: Collection[GangKey], now_s: float) -> tuple[GangKey, ...]:
        """Count as late those that wait although their interval is over; gives them. Cost: O(gangs that have one)."""
        found = tuple(
            key
            for key, first in self._first.items()
            if first is not None and key in waiting and result_of(first, now_s) is Result.LATE
        )
        for key in found:
            if (first := self._first[key]) is not None:
                self._counted(first, Result.LATE)
            self._first[key] = None
        return found

    def forget(self, gang: GangKey) -> None:
        """The gang is gone."""
        self._first.pop(gang, None)

    def clear(self) -> None:
        """Know of no interval; what was learned stays."""
        self._first.clear()

    def _counted(self, first: ExpectedStart, result: Result) -> Result:
        self.calibration = self.calibration.with_result(result, promised=first.promised)
        return result


def result_of(one: ExpectedStart, started_s: float) -> Result:
    """Where a start was.

    >>> one = ExpectedStart(GangKey("a/g"), 100.0, 80.0, 120.0, "a")
    >>> [result_of(one, at_s).value for at_s in (60.0, 80.0, 121.0, 122.0)]
    ['early', 'inside', 'inside', 'late']
    """
    if started_s < one.low_s - TOLERANCE_S:
        return Result.EARLY
    return Result.LATE if started_s > one.high_s + TOLERANCE_S else Result.INSIDE
