"""The service over the example cluster, behind its real ports with TLS, in this process."""

import asyncio
import json
import ssl
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx

from extender import bootstrap
from extender.bootstrap import Service
from extender.bootstrap.serve import configs, running
from extender.settings.ports import TlsSettings
from extender.settings.settings import Settings
from tests.authority import Pair
from tests.extender.server.served import listening
from tests.extender.server.tls.conftest import Certificates
from tests.liveness import LIVENESS_S

ROOT = Path(__file__).parents[4]
CLUSTER = ROOT / "examples/snapshot/paper-testbed.json"
REQUESTS = ROOT / "examples/requests"
FILTER = (REQUESTS / "filter-case1.json").read_bytes()


@dataclass(frozen=True, slots=True)
class Served:
    service: Service
    urls: dict[str, str]  # setting of the port → base URL

    @property
    def port(self) -> int:
        return httpx.URL(self.urls["port"]).port or 0

    def count(self, name: str, **labels: str) -> float:
        return self.service.telemetry.registry.get_sample_value(f"netgang_{name}", labels) or 0.0


@asynccontextmanager
async def served(tls: TlsSettings, **more: Any) -> AsyncIterator[Served]:
    settings = Settings(snapshot=CLUSTER, port=0, health_port=0, debug_port=0, tls=tls, **more)
    async with AsyncExitStack() as stack:
        service = await stack.enter_async_context(running(bootstrap.embedded(settings)))
        urls = {}
        for name, config in configs(settings, service):
            urls[name] = (await stack.enter_async_context(listening(config, setting=name))).url
        async with asyncio.timeout(LIVENESS_S):
            while service.planner.snapshot is None:  # noqa: ASYNC110 - it reports nothing
                await asyncio.sleep(0.001)
        stack.push_async_callback(service.shut_down)
        yield Served(service, urls)


def client_context(certificates: Certificates, pair: Pair | None, *, authority: Path | None = None) -> ssl.SSLContext:
    context = ssl.create_default_context(cafile=str(authority or certificates.ours.cert))
    if pair is not None:
        context.load_cert_chain(pair.cert, pair.key)
    return context


def client(served: Served, context: ssl.SSLContext, *, port: str = "port") -> httpx.AsyncClient:
    return httpx.AsyncClient(base_url=served.urls[port], verify=context, trust_env=False)


async def held_bind(served: Served, scheduler: httpx.AsyncClient) -> "asyncio.Task[dict[str, Any]]":
    answer = (await scheduler.post("/filter", content=FILTER)).json()
    body = json.loads((REQUESTS / "bind-case1.json").read_text()) | {"Node": answer["NodeNames"][0]}

    async def bind() -> dict[str, Any]:
        return dict((await scheduler.post("/bind", json=body, timeout=60.0)).json())

    call = asyncio.create_task(bind())
    await until_held(served, 1)
    return call


async def until_held(served: Served, count: int) -> None:
    async with asyncio.timeout(LIVENESS_S):
        while served.service.views.plan().held_binds != count:  # noqa: ASYNC110 - it reports nothing
            await asyncio.sleep(0.005)
