"""The measured network decides: PAPERS N4 with MaDDash's real REST format and a real kube-scheduler."""

from __future__ import annotations

import json
from typing import Any

import httpx
import pytest

from extender.clock import SystemClock
from scoring.model import GATE
from testbed.objects import gang_pods, zone_nodes
from tests.e2e.stage import Stage, document
from tests.fakes.maddash_server import MaddashServer, full_mesh, paper_mesh

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


async def test_the_mesh_changes_while_gangs_wait(stage: Stage) -> None:
    """Two of eight nodes degrade while a gang waits at its gate: when it is complete it starts on the six others."""
    nodes = [f"node{i}" for i in range(1, 9)]
    degraded = {"node3", "node5"}
    with MaddashServer(full_mesh(*nodes), checked_at_s=SystemClock().now_s) as maddash:
        await stage.add_nodes(*zone_nodes({"a": 8}, cpu="1500m"))
        source = {"kind": "maddash", "url": maddash.url, "interval_s": 1.0}
        netgang = await stage.netgang({"network": {"sources": [source]}})
        await stage.api.until(
            lambda: document(netgang, "/v1/network"),
            lambda found: all(one["known_pairs"] == 8 * 7 for one in found["metrics"].values()),
            what="the whole mesh known",
        )
        fields: dict[str, Any] = {"namespace": stage.namespace, "scheduler": "netgang", "gates": (GATE,)}
        await stage.api.create_all(gang_pods("next", 5, min_available=6, **fields))
        await stage.api.until(
            lambda: document(netgang, "/v1/plan"),
            lambda found: [one["code"] for one in found["waiting"]] == ["INCOMPLETE"],
            what="the gang waiting for its sixth member",
        )
        for node in degraded:
            for other in set(nodes) - {node}:
                maddash.mesh.change(node, other, delay_ms=50.0, throughput_bps=5e6)
                maddash.mesh.change(other, node, delay_ms=50.0, throughput_bps=5e6)
        await stage.api.until(
            lambda: document(netgang, "/v1/network/node3/node5"),
            lambda found: found["metrics"]["delay"]["counts"] == 50.0,
            what="the degraded links known",
        )
        await stage.api.create_all(gang_pods("next", 1, min_available=6, first=5, **fields))
        bound = await stage.until_bound("next", 6)
    assert set(bound.values()) == set(nodes) - degraded


async def test_gangs_start_with_all_sources_down(stage: Stage) -> None:
    """No source has ever answered: a gang goes by zone and resources to the only zone that holds it, and starts."""
    await stage.add_nodes(*zone_nodes({"a": 3, "b": 5}, cpu="1500m"))
    nobody = "http://127.0.0.1:9"
    sources = [
        {"kind": "maddash", "url": nobody, "interval_s": 1.0},
        {"kind": "opensearch", "url": f"{nobody}/opensearch", "interval_s": 1.0},
        {"kind": "prometheus", "url": nobody, "presets": ["ping_exporter"], "interval_s": 1.0},
        {"kind": "esmond", "url": f"{nobody}/esmond/perfsonar/archive", "interval_s": 1.0},
        {"kind": "file", "path": "no-such-mesh.yaml", "interval_s": 1.0},
    ]
    netgang = await stage.netgang({"network": {"sources": sources}})
    await stage.api.create_all(
        gang_pods("g", 4, min_available=4, namespace=stage.namespace, scheduler="netgang", gates=(GATE,))
    )
    bound = await stage.until_bound("g", 4)
    assert set(bound.values()) <= {f"node{i}" for i in range(4, 9)}
    detail = (await document(netgang, "/readyz"))["detail"]["network"]
    assert all(one["error"] for one in detail["sources"])
    assert len(detail["sources"]) == len(sources)
