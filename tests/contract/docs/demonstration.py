"""README's demonstration in one process: the same files, the same requests, the whole service."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx
import msgspec

from extender import bootstrap
from extender.bootstrap import Service
from extender.bootstrap.serve import running
from extender.settings.settings import Settings
from scoring.ids import NodeName, gang_key

EXAMPLES = Path(__file__).parents[3] / "examples"
BEST = {"node28", "node29", "node30", "node31", "node32", "node36"}
"""What the network paper's scheduler chose in its test case I: zone D without the three impaired nodes."""


AS_CURL = {"User-Agent": "curl/8.5.0"}  # as README's reader asks: there is no kube-scheduler here, and curl plays it


class Demonstration(msgspec.Struct, frozen=True):
    service: Service
    client: httpx.AsyncClient

    async def ask(self, verb: str, request: str, *, index: int = 0) -> Any:
        """POST a file of examples/requests, for pod `index` of the gang."""
        text = (EXAMPLES / "requests" / request).read_text().replace("case1-0", f"case1-{index}")
        answer = await self.client.post(f"/{verb}", content=text)
        assert answer.status_code == 200
        return answer.json()

    def nodes_of_case1(self) -> set[NodeName | None]:
        gang = self.service.cache.gang(gang_key("demo", "case1"))
        assert gang is not None
        return {member.node for member in gang.members}

    async def bind(self, index: int, node: str) -> Any:
        body = json.loads((EXAMPLES / "requests/bind-case1.json").read_text().replace("case1-0", f"case1-{index}"))
        return (await self.client.post("/bind", json={**body, "Node": node})).json()


@asynccontextmanager
async def demonstration(**settings: Any) -> AsyncIterator[Demonstration]:
    """The saved test bed with its mesh, once the first measurements are planned with."""
    given: dict[str, Any] = {
        "snapshot": EXAMPLES / "snapshot/paper-testbed.json",
        # As `netgang demo` has it: an example's values do not age with its file.
        "network": {
            "sources": [{"kind": "file", "path": EXAMPLES / "mesh/paper-testbed.json"}],
            "soft_ttl_s": None,
            "hard_ttl_s": None,
        },
    }
    async with (
        measured(Settings().changed(given | settings)) as service,
        httpx.AsyncClient(
            transport=httpx.ASGITransport(app=service.app), base_url="http://netgang", headers=AS_CURL
        ) as client,
    ):
        yield Demonstration(service, client)


@asynccontextmanager
async def measured(settings: Settings) -> AsyncIterator[Service]:
    """The service with these settings, once the first measurements are planned with."""
    async with bootstrap.embedded(settings) as made:
        planned = asyncio.Event()
        made.planner.subscribe(lambda plan: planned.set() if plan.network_version else None)

        @asynccontextmanager
        async def already() -> AsyncIterator[Service]:
            yield made

        async with running(already()) as service:
            await planned.wait()
            yield service
