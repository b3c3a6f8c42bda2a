"""The simulator beside the real thing: the same stories, told on etcd, API server, kube-scheduler and kwok."""

import asyncio
from dataclasses import dataclass
from uuid import uuid4

import pytest

from lab.simulator.agreement.simulated import tell
from lab.simulator.agreement.stage import PLAIN, Facts, Look, NodeSpec, PodSpec, Story
from lab.simulator.agreement.stories import STORIES
from lab.testbed import objects
from lab.testbed.api import Api, Object
from lab.testbed.parts.service import Netgang
from lab.testbed.processes.stages import HOLD
from scoring.model import Reason
from tests.e2e.conftest import sweep
from tests.e2e.objects import gates
from tests.e2e.stage import Stage, filter_calls, metric

URGENT = "agreement-urgent"
MOST_RUNS = 5


@dataclass(frozen=True, slots=True)
class RealStage:
    api: Api
    stage: Stage
    netgang: Netgang
    namespace: str

    async def add_nodes(self, *nodes: NodeSpec) -> None:
        """See Stage; heartbeats are held, so that quiet means quiet."""
        made = [objects.node(one.name, cpu=one.cpu, gpu=one.gpu, zone=one.zone, labels=one.labels) for one in nodes]
        for one in made:
            one["metadata"]["annotations"] = {HOLD: "node-heartbeat"}
        await self.stage.add_nodes(*made)

    async def create(self, *pods: PodSpec) -> None:
        for one in pods:
            await self.api.create(self._pod(one))

    async def delete(self, *names: str) -> None:
        for name in names:
            await self.api.delete("Pod", name, namespace=self.namespace, grace_s=0)
        await self.api.until(
            self._pods, lambda found: not {_name(one) for one in found} & set(names), what=f"{len(names)} pods gone"
        )

    async def look(self) -> Look:
        pods = await self._pods()
        return Look(
            bound={_name(one): one["spec"]["nodeName"] for one in pods if "nodeName" in one["spec"]},
            refused=frozenset(_name(one) for one in pods if _fits_nowhere(one)),
            gated=frozenset(_name(one) for one in pods if gates(one)),
        )

    async def asked(self) -> int:
        return int(await filter_calls(self.netgang))

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds)

    async def _pods(self) -> list[Object]:
        return await self.api.list_all("Pod", namespace=self.namespace)

    def _pod(self, spec: PodSpec) -> Object:
        return objects.pod(
            spec.name,
            namespace=self.namespace,
            cpu=spec.cpu,
            gpu=spec.gpu,
            labels=objects.gang_labels(spec.gang, spec.minimum) if spec.gang else None,
            annotations={"netgang.io/zones": spec.zones} if spec.zones else None,
            scheduler=spec.scheduler,
            node_selector=spec.selector,
            priority_class=URGENT if spec.urgent else "",
            gates=["netgang.io/gang"] if spec.gated else (),
        )


@pytest.mark.timeout(240)
async def test_the_simulator_agrees_with_kube_scheduler(stage: Stage, api: Api) -> None:
    """Every story ends with the same facts in virtual time and on the real programs, one cluster for all of them.

    In virtual time netgang knows each pod before kube-scheduler asks. Where it did not here, the pod was refused for
    another reason first, and asked about more often: a run that differs for it is no comparison, and is repeated.
    """
    netgang = await stage.netgang({"pod_conditions": False})  # each write wakes the pod, at a moment of netgang's own
    await stage.start_scheduler(name=PLAIN)
    await api.create(objects.priority_class(URGENT, 1000))
    differ = {}
    behind = 0.0
    try:
        for story in STORIES:
            for _ in range(MOST_RUNS):
                before = behind
                real, simulated = await asyncio.gather(
                    _run_here(story, stage, api, netgang), asyncio.to_thread(tell, story)
                )
                behind = await _refused_behind(netgang)
                if real == simulated or behind == before:
                    break
            if real != simulated:
                differ[story.__name__] = {"real": real, "simulated": simulated}
    finally:
        await api.delete("PriorityClass", URGENT)
    assert differ == {}


async def _run_here(story: Story, stage: Stage, api: Api, netgang: Netgang) -> Facts:
    """On the real programs, in a namespace of its own; nothing of it is left."""
    namespace = f"agreement-{uuid4().hex[:6]}"
    await api.create(objects.namespace(namespace))
    facts = await story(RealStage(api, stage, netgang, namespace))
    await sweep(api)
    await api.delete("Namespace", namespace)
    return facts


async def _refused_behind(netgang: Netgang) -> float:
    """Refusals so far of pods that netgang had not seen, or not planned, when kube-scheduler asked."""
    reasons = (Reason.UNKNOWN_POD, Reason.NOT_PLANNED)
    counts = (metric(netgang, "netgang_refusals_total", verb="filter", reason=one.value) for one in reasons)
    return sum(await asyncio.gather(*counts))


def _name(pod: Object) -> str:
    return str(pod["metadata"]["name"])


def _fits_nowhere(pod: Object) -> bool:
    conditions = pod["status"].get("conditions", [])
    return any(one["type"] == "PodScheduled" and one.get("reason") == "Unschedulable" for one in conditions)
