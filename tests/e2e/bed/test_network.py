"""The measured network decides: PAPERS N4 with MaDDash's real REST format and a real kube-scheduler."""

from typing import Any

import httpx
import pytest

from extender.ports import SystemClock
from tests.e2e.stage import Stage
from tests.fakes.maddash_server import MaddashServer, paper_mesh

ZONE_D = [f"node{i}" for i in range(28, 37)]
IMPAIRED = {"node33", "node34", "node35"}
CLEAN = set(ZONE_D) - IMPAIRED


def whole(found: dict[str, Any]) -> bool:
    return all(one["known_pairs"] == 36 * 35 for one in found["metrics"].values())


@pytest.mark.parametrize("selection", ["subset", "paper"])
async def test_paper_case_one(stage: Stage, selection: str) -> None:
    with MaddashServer(paper_mesh(), checked_at_s=SystemClock().now_s) as maddash:
        source = {"kind": "maddash", "url": maddash.url}
        netgang = await stage.netgang({"network": {"sources": [source]}}, on=dict.fromkeys("ABCD", 9), cpu="16")
        await stage.until_document(netgang, "/v1/network", whole, "the whole mesh known", limit_s=60.0)
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
