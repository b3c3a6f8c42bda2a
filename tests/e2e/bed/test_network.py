"""The measured network decides: PAPERS N4 with MaDDash's real REST format and a real kube-scheduler."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from itertools import permutations
from typing import TYPE_CHECKING, Any

import httpx
import pytest

from extender.runtime.clock import SystemClock
from lab.testbed.parts.service import Netgang
from tests.e2e.stage import Stage, document
from tests.fakes.maddash_server import MaddashServer, full_mesh, paper_mesh
from tests.real.servers import START_S, missing_opensearch, missing_prometheus, opensearch, prometheus

if TYPE_CHECKING:
    from pathlib import Path

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
    """Six pods near zone D of the 36-node bed go to exactly node28-32 and node36; 33, 34, 35 score lowest of D."""
    with MaddashServer(paper_mesh(), checked_at_s=SystemClock().now_s) as maddash:
        source = {"kind": "maddash", "url": maddash.url}
        netgang = await stage.netgang({"network": {"sources": [source]}}, on=dict.fromkeys("ABCD", 9), cpu="16")
        await until_known(stage, netgang, 36)
        notes = {"netgang.io/near": "D", "netgang.io/selection": selection}
        members = stage.gang("case1", 6, cpu="10", annotations=notes)
        body = json.dumps({"Pod": members[0], "Nodes": None, "NodeNames": ZONE_D})
        async with httpx.AsyncClient(base_url=netgang.url) as client:
            listed = (await client.post("/prioritize?debug", content=body)).json()
        scores = {one["Host"]: one["Score"] for one in listed}
        await stage.api.create_all(members)
        bound = await stage.until_bound("case1", 6)
    assert set(bound.values()) == CLEAN
    assert max(scores[name] for name in IMPAIRED) < min(scores[name] for name in CLEAN)


async def test_the_mesh_changes_while_gangs_wait(stage: Stage) -> None:
    """Two of eight nodes degrade while a gang waits at its gate: when it is complete it starts on the six others."""
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


def link(source: str, target: str) -> tuple[float, float, float]:
    """Loss ratio, delay in ms and throughput in bit/s: worse at two of the eight nodes."""
    return (0.02, 60.0, 5e6) if BAD & {source, target} else (0.0, 0.5, 9.4e9)


async def starts_on_the_good_ones(stage: Stage, source: dict[str, Any]) -> dict[str, Any]:
    """A gang of six among eight nodes goes to the good ones; its worst link, by this source."""
    netgang = await stage.netgang({"network": {"sources": [source | {"interval_s": 1.0}]}}, on={"a": 8})
    await until_known(stage, netgang, 8)
    await stage.create_gang("g", 6, gated=True)
    bound = await stage.until_bound("g", 6)
    assert set(bound.values()) == set(EIGHT) - BAD
    network = (await stage.explain(netgang, "g"))["network"]
    assert isinstance(network, dict)
    assert network["of_nodes"] == 6
    worst = network["worst"]
    assert isinstance(worst, dict)
    found = await document(netgang, f"/v1/network/{worst['source']}/{worst['target']}")
    assert {one["there"]["origin"] for one in found["metrics"].values()} == {source["kind"]}
    return worst


@contextmanager
def exporter() -> Iterator[str]:
    lines = [
        f'mesh_{name}{{source="{a}",target="{b}:9100"}} {value}'
        for a, b in permutations(EIGHT, 2)
        for name, value in zip(("lost_percent", "delay_seconds", "rate_bytes"), link(a, b), strict=True)
        for value in [{"lost_percent": value * 100, "delay_seconds": value / 1000, "rate_bytes": value / 8}[name]]
    ]
    body = ("\n".join(lines) + "\n").encode()

    class Exporter(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: object) -> None:
            """Say nothing."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Exporter) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True)
        thread.start()
        yield f"127.0.0.1:{server.server_port}"
        server.shutdown()
        thread.join()


@pytest.mark.skipif(missing_prometheus() is not None, reason=str(missing_prometheus()))
async def test_a_real_prometheus_decides(stage: Stage, tmp_path: Path) -> None:
    """Debian's Prometheus scrapes a mesh: the gang avoids the two bad nodes, and is said to for whose values."""
    queries = {
        "loss": {"query": "mesh_lost_percent", "unit": "percent"},
        "delay": {"query": "mesh_delay_seconds", "unit": "s"},
        "throughput": {"query": "last_over_time(mesh_rate_bytes[$window])", "unit": "byte/s"},
    }
    with exporter() as exported, prometheus(tmp_path, exported) as url:
        worst = await starts_on_the_good_ones(stage, {"kind": "prometheus", "url": url, "queries": queries})
    assert worst["delay_ms"] == pytest.approx(0.5)
    assert worst["throughput_bps"] == pytest.approx(9.4e9)


@pytest.mark.skipif(missing_opensearch() is not None, reason=str(missing_opensearch()))
@pytest.mark.timeout(START_S + 120.0)
async def test_a_real_perfsonar_archive_decides(stage: Stage, tmp_path: Path) -> None:
    """An OpenSearch node with documents as pScheduler writes them: the same."""
    at = datetime.fromtimestamp(SystemClock().now_s() - 30.0, UTC).isoformat().replace("+00:00", "Z")
    lines: list[dict[str, Any]] = []
    for a, b in permutations(EIGHT, 2):
        loss, delay_ms, rate = link(a, b)
        latency: dict[str, Any] = {"packets": {"sent": 600, "lost": round(600 * loss)}, "latency": {"median": delay_ms}}
        for kind, result in (("latencybg", latency), ("throughput", {"throughput": rate})):
            lines.append({"index": {"_index": f"pscheduler_{kind}"}})
            test = {"type": kind, "spec": {"source": a, "dest": b}}
            lines.append(
                {"test": test, "pscheduler": {"start_time": at}, "result": {"succeeded": True, **result}},
            )
    with opensearch(tmp_path) as url:
        async with httpx.AsyncClient(timeout=60.0) as client:
            body = "".join(json.dumps(line) + "\n" for line in lines)
            head = {"Content-Type": "application/x-ndjson"}
            reply = await client.post(f"{url}/_bulk?refresh=true", content=body, headers=head)
        assert not reply.json()["errors"]
        worst = await starts_on_the_good_ones(stage, {"kind": "opensearch", "url": f"{url}/"})
    assert worst["loss_ratio"] == 0.0
