"""A Job that is suspended and resumed keeps its place in the queue, and does not starve at once.

docs/safety.md S14.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from datetime import datetime
from typing import Any
from uuid import uuid4

import pytest

from testbed.api import Api
from testbed.cluster import Cluster
from testbed.objects import namespace as namespace_object
from testbed.objects import pod, zone_nodes
from testbed.parts.service import Netgang, start_netgang
from tests.e2e.objects import indexed_job
from tests.e2e.stage import document

OURS = "netgang"
LIMIT_S = 8.0
"""STARVELIMIT"""


@pytest.fixture
async def full(controlled_cluster: Cluster, controlled_api: Api) -> AsyncIterator[tuple[Netgang, str]]:
    """Netgang and a namespace in a cluster of two nodes without room."""
    name = f"resume-{uuid4().hex[:6]}"
    await controlled_api.create(namespace_object(name))
    await controlled_cluster.add_nodes(zone_nodes({"a": 2}, cpu="1500m"))
    for number in (1, 2):
        busy = pod(f"busy-{number}", namespace=name, cpu="1")
        busy["spec"]["nodeName"] = f"node{number}"
        await controlled_api.create(busy)
    before = set(controlled_cluster.parts)
    yield await start_netgang(controlled_cluster, {"queue": {"starve_limit_s": LIMIT_S}}), name
    for part in [one for one in controlled_cluster.parts if one not in before]:
        await controlled_cluster.remove(part)
    await controlled_api.delete("Namespace", name)


async def test_suspended_for_long_then_resumed(controlled_api: Api, full: tuple[Netgang, str]) -> None:
    """Older than a Job of the same weight and so before it, but its clock starts with its new pods."""
    api, (netgang, namespace) = controlled_api, full

    async def waiting() -> dict[str, dict[str, Any]]:
        found = (await document(netgang, "/v1/queue"))["gangs"]
        return {one["gang"].partition("/")[2]: one for one in found if one["queue"] == "WQ" and one["rank"]}

    created = await api.create(indexed_job("old", namespace, 2))
    created_s = datetime.fromisoformat(created["metadata"]["creationTimestamp"]).timestamp()
    first = await api.until(waiting, lambda found: "old" in found, what="the Job waits")
    assert first["old"]["state"] == "WAITING"
    await api.patch("Job", "old", {"spec": {"suspend": True}}, namespace=namespace)
    await api.until(waiting, lambda found: not found, what="its pods are gone")
    await asyncio.sleep(LIMIT_S)  # this is what the test is about
    await api.create(indexed_job("young", namespace, 2))
    await api.patch("Job", "old", {"spec": {"suspend": False}}, namespace=namespace)

    def settled(found: dict[str, dict[str, Any]]) -> bool:
        return found.keys() == {"old", "young"} and found["old"]["created_s"] == created_s

    found = await api.until(waiting, settled, what="both wait", limit_s=20.0)
    assert found["old"]["state"] == "WAITING"
    assert found["old"]["waiting_since_s"] >= created_s + LIMIT_S
    assert found["old"]["waited_s"] < LIMIT_S
    assert (found["old"]["rank"], found["young"]["rank"]) == (1, 2)
    await api.until(waiting, lambda found: found["old"]["state"] == "STARVING", what="it starves", limit_s=LIMIT_S + 10)
