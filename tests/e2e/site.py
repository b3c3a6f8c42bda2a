"""A place for tests of what happens to whole jobs: controllers, netgang, its scheduler, and nodes that are theirs."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from typing import Any
from uuid import uuid4

from testbed.api import Api, Object
from testbed.cluster import Cluster
from testbed.errors import WaitExpired
from testbed.objects import ZONE_LABEL
from testbed.objects import namespace as namespace_object
from testbed.parts.service import ROOT, Netgang, start_netgang, start_second_scheduler
from testbed.processes.stages import HOLD
from tests.e2e.stage import document

LIMIT_S = 120.0
"""Half a minute of quiet after the start, and a minute until pods of deleted nodes are collected."""


@dataclass(frozen=True, slots=True)
class Site:
    """A cluster with controllers, netgang and its scheduler, and a namespace of its own."""

    cluster: Cluster
    api: Api
    netgang: Netgang
    namespace: str

    async def pods(self, job: str) -> list[Object]:
        """Pods of a job, by name."""
        found = await self.api.list_all("Pod", namespace=self.namespace)
        return sorted(
            (one for one in found if one["metadata"]["name"].startswith(f"{job}-")),
            key=lambda one: str(one["metadata"]["name"]),
        )

    async def running(self, job: str) -> dict[str, str]:
        """Uid → node of its pods that run and are not told to end."""
        return {
            one["metadata"]["uid"]: one["spec"]["nodeName"]
            for one in await self.pods(job)
            if one["status"].get("phase") == "Running" and "deletionTimestamp" not in one["metadata"]
        }

    async def until_running(self, job: str, count: int, *, without: frozenset[str] = frozenset()) -> dict[str, str]:
        """Wait until `count` pods of the job run, none of which is among `without`."""
        return await self.api.until(
            lambda: self.running(job),
            lambda found: len(found) == count and without.isdisjoint(found),
            what=f"{count} pods of {job}",
            limit_s=LIMIT_S,
        )

    async def zones(self, nodes: set[str]) -> set[str]:
        """Zones of nodes that exist."""
        return {
            one["metadata"]["labels"][ZONE_LABEL]
            for one in await self.api.list_all("Node")
            if one["metadata"]["name"] in nodes
        }

    async def stop_answering(self, node: str) -> None:
        """The node's kubelet dies: no heartbeats, and not ready for all that is known."""
        await self.api.patch("Node", node, {"metadata": {"annotations": {HOLD: "node-initialize"}}})
        unknown = {"type": "Ready", "status": "Unknown", "reason": "NodeStatusUnknown", "message": "dead"}
        await self.api.patch("Node", node, {"status": {"conditions": [unknown]}}, subresource="status")

    async def events(self, reason: str, *, kind: str = "") -> dict[str, str]:
        """Events of netgang's, on objects of any kind or of this one: object → note."""
        found = await self.api.list_all("Event", namespace=self.namespace, fields=f"reason={reason}")
        about = [(one["involvedObject"], one["message"]) for one in found]
        return {one["name"]: note for one, note in about if kind in ("", one["kind"])}

    async def repair(self, gang: str) -> str:
        """What /v1/explain says of the gang's repair."""
        found = await document(self.netgang, f"/v1/explain/{self.namespace}/{gang}")
        return str(found.get("repair", ""))


@asynccontextmanager
async def controlled_site(
    cluster: Cluster, api: Api, purpose: str, *, nodes: Sequence[Object], settings: Mapping[str, Any]
) -> AsyncGenerator[Site, None]:
    """The site on these nodes, for an `async with`; stopped and emptied afterwards."""
    name = f"{purpose}-{uuid4().hex[:6]}"
    await api.create(namespace_object(name))
    await api.apply(ROOT / "manifests/components/restart/rbac.yaml")
    await cluster.add_nodes(nodes)
    before = set(cluster.parts)
    netgang = await start_netgang(cluster, settings)
    await start_second_scheduler(cluster, netgang)
    yield Site(cluster, api, netgang, name)
    for kind in ("Job", "TFJob"):
        with suppress(WaitExpired):  # of a kind that the test did not install there is nothing
            await api.delete_all(kind, namespace=name)
    for part in [one for one in cluster.parts if one not in before]:
        await cluster.remove(part)
    await api.delete("Namespace", name)
