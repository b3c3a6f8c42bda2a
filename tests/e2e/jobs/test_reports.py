"""Reports with real tokens: TokenReview of a real API server says which namespace a pod's service account is of."""

import asyncio
import os
import re
import sys
from pathlib import Path

import httpx
import pytest

from lab.testbed.objects import namespace as namespace_object
from lab.testbed.parts.service import ROOT
from lab.testbed.processes.network import LOOPBACK, free_ports
from tests.e2e.objects import kind
from tests.e2e.stage import Stage, document, metric

PROGRAM = """
import netgang_report
for step in range(30):
    netgang_report.report(step=step, loss=1.0)
netgang_report.flush()
"""


FOR_WHOM = {  # case: (setting reports.audiences, answer to a token that is for netgang alone)
    "for the API server": ((), 401),
    "for netgang or the API server": (("netgang", "https://kubernetes.default.svc"), 200),
}


@pytest.mark.parametrize(("audiences", "for_us"), FOR_WHOM.values(), ids=FOR_WHOM)
async def test_a_pod_s_own_token_reports_for_its_namespace(
    stage: Stage, tmp_path: Path, audiences: tuple[str, ...], for_us: int
) -> None:
    [port] = free_ports(1)
    reports = {"port": port, "audiences": list(audiences)}
    netgang = await stage.start_netgang({"reports": reports})
    other = f"{stage.namespace}-b"
    await stage.api.create(namespace_object(other))
    template = {"spec": {"restartPolicy": "Never", "containers": [{"name": "main", "image": "none"}]}}
    counts = {"parallelism": 2, "completions": 2, "completionMode": "Indexed"}
    await stage.api.create(kind("batch/v1", "Job", "resnet", stage.namespace, spec={**counts, "template": template}))
    for place in (stage.namespace, other):
        await stage.api.create(kind("v1", "ServiceAccount", "trainer", place))
    tokens = {
        "mine": await stage.token("trainer"),
        "other": await stage.token("trainer", namespace=other),
        "for us": await stage.token("trainer", "netgang"),
        "for others": await stage.token("trainer", "vault"),
        "admin": re.findall(r"token: (\S+)", stage.cluster.kubeconfig("admin").read_text())[0],
        "wrong": "no token of this cluster",
    }
    path = f"/v1/jobs/{stage.namespace}/resnet"
    await stage.until_document(netgang, path, lambda found: found.get("state") == "WAITING", "the job is known")
    url = f"http://{LOOPBACK}:{port}{path}/metrics"
    (tmp_path / "token").write_text(tokens["mine"])
    environment = {name: value for name, value in os.environ.items() if not name.startswith("NETGANG_")}
    environment |= {"NETGANG_REPORT_URL": url, "NETGANG_TOKEN_FILE": str(tmp_path / "token")}
    process = await asyncio.create_subprocess_exec(sys.executable, "-c", PROGRAM, cwd=ROOT, env=environment)
    assert await process.wait() == 0
    shown = await document(netgang, path)
    assert (shown["points"]["kept"], shown["reported"]["step"], shown["reported"]["workers"]) == (30, 29, 2)
    async with httpx.AsyncClient() as client:

        async def answered(step: int, token: str) -> int:
            head = {"Authorization": f"Bearer {token}"}
            return (await client.post(url, json={"step": step, "loss": 1.0}, headers=head)).status_code

        statuses = {name: await answered(step, token) for step, (name, token) in enumerate(tokens.items(), start=99)}
        verb = await client.post(f"http://{LOOPBACK}:{port}/bind", json={})
    assert statuses == {
        "mine": 200, "other": 403, "for us": for_us, "for others": 401, "admin": 403, "wrong": 401,
    }  # fmt: skip
    assert verb.status_code == 401
    assert await metric(netgang, "netgang_reports_total", outcome="other namespace") == 2
    await stage.api.delete("Job", "resnet", namespace=stage.namespace)
    await stage.api.delete("Namespace", other)
