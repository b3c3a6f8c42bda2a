"""What the scenarios share: one object with everything a test needs, and questions asked of netgang."""

from __future__ import annotations

import asyncio
import re
import sys
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import httpx

from testbed.api import Api, Object
from testbed.cluster import NETGANG_SCHEDULER, Cluster
from testbed.parts.service import Netgang
from testbed.processes.network import LOOPBACK
from testbed.programs.catalogue import Version
from tests.e2e import AddNodes, StartNetgang, StartScheduler, StartSecondScheduler


@dataclass(frozen=True, slots=True)
class Stage:
    """A cluster with an empty namespace, and the ways to add what a scenario is about."""

    cluster: Cluster
    api: Api
    namespace: str
    add_nodes: AddNodes
    start_netgang: StartNetgang
    start_second_scheduler: StartSecondScheduler
    start_scheduler: StartScheduler
    version: Version

    async def netgang(self, settings: Mapping[str, Any] | None = None, **how: Any) -> Netgang:
        """Netgang and its second scheduler, both ready."""
        running = await self.start_netgang(settings, **how)
        await self.start_second_scheduler(running, version=self.version)
        return running

    async def pods(self) -> list[Object]:
        """All pods of the namespace."""
        return await self.api.list_all("Pod", namespace=self.namespace)

    async def bound(self, gang: str = "") -> dict[str, str]:
        """Pod → node of those bound whose name begins with `gang`."""
        found = await self.api.bound(self.namespace)
        return {name: node for name, node in found.items() if name.startswith(gang)}

    async def until_bound(self, gang: str, count: int, *, limit_s: float = 30.0) -> dict[str, str]:
        """Wait until `count` pods of the gang are bound."""
        return await self.api.until(
            lambda: self.bound(gang),
            lambda found: len(found) >= count,
            what=f"{count} of {gang} bound",
            limit_s=limit_s,
        )

    async def until_let_in(self, gang: str, count: int, *, limit_s: float = 30.0) -> list[Object]:
        """Wait until `count` pods of the gang have no scheduling gate; returns all pods of the gang."""

        async def of_gang() -> list[Object]:
            return [one for one in await self.pods() if one["metadata"]["name"].startswith(gang)]

        return await self.api.until(
            of_gang,
            lambda found: sum(not gates(one) for one in found) >= count,
            what=f"{count} of {gang} let in",
            limit_s=limit_s,
        )

    async def attempts(self, scheduler: str = NETGANG_SCHEDULER) -> dict[str, float]:
        """Result → how often this kube-scheduler tried a pod with that result, by its own metric."""
        ports = [one.partition("=")[2] for one in self.cluster.parts[scheduler].argv if "--secure-port=" in one]
        async with httpx.AsyncClient(verify=False) as client:  # it signs its own certificate
            text = (await client.get(f"https://{LOOPBACK}:{ports[0]}/metrics")).text
        found: dict[str, float] = defaultdict(float)
        for labels, value in re.findall(r"^scheduler_schedule_attempts_total{([^}]*)} (\S+)$", text, re.MULTILINE):
            found[re.findall(r'result="([^"]*)"', labels)[0]] += float(value)
        return dict(found)

    async def until_refused(self, count: int) -> None:
        """Wait until kube-scheduler has written a refusal into the status of `count` pods."""
        await self.api.until(
            self.pods,
            lambda found: sum(not_scheduled(one) is not None for one in found) >= count,
            what=f"{count} pods refused",
        )

    async def end(self, *names: str) -> None:
        """Delete pods and wait until they are gone."""
        for name in names:
            await self.api.delete("Pod", name, namespace=self.namespace, grace_s=0)
        await self.api.until(
            self.pods,
            lambda found: not {one["metadata"]["name"] for one in found} & set(names),
            what=f"{len(names)} pods gone",
        )


def say(figure: str) -> None:
    """A figure that is interesting and decides nothing; `pytest -rP` or `-s` shows it."""
    sys.stdout.write(f"\n  {figure}\n")


def gates(pod: Object) -> list[str]:
    """Names of the gates at which the pod waits."""
    return [one["name"] for one in pod["spec"].get("schedulingGates", [])]


def not_scheduled(pod: Object) -> str | None:
    """The message of condition PodScheduled=False, if the pod has one."""
    for one in pod["status"].get("conditions", []):
        if one["type"] == "PodScheduled" and one["status"] == "False":
            return str(one.get("message", ""))
    return None


async def metric(netgang: Netgang, name: str, **labels: str) -> float:
    """The sum of a metric's samples that carry these labels, as it is now: /metrics is up to a second old."""
    await asyncio.sleep(1.0)
    async with httpx.AsyncClient() as client:
        text = (await client.get(f"{netgang.url}/metrics")).text
    wanted = {f'{key}="{value}"' for key, value in labels.items()}
    total = 0.0
    for found, value in re.findall(rf"^{name}(?:{{([^}}]*)}})? (\S+)$", text, re.MULTILINE):
        if wanted <= set(re.findall(r'\w+="[^"]*"', found)):
            total += float(value)
    return total


async def filter_calls(netgang: Netgang) -> float:
    """Filter requests answered so far."""
    return await metric(netgang, "netgang_requests_total", verb="filter")


async def document(netgang: Netgang, path: str) -> dict[str, Any]:
    """A JSON document of netgang's."""
    async with httpx.AsyncClient() as client:
        return dict((await client.get(f"{netgang.url}{path}")).json())


async def until_held(stage: Stage, netgang: Netgang, count: int) -> None:
    """Wait until `count` binds are held."""

    async def held() -> int:
        return int((await document(netgang, "/v1/plan"))["held_binds"])

    await stage.api.until(held, lambda found: found == count, what=f"{count} binds held")
