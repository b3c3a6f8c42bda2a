"""README's demonstration does what README says: the same files, the same requests, the whole service in one process."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import pytest

from extender import bootstrap
from extender.bootstrap import Service
from extender.bootstrap.serve import running
from extender.settings.settings import Settings
from scoring.ids import NodeName, gang_key

EXAMPLES = Path(__file__).parents[2] / "examples"
BEST = {"node28", "node29", "node30", "node31", "node32", "node36"}
"""What the network paper's scheduler chose in its test case I: zone D without the three impaired nodes."""


AS_CURL = {"User-Agent": "curl/8.5.0"}
"""As README's reader asks: there is no kube-scheduler here, and curl plays it."""


@dataclass(frozen=True, slots=True)
class Demonstration:
    """The running service and a client for it."""

    service: Service
    client: httpx.AsyncClient

    async def ask(self, verb: str, request: str, *, index: int = 0) -> Any:
        """POST a file of examples/requests, for pod `index` of the gang."""
        text = (EXAMPLES / "requests" / request).read_text().replace("case1-0", f"case1-{index}")
        answer = await self.client.post(f"/{verb}", content=text)
        assert answer.status_code == 200
        return answer.json()

    def nodes_of_case1(self) -> set[NodeName | None]:
        """Where the gang's members are, as the cluster sees it."""
        gang = self.service.cache.gang(gang_key("demo", "case1"))
        assert gang is not None
        return {member.node for member in gang.members}

    async def bind(self, index: int, node: str) -> Any:
        """POST bind-case1.json for pod `index` and `node`."""
        body = json.loads((EXAMPLES / "requests/bind-case1.json").read_text().replace("case1-0", f"case1-{index}"))
        return (await self.client.post("/bind", json={**body, "Node": node})).json()


@asynccontextmanager
async def _demonstration(**settings: Any) -> AsyncIterator[Demonstration]:
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
    async with bootstrap.embedded(Settings.model_validate(given | settings)) as made:
        measured = asyncio.Event()
        made.planner.subscribe(lambda plan: measured.set() if plan.network_version else None)
        async with (
            running(_already(made)) as service,
            httpx.AsyncClient(
                transport=httpx.ASGITransport(app=service.app), base_url="http://netgang", headers=AS_CURL
            ) as client,
        ):
            await measured.wait()
            yield Demonstration(service, client)


@asynccontextmanager
async def _already(service: Service) -> AsyncIterator[Service]:
    yield service


async def test_case1_gets_the_papers_six_nodes() -> None:
    """Each member is answered one node; together they are zone D without the three nodes with bad links."""
    async with _demonstration() as demo:
        answers = [await demo.ask("filter", "filter-case1.json", index=index) for index in range(6)]
    assert all(len(answer["NodeNames"]) == 1 for answer in answers)
    assert {name for answer in answers for name in answer["NodeNames"]} == BEST


async def test_prioritize_prefers_them_too() -> None:
    """The six score highest, the three impaired ones of their zone lower, everything else lower than the six."""
    async with _demonstration() as demo:
        listed = await demo.ask("prioritize", "prioritize-case1.json")
    scores = {one["Host"]: one["Score"] for one in listed}
    assert len(scores) == 36
    assert min(scores[node] for node in BEST) > max(score for node, score in scores.items() if node not in BEST)


async def test_five_binds_are_held_and_the_sixth_releases_all() -> None:
    """Nothing is bound before the gang is whole; then all are, and every call is answered with success."""
    async with _demonstration() as demo:
        nodes = [(await demo.ask("filter", "filter-case1.json", index=i))["NodeNames"][0] for i in range(6)]
        calls = [asyncio.create_task(demo.bind(index, nodes[index])) for index in range(5)]
        answered, held = await asyncio.wait(calls, timeout=0.2)
        assert (len(answered), len(held), demo.service.binds.held_count) == (0, 5, 5)
        assert demo.nodes_of_case1() == {None}
        answers = [await demo.bind(5, nodes[5]), *await asyncio.gather(*calls)]
        assert answers == [{"Error": ""}] * 6
        assert demo.nodes_of_case1() == BEST


async def test_a_bind_that_stays_alone_fails_at_the_hold_limit() -> None:
    """Five pods that never come: the one that did is answered with a constant error, and is not bound."""
    async with _demonstration(hold_limit_s=0.05) as demo:
        node = (await demo.ask("filter", "filter-case1.json"))["NodeNames"][0]
        answer = await demo.bind(0, node)
        assert answer == {"Error": "netgang: the gang did not reach min-available in time"}
        assert demo.nodes_of_case1() == {None}


async def test_a_bind_that_filter_did_not_offer_is_refused() -> None:
    """/bind is not a back door (docs/safety.md S2)."""
    async with _demonstration() as demo:
        assert await demo.bind(0, "node28") == {"Error": "netgang: this node was not offered to this pod"}


@pytest.mark.parametrize("request_file", ["filter-tf-smoke-gpu.json", "filter-tf-smoke-gpu-ps.json"])
async def test_a_gang_without_room_waits_whole(request_file: str) -> None:
    """Eight GPUs wanted and four there: workers and ps alike are refused, with one reason for every node."""
    async with _demonstration() as demo:
        answer = await demo.ask("filter", request_file)
        explained = (await demo.client.get("/v1/explain/demo/tf-smoke-gpu")).json()
    assert answer["NodeNames"] == []
    assert set(answer["FailedAndUnresolvableNodes"].values()) == {explained["reason"]}
    assert len(answer["FailedAndUnresolvableNodes"]) == 36


async def test_what_readme_shows_is_served() -> None:
    """Plan, explain, readiness and metrics answer."""
    async with _demonstration() as demo:
        for path in ("/v1/plan", "/v1/explain/demo/case1", "/v1/network", "/healthz", "/readyz", "/metrics", "/docs"):
            assert (await demo.client.get(path)).status_code == 200, path
