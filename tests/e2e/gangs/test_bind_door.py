"""/bind is not a back door (docs/safety.md S2): it takes only our pods, and only to nodes that were offered."""

from __future__ import annotations

from typing import Any

import httpx
import pytest

from scoring.model.reasons import Reason
from testbed.objects import pod, zone_nodes
from testbed.parts.service import Netgang
from tests.e2e.stage import Stage

core = pytest.mark.e2e_core


async def ask(netgang: Netgang, one: dict[str, Any], *nodes: str) -> list[str]:
    """Ask /filter about a pod as kube-scheduler does; the nodes that pass."""
    async with httpx.AsyncClient(base_url=netgang.url) as client:
        answer = (await client.post("/filter", json={"Pod": one, "Nodes": None, "NodeNames": nodes})).json()
    return list(answer["NodeNames"])


async def bind(netgang: Netgang, one: dict[str, Any], node: str) -> str:
    """Ask /bind as kube-scheduler does; the `Error`, which is empty for success."""
    meta = one["metadata"]
    body = {"PodName": meta["name"], "PodNamespace": meta["namespace"], "PodUID": meta["uid"], "Node": node}
    async with httpx.AsyncClient(base_url=netgang.url) as client:
        return str((await client.post("/bind", json=body)).json()["Error"])


@core
async def test_bind_takes_only_our_pods_to_nodes_that_were_asked_about(stage: Stage) -> None:
    """A pod of another scheduler stays unbound, and ours does not go to a node that /filter was not asked about."""
    await stage.add_nodes(*zone_nodes({"a": 2}, cpu="4"))
    [first, second] = sorted([one["metadata"]["name"] for one in await stage.api.list_all("Node")])[:2]
    netgang = await stage.start_netgang()
    theirs, ours = await stage.api.create_all(
        [
            pod("theirs", namespace=stage.namespace, scheduler="another-scheduler"),
            pod("ours", namespace=stage.namespace, scheduler="netgang"),
        ]
    )
    assert await ask(netgang, theirs, first, second) == [first, second]
    refused = await bind(netgang, theirs, first)
    assert await ask(netgang, ours, first) == [first]
    elsewhere = await bind(netgang, ours, second)
    assert (await stage.bound(), refused, elsewhere) == ({}, Reason.NOT_OURS, Reason.NEVER_OFFERED)
    assert await bind(netgang, ours, first) == ""
    assert await stage.bound() == {"ours": first}
