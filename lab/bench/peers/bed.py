"""One real control plane on which the ways of a workload run one after the other.

Why one for all: a new one per half would compare cold API servers. Rule: nodes stay, and everything else of a half goes
before the next one: pods, schedulers, extenders. kube-scheduler and netgang are those that users install, with
kube-scheduler's client limits raised alike for all; nodes are plain API objects, nothing runs on them, and kwok is
stopped because it would renew a lease for each.
"""

import asyncio
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from time import perf_counter
from typing import Generic, Protocol, TypeVar

import httpx

from lab.bench.http import build_go_echo
from lab.bench.peers.meters import Meters
from lab.bench.peers.quota import CONTROLLER_FLAGS, CONTROLLERS, end_quota, start_quota
from lab.bench.peers.watch import PodTimes, pod_times
from lab.bench.peers.ways import OURS, Extender, Instance, Way
from lab.bench.peers.workloads import NAMESPACE
from lab.testbed.api import Api, Object
from lab.testbed.cluster import Cluster
from lab.testbed.objects import namespace
from lab.testbed.parts.kueue_jobs import JOB_CONTROLLER
from lab.testbed.parts.native import delete_groups, served, switch_on
from lab.testbed.parts.service import ROOT, install_rights, installed_gates, start_netgang
from lab.testbed.parts.volcano import delete_volcano_groups, install_volcano, start_volcano
from lab.testbed.processes.network import LOOPBACK, free_ports

ECHO = "echo"
_STANDING = ("etcd", "kube-apiserver", CONTROLLERS)
"""Parts that stay from half to half."""
_SETTLE_S = 0.5
"""What netgang still does after the last binding, such as reading its event, counts too."""
_FORMER_RUNS = ROOT / "manifests/components/lengths/rbac.yaml"
_CYCLE_S = 0.8
"""A slowed API server stands still and runs once in so long."""


class Load(Protocol):
    """What the bed must know of a load."""

    @property
    def api_share(self) -> float:
        """The share of the time in which the API server runs in `Bed.slowed`."""

    @property
    def tenants(self) -> Mapping[str, int]:
        """Tenant → weight: each has a queue of its own where queues are known; empty: all share one."""

    def node_objects(self) -> list[Object]:
        """The nodes."""


L = TypeVar("L", bound=Load)


@dataclass(frozen=True, slots=True)
class Running:
    """What `Bed.run` has started, and from when on it counts."""

    begun_s: float
    """When the load could begin at the latest: before the last scheduler was started, or when netgang was ready."""
    url: str | None
    """Where the extender answers."""
    times: PodTimes
    meters: Meters


