"""The machine's clocks behind the Clock port, and the clocks that tests put in their place."""

import asyncio
import time

import pytest

from extender.runtime.clock import SystemClock
from tests.fakes.clock import FakeClock, LoopClock


def test_wall_time_is_the_machines() -> None:
    """Unix seconds, so that timestamps of other machines can be compared."""
    assert SystemClock().now_s() == pytest.approx(time.time(), abs=5.0)  # noqa: TID251 - what it must agree with


def test_durations_can_be_measured_without_a_loop() -> None:
    """Outside a loop it is the machine's monotonic clock."""
    assert SystemClock().monotonic_s() == pytest.approx(time.monotonic(), abs=5.0)


@pytest.mark.looptime
async def test_durations_follow_the_loop() -> None:
    """Inside a loop it is the loop's time: an hour of virtual time is an hour."""
    clock = SystemClock()
    begun_s = clock.monotonic_s()
    await asyncio.sleep(3600.0)
    assert clock.monotonic_s() - begun_s == pytest.approx(3600.0)


@pytest.mark.looptime
async def test_a_loop_clock_moves_both_ways_of_telling_time() -> None:
    """Wall and monotonic time pass alike."""
    clock = LoopClock(start_s=100.0)
    wall_s, monotonic_s = clock.now_s(), clock.monotonic_s()
    await asyncio.sleep(60.0)
    assert pytest.approx((clock.now_s() - wall_s, clock.monotonic_s() - monotonic_s)) == (60.0, 60.0)


def test_setting_the_wall_clock_does_not_change_durations() -> None:
    """An operator who sets the clock back does not make deadlines longer."""
    clock = FakeClock(now_s=100.0)
    clock.advance(5.0)
    clock.set_wall(50.0)
    assert (clock.now_s(), clock.monotonic_s()) == (50.0, 5.0)
    with pytest.raises(ValueError, match="does not go back"):
        clock.advance(-1.0)
