"""A MaDDash that replies from a table, which a test changes between fetches, and sources that read it."""

import asyncio
from collections.abc import Mapping
from typing import Any, Final

import httpx
import respx

from extender.network.maddash.client import MaddashServer
from extender.network.maddash.grid_choice import Wanted
from extender.network.maddash.source import MaddashSource
from extender.ports import Batch
from scoring.network.matrix import Metric
from tests.extender.network import recorded, world

NOW_S = recorded.RUN_2_S + 10.0
LOSS = "Average packet loss is 1%"
Answer = httpx.Response | Exception
replies: Final = respx.mock(assert_all_called=False)


class Script:
    """Answers by raw path below /maddash/, after a pause if there is one; keeps what it is asked."""

    def __init__(self, answers: Mapping[str, Answer]) -> None:
        self.answers = dict(answers)
        self.pauses_s: dict[str, float] = {}
        self.unknown = httpx.Response(404, text="Row resource not found")
        self.seen: list[httpx.Request] = []
        replies.route().mock(side_effect=self.answer)

    @property
    def asked(self) -> list[str]:
        return [one.url.raw_path.decode().removeprefix("/maddash/") for one in self.seen]

    def source(self, wanted: Wanted | None = None, **server: Any) -> MaddashSource:
        return MaddashSource(MaddashServer("http://maddash.lab.example/maddash", **server), wanted)

    async def answer(self, request: httpx.Request) -> httpx.Response:
        self.seen.append(request)
        path = self.asked[-1]
        await asyncio.sleep(self.pauses_s.get(path, 0.0))
        answer = self.answers.get(path, self.unknown)
        if isinstance(answer, Exception):
            raise answer
        return httpx.Response(answer.status_code, headers=answer.headers, content=answer.content)


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
