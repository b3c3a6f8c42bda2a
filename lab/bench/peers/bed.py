"""One real control plane on which the ways of a workload run one after the other.

Why one for all: a new one per half would compare cold API servers. Rule: nodes stay, and everything else of a half goes
before the next one: pods, schedulers, netgang. kube-scheduler and netgang are those that users install, with
kube-scheduler's client limits raised alike for all; nodes are plain API objects, nothing runs on them, and kwok is
stopped because it would renew a lease for each.
"""

import asyncio
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from functools import partial
from time import perf_counter

import msgspec

from lab.bench.peers.watch import CpuMeter, PodTimes, cpu_meter, pod_times
from lab.bench.peers.ways import OURS, Instance, Way
from lab.bench.peers.workloads import NAMESPACE
from lab.testbed.api import Api, Object
from lab.testbed.cluster import Cluster
from lab.testbed.objects import namespace
from lab.testbed.parts import volcano
from lab.testbed.parts.native import delete_groups, served, switch_on
from lab.testbed.parts.service import install_rights, start_netgang
from lab.testbed.parts.volcano import install_volcano, start_volcano
from lab.testbed.processes.network import LOOPBACK, free_ports

_STANDING = ("etcd", "kube-apiserver")
"""Parts that stay from half to half."""
_SETTLE_S = 0.5
"""What netgang still does after the last binding, such as reading its event, counts too."""


class Running(msgspec.Struct, frozen=True):
    """What `Bed.run` has started, and from when on it counts."""

    begun_s: float
    """When the load could begin at the latest: before the last scheduler was started, or when netgang was ready."""
    times: PodTimes
    cpu: CpuMeter
    api_cpu: CpuMeter

    async def settle(self) -> float:
        """Let netgang finish; the moment at which it has."""
        await self.times.until(lambda: False, limit_s=_SETTLE_S)
        return perf_counter()


class Bed:
    """A control plane with nodes. Get one with `bed`."""

    def __init__(self, cluster: Cluster, api: Api, *, has_volcano: bool) -> None:
        self.cluster = cluster
        self.api = api
        self._has_volcano = has_volcano

    @asynccontextmanager
    async def run(self, way: Way) -> AsyncGenerator[Running, None]:
        """Start what schedules this way; at the end everything is gone again, the pods too."""

        def pid(of: str) -> int | None:
            part = self.cluster.parts.get(of)
            return part.pid if part is not None else None

        try:
            ours, api = cpu_meter(partial(pid, OURS)), cpu_meter(partial(pid, "kube-apiserver"))
            async with pod_times(self.api, NAMESPACE) as times, ours as cpu, api as api_cpu:
                yield Running(await self._start(way), times, cpu, api_cpu)
        finally:
            for name in self.cluster.parts.keys() - set(_STANDING):
                await self.cluster.remove(name)
            await self.api.delete_all("Pod", namespace=NAMESPACE, grace_s=0)
            await self.api.delete_all("PodGroup", namespace=NAMESPACE, api_version="scheduling.x-k8s.io/v1alpha1")
            await delete_groups(self.api, version=self.cluster.version, namespace=NAMESPACE)
            left = partial(self.api.list_all, "Pod", namespace=NAMESPACE)
            await self.api.until(left, lambda found: not found, what="pods gone")
            if self._has_volcano:
                await self.api.delete_all("PodGroup", namespace=NAMESPACE, api_version=volcano.API)

    async def _start(self, way: Way) -> float:
        """Start netgang and the schedulers; when the work can begin at the latest.

        With gates the schedulers come first: work begins when netgang removes the first gate.
        """
        (port,) = free_ports(1)
        url = f"http://{LOOPBACK}:{port}" if way.netgang else None
        begun_s = perf_counter()
        if way.netgang and not way.gated:
            await start_netgang(self.cluster, way.settings, name=OURS, port=port)
        for one in way.schedulers:
            begun_s = perf_counter()
            await self._start_scheduler(one, url)
        if way.netgang and way.gated:
            await start_netgang(self.cluster, way.settings, name=OURS, port=port)
            begun_s = perf_counter()
        return begun_s

    async def _start_scheduler(self, one: Instance, url: str | None) -> None:
        if one.volcano:
            await start_volcano(self.cluster, name=one.name)
            return
        await self.cluster.start_scheduler(
            one.configuration,
            name=one.name,
            extender=url,
            account=one.account,
            feature_gates=served(self.cluster.version)[1] if one.native_gates else {},
            program=one.program,
        )


@asynccontextmanager
async def bed(nodes: Sequence[Object], ways: Sequence[Way]) -> AsyncGenerator[Bed, None]:
    """A control plane with these nodes and the kinds of `ways`, for the time of an `async with`."""
    async with Cluster(stage_names=(), version=ways[0].kubernetes) as cluster, cluster.api() as api:
        await cluster.remove("kwok")
        await switch_on(cluster, jobs=False)
        await install_rights(cluster)
        await cluster.install("podgroup-crd")
        await api.create(namespace(NAMESPACE))
        await api.create_all(nodes)
        await _take_taints_away(api, [one["metadata"]["name"] for one in nodes])
        if has_volcano := any(way.volcano for way in ways):
            await install_volcano(cluster, api)
        yield Bed(cluster, api, has_volcano=has_volcano)


async def _take_taints_away(api: Api, names: Sequence[str]) -> None:
    """Admission marks new nodes as not ready; no controller is here to see that they are."""
    places = asyncio.Semaphore(32)

    async def one(name: str) -> None:
        async with places:
            await api.patch("Node", name, {"spec": {"taints": None}})

    async with asyncio.TaskGroup() as group:
        for name in names:
            group.create_task(one(name))
