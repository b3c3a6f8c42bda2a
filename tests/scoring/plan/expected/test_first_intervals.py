"""The first interval of each gang counts once, whatever happens to the gang."""

from dataclasses import replace

from scoring.ids import GangKey, ZoneName
from scoring.plan.expected import ExpectedStart, FirstIntervals, NotKnown, Result, Unknown

GANG = GangKey("a/g")
FIRST = ExpectedStart(GANG, 100.0, 80.0, 120.0, ZoneName("a"))


def given() -> FirstIntervals:
    known = FirstIntervals()
    known.given({GANG: FIRST})
    return known


def test_a_later_interval_does_not_count() -> None:
    """The one that was shown first is judged; of a gang without a known start there is nothing to judge."""
    known = given()
    known.given({GANG: replace(FIRST, low_s=500.0, start_s=600.0, high_s=700.0)})
    known.given({GangKey("a/h"): NotKnown(GangKey("a/h"), Unknown.LENGTH)})
    assert (known.of(GANG), known.gangs) == (FIRST, (GANG,))
    assert known.started(GANG, 110.0) is Result.INSIDE
    assert known.calibration.known == 1


def test_an_interval_that_is_over_is_late_at_once_and_only_once() -> None:
    """Its start, whenever that is, counts no more; a gang that is being started is not late yet."""
    known = given()
    assert known.overdue({}, 200.0) == ()
    assert known.overdue({GANG}, 120.0) == ()
    assert known.overdue({GANG}, 200.0) == (GANG,)
    assert known.overdue({GANG}, 300.0) == ()
    known.given({GANG: replace(FIRST, high_s=900.0)})
    assert known.started(GANG, 400.0) is None
    assert (known.calibration.known, known.calibration.results[Result.LATE]) == (1, 1)


def test_a_gang_that_is_gone_does_not_count() -> None:
    """Deleted, or seen by another leader: nothing was learned; what was learned before stays."""
    known = given()
    known.started(GANG, 10.0)
    known.given({GANG: FIRST})
    known.forget(GANG)
    known.given({GANG: FIRST})
    known.clear()
    assert known.started(GANG, 100.0) is None
    assert (known.calibration.known, known.calibration.results[Result.EARLY]) == (1, 1)
