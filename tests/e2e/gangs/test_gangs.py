"""Gangs on a real kube-scheduler: whole or not at all, in one zone, and as soon as there is room."""

import asyncio
import random
from collections import Counter

from lab.testbed.objects import GangDialect, node, pod_group, training_job
from tests.e2e.objects import OURS, gang_of, not_scheduled
from tests.e2e.stage import Stage


async def test_g6_starts_when_the_missing_gpus_appear(stage: Stage) -> None:
    """PAPERS.md G6: ps and four workers of 2 GPUs wait on 4 GPUs, all of them, and start when four more are there."""
    await stage.add_nodes(node("g1", gpu=2, zone="a"), node("g2", gpu=2, zone="a"))
    await stage.netgang()
    await stage.api.create_all(training_job("tf", workers=4, worker_gpu=2, namespace=stage.namespace, scheduler=OURS))
    await stage.until_refused(5)
    assert await stage.bound() == {}
    assert all("0/2 nodes are available: 2 netgang: the" in (not_scheduled(one) or "") for one in await stage.pods())
    await stage.add_nodes(node("g3", gpu=2, zone="a"), node("g4", gpu=2, zone="a"))
    await stage.until_bound("tf", 5, limit_s=3.0)


async def test_contention_never_leaves_a_gang_in_part(stage: Stage) -> None:
    """Eight rounds of two to five gangs that do not all fit: no gang stays between 0 and its minimum, no deadlock."""
    await stage.netgang(on={"a": 5, "b": 5}, cpu="2500m")
    rng = random.Random(20)
    for number in range(8):
        sizes = {f"r{number}-g{i}": rng.randint(2, 8) for i in range(rng.randint(2, 5))}
        pods = [one for name, size in sizes.items() for one in stage.gang(name, size)]
        rng.shuffle(pods)
        await stage.api.create_all(pods)
        started: set[str] = set()
        while len(started) < len(sizes):
            whole = await stage.api.until(
                lambda: _whole(stage, sizes),  # noqa: B023 - awaited in the same turn
                lambda found: bool(found - started),  # noqa: B023
                what=f"another gang of {sizes} beside {started}",
            )
            started |= whole
            await stage.end(*[name for name in await stage.bound() if gang_of(name) in whole])


async def _whole(stage: Stage, sizes: dict[str, int]) -> set[str]:
    """Gangs that are bound whole; a gang seen in part is given the time of a commit, then it is a failure."""
    for _ in range(40):
        counts = Counter(gang_of(name) for name in await stage.bound())
        partial = {name for name, count in counts.items() if count < sizes[name]}
        if not partial:
            return set(counts)
        await asyncio.sleep(0.05)
    raise AssertionError(f"bound in part for two seconds: {partial} of {sizes}")


async def test_members_that_arrive_late_and_members_beyond_the_minimum(stage: Stage) -> None:
    """Two of three wait for the third; a fourth and fifth that come later join where there is room, one stays."""
    await stage.netgang(on={"a": 4})
    await stage.api.create(pod_group("g", 3, namespace=stage.namespace))
    members = stage.gang("g", 5, least=3, dialect=GangDialect.POD_GROUP)
    await stage.api.create_all(members[:2])
    await stage.until_refused(2)
    assert await stage.bound() == {}
    await stage.api.create(members[2])
    await stage.until_bound("g", 3)
    await stage.api.create_all(members[3:])
    await stage.until_bound("g", 4)
    await stage.until_refused(1)
    assert len(await stage.bound()) == 4
