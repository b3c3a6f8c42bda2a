"""Documents of the API that have no model: what a service answers, field by field.

Two services are run for it: the demonstration, and one with elastic jobs in virtual time.
"""

import asyncio
import re
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

import looptime

from scoring.network.matrix import METRICS
from tests.contract.demonstration import demonstration
from tests.extender.controllers.elastic.cluster import site
from tests.extender.controllers.elastic.test_jobs_view import REPORTS, SECRET, get, tell

_DOCUMENTS = """
## Documents without a model

Fields for which OpenAPI names no model, as the demonstration (`make run`) answers them; those of jobs as a service with
`elastic.enabled` does. `*` stands for any name (of a pod, node, gang, zone, metric), `[]` for each entry of a list; a
list that is empty there is shown without its entries. Documents of [the page](../how-to/page.md) change with it.
"""
_ASKED = {  # address → as it is asked
    "/v1/plan": "/v1/plan",
    "/v1/queue": "/v1/queue",
    "/v1/network": "/v1/network?limit=2",
    "/v1/network/{source}/{target}": "/v1/network/node28/node33",
}
_DEEPEST = 6


class Served(NamedTuple):
    """What the demonstration says."""

    openapi: dict[str, Any]
    metrics: str
    documents: Mapping[str, Any]
    """address → its answer"""


async def _look() -> Served:
    async with demonstration() as demo:
        openapi = (await demo.client.get("/openapi.json")).json()
        documents = {path: (await demo.client.get(asked)).json() for path, asked in _ASKED.items()}
        return Served(openapi, (await demo.client.get("/metrics")).text, documents)


async def _look_at_jobs(secret: Path) -> dict[str, Any]:
    """Two jobs, of which one has reported and given workers up for the other."""
    async with site(reports=REPORTS | {"secret_file": secret}) as here:
        here.create("low", 6, least=2)
        await here.until("low runs", lambda: len(here.on_nodes("low")) == 6)
        await here.until_quiet_is_over()
        assert (await tell(here, "low", [2.0, 1.5])).is_success
        here.create("heavy", 5, least=5)
        await here.until("heavy runs", lambda: len(here.on_nodes("heavy")) == 5)
        await here.world.settle(3.0)
        asked = {"/v1/jobs": "/v1/jobs", "/v1/jobs/{namespace}/{name}": "/v1/jobs/default/low"}
        return {path: (await get(here, address)).json() for path, address in asked.items()}


def _jobs() -> dict[str, Any]:
    with TemporaryDirectory() as place, asyncio.Runner(loop_factory=lambda: looptime.new_event_loop(start=0.0)) as loop:
        secret = Path(place) / "secret"
        secret.write_text(SECRET)
        return loop.run(_look_at_jobs(secret))


@cache
def served() -> Served:
    """What the demonstration says; it is run once, in a thread: the one that asks may have an event loop of its own."""
    with ThreadPoolExecutor(1) as pool:
        return pool.submit(asyncio.run, _look()).result()


@cache
def jobs_documents() -> Mapping[str, Any]:
    """Address → what a service with elastic jobs answers, in virtual time; it is run once, in a thread."""
    with ThreadPoolExecutor(1) as pool:
        return pool.submit(_jobs).result()


def documents_part() -> str:
    """What docs/reference/api-documents.md says of documents without a model."""
    every, one = (_fields(answer) for answer in jobs_documents().values())
    more = {field: kind for field, kind in one.items() if f"jobs[].{field}" not in every}
    parts = {path: _fields(answer) for path, answer in served().documents.items()}
    first, second = jobs_documents()
    parts |= {first: every, f"{second}`, besides all fields of `jobs[]": more}
    return _DOCUMENTS + "".join(_part(path, fields) for path, fields in parts.items())


def _fields(answer: Any) -> dict[str, str]:
    """Field with dots → its kinds."""
    kinds: dict[str, set[str]] = {}
    for field, kind in _walk(answer):
        kinds.setdefault(field, set()).add(kind)
    return {field: " or ".join(sorted(found)) for field, found in kinds.items()}


def _part(path: str, fields: Mapping[str, str]) -> str:
    """A line for each object, with its fields."""
    objects: dict[str, list[str]] = {}
    for field, kind in fields.items():
        parent, _, name = field.rpartition(".")
        objects.setdefault(parent, []).append(f"`{name}` {kind}")
    lines = [f"- {f'`{parent}`: ' if parent else ''}{', '.join(said)}" for parent, said in objects.items()]
    return f"\n### `GET {path}`\n\n" + "\n".join(lines) + "\n"


def _walk(value: Any, at: str = "", depth: int = 0) -> Iterator[tuple[str, str]]:
    """(field with dots, kind) of everything in a document; names of things become `*`."""
    if isinstance(value, dict) and depth < _DEEPEST and value:
        things = value.keys() <= set(METRICS)
        for key, one in value.items():
            name = key if re.fullmatch("[a-z][a-z_]*", key) and not things else "*"
            yield from _walk(one, f"{at}.{name}" if at else name, depth + 1)
    elif isinstance(value, list) and value and depth < _DEEPEST:
        for one in value:
            yield from _walk(one, f"{at}[]", depth + 1)
    else:
        yield (
            at,
            {dict: "object", list: "list", str: "text", bool: "yes or no", type(None): "null"}.get(
                type(value), "number"
            ),
        )
