"""The queue on a real control plane: heavier gangs first (PAPERS K1–K3)."""

from functools import partial

from tests.e2e.invariants import invariants_hold, until_nothing_is_promised
from tests.e2e.objects import gang_of
from tests.e2e.stage import Stage

SHAPES = ((1, "11500m"), (2, "5700m"), (3, "3800m"), (4, "2850m"), (6, "1900m"), (12, "950m"))
"""(members, CPU of each): each gang needs a node of 12 CPUs to itself, to the last pod; the lightest first."""
HEAVIEST_FIRST = ["w12", "w06", "w04", "w03", "w02", "w01"]


async def test_heavier_gangs_first(stage: Stage) -> None:
    netgang = await stage.netgang(on={"a": 1}, cpu="12")
    await stage.create_gang("full", 12, gated=True, cpu="950m")
    await stage.until_bound("full", 12)
    async with invariants_hold(stage.api, netgang, stage.namespace):
        for size, cpu in SHAPES:
            await stage.create_gang(f"w{size:02}", size, gated=True, cpu=cpu)
        read = partial(stage.waiting, netgang)
        waiting = await stage.api.until(read, lambda found: found.keys() == set(HEAVIEST_FIRST), what="all six wait")
        assert list(waiting) == HEAVIEST_FIRST
        weights = [one["weight"]["omega_prime"] for one in waiting.values()]
        assert weights == sorted(weights, reverse=True)
        assert len(set(weights)) == 6
        running = "full"
        for name in HEAVIEST_FIRST:
            await stage.end(*await stage.bound(running))
            running = gang_of(min(await stage.until_bound("", 1)))
            whole = await stage.until_bound(running, int(running[1:]))
            assert (running, len(await stage.bound())) == (name, len(whole))
        await until_nothing_is_promised(stage.api, netgang)
