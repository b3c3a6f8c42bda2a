"""The measured network decides: PAPERS N4 with MaDDash's real REST format and a real kube-scheduler."""

from __future__ import annotations

import json

import httpx
import pytest

from extender.clock import SystemClock
from testbed.objects import gang_pods, zone_nodes
from tests.e2e.stage import Stage, document
from tests.fakes.maddash_server import MaddashServer, paper_mesh

core = pytest.mark.e2e_core
ZONE_D = [f"node{i}" for i in range(28, 37)]
IMPAIRED = {"node33", "node34", "node35"}
CLEAN = set(ZONE_D) - IMPAIRED


@core
@pytest.mark.parametrize("selection", ["subset", "paper"])
async def test_paper_case_one(stage: Stage, selection: str) -> None:
    """Six pods near zone D of the 36-node bed go to exactly node28-32 and node36; 33, 34, 35 score lowest of D."""
    with MaddashServer(paper_mesh(), checked_at_s=SystemClock().now_s) as maddash:
        await stage.add_nodes(*zone_nodes(dict.fromkeys("ABCD", 9), cpu="16"))
        netgang = await stage.netgang({"network": {"sources": [{"kind": "maddash", "url": maddash.url}]}})
        await stage.api.until(
            lambda: document(netgang, "/v1/network"),
            lambda found: all(one["known_pairs"] == 36 * 35 for one in found["metrics"].values()),
            what="the whole mesh known",
        )
        notes = {"netgang.io/near": "D", "netgang.io/selection": selection}
        members = gang_pods(
            "case1", 6, min_available=6, cpu="10", namespace=stage.namespace, scheduler="netgang", annotations=notes
        )
        body = json.dumps({"Pod": members[0], "Nodes": None, "NodeNames": ZONE_D})
        async with httpx.AsyncClient(base_url=netgang.url) as client:
            scores = {
                one["Host"]: one["Score"] for one in (await client.post("/prioritize?debug", content=body)).json()
            }
        await stage.api.create_all(members)
        bound = await stage.until_bound("case1", 6)
    assert set(bound.values()) == CLEAN
    assert max(scores[name] for name in IMPAIRED) < min(scores[name] for name in CLEAN)
