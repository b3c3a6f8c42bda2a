"""The stories of `lab.simulator.agreement.stories` on a simulated cluster with netgang's scheduler and a plain one."""

import asyncio
from collections.abc import Mapping
from typing import Any

from extender.kube.calls import NODES, PODS
from extender.settings.settings import Settings
from lab.simulator.agreement.stage import Facts, Look, NodeSpec, PodSpec, Story
from lab.simulator.apiserver.store import Object
from lab.simulator.pods.cluster import Cluster
from lab.simulator.pods.kube_scheduler.scheduler import DEFAULT, SECOND
from lab.simulator.pods.objects import GROUP_NAME, MIN_AVAILABLE, ZONE_LABEL
from lab.simulator.pods.virtual_time import Latencies, run_virtual
from scoring.model import GATE

_GPU = "nvidia.com/gpu"
_URGENT = 1000


class SimulatedStage:
    """Stage over a cluster that runs."""

    def __init__(self, cluster: Cluster, latencies: Latencies) -> None:
        self._cluster = cluster
        self._latencies = latencies

    async def add_nodes(self, *nodes: NodeSpec) -> None:
        """See Stage."""
        for one in nodes:
            self._cluster.store.create(NODES, _node(one))
        await asyncio.sleep(0.1)

    async def create(self, *pods: PodSpec) -> None:
        """See Stage."""
        for one in pods:
            await asyncio.sleep(self._latencies.pod_create.mean_s)
            self._cluster.store.create(PODS, _pod(one))

    async def delete(self, *names: str) -> None:
        """See Stage."""
        for name in names:
            await asyncio.sleep(self._latencies.write.mean_s)
            self._cluster.store.remove(PODS, "default", name)

    async def look(self) -> Look:
        """See Stage."""
        pods = [one.new for one in self._cluster.store.all(PODS)]
        return Look(
            bound={
                str(one["metadata"]["name"]): str(one["spec"]["nodeName"]) for one in pods if "nodeName" in one["spec"]
            },
            refused=frozenset(one["metadata"]["name"] for one in pods if _fits_nowhere(one)),
            gated=frozenset(one["metadata"]["name"] for one in pods if one["spec"].get("schedulingGates")),
        )

    async def asked(self) -> int:
        """See Stage."""
        return self._cluster.record.asked["filter"]

    async def sleep(self, seconds: float) -> None:
        """See Stage."""
        await asyncio.sleep(seconds)


def tell(story: Story, *, seed: int = 0) -> Facts:
    """The facts of one story in a fresh simulated cluster."""

    async def whole() -> Facts:
        latencies = Latencies()
        cluster = Cluster(Settings(pod_conditions=False), (SECOND, DEFAULT), latencies, seed)
        async with cluster.running():
            return await story(SimulatedStage(cluster, latencies))

    return run_virtual(whole())


def _fits_nowhere(pod: Object) -> bool:
    return any(
        one["type"] == "PodScheduled" and one.get("reason") == "Unschedulable"
        for one in pod["status"].get("conditions", ())
    )


def _gpus(count: int) -> Mapping[str, str]:
    return {_GPU: str(count)} if count else {}


def _node(spec: NodeSpec) -> Object:
    room = {"cpu": spec.cpu, "memory": "32Gi", "pods": "110", **_gpus(spec.gpu)}
    return {
        "kind": "Node",
        "metadata": {"name": spec.name, "labels": {ZONE_LABEL: spec.zone, **spec.labels}},
        "spec": {},
        "status": {"allocatable": room, "conditions": [{"type": "Ready", "status": "True"}]},
    }


def _pod(spec: PodSpec) -> Object:
    labels = {GROUP_NAME: spec.gang, MIN_AVAILABLE: str(spec.minimum)} if spec.gang else {}
    requests = {"cpu": spec.cpu, "memory": "64Mi", **_gpus(spec.gpu)}
    more: dict[str, Any] = {"schedulingGates": [{"name": GATE}]} if spec.gated else {}
    return {
        "kind": "Pod",
        "metadata": {
            "name": spec.name,
            "labels": labels,
            "annotations": {"netgang.io/zones": spec.zones} if spec.zones else {},
        },
        "spec": {
            "schedulerName": spec.scheduler,
            "priority": _URGENT if spec.urgent else 0,
            "nodeSelector": dict(spec.selector),
            "containers": [{"name": "main", "resources": {"requests": requests}}],
            **more,
        },
        "status": {"phase": "Pending"},
    }
