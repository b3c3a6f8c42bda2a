"""The machine's clocks behind the Clock port."""

import asyncio
import time

import pytest

from extender.runtime.clock import SystemClock


def test_times_are_the_machines() -> None:
    """Unix seconds, so that timestamps of other machines can be compared; outside a loop its monotonic clock."""
    assert SystemClock().now_s() == pytest.approx(time.time(), abs=5.0)  # noqa: TID251 - what it must agree with
    assert SystemClock().monotonic_s() == pytest.approx(time.monotonic(), abs=5.0)


@pytest.mark.looptime
async def test_durations_follow_the_loop() -> None:
    clock = SystemClock()
    begun_s = clock.monotonic_s()
    await asyncio.sleep(3600.0)
    assert clock.monotonic_s() - begun_s == pytest.approx(3600.0)
