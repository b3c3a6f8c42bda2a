"""What the service holds depends on the cluster as it is, not on how long it has been running.

Every container of the service, and all records, are counted while a hundred gangs come and go, and again with as many
more. Books that look for what is gone only now and then go up and down: their least is what counts.
"""

import gc
from collections import Counter, OrderedDict, deque
from itertools import count

import pytest

from tests.extender.scheduling.kube_scheduler import KubeScheduler
from tests.extender.scheduling.world import GATED, World, node_json, unfinished

pytestmark = pytest.mark.looptime

CONTAINERS = (dict, list, set, deque, OrderedDict, bytearray)
GENERATIONS, FIRST, EVERY = 120, 45, 25  # gangs for one count, before its first look, between two looks
SPARE = 90  # what may be more with as many gangs: a book may have its least between two looks, and gangs have two pods
BOUNDED = {  # what → why it is still filling
    "Events._posted_s": "what was told is not told again for ten minutes",
    "DecisionLog._seen": "a refusal that is written is known for five",
    "objects _Seen": "the same",
    "objects Made": "ten of each gang, and of the last that are gone (`extender.runtime.decision_lines`)",
    "objects Decision": "the same",
}


def census() -> Counter[str]:
    """How many entries the containers of our objects have, and how many objects of each kind there are."""
    gc.collect()
    found: Counter[str] = Counter()
    for one in gc.get_objects():
        kind = type(one)
        if str(kind.__module__).partition(".")[0] not in ("extender", "scoring"):
            continue
        found[f"objects {kind.__qualname__}"] += 1
        slots = [name for base in kind.__mro__ for name in getattr(base, "__slots__", ())]
        for name in (*slots, *(vars(one) if hasattr(one, "__dict__") else ())):
            value = getattr(one, name, None)
            if isinstance(value, CONTAINERS):
                found[f"{kind.__qualname__}.{name}"] += len(value)
    return found


async def least(world: World, scheduler: KubeScheduler, numbers: "count[int]") -> Counter[str]:
    """The least of each while gangs of two whole nodes come behind a gate, wait, start and end, and a node leaves."""
    found: Counter[str] | None = None
    for generation in range(1, GENERATIONS + 1):
        number = next(numbers)
        world.gang(f"g{number}", 2, cpu="4", **GATED)
        if number >= 6:
            world.delete(f"g{number - 6}-0", f"g{number - 6}-1")
        if number % 4 == 0:
            world.node("n9")
        elif number % 4 == 2:
            world.api.remove("n9", kind="Node")
        for _ in range(2):
            await world.settle(0.5)
            scheduler.step(world)
        world.api.bindings.clear()  # the API server's own memory is not what is looked at
        if generation >= FIRST and (generation - FIRST) % EVERY == 0:
            now = census()
            found = now if found is None else found & now
    assert found is not None
    return found


@pytest.mark.slow
async def test_nothing_is_kept_of_who_came_and_went() -> None:
    async with unfinished(*(node_json(f"n{i}") for i in range(6))) as world:
        scheduler, numbers = KubeScheduler(), count()
        for _ in range(3):  # by then the books of gangs that are gone are as full as they get
            before = await least(world, scheduler, numbers)
        after = await least(world, scheduler, numbers)
        assert world.counted("bindings_total", outcome="bound") > GENERATIONS, "gangs start"
        assert world.plan.waiting, "and others wait"
        grown = {name: (before[name], now) for name, now in after.items() if now > before[name] + SPARE}
        assert {name: grown[name] for name in grown.keys() - BOUNDED.keys()} == {}
