"""Kueue on the bed: started for one half with a queue for each tenant, and gone after it, Jobs and all.

Why started for each half: its webhooks are called for every pod, also for those of other ways. Rule: it and the Job
controller get kube-scheduler's limits of clients and otherwise the settings of Kueue's release; the quota is what the
nodes have.
"""

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable, Mapping
from functools import partial
from time import perf_counter

from lab.bench.peers.ways import TENANT
from lab.bench.peers.workloads import NAMESPACE
from lab.testbed.api import Api, Object
from lab.testbed.cluster import Cluster
from lab.testbed.parts.kueue import KUEUE, end_kueue, start_kueue
from lab.testbed.parts.kueue_jobs import KUEUE_API, queues
from scoring.model.resources import amount

CONTROLLERS = "kube-controller-manager"
_QPS, _BURST = 5000, 10000
CONTROLLER_FLAGS = (f"--kube-api-qps={_QPS}", f"--kube-api-burst={_BURST}")
_WORKERS = {"Job.batch": 5, "Pod": 5, "Workload.kueue.x-k8s.io": 10} | dict.fromkeys(
    ("LocalQueue.kueue.x-k8s.io", "ClusterQueue.kueue.x-k8s.io"), 5
)
"""kind → workers: what release 0.19.1 installs, as far as it is not 1"""
_SETTINGS = {
    "clientConnection": {"qps": _QPS, "burst": _BURST},
    "controller": {"groupKindConcurrency": _WORKERS},
}
_END_LIMIT_S = 120.0
_AT_ONCE = 32


async def start_quota(cluster: Cluster, api: Api, nodes: Iterable[Object], tenants: Mapping[str, int]) -> float:
    """Start the Job controller and Kueue, then make a queue for each tenant; the moment before the queues are there.

    `tenants` maps each to its weight; without tenants all share one queue.
    """
    cluster.parts[CONTROLLERS].start()
    await cluster.until_ready(CONTROLLERS)
    await start_kueue(cluster, settings=_SETTINGS)
    begun_s = perf_counter()
    await api.apply(queues(tenants or {TENANT: 1}, quota_of(nodes), namespace=NAMESPACE))
    return begun_s


async def end_quota(cluster: Cluster, api: Api) -> None:
    """Delete Jobs, their pods and Kueue's objects while their controllers can finish them, then stop those.

    Fine if `start_quota` got half-way only.
    """
    if KUEUE in cluster.parts:
        for kind, api_version in (("Job", "batch/v1"), ("Pod", "v1"), ("Workload", KUEUE_API)):
            there = partial(api.list_all, kind, namespace=NAMESPACE, api_version=api_version)
            names = [one["metadata"]["name"] for one in await there()]
            grace_s = 0 if kind == "Pod" else None
            delete = partial(api.delete, kind, namespace=NAMESPACE, grace_s=grace_s, api_version=api_version)
            await _each(delete, names)
            await api.until(there, lambda found: not found, what=f"each {kind} gone", limit_s=_END_LIMIT_S)
    await end_kueue(cluster)
    await cluster.parts[CONTROLLERS].stop()


async def _each(delete: Callable[[str], Awaitable[None]], names: Iterable[str]) -> None:
    """Delete objects some at once: a collection is one request, which ends when the last of them is deleted."""
    places = asyncio.Semaphore(_AT_ONCE)

    async def one(name: str) -> None:
        async with places:
            await delete(name)

    async with asyncio.TaskGroup() as group:
        for name in names:
            group.create_task(one(name))


def quota_of(nodes: Iterable[Object]) -> dict[str, str]:
    """The sum of what nodes have to offer, without their places for pods: resource → quantity.

    >>> quota_of([{"status": {"allocatable": {"cpu": "1500m", "memory": "1Ki", "pods": "9"}}}] * 2)
    {'cpu': '3000m', 'memory': '2048'}
    """
    found: Counter[str] = Counter()
    for one in nodes:
        for name, quantity in one["status"]["allocatable"].items():
            found[name] += amount(name, quantity)
    return {name: f"{total}m" if name == "cpu" else f"{total}" for name, total in found.items() if name != "pods"}
