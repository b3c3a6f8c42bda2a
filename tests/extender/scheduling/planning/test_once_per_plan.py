"""The decision of who leaves for whom, asked of the running planner: once per plan, and never for long at a time."""

import asyncio

from extender.cache import ClusterCache
from extender.runtime.decision_lines import DecisionLog
from extender.runtime.telemetry import Telemetry
from extender.scheduling.planning.loop import Planner
from extender.scheduling.planning.once_per_plan import Preempting
from scoring.ids import GangKey
from scoring.model.policy import Policy
from scoring.model.policy import Preempting as Choice
from tests.builders import node, pod
from tests.fakes.clock import FakeClock


class _Ticking(FakeClock):
    """Each look at it takes a millisecond."""

    def monotonic_s(self) -> float:
        """Seconds, one look later."""
        self.advance(0.001)
        return super().monotonic_s()


NOBODY: frozenset[GangKey] = frozenset()


def planner_of(clock: FakeClock, *, singles: int) -> Planner:
    """A planner over a cluster full of small gangs, and one of three that waits."""
    cache = ClusterCache()
    cache.nodes.replace([node(f"n{i}", cpu="4") for i in range(singles)])
    running = [pod(f"g{i}-0", gang=f"g{i}", min_available=1, cpu="4", node=f"n{i}") for i in range(singles)]
    waiting = [pod(f"wants-{i}", gang="wants", min_available=3, cpu="4", priority=5) for i in range(3)]
    cache.pods.replace([*running, *waiting])
    telemetry = Telemetry()
    policy = Policy(preemption=Choice.GANGS)
    return Planner(cache, policy, clock, telemetry, DecisionLog(telemetry))


async def test_nobody_leaves_before_the_first_plan() -> None:
    """There is nothing yet to decide from."""
    clock = FakeClock()
    planner = planner_of(clock, singles=4)
    assert await Preempting(planner, clock)(NOBODY, NOBODY) is None


async def test_the_same_plan_is_answered_once() -> None:
    """Asked again for the same plan it gives the very same answer; for another question or plan a new one."""
    clock = FakeClock()
    planner = planner_of(clock, singles=4)
    planner.replan()
    asks = Preempting(planner, clock)
    first = await asks(NOBODY, NOBODY)
    assert first is not None
    assert first.victims == ("default/g0", "default/g1", "default/g2")
    assert await asks(NOBODY, NOBODY) is first
    spared = await asks(frozenset({GangKey("default/g0")}), NOBODY)
    assert spared is not None
    assert spared.victims == ("default/g1", "default/g2", "default/g3")
    assert await asks(NOBODY, frozenset({first.gang})) is None
    assert await asks(NOBODY, NOBODY) == first


async def test_others_have_their_turn_while_it_is_decided() -> None:
    """A clock that goes on by a millisecond with each look: another task runs many times before the answer is there."""
    clock = _Ticking()
    planner = planner_of(clock, singles=20)
    planner.replan()
    turns = 0

    async def other() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    task = asyncio.create_task(other())
    found = await Preempting(planner, clock)(NOBODY, NOBODY)
    task.cancel()
    assert found is not None
    assert turns > 2
