"""The last decisions of each gang: for gangs that exist, and a few that may come back."""

import pytest

from extender.runtime.decision_lines import (
    MOST_CHANGES,
    MOST_EACH,
    MOST_GANGS,
    MOST_GONE,
    MOST_REASONS,
    Decision,
    RecentDecisions,
)
from scoring.ids import GangKey
from tests.fakes.clock import FakeClock


def key(number: int) -> GangKey:
    return GangKey(f"a/{number}")


def test_newest_first_and_few() -> None:
    recent = RecentDecisions(FakeClock())
    for number in range(MOST_EACH + 2):
        recent.add(Decision(what=f"w{number}", gang="a/g", pod="p", node="n"))
    recent.add(Decision(what="filter", gang="a/g"))
    recent.add(Decision(what="bind"))
    told = recent.of(GangKey("a/g"))
    assert (len(told), told[0].what, told[0].detail) == (MOST_EACH, f"w{MOST_EACH + 1}", "p on n")
    assert recent.of(GangKey("a/other")) == ()


def test_reasons_that_take_turns_drive_nothing_out() -> None:
    recent, gang = RecentDecisions(FakeClock()), GangKey("a/g")
    for what in ("plan", "lapse", *["plan"] * 50):
        recent.add(Decision(what=what, gang=gang, reason="no room"))
    assert [one.what for one in recent.of(gang)] == [*["plan"] * MOST_REASONS, "lapse", "plan"]
    recent.add(Decision(what="plan", gang=gang, reason="behind"))
    assert [one.reason for one in recent.of(gang)] == ["behind", *["no room"] * (MOST_REASONS + 1)]


def test_the_gang_that_was_silent_longest_is_forgotten_first() -> None:
    recent = RecentDecisions(FakeClock())
    recent.add(Decision(what="admit", gang="a/g"))
    for number in range(MOST_GANGS):
        recent.add(Decision(what="plan", gang=key(number)))
    assert (len(recent._of), recent.of(GangKey("a/g"))) == (MOST_GANGS, ())
    assert recent.of(key(0))


@pytest.mark.parametrize("living", [0, 1, 500])
def test_gangs_that_are_gone_are_few(living: int) -> None:
    alive = {key(number) for number in range(living)}
    recent = RecentDecisions(FakeClock(), exists=lambda gang: gang in alive)
    for gang in alive:
        recent.add(Decision(what="plan", gang=gang))
    for number in range(10_000, 13_000):
        recent.add(Decision(what="admit", gang=key(number)))
        assert len(recent._of) <= living + MOST_GONE
    assert all(recent.of(gang) for gang in alive)


def test_a_gang_that_comes_back_finds_its_recent() -> None:
    recent = RecentDecisions(FakeClock(), exists=lambda _: None)
    recent.add(Decision(what="restart", gang="a/g"))
    for number in range(MOST_GONE // 2 - 1):
        recent.add(Decision(what="plan", gang=key(number)))
    assert [one.what for one in recent.of(GangKey("a/g"))] == ["restart"]


def test_changes_of_all_gangs_newest_first() -> None:
    recent = RecentDecisions(FakeClock())
    for number in range(MOST_CHANGES + 1):
        recent.add(Decision(what="bind", pod=f"p{number}"))
    recent.add(Decision(what="filter", pod="p"))
    recent.add(Decision(what="plan", gang="a/g", reason="no room"))
    assert [one.pod for _, one in recent.changes()] == [f"p{number}" for number in range(MOST_CHANGES, 0, -1)]
    assert recent.count == MOST_CHANGES + 1
