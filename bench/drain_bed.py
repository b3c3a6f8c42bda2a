"""One real control plane on which the halves of the drain benchmark run one after the other.

Why one for all: a new one per half would compare cold API servers. Rule: nodes stay, and everything else of a half goes
before the next one: pods, schedulers, netgang. kube-scheduler and netgang are those that users install
(scheduler-config/, `netgang serve`), with kube-scheduler's client limits raised alike for all; nodes are plain API
objects, nothing runs on them.
"""

import asyncio
from collections.abc import AsyncGenerator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, replace
from enum import StrEnum
from time import perf_counter

from bench.drain_figures import Drain, drained
from bench.drain_watch import CpuMeter, pod_times
from testbed.api import Api, Object
from testbed.cluster import NETGANG_SCHEDULER, Cluster
from testbed.network import LOOPBACK, free_ports
from testbed.objects import gang_pods, namespace, pod, zone_nodes
from testbed.process import Child
from testbed.schedulers import PLAIN, Document, load_configuration
from testbed.service import SECOND_SCHEDULER, install_rights, installed_gates, start_netgang

NAMESPACE = "bench"
OURS = "netgang"
GATE = "netgang.io/gang"
_SETTLE_S = 0.5
"""What netgang still does after the last binding, such as reading its event, counts too."""


class Way(StrEnum):
    """How a half's pods are scheduled."""

    PLAIN = "plain"
    """kube-scheduler alone, no gangs, all nodes scored."""
    SAMPLED = "sampled"
    """The same with kube-scheduler's default sampling of nodes."""
    UNGATED = "ungated"
    """Gangs through netgang's second scheduler; netgang and its plan are there before the scheduler starts."""
    GATED = "gated"
    """The same gangs behind netgang's scheduling gate; the scheduler is there before netgang starts."""
    BESIDE = "beside"
    """As plain, while netgang and its second scheduler run beside with nothing to do."""
    SECOND = "second"
    """As plain, while that second scheduler runs beside without netgang: what any second kube-scheduler costs."""


@dataclass(frozen=True, slots=True)
class Shape:
    """A cluster and a backlog for it."""

    nodes: int
    zones: int
    node_cpu: int
    gangs: int
    size: int

    @property
    def pods(self) -> int:
        """Pods of the backlog."""
        return self.gangs * self.size

    def node_objects(self) -> list[Object]:
        """Equal nodes, the same number in each zone."""
        per_zone = self.nodes // self.zones
        zones = {f"zone-{number:02d}": per_zone for number in range(self.zones)}
        return zone_nodes(zones, cpu=str(self.node_cpu), memory="256Gi")

    def backlog(self, way: Way) -> list[Object]:
        """As many pods for each way, gang after gang; they differ in labels, scheduler and gate alone."""
        gates = (GATE,) if way is Way.GATED else ()
        if way in (Way.UNGATED, Way.GATED):
            return [one for number in range(self.gangs) for one in self.gang(number, gates=gates)]
        return [pod(f"p{number:05d}", namespace=NAMESPACE) for number in range(self.pods)]

    def gang(self, number: int, *, gates: Sequence[str] = (), cpu: str = "1") -> list[Object]:
        """The members of one gang, all of which must run."""
        name = f"g{number:04d}"
        return gang_pods(
            name, self.size, min_available=self.size, namespace=NAMESPACE, cpu=cpu, scheduler=OURS, gates=gates
        )


