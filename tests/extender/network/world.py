"""A network refresh over sources, the nodes it sees, and what it published."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import msgspec

from extender.network.refresh import NetworkRefresh, Polled, RefreshOptions
from extender.ports import Batch, Clock, NetworkSource
from extender.schemas import Source, SourcesStatus
from scoring import NodeName
from scoring.model import Node
from scoring.network.matrix import Metric, NetworkMatrix, PairReading
from tests.builders import node
from tests.liveness import LIVENESS_S

START_S = 1_800_000_000.0
QUICK = RefreshOptions(reevaluate_s=0.02, retry_min_s=0.02, retry_max_s=0.05, jitter_ratio=0.0)  # real seconds


class MovedClock(msgspec.Struct):
    """Wall time that stands still unless it is moved; the loop's time runs."""

    at_s: float = START_S

    def now_s(self) -> float:
        return self.at_s

    def monotonic_s(self) -> float:
        return asyncio.get_running_loop().time()


async def read(source: NetworkSource, now_s: float = START_S) -> Batch:
    batch = await source.fetch(now_s=now_s)
    assert batch is not None
    return batch


class World:
    """Nodes a and b, or others; `running` runs its refresh."""

    def __init__(
        self, *sources: Polled, clock: Clock, options: RefreshOptions | None = None, jitter: float = 0.5
    ) -> None:
        self.nodes: list[Node] = [node("a"), node("b")]
        self.clock = clock
        self.published: list[NetworkMatrix] = []
        self.on_publish: Callable[[], None] = lambda: None
        how = options or RefreshOptions()
        self.refresh = NetworkRefresh(
            sources, how, clock=clock, nodes=lambda: self.nodes, publish=self._publish, jitter=lambda: jitter
        )

    def _publish(self, matrix: NetworkMatrix) -> None:
        self.on_publish()
        self.published.append(matrix)

    @property
    def last(self) -> NetworkMatrix:
        return self.published[-1]

    def versions(self) -> list[int]:
        return [matrix.version for matrix in self.published]

    def status(self) -> SourcesStatus:
        return self.refresh.status()

    @property
    def source(self) -> Source:
        [status] = self.status().sources
        return status

    def known(self, one: str = "a", other: str = "b", metric: Metric = Metric.DELAY) -> PairReading | None:
        return self.last.known(NodeName(one), NodeName(other), metric)

    def delay(self, one: str = "a", other: str = "b") -> float | None:
        [[found]] = self.last.block([NodeName(one)], [NodeName(other)]).values[Metric.DELAY].tolist()
        return None if found != found else float(found)

    def counts(self) -> tuple[int, int, int]:
        pairs = self.status().pairs[Metric.DELAY]
        return pairs.fresh, pairs.fading, pairs.expired

    async def until(self, true: Callable[[], bool]) -> None:
        async with asyncio.timeout(LIVENESS_S):
            while not (self.published and true()):  # noqa: ASYNC110 - it happens in other tasks and threads
                await asyncio.sleep(0.005)


@asynccontextmanager
async def running(world: World) -> AsyncIterator[World]:
    task = asyncio.create_task(world.refresh.run())
    try:
        yield world
    finally:
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task
