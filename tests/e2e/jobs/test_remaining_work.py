"""`queue.order: srpt-by-report` on a real control plane: what a suspended job reported before outlives netgang."""

from collections.abc import AsyncIterator
from pathlib import Path

import httpx
import pytest

from lab.testbed.api import Api
from lab.testbed.cluster import Cluster
from lab.testbed.objects import zone_nodes
from lab.testbed.parts.service import ROOT
from lab.testbed.processes.network import LOOPBACK, free_ports
from tests.e2e.jobs.test_levels import age, job_of
from tests.e2e.site import controlled_site
from tests.e2e.stage import Stage

SECRET = "a secret of the whole cluster"
NODES = zone_nodes({"a": 4}, cpu="3", prefix="n")


@pytest.fixture
async def reporting(
    controlled_cluster: Cluster, controlled_api: Api, tmp_path: Path
) -> AsyncIterator[tuple[Stage, str]]:
    """A stage, and the address at which jobs of its namespace report."""
    [port] = free_ports(1)
    (tmp_path / "secret").write_text(SECRET)
    elastic = await controlled_api.apply(ROOT / "manifests/components/elastic/rbac.yaml")
    settings = {
        "preemption": "levels",
        "wide_share": 1,
        "queue": {"order": "srpt-by-report", "report_namespaces": "*", "starve_limit_s": 86_400},
        "elastic": {"enabled": True, "dry_run": True},
        "reports": {"port": port, "service_accounts": False, "secret_file": str(tmp_path / "secret")},
    }
    async with controlled_site(
        controlled_cluster, controlled_api, "remaining-work", nodes=NODES, settings=settings
    ) as stage:
        yield stage, f"http://{LOOPBACK}:{port}/v1/jobs/{stage.namespace}"
    for one in elastic:
        await controlled_api.delete(one["kind"], one["metadata"]["name"])


@pytest.mark.timeout(240)
async def test_what_a_job_reported_outlives_its_suspension_and_netgang(reporting: tuple[Stage, str]) -> None:
    site, url = reporting
    await site.api.create(job_of("long", site, suspendable=True))
    await site.until_running("long", 4)
    job = f"/v1/jobs/{site.namespace}/long"
    await site.until_document(site.service, job, lambda found: found.get("state") == "RUNNING", "the job is known")
    now_s = await _now_s(site)
    points = [{"step": step, "loss": 1.0, "time": now_s - 100.0 + step} for step in (0, 50, 100)]
    async with httpx.AsyncClient(headers={"Authorization": f"Bearer {SECRET}"}) as client:
        answer = await client.post(f"{url}/long/metrics", json={"points": points, "total_steps": 3700})
    assert answer.status_code == 200, answer.text

    await age(site, "long-")
    await site.api.create(job_of("short", site))
    await site.until_running("short", 4)  # 3,600 s are left, on 8 of 12 CPUs
    before = await _work(site)
    assert before == {"hours": pytest.approx(2 / 3, rel=0.01), "reported": True, "text": before["text"]}
    await site.service.part.kill()
    site.service.part.start()
    await site.cluster.until_ready(site.service.part.name)
    assert await _work(site) == before


async def _now_s(site: Stage) -> float:
    queue = await site.until_document(site.service, "/v1/queue", lambda found: "at_s" in found, "a queue")
    return float(queue["at_s"])


async def _work(site: Stage) -> dict[str, object]:
    """What the queue says of the long gang's remaining work, once it waits and its note is read."""

    def mine(found: dict[str, object]) -> list[dict[str, object]]:
        gangs = found.get("gangs")
        named = [one for one in gangs if one["gang"] == f"{site.namespace}/long"] if isinstance(gangs, list) else []
        return [one["work"] for one in named if one["work"] is not None and one["work"]["reported"]]

    queue = await site.until_document(site.service, "/v1/queue", lambda found: bool(mine(found)), "its work is known")
    return mine(queue)[0]
