"""The measured network decides: PAPERS N4 with MaDDash's real REST format and a real kube-scheduler."""

from itertools import permutations
from typing import Any

import httpx
import pytest

from extender.ports import SystemClock
from lab.testbed.objects import GangDialect, pod_group
from lab.testbed.parts.service import Netgang
from tests.e2e.stage import Stage
from tests.fakes.maddash_server import MaddashServer, full_mesh, paper_mesh

ZONE_D = [f"node{i}" for i in range(28, 37)]
IMPAIRED = {"node33", "node34", "node35"}
CLEAN = set(ZONE_D) - IMPAIRED


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


async def test_bad_links_are_avoided_or_refused(stage: Stage) -> None:
    """node1 and node2 have the most points, at 13 % of loss: one gang takes others, one waits until that is mended."""
    four = [f"node{i}" for i in range(1, 5)]
    with MaddashServer(full_mesh(*four), checked_at_s=SystemClock().now_s) as maddash:
        for a, b in permutations(four, 2):
            close = {a, b} == {"node1", "node2"}
            maddash.mesh.change(a, b, delay_ms=0.1 if close else 25.0, loss_ratio=0.13 if close else 0.0)
        source = {"kind": "maddash", "url": maddash.url, "interval_s": 1.0}
        netgang = await stage.netgang({"network": {"sources": [source]}}, on={"a": 4})
        await until_known(stage, netgang, 4)
        await stage.api.create(pod_group("refuses", 4, namespace=stage.namespace))
        notes = {"netgang.io/bad-links": "refuse"}
        await stage.create_gang("refuses", 4, gated=True, dialect=GangDialect.POD_GROUP, annotations=notes)
        told = await stage.until_events("GangWaiting")
        assert all("13 % loss between node1 and node2" in note for note in told.values())
        assert (await stage.explain(netgang, "refuses"))["code"] == "BAD_LINKS"
        await stage.create_gang("avoids", 2, gated=True)
        others = await stage.until_bound("avoids", 2)
        assert not {"node1", "node2"} <= set(others.values()), "it holds nobody, and the bad link is avoided"
        await stage.end(*others)
        for a, b in permutations(("node1", "node2")):
            maddash.mesh.change(a, b, loss_ratio=0.0)
        bound = await stage.until_bound("refuses", 4)
        [note] = {*(await stage.until_events("GangStarted")).values()}
    assert set(bound.values()) == set(four)
    assert note.startswith("Worst link node1 → node3: 75 points. 4 pods have nodes in zone a after ")
