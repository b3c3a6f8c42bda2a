"""The decision of who leaves for whom, asked of the running planner: once per plan."""

from extender.cache import ClusterCache
from extender.ports import Clock
from extender.runtime.decision_lines import DecisionLog
from extender.runtime.telemetry import Telemetry
from extender.scheduling.planning.loop import Planner
from extender.scheduling.planning.once_per_plan import Preempting
from scoring.ids import GangKey
from scoring.model.policy import Policy
from scoring.model.policy import Preempting as Choice
from tests.builders import node, pod
from tests.fakes.clock import FakeClock

NONE: frozenset[GangKey] = frozenset()


def planner_of(clock: Clock, *, singles: int) -> Planner:
    cache = ClusterCache()
    cache.nodes.replace([node(f"n{i}", cpu="4") for i in range(singles)])
    running = [pod(f"g{i}-0", gang=f"g{i}", min_available=1, cpu="4", node=f"n{i}") for i in range(singles)]
    waiting = [pod(f"wants-{i}", gang="wants", min_available=3, cpu="4", priority=5) for i in range(3)]
    cache.pods.replace([*running, *waiting])
    telemetry = Telemetry()
    policy = Policy(preemption=Choice.GANGS)
    return Planner(cache, policy, clock, telemetry, DecisionLog())


async def test_the_same_plan_is_answered_once() -> None:
    clock = FakeClock()
    planner = planner_of(clock, singles=4)
    asks = Preempting(planner)
    assert await asks(NONE, NONE) is None
    await planner.replan()
    first = await asks(NONE, NONE)
    assert first is not None
    assert first.victims == ("default/g0", "default/g1", "default/g2")
    assert await asks(NONE, NONE) is first
    spared = await asks(frozenset({GangKey("default/g0")}), NONE)
    assert spared is not None
    assert spared.victims == ("default/g1", "default/g2", "default/g3")
    assert await asks(NONE, frozenset({first.gang})) is None
    assert await asks(NONE, NONE) == first
