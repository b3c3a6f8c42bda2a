"""The port for reports as pods reach it: TLS without a client certificate, the real client, nothing of the verbs."""

import asyncio
import os
import ssl
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest

from extender.bootstrap.serve import configs
from extender.runtime.clock import SystemClock
from extender.settings.settings import Settings
from tests.extender.controllers.elastic.cluster import Site, site
from tests.extender.controllers.elastic.reporting import TOKEN, TRAINER
from tests.extender.scheduling import world
from tests.extender.server.served import listening
from tests.extender.server.tls.conftest import Certificates, certificates
from tests.fakes.clock import LoopClock
from tests.liveness import LIVENESS_S

__all__ = ["certificates"]
ROOT = Path(__file__).parents[5]
PROGRAM = """
import netgang_report
for step in range(30):
    netgang_report.report(step=step, loss=1.0 / (step + 1), accuracy=step / 30)
netgang_report.flush()
"""


@asynccontextmanager
async def served(here: Site, reports: dict[str, Any]) -> AsyncIterator[str]:
    """The service's port for reports on the loopback, as `netgang serve` has it; its address."""
    settings = Settings.model_validate({"elastic": {"enabled": True}, "reports": reports})
    config = dict(configs(settings, here.world.service))["reports.port"]
    async with listening(config, setting="reports") as server:
        yield server.url


async def document(here: Site) -> dict[str, Any]:
    return dict((await here.world.get("/v1/jobs/default/train")).json())


async def until_known(here: Site) -> None:
    async with asyncio.timeout(LIVENESS_S):
        while "state" not in await document(here):
            await here.world.settle(0.05)


async def test_a_pod_reports_over_tls(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, certificates: Certificates
) -> None:
    loop = asyncio.get_running_loop()
    monkeypatch.setattr(world, "LoopClock", lambda: LoopClock(SystemClock().now_s() - loop.time()))
    pair = certificates.ours.server().into(tmp_path)
    tls = {"cert_file": pair.cert, "key_file": pair.key, "client_ca_file": certificates.ours.cert}
    reports = {"port": 0}
    (tmp_path / "token").write_text(TOKEN)
    async with site(reports=reports, tls=tls, health_port=0) as here, served(here, reports) as url:
        assert url.startswith("https://")
        here.api.reviews.owners = TRAINER
        here.create("train", 2, least=2)
        await until_known(here)
        environment = {
            **{name: value for name, value in os.environ.items() if not name.startswith("NETGANG_")},
            "NETGANG_REPORT_URL": f"{url}/v1/jobs/default/train/metrics",
            "NETGANG_TOKEN_FILE": str(tmp_path / "token"),
            "NETGANG_CA_FILE": str(certificates.ours.cert),
        }
        process = await asyncio.create_subprocess_exec(sys.executable, "-c", PROGRAM, cwd=ROOT, env=environment)
        assert await process.wait() == 0
        told = await document(here)
        assert (told["points"]["kept"], told["reported"]["step"]) == (30, 29)
        assert told["reported"]["accuracy"] == pytest.approx(29 / 30)
        context = ssl.create_default_context(cafile=str(certificates.ours.cert))
        shown = {"authorization": f"Bearer {TOKEN}"}
        async with httpx.AsyncClient(base_url=url, verify=context, trust_env=False, headers=shown) as client:
            for path in ("/filter", "/bind", "/v1/plan", "/v1/jobs", "/openapi.json", "/docs", "/healthz"):
                assert (await client.post(path, json={})).status_code == 403, path
            assert (await client.get("/v1/jobs/default/train")).status_code == 404