class Bed:
    """A control plane with a shape's nodes. Get one with `bed`."""

    def __init__(self, cluster: Cluster, api: Api, shape: Shape) -> None:
        self.cluster = cluster
        self.api = api
        self.shape = shape

    async def drain(self, way: Way, *, limit_s: float) -> Drain:
        """Bind the shape's backlog one way; what is not bound after `limit_s` stays so, and counts as unfinished."""
        pods = self.shape.backlog(way)
        await self.api.create_all(pods)
        try:
            async with AsyncExitStack() as stack:
                times = await stack.enter_async_context(pod_times(self.cluster.kubeconfig(), NAMESPACE))
                begun_s, meter = await self._start(way, stack)
                await times.until(lambda: len(times.bound_s) >= len(pods), limit_s=limit_s)
                result = drained(times.bound_s.values(), pods=len(pods))
                if meter is None:
                    return result
                if way is Way.GATED:  # from the moment at which the first pod could be let in
                    begun_s = min(begun_s, *times.let_in_s.values()) if times.let_in_s else begun_s
                await times.until(lambda: False, limit_s=_SETTLE_S)
                end_s = perf_counter()
                before_s = meter.at(begun_s)
                return replace(result, cpu_s=meter.at(end_s) - before_s, cpu_before_s=before_s)
        finally:
            await self.clear()

    async def clear(self) -> None:
        """Stop netgang and all schedulers, delete all pods."""
        for name in [one for one in self.cluster.parts if "scheduler" in one or one == OURS]:
            await self.cluster.remove(name)
        await self.api.delete_all("Pod", namespace=NAMESPACE, grace_s=0)
        await self.api.until(
            lambda: self.api.list_all("Pod", namespace=NAMESPACE), lambda found: not found, what="pods gone"
        )

    async def start_gangs(self, stack: AsyncExitStack, *, netgang_first: bool) -> CpuMeter:
        """Netgang and its second scheduler; the other one is started when the first is ready."""
        (port,) = free_ports(1)
        if not netgang_first:
            await self._start_second(port)
            return await self._start_netgang(port, stack)
        meter = await self._start_netgang(port, stack)
        await self._start_second(port)
        return meter

    async def _start(self, way: Way, stack: AsyncExitStack) -> tuple[float, CpuMeter | None]:
        """Start what schedules; returns when the drain begins at the latest, and netgang's meter."""
        match way:
            case Way.PLAIN | Way.SAMPLED:
                await self._start_plain(way)
                return perf_counter(), None
            case Way.SECOND:
                second = load_configuration(SECOND_SCHEDULER)
                alone = {key: value for key, value in second.items() if key != "extenders"}
                await self.cluster.start_scheduler(
                    alone, name=NETGANG_SCHEDULER, account=NETGANG_SCHEDULER, feature_gates=installed_gates()
                )
                await self._start_plain(Way.PLAIN)
                return perf_counter(), None
            case Way.BESIDE:
                meter = await self.start_gangs(stack, netgang_first=True)
                begun_s = perf_counter()
                await self._start_plain(Way.PLAIN)
                return begun_s, meter
            case Way.UNGATED:
                (port,) = free_ports(1)
                meter = await self._start_netgang(port, stack)
                begun_s = perf_counter()
                await self._start_second(port)
                return begun_s, meter
            case Way.GATED:
                meter = await self.start_gangs(stack, netgang_first=False)
                return perf_counter(), meter

    async def _start_plain(self, way: Way) -> Child:
        everywhere: Document = {**PLAIN, "percentageOfNodesToScore": 100}
        return await self.cluster.start_scheduler(PLAIN if way is Way.SAMPLED else everywhere)

    async def _start_netgang(self, port: int, stack: AsyncExitStack) -> CpuMeter:
        """Netgang, ready, with a meter that has watched it from its first moment."""
        async with asyncio.TaskGroup() as group:
            starting = group.create_task(start_netgang(self.cluster, name=OURS, port=port))
            await asyncio.sleep(0)  # it runs up to its first wait, which is for the process it has started
            process = self.cluster.parts[OURS].pid
            assert process is not None
            meter = await stack.enter_async_context(CpuMeter(process))
            await starting
        return meter

    async def _start_second(self, port: int) -> Child:
        return await self.cluster.start_scheduler(
            SECOND_SCHEDULER,
            name=NETGANG_SCHEDULER,
            extender=f"http://{LOOPBACK}:{port}",
            account=NETGANG_SCHEDULER,
            feature_gates=installed_gates(),
        )


@asynccontextmanager
async def bed(shape: Shape) -> AsyncGenerator[Bed, None]:
    """A control plane with the nodes of `shape`, for the time of an `async with`."""
    async with Cluster(stage_names=()) as cluster, cluster.api() as api:
        await cluster.remove("kwok")  # it would hold a lease for every node
        await install_rights(cluster)
        await cluster.install("podgroup-crd")
        await api.create(namespace(NAMESPACE))
        await api.create_all(shape.node_objects())
        await _take_taints_away(api, [one["metadata"]["name"] for one in shape.node_objects()])
        yield Bed(cluster, api, shape)


async def _take_taints_away(api: Api, names: Sequence[str]) -> None:
    """Admission marks new nodes as not ready; no controller is here to see that they are."""
    places = asyncio.Semaphore(32)

    async def one(name: str) -> None:
        async with places:
            await api.patch("Node", name, {"spec": {"taints": None}})

    async with asyncio.TaskGroup() as group:
        for name in names:
            group.create_task(one(name))
