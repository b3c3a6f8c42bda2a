"""README's demonstration in one process: the same files, the same requests, the whole service; and what it serves."""

import asyncio
import json
from collections.abc import AsyncIterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from functools import cache
from pathlib import Path
from typing import Any, Final

import httpx
import msgspec

from extender import bootstrap
from extender.bootstrap import Service
from extender.bootstrap.serve import running
from extender.schemas import LinkInFull, Network, Readiness
from extender.settings.settings import Settings
from scoring import NodeName
from scoring.model.gang import gang_key
from scoring.records import Explained, PlanInForce, Queue

EXAMPLES = Path(__file__).parents[3] / "examples"
AS_CURL = {"User-Agent": "curl/8.5.0"}  # as README's reader asks: there is no kube-scheduler here, and curl plays it
SETTINGS: Mapping[str, Any] = {
    "snapshot": EXAMPLES / "snapshot/paper-testbed.json",
    "network": {
        "sources": [{"kind": "file", "path": EXAMPLES / "mesh/paper-testbed.json"}],
        "soft_ttl_s": None,  # as `netgang demo` has it: an example's values do not age with its file
        "hard_ttl_s": None,
    },
}
DOCUMENTS: Final = {  # address → the schema of its answer
    "/readyz": Readiness,
    "/v1/plan": PlanInForce,
    "/v1/queue": Queue,
    "/v1/explain/demo/tf-smoke-gpu": Explained,
    "/v1/network?limit=2": Network,
    "/v1/network/node28/node33": LinkInFull,
}


class Demonstration(msgspec.Struct, frozen=True):
    service: Service
    client: httpx.AsyncClient

    async def ask(self, verb: str, request: str, *, index: int = 0, **more: str) -> Any:
        text = (EXAMPLES / "requests" / request).read_text().replace("case1-0", f"case1-{index}")
        answer = await self.client.post(f"/{verb}", json=json.loads(text) | more)
        assert answer.status_code == 200
        return answer.json()

    def nodes_of_case1(self) -> set[NodeName | None]:
        gang = self.service.cache.gang(gang_key("demo", "case1"))
        assert gang is not None
        return {member.node for member in gang.members}


@asynccontextmanager
async def demonstration() -> AsyncIterator[Demonstration]:
    """The saved test bed with its mesh, once the first measurements are planned with."""
    async with running(bootstrap.embedded(Settings().changed(SETTINGS))) as service:
        planned = asyncio.Event()
        service.planner.subscribe(lambda plan: planned.set() if plan.network_version else None)
        await planned.wait()
        door = httpx.ASGITransport(app=service.app)
        async with httpx.AsyncClient(transport=door, base_url="http://netgang", headers=AS_CURL) as client:
            yield Demonstration(service, client)


class Served(msgspec.Struct, frozen=True):
    openapi: dict[str, Any]
    documents: Mapping[str, bytes]  # address → its answer


@cache
def served() -> Served:
    """What the demonstration says; it is run once, in a thread: the one that asks may have an event loop of its own."""

    async def look() -> Served:
        async with demonstration() as demo:
            openapi = (await demo.client.get("/openapi.json")).json()
            documents = {path: (await demo.client.get(path)).content for path in DOCUMENTS}
            return Served(openapi, documents)

    with ThreadPoolExecutor(1) as pool:
        return pool.submit(asyncio.run, look()).result()
