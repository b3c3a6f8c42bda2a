"""Gangs and plain pods of one scheduler together, in random order: no gang loses a promised place to a plain pod."""

import random
from typing import Any

import pytest

from tests.extender.scheduling.kube_scheduler import KubeScheduler
from tests.extender.scheduling.world import World, node_json, running

pytestmark = pytest.mark.looptime

GATE: dict[str, Any] = {"schedulingGates": [{"name": "netgang.io/gang"}]}


def broken(world: World, promises: dict[str, str]) -> list[str]:
    """Waiting members that are not promised the node any more that they once were; `promises` is kept up to date."""
    now = {uid: node for places in world.committed.values() for uid, node in places.items()}
    waiting = {str(pod.uid) for pod in world.service.cache.all_pods() if pod.node is None and not pod.deleting}
    found = [uid for uid, node in promises.items() if uid in waiting and now.get(uid) != node]
    promises.clear()
    promises.update(now)
    return found


@pytest.mark.parametrize("seed", range(8))
async def test_no_promised_place_is_lost(seed: int) -> None:
    """Plain pods come all the time and fill what is left; every gang that begins to start does so at once."""
    rng = random.Random(seed)
    async with running(*(node_json(f"n{i}", cpu="4") for i in range(4))) as world:
        scheduler = KubeScheduler()
        plain: list[str] = []
        promises: dict[str, str] = {}
        gangs: list[tuple[str, ...]] = []
        for turn in range(60):
            if turn % 2 == 0:
                world.pod(f"p{turn:03}", cpu=rng.choice(("500m", "1", "2")))
                plain.append(f"p{turn:03}")
            if turn % 6 == 0:
                gates = GATE if rng.random() < 0.7 else {}
                scheduler.late.clear()
                gangs.append(world.gang(f"g{turn:03}", rng.randint(2, 4), cpu=rng.choice(("1", "2")), **gates))
                scheduler.late.add(gangs[-1][-1])  # its volume is being made, say, for as long as six plain pods take
            if rng.random() < 0.45 and plain:
                world.delete(plain.pop(rng.randrange(len(plain))))
            if gangs and all(world.node_of(name) for name in gangs[0]):
                world.delete(*gangs.pop(0))
            for _ in range(3):
                await world.settle(rng.choice((0.02, 0.1)))
                scheduler.step(world)
                assert broken(world, promises) == []
        world.delete(*plain)
        scheduler.late.clear()
        for _ in range(300):
            await world.settle(0.5)
            scheduler.step(world)
            for names in [one for one in gangs if all(world.node_of(name) for name in one)]:
                gangs.remove(names)
                world.delete(*names)
            if not gangs:
                break
        assert gangs == [], "gangs that never started"
