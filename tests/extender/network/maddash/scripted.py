"""A MaDDash that replies from a table, which a test changes between fetches, and sources that read it."""

import asyncio
from collections.abc import Mapping
from typing import Any
from urllib.parse import quote, quote_plus

import httpx

from extender.network.answers import SourceAnswer as ReadAnswer
from extender.network.maddash import MaddashSource, read_grid
from extender.ports import Batch
from extender.settings.network import MaddashSettings
from scoring.network.matrix import Metric
from tests.extender.network import recorded, world
from tests.extender.network.replies import replies
from tests.fakes.maddash_server import at_time, grid_document

NOW_S = recorded.RUN_2_S + 10.0
LOSS = "Average packet loss is 1%"
Answer = httpx.Response | Exception
NOT_FOUND = httpx.Response(404, text="Row resource not found")


class Script:
    """Answers by raw path below /maddash/, after a pause if there is one; keeps what it is asked."""

    def __init__(self, answers: Mapping[str, Answer], unknown: httpx.Response = NOT_FOUND) -> None:
        self.answers, self.unknown = dict(answers), unknown
        self.pauses_s: dict[str, float] = {}
        self.seen: list[httpx.Request] = []
        replies.route().mock(side_effect=self.answer)

    @property
    def asked(self) -> list[str]:
        return [one.url.raw_path.decode().removeprefix("/maddash/") for one in self.seen]

    def source(self, **settings: Any) -> MaddashSource:
        return MaddashSource(MaddashSettings("http://maddash.lab.example/maddash", **settings))

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


def path(name: str) -> str:
    """Of a grid: the server decodes its name twice."""
    return f"grids/{quote(quote_plus(name), safe='')}"


def reading(body: bytes) -> ReadAnswer:
    """What a grid says if all its checks count."""
    return read_grid(body, counts=lambda *_, **__: True, now_s=2e9)


def values(batch: Batch, metric: Metric = Metric.LOSS) -> dict[tuple[str, str], float]:
    return {(m.source, m.target): m.value for m in batch.measurements if m.metric is metric}


def recording(name: str, status: int = 200) -> httpx.Response:
    return httpx.Response(status, content=recorded.body(name), headers={"Content-Type": "application/json"})


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


GRIDS = {
    "Loss": ("Packet Loss", "Average packet loss is {}%"),
    "Delay": ("One-way Delay", "Average minimum delay is {}ms"),
    "Throughput": ("Throughput", "Average throughput is {}Gbps"),
}


def named_grid(name: str, *, number: float, checked_at_s: float) -> httpx.Response:
    check, text = GRIDS[name]
    said = (0, text.format(number))
    made = grid_document(name, {"a": "a", "b": "b"}, [check], lambda row, column, _: None if row == column else said)
    return httpx.Response(200, json=at_time(made, checked_at_s))


def good(*, number: float = 1.0, checked_at_s: float = world.START_S) -> dict[str, httpx.Response]:
    """Replies of a whole site; `number`: percent lost, ms, Gbit/s of a → b and b → a."""
    all_of = {name: named_grid(name, number=number, checked_at_s=checked_at_s) for name in GRIDS}
    return {"grids": grids(*GRIDS), **{f"grids/{name}": answer for name, answer in all_of.items()}}
