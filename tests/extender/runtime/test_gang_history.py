"""The last decisions of each gang: for gangs that exist, and a few that may come back."""

import pytest

from extender.runtime.decision_lines import Decision
from extender.runtime.gang_history import MOST_EACH, MOST_GANGS, MOST_GONE, MOST_REASONS, Past
from scoring.ids import GangKey
from tests.fakes.clock import FakeClock


def key(number: int) -> GangKey:
    """A gang's."""
    return GangKey(f"a/{number}")


def test_newest_first_and_few() -> None:
    """What concerns no gang, or is answered pod by pod, is left out."""
    past = Past(FakeClock())
    for number in range(MOST_EACH + 2):
        past.heard(Decision(what=f"w{number}", gang="a/g", pod="p", node="n"))
    past.heard(Decision(what="filter", gang="a/g"))
    past.heard(Decision(what="bind"))
    told = past.of(GangKey("a/g"))
    assert (len(told), told[0].what, told[0].detail) == (MOST_EACH, f"w{MOST_EACH + 1}", "p on n")
    assert past.of(GangKey("a/other")) == ()


def test_reasons_that_take_turns_drive_nothing_out() -> None:
    """Of reasons to wait in a row the last few are kept; what happened between them stays."""
    past, gang = Past(FakeClock()), GangKey("a/g")
    for what in ("plan", "lapse", *["plan"] * 50):
        past.heard(Decision(what=what, gang=gang, reason="no room"))
    assert [one.what for one in past.of(gang)] == [*["plan"] * MOST_REASONS, "lapse", "plan"]
    past.heard(Decision(what="plan", gang=gang, reason="behind"))
    assert [one.reason for one in past.of(gang)] == ["behind", *["no room"] * (MOST_REASONS + 1)]


def test_the_gang_that_was_silent_longest_is_forgotten_first() -> None:
    """However many gangs there are."""
    past = Past(FakeClock())
    past.heard(Decision(what="admit", gang="a/g"))
    for number in range(MOST_GANGS):
        past.heard(Decision(what="plan", gang=key(number)))
    assert (len(past), past.of(GangKey("a/g"))) == (MOST_GANGS, ())
    assert past.of(key(0))


@pytest.mark.parametrize("living", [0, 1, 500])
def test_gangs_that_are_gone_are_few(living: int) -> None:
    """Days of gangs that come and go leave no more than a fixed number, and nothing of what lives is lost."""
    alive = {key(number) for number in range(living)}
    past = Past(FakeClock(), exists=lambda gang: gang in alive)
    for gang in alive:
        past.heard(Decision(what="plan", gang=gang))
    for number in range(10_000, 13_000):
        past.heard(Decision(what="admit", gang=key(number)))
        assert len(past) <= living + MOST_GONE
    assert all(past.of(gang) for gang in alive)


def test_a_gang_that_comes_back_finds_its_past() -> None:
    """Who is started anew is gone for a moment."""
    past = Past(FakeClock(), exists=lambda _: None)
    past.heard(Decision(what="restart", gang="a/g"))
    for number in range(MOST_GONE // 2 - 1):
        past.heard(Decision(what="plan", gang=key(number)))
    assert [one.what for one in past.of(GangKey("a/g"))] == ["restart"]
