"""Recordings of a real MaDDash 5.0.8: as they are, as other sites would have made them, and as the fake has them."""

import json
from collections.abc import Callable, Mapping
from contextlib import aclosing
from typing import Any
from urllib.parse import quote, unquote_plus
from urllib.request import urlopen

import httpx
import pytest

from extender.errors import NetworkSourceError
from extender.network.http import HttpClient
from extender.ports import Batch
from extender.settings.network import MaddashSettings
from scoring.network.matrix import Metric
from tests.extender.network import recorded
from tests.extender.network.maddash import scripted
from tests.extender.network.maddash.scripted import NOW_S, Script
from tests.extender.network.replies import replies
from tests.fakes.maddash_server import MaddashServer
from tests.fakes.mesh import full_mesh
from tests.fakes.raw_http import RawServer, ok

RECORDED = {"L": "grid-loss.json", "D": "grid-delay.json", "T": "grid-throughput.json"}
REQUESTS: list[dict[str, Any]] = [one for one in json.loads(recorded.body("requests.json")) if one["method"] == "GET"]


async def read(grids: Mapping[str, bytes | dict[str, Any]]) -> Batch:
    bodies = {name: one if isinstance(one, bytes) else json.dumps(one).encode() for name, one in grids.items()}
    answers = {scripted.path(name): httpx.Response(200, content=body) for name, body in bodies.items()}
    return await scripted.read(Script({"grids": scripted.grids(*grids), **answers}).source())


@pytest.mark.parametrize("request_", REQUESTS, ids=lambda one: one["file"])
async def test_bodies_arrive_byte_for_byte(request_: dict[str, Any]) -> None:
    """Over a socket: what the server of the recordings sent, with its odd addresses."""
    body = recorded.body(request_["file"])
    replies.route().pass_through()
    with RawServer({request_["path"]: ok(body, status=request_["status"])}) as server:
        async with aclosing(HttpClient(MaddashSettings(server.url))) as client:
            path = request_["path"].removeprefix("/maddash")
            if request_["status"] == 200:
                assert body == await client.ask("GET", path)
            else:
                with pytest.raises(NetworkSourceError) as caught:
                    await client.ask("GET", path)
                assert f"{server.url}{request_['path']}: status {request_['status']}: " in str(caught.value)
                assert body.decode()[:80].strip() in str(caught.value)


GRIDS = {  # recording: (metric, the value of each direction that has one, the reasons of the others)
    "grid-loss.json": (Metric.LOSS, recorded.LOSS, recorded.reasons(recorded.LOSS_PERCENT)),
    "grid-loss-startup.json": (Metric.LOSS, {}, {"not_run": 29}),
    "grid-delay.json": (Metric.DELAY, recorded.DELAY, recorded.reasons(recorded.DELAY_MS) | {"negative_delay": 1}),
    "grid-throughput.json": (Metric.THROUGHPUT, recorded.THROUGHPUT, recorded.reasons(recorded.THROUGHPUT_GBPS)),
    "grid-reverse.json": (Metric.THROUGHPUT, recorded.BOTH, {}),
    "grid-random.json": (Metric.LOSS, {}, {"not_numeric": 2}),
}


@pytest.mark.parametrize("file", GRIDS)
async def test_each_recorded_grid_pair_by_pair(file: str) -> None:
    metric, wanted, reasons = GRIDS[file]
    batch = await read({"Some / 100% name+": recorded.body(file)})
    found = {(m.source, m.target): m.value for m in batch.measurements}
    assert {metric} == {m.metric for m in batch.measurements} or not wanted
    assert found == pytest.approx(wanted, rel=1e-12, abs=1e-15)
    assert reasons == batch.rejected


Grid = dict[str, Any]


