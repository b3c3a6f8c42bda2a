"""What the windows of both ends say about a link, and which of them blame it."""

from collections.abc import Mapping

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scoring.probing.links import HALF_LIFE_S, Attendance, LinkState, LinkValue, LinkWindow, link_value

COUNT = st.integers(0, 500)


def state(*windows: Mapping[str, object]) -> LinkState:
    found = LinkState(0.0)
    for number, more in enumerate(windows):
        began_s = 10.0 * number
        fields = {"sent": 100, "lost": 0, "rtt_ms": 1.0, **more}
        found = found.with_window(LinkWindow(began_s, began_s + 10.0, **fields))  # type: ignore[arg-type]
    return found


def value(near: LinkState | None, far: LinkState | None) -> LinkValue:
    found = link_value(near, far)
    assert found is not None
    return found


@pytest.mark.parametrize(
    ("window", "there", "back"),
    {
        "nothing lost": ({}, (0.0, 0.5), (0.0, 0.5)),
        "lost, and not known where": ({"lost": 4}, (0.04, 0.5), (0.04, 0.5)),
        "lost on the way there": ({"lost": 4, "lost_out": 4, "lost_back": 0}, (0.04, 0.5), (0.0, 0.5)),
        "lost on the way back": ({"lost": 48, "lost_out": 4, "lost_back": 48}, (0.04, 0.5), (0.5, 0.5)),
        "a one-way delay": ({"rtt_ms": 3.0, "one_way_ms": 1.0}, (0.0, 1.0), (0.0, 2.0)),
        "clocks that differ": ({"rtt_ms": 3.0, "one_way_ms": 4.0}, (0.0, 4.0), (0.0, 0.0)),
        "no answer at all": ({"lost": 100, "rtt_ms": None}, (1.0, None), (1.0, None)),
    }.values(),
)
def test_one_window(window: dict[str, object], there: tuple[float, float], back: tuple[float, float]) -> None:
    found = state(window)
    assert value(found, None) == LinkValue(10.0, *there)
    assert value(None, found) == LinkValue(10.0, *back)


def test_packets_of_both_ends_are_counted_together() -> None:
    near = state({"lost": 4, "lost_out": 4, "lost_back": 0, "rtt_ms": 1.0})
    far = state({"lost": 0, "lost_out": 0, "lost_back": 0, "rtt_ms": 3.0})
    found = value(near, far)
    assert found.loss_ratio == pytest.approx(0.02)
    assert found.delay_ms == pytest.approx((96 * 0.5 + 100 * 1.5) / 196)
    assert link_value(None, None) is None


def test_a_fault_is_seen_within_three_minutes_and_gone_three_minutes_after_it_ended() -> None:
    bad = {"sent": 30, "lost": 3, "rtt_ms": 11.0}
    good = {"sent": 30, "lost": 0, "rtt_ms": 1.0}
    seen = value(state(*[good] * 30, *[bad] * 17), None)
    assert seen.loss_ratio is not None
    assert seen.loss_ratio > 0.09
    gone = value(state(*[bad] * 30, *[good] * 17), None)
    assert gone.loss_ratio is not None
    assert gone.delay_ms is not None
    assert gone.loss_ratio < 0.1 * 2.0 ** (-170.0 / HALF_LIFE_S) * 1.5
    assert gone.delay_ms < 1.5


@given(COUNT, COUNT, COUNT, st.floats(0.0, 1e4), st.none() | st.floats(0.0, 1e4))
def test_no_report_gives_a_value_that_cannot_be(
    sent: int, lost_out: int, lost_back: int, rtt_ms: float, one_way_ms: float | None
) -> None:
    lost_out = min(lost_out, sent)
    lost_back = min(lost_back, sent - lost_out)
    window = LinkWindow(0.0, 10.0, sent, lost_out + lost_back, lost_out, lost_back, rtt_ms, one_way_ms)
    state = LinkState(0.0).with_window(window)
    for found in (value(state, None), value(None, state), value(state, state)):
        assert found.loss_ratio is None or 0.0 <= found.loss_ratio <= 1.0
        assert found.delay_ms is None or 0.0 <= found.delay_ms <= 2e4


REPORTS: dict[str, tuple[list[tuple[float, float]], bool]] = {
    # case: reports of the peer's agent as (time, suspect ratio); whether they cover the window from 20 to 30
    "on time": ([(10.0, 0.0), (20.0, 0.0), (30.0, 0.0)], True),
    "one report missed": ([(12.0, 0.0), (32.0, 0.05)], True),
    "not there yet": ([(25.0, 0.0), (35.0, 0.0)], False),
    "stopped for half a minute": ([(15.0, 0.0), (45.0, 0.0)], False),
    "late itself": ([(15.0, 0.0), (25.0, 0.5), (35.0, 0.0)], False),
    "gone": ([(10.0, 0.0), (20.0, 0.0)], False),
}


@pytest.mark.parametrize(("reports", "covered"), REPORTS.values(), ids=REPORTS)
def test_a_link_is_blamed_only_while_the_agent_at_its_other_end_was_there(
    reports: list[tuple[float, float]], covered: bool
) -> None:
    (first_s, _), *others = reports
    found = Attendance(first_s, first_s)
    for at_s, suspect_ratio in others:
        found = found.after(at_s, interval_s=10.0, suspect_ratio=suspect_ratio)
    assert found.covers(LinkWindow(20.0, 30.0, sent=100, lost=100)) is covered
