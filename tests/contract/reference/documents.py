"""What the demonstration serves: its OpenAPI document, its metrics and its documents, each with its schema."""

import asyncio
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from typing import Any, Final, NamedTuple

from extender.schemas import LinkInFull, Network, Readiness
from scoring.explain.gang import Explained
from scoring.explain.queue_report import PlanInForce, Queue
from tests.contract.docs.demonstration import demonstration

DOCUMENTS: Final = {  # address → the schema of its answer
    "/readyz": Readiness,
    "/v1/plan": PlanInForce,
    "/v1/queue": Queue,
    "/v1/explain/demo/tf-smoke-gpu": Explained,
    "/v1/network?limit=2": Network,
    "/v1/network/node28/node33": LinkInFull,
}


class Served(NamedTuple):
    openapi: dict[str, Any]
    metrics: str
    documents: Mapping[str, bytes]  # address → its answer


async def _look() -> Served:
    async with demonstration() as demo:
        openapi = (await demo.client.get("/openapi.json")).json()
        documents = {path: (await demo.client.get(path)).content for path in DOCUMENTS}
        return Served(openapi, (await demo.client.get("/metrics")).text, documents)


@cache
def served() -> Served:
    """What the demonstration says; it is run once, in a thread: the one that asks may have an event loop of its own."""
    with ThreadPoolExecutor(1) as pool:
        return pool.submit(asyncio.run, _look()).result()
