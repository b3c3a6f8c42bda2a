"""The measured network decides: PAPERS N4 with MaDDash's real REST format and a real kube-scheduler."""

from typing import Any

import httpx
import pytest

from extender.ports import SystemClock
from lab.testbed.parts.service import Netgang
from tests.e2e.stage import Stage
from tests.fakes.maddash_server import MaddashServer, full_mesh, paper_mesh

ZONE_D = [f"node{i}" for i in range(28, 37)]
IMPAIRED = {"node33", "node34", "node35"}
CLEAN = set(ZONE_D) - IMPAIRED
EIGHT = [f"node{i}" for i in range(1, 9)]
BAD = {"node3", "node5"}


async def until_known(stage: Stage, netgang: Netgang, nodes: int) -> None:
    def whole(found: dict[str, Any]) -> bool:
        return all(one["known_pairs"] == nodes * (nodes - 1) for one in found["metrics"].values())

    await stage.until_document(netgang, "/v1/network", whole, "the whole mesh known", limit_s=60.0)


@pytest.mark.parametrize("selection", ["subset", "paper"])
async def test_paper_case_one(stage: Stage, selection: str) -> None:
    with MaddashServer(paper_mesh(), checked_at_s=SystemClock().now_s) as maddash:
        source = {"kind": "maddash", "url": maddash.url}
        netgang = await stage.netgang({"network": {"sources": [source]}}, on=dict.fromkeys("ABCD", 9), cpu="16")
        await until_known(stage, netgang, 36)
        notes = {"netgang.io/near": "D", "netgang.io/selection": selection}
        members = stage.gang("case1", 6, cpu="10", annotations=notes)
        body = {"Pod": members[0], "Nodes": None, "NodeNames": ZONE_D}
        async with httpx.AsyncClient(base_url=netgang.url) as client:
            listed = (await client.post("/prioritize?debug", json=body)).json()
        scores = {one["Host"]: one["Score"] for one in listed}
        await stage.api.create_all(members)
        bound = await stage.until_bound("case1", 6)
    assert set(bound.values()) == CLEAN
    assert max(scores[name] for name in IMPAIRED) < min(scores[name] for name in CLEAN)


async def test_the_mesh_changes_while_gangs_wait(stage: Stage) -> None:
    with MaddashServer(full_mesh(*EIGHT), checked_at_s=SystemClock().now_s) as maddash:
        source = {"kind": "maddash", "url": maddash.url, "interval_s": 1.0}
        netgang = await stage.netgang({"network": {"sources": [source]}}, on={"a": 8})
        await until_known(stage, netgang, 8)
        await stage.create_gang("next", 5, least=6, gated=True)

        def incomplete(plan: dict[str, Any]) -> bool:
            return [one["code"] for one in plan["waiting"]] == ["INCOMPLETE"]

        await stage.until_document(netgang, "/v1/plan", incomplete, "the gang waiting for its sixth member")
        for node in BAD:
            for other in set(EIGHT) - {node}:
                maddash.mesh.change(node, other, delay_ms=50.0, throughput_bps=5e6)
                maddash.mesh.change(other, node, delay_ms=50.0, throughput_bps=5e6)

        def degraded(link: dict[str, Any]) -> bool:
            return bool(link["metrics"]["delay"]["counts"] == 50.0)

        await stage.until_document(netgang, "/v1/network/node3/node5", degraded, "the degraded links known")
        await stage.create_gang("next", 1, least=6, first=5, gated=True)
        bound = await stage.until_bound("next", 6)
    assert set(bound.values()) == set(EIGHT) - BAD
