"""What a running job reports of its end is its gang's length."""

from pathlib import Path

import pytest

from scoring.lengths import remaining_s
from tests.extender.controllers.preemption.test_remaining_work import long_one, says, settings
from tests.extender.scheduling.world import World, key

pytestmark = pytest.mark.looptime


def left_s(world: World, level: float = 0.5) -> float | None:
    gang = world.service.cache.gang(key("long"))
    assert gang is not None
    if gang.length is None:
        return None
    assert gang.length.source.value == "reported"
    since_s = max(pod.scheduled_s or 0.0 for pod in gang.members)
    return remaining_s(gang.length, world.clock.now_s() - since_s, level)


@pytest.mark.parametrize(
    ("trusted", "total", "wanted_s"), [("*", 2000, 1800.0), ("other", 2000, None), ("*", None, None)]
)
async def test_steps_that_are_left_at_the_measured_speed(
    trusted: str, total: int | None, wanted_s: float | None, tmp_path: Path
) -> None:
    """A step a second, 200 of 2,000 trained; only in namespaces whose reports count."""
    async with long_one(settings(tmp_path, trusted=trusted) | {"lengths": {"enabled": True}}) as (world, _, _stack):
        await says(world, total, 0, 100, 200)
        await world.settle(40.0)
        assert left_s(world) == (None if wanted_s is None else pytest.approx(wanted_s, abs=100.0))


async def test_a_report_that_changes_little_changes_nothing(tmp_path: Path) -> None:
    """Each length is a version of the cluster, and each version a plan."""
    async with long_one(settings(tmp_path) | {"lengths": {"enabled": True}}) as (world, _, _stack):
        await says(world, 20_000, 0, 100, 200)
        await world.settle(40.0)
        before = world.service.cache.gang(key("long"))
        await world.settle(60.0)
        await says(world, 20_000, 300)
        await world.settle(40.0)
        after = world.service.cache.gang(key("long"))
        assert before is not None
        assert after is not None
        assert before.length == after.length