class Bed(Generic[L]):
    """A control plane with a workload's nodes. Get one with `bed`."""

    def __init__(self, cluster: Cluster, api: Api, workload: L, *, has_volcano: bool) -> None:
        self.cluster = cluster
        self.api = api
        self.workload = workload
        self.has_volcano = has_volcano

    @asynccontextmanager
    async def run(self, way: Way) -> AsyncGenerator[Running, None]:
        """Start what schedules this way; at the end everything is gone again, the pods too."""
        try:
            async with (
                pod_times(self.cluster.kubeconfig(), NAMESPACE, of_jobs=way.kueue) as times,
                Meters(self._pids) as meters,
            ):
                begun_s, url = await self._start(way)
                yield Running(begun_s, url, times, meters)
        finally:
            if way.kueue:
                await end_quota(self.cluster, self.api)
            await self.clear()

    @asynccontextmanager
    async def slowed(self) -> AsyncGenerator[None, None]:
        """Let the API server run for the workload's share of the time only, for the time of an `async with`."""
        share = self.workload.api_share
        if share == 1.0:
            yield
            return
        server = self.cluster.parts["kube-apiserver"]

        async def stop_and_go() -> None:
            while True:
                server.freeze()
                await asyncio.sleep(_CYCLE_S * (1.0 - share))
                server.unfreeze()
                await asyncio.sleep(_CYCLE_S * share)

        stopping = asyncio.create_task(stop_and_go())
        try:
            yield
        finally:
            stopping.cancel()
            server.unfreeze()

    async def settle(self, running: Running) -> float:
        """Let netgang finish; the moment at which it has."""
        await running.times.until(lambda: False, limit_s=_SETTLE_S)
        return perf_counter()

    async def filter_calls(self, way: Way, running: Running) -> int | None:
        """How often the extender was asked to filter."""
        if running.url is None:
            return None
        async with httpx.AsyncClient(base_url=running.url) as client:
            if way.extender is Extender.ECHO:
                return int((await client.get("/calls")).json()["filter"])
            return filters_counted((await client.get("/metrics")).text)

    async def clear(self) -> None:
        """Stop extenders and schedulers, delete all pods and groups."""
        for name in [one for one in self.cluster.parts if one not in _STANDING]:
            await self.cluster.remove(name)
        await self.api.delete_all("Pod", namespace=NAMESPACE, grace_s=0)
        await self.api.delete_all("PodGroup", namespace=NAMESPACE, api_version="scheduling.x-k8s.io/v1alpha1")
        await delete_groups(self.api, version=self.cluster.version, namespace=NAMESPACE)
        await self.api.until(
            lambda: self.api.list_all("Pod", namespace=NAMESPACE), lambda found: not found, what="pods gone"
        )
        if self.has_volcano:
            await delete_volcano_groups(self.api, namespace=NAMESPACE)

    def _pids(self) -> dict[str, int]:
        return {name: part.pid for name, part in self.cluster.parts.items() if part.pid is not None}

    async def _start(self, way: Way) -> tuple[float, str | None]:
        """Start the extender and the schedulers; when the work can begin at the latest, and the extender's URL.

        With gates the schedulers come first: work begins when netgang removes the first gate. With Kueue everything is
        there before its queues are: they are what work begins with.
        """
        (port,) = free_ports(1)
        url = None if way.extender is Extender.NONE else f"http://{LOOPBACK}:{port}"
        *before, last = way.schedulers
        if way.gated:
            for one in way.schedulers:
                await self._start_scheduler(one, url)
            await self._start_extender(way, port)
            return perf_counter(), url
        await self._start_extender(way, port)
        if way.kueue:
            for one in way.schedulers:
                await self._start_scheduler(one, url)
            load = self.workload
            return await start_quota(self.cluster, self.api, load.node_objects(), load.tenants), url
        for one in before:
            await self._start_scheduler(one, url)
        begun_s = perf_counter()
        await self._start_scheduler(last, url)
        return begun_s, url

    async def _start_extender(self, way: Way, port: int) -> None:
        match way.extender:
            case Extender.NETGANG:
                await start_netgang(self.cluster, way.settings(), name=OURS, port=port)
            case Extender.ECHO:
                address = f"{LOOPBACK}:{port}"
                await self.cluster.start_part(ECHO, [build_go_echo(), address], ready_url=f"http://{address}/calls")
            case Extender.NONE:
                pass

    def _gates_of(self, one: Instance) -> dict[str, bool]:
        gates = installed_gates() if one.installed_gates else {}
        return gates | (served(self.cluster.version)[1] if one.native_gates else {})

    async def _start_scheduler(self, one: Instance, url: str | None) -> None:
        if one.volcano_percent is not None:
            await start_volcano(self.cluster, name=one.name, nodes_percent=one.volcano_percent)
            return
        await self.cluster.start_scheduler(
            one.configuration,
            name=one.name,
            extender=url,
            account=one.account,
            feature_gates=self._gates_of(one),
            program=one.program,
        )


def filters_counted(exposition: str) -> int:
    """Filter requests in netgang's metrics.

    >>> filters_counted('netgang_requests_total{outcome="ok",verb="filter"} 7.0')
    7
    """
    lines = [line for line in exposition.splitlines() if line.startswith("netgang_requests_total{")]
    return round(sum(float(line.rpartition(" ")[2]) for line in lines if 'verb="filter"' in line))


@asynccontextmanager
async def bed(workload: L, ways: Sequence[Way]) -> AsyncGenerator[Bed[L], None]:
    """A control plane with the nodes of `workload` and the kinds of `ways`, for the time of an `async with`."""
    jobs = any(way.kueue for way in ways)
    async with (
        Cluster(
            stage_names=(),
            version=ways[0].kubernetes,
            controllers=(JOB_CONTROLLER,) if jobs else (),
            controller_flags=CONTROLLER_FLAGS,
        ) as cluster,
        cluster.api() as api,
    ):
        await cluster.remove("kwok")
        if jobs:  # it runs for Kueue's ways only, so that the others have the machine to themselves
            await cluster.parts[CONTROLLERS].stop()
        await switch_on(cluster, jobs=False)
        await install_rights(cluster)
        if any("lengths" in way.more_settings for way in ways):
            await api.apply(_FORMER_RUNS)
        await cluster.install("podgroup-crd")
        await api.create(namespace(NAMESPACE))
        nodes = workload.node_objects()
        await api.create_all(nodes)
        await _take_taints_away(api, [one["metadata"]["name"] for one in nodes])
        if has_volcano := any(way.volcano for way in ways):
            await install_volcano(cluster, api, weights=workload.tenants)
        yield Bed(cluster, api, workload, has_volcano=has_volcano)


async def _take_taints_away(api: Api, names: Sequence[str]) -> None:
    """Admission marks new nodes as not ready; no controller is here to see that they are."""
    places = asyncio.Semaphore(32)

    async def one(name: str) -> None:
        async with places:
            await api.patch("Node", name, {"spec": {"taints": None}})

    async with asyncio.TaskGroup() as group:
        for name in names:
            group.create_task(one(name))
