"""A MaDDash that answers from a table, which a test changes between fetches, and the source that reads it."""

import asyncio
from collections.abc import Mapping
from typing import Any

import httpx

from extender.network.maddash.client import MaddashServer
from extender.network.maddash.grid_choice import Wanted
from extender.network.maddash.source import MaddashSource
from extender.ports import Batch
from scoring.network.matrix import Metric
from tests.extender.network import recorded, world

NOW_S = recorded.RUN_2_S + 10.0
LOSS = "Average packet loss is 1%"
Answer = httpx.Response | Exception


class Script(httpx.AsyncBaseTransport):
    """Answers by raw path below /maddash/, after a pause if there is one; counts what it is asked."""

    def __init__(self, answers: Mapping[str, Answer]) -> None:
        self.answers = dict(answers)
        self.pauses_s: dict[str, float] = {}
        self.unknown = httpx.Response(404, text="Row resource not found")
        self.etag = ""
        self.seen: list[httpx.Request] = []

    @property
    def asked(self) -> list[str]:
        return [one.url.raw_path.decode().removeprefix("/maddash/") for one in self.seen]

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        self.seen.append(request)
        path = self.asked[-1]
        await asyncio.sleep(self.pauses_s.get(path, 0.0))
        if self.etag and request.headers.get("if-none-match") == self.etag:
            return httpx.Response(304)
        answer = self.answers.get(path, self.unknown)
        if isinstance(answer, Exception):
            raise answer
        headers = {**answer.headers, **({"ETag": self.etag} if self.etag else {})}
        if isinstance(answer.stream, httpx.ByteStream):  # read again by each request
            return httpx.Response(answer.status_code, headers=headers, stream=httpx.ByteStream(b"".join(answer.stream)))
        return httpx.Response(answer.status_code, headers=headers, content=answer.content)


def source(script: Script, wanted: Wanted | None = None, **server: Any) -> MaddashSource:
    address = MaddashServer("http://maddash.lab.example/maddash", **server)
    return MaddashSource(address, wanted, transport=script)


async def read(one: MaddashSource, now_s: float = NOW_S) -> Batch:
    return await world.read(one, now_s)


def values(batch: Batch, metric: Metric = Metric.LOSS) -> dict[tuple[str, str], float]:
    return {(m.source, m.target): m.value for m in batch.measurements if m.metric is metric}


def ok(name: str) -> httpx.Response:
    return httpx.Response(200, content=recorded.body(name), headers={"Content-Type": "application/json"})


def failed(name: str) -> httpx.Response:
    return httpx.Response(500, content=recorded.body(name), headers={"Content-Type": "application/json"})


def grids(*names: str) -> httpx.Response:
    return httpx.Response(200, json={"grids": [{"name": name, "uri": "/ignored"} for name in names]})


def server(**bodies: httpx.Response) -> Script:
    return Script({"grids": grids(*bodies), **{f"grids/{name}": body for name, body in bodies.items()}})


def cell(row: str, column: str, message: Any = LOSS, **fields: Any) -> dict[str, Any]:
    """A check as a grid has it; a message `-` is one that has not run."""
    waits = {"status": 4, "prevCheckTime": 0} if message == "-" else {"status": 0, "prevCheckTime": int(NOW_S)}
    return {"uri": f"/maddash/grids/g/{row}/{column}/c", **waits, "message": message} | fields


def grid(*cells: Any) -> httpx.Response:
    return rows([[one] for one in cells])


def rows(*cells: Any) -> httpx.Response:
    return httpx.Response(200, json={"rows": [], "grid": list(cells)})