def beside_others(grid: Grid) -> Grid:
    """Each cell has other checks before and behind: of other metrics, without a value, and none."""
    for row in grid["grid"]:
        for number, cell in enumerate(row):
            if not cell:
                continue
            others = [
                {**cell[0], "uri": f"{cell[0]['uri'].rpartition('/')[0]}/{name}", "message": message, "status": status}
                for name, message, status in (
                    ("A+path", "Average path count is 7", 0),
                    ("Z+jitter", "Average delay variation is 0.001ms", 0),
                    ("Z+loss+v6", "Average packet loss is 99.000%", 4),
                    ("Z+rat%C3%A9", "Command timed-out after 60 seconds", 3),
                )
            ]
            row[number] = [others[0], None, *cell, *others[1:]]
    return grid


def without_labels(grid: Grid) -> Grid:
    grid |= {"columnNames": ["node"] * len(grid["columnNames"]), "columnProps": None, "checkNames": [], "extra": {}}
    grid["rows"] = [{"name": "node", "uri": row["uri"], "props": None, "new": [1]} for row in grid["rows"]]
    return grid


def turned(grid: Grid) -> Grid:
    grid["rows"].reverse()
    grid["grid"] = [list(reversed(row)) for row in reversed(grid["grid"])]
    grid["columnNames"].reverse()
    return grid


def singly_encoded(grid: Grid) -> Grid:
    """As a server writes addresses that was asked with single encoding: only what must be is encoded."""
    for check in (one for row in grid["grid"] for cell in row for one in cell or () if one is not None):
        start, *parts = check["uri"].rsplit("/", 3)
        check["uri"] = "/".join([start, *(quote(unquote_plus(part), safe=" :[]@") for part in parts)])
    return grid


@pytest.mark.parametrize("change", [dict, beside_others, without_labels, turned, singly_encoded])
async def test_the_same_values_however_they_are_written(change: Callable[[Grid], Grid]) -> None:
    """Any names, numbers and units: `test_messages`. Delay and throughput are of the first run, loss of the second."""
    grids = {f"Lab 100% A+B / v4 {key}": change(json.loads(recorded.body(file))) for key, file in RECORDED.items()}
    found = (await read(grids)).measurements
    recorded.agree(found)
    runs_s = {Metric.LOSS: recorded.RUN_2_S, Metric.DELAY: recorded.RUN_1_S, Metric.THROUGHPUT: recorded.RUN_1_S}
    assert {(one.metric, one.measured_at_s) for one in found} == set(runs_s.items())


async def test_all_metrics_in_one_grid() -> None:
    one = json.loads(recorded.body("grid-loss.json"))
    others = [json.loads(recorded.body(file)) for file in ("grid-delay.json", "grid-throughput.json")]
    for r, row in enumerate(one["grid"]):
        for c, cell in enumerate(row):
            row[c] = [*(cell or []), *(check for other in others for check in other["grid"][r][c] or [])] or None
    recorded.agree((await read({"all": one})).measurements)


def shape(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: shape(member) for key, member in sorted(value.items())}
    if isinstance(value, list):
        return sorted({json.dumps(shape(member), sort_keys=True) for member in value})
    return "text" if isinstance(value, str) else type(value).__name__


def test_answers_have_the_recorded_shape() -> None:
    """The fake's have the keys and types of the real server's; only what hangs on `report` is less."""
    with MaddashServer(full_mesh("a", "b", "c"), checked_at_s=lambda: NOW_S) as server:
        listed, found = (json.load(urlopen(f"{server.url}/{path}")) for path in ("grids", "grids/Loss"))
    assert shape(listed) == shape(json.loads(recorded.body("grids.json")))
    real = json.loads(recorded.body("grid-loss.json"))
    assert (sorted(found), sorted(found["rows"][0])) == (sorted(real), sorted(real["rows"][0]))
    for part in ("grid", "columnProps"):
        assert shape(found[part]) == shape(real[part])
    assert found["grid"][0][1][0]["uri"] == "/maddash/grids/Loss/a/b/Packet+Loss"
