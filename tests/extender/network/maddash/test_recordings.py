"""Every recorded response of a real MaDDash 5.0.8, sent over HTTP on loopback to the real client and source."""

import json
from contextlib import aclosing
from typing import Any

import pytest

from extender.errors import NetworkSourceError
from extender.network.maddash.client import MaddashClient, grid_path
from extender.network.maddash.client import MaddashServer as Address
from extender.network.maddash.source import MaddashSource
from extender.network.survey import survey_maddash
from extender.ports import Batch
from scoring.network.matrix import Metric
from tests.extender.network import recorded
from tests.fakes.raw_http import RawServer, ok

NOW_S = recorded.RUN_2_S + 10.0
REQUESTS: list[dict[str, Any]] = [one for one in json.loads(recorded.body("requests.json")) if one["method"] == "GET"]


def listed(*names: str) -> bytes:
    """An answer with a list of grids."""
    return ok(json.dumps({"grids": [{"name": name, "uri": "/ignored"} for name in names]}).encode())


def site(grids: dict[str, str]) -> RawServer:
    """A server with these grids, by name, from these recordings."""
    answers = {f"/maddash{grid_path(name)}": ok(recorded.body(file)) for name, file in grids.items()}
    return RawServer({"/maddash/grids": listed(*grids), **answers})


async def read(server: RawServer) -> Batch:
    """One fetch."""
    source = MaddashSource(Address(server.url))
    try:
        batch = await source.fetch(now_s=NOW_S)
    finally:
        await source.aclose()
    assert batch is not None
    return batch


@pytest.mark.parametrize("request_", REQUESTS, ids=lambda one: one["file"])
async def test_bodies_arrive_byte_for_byte(request_: dict[str, Any]) -> None:
    """A 200 is the recorded body; any other status is an error that names address, status and the server's text."""
    body = recorded.body(request_["file"])
    with RawServer({request_["path"]: ok(body, status=request_["status"])}) as server:
        client = MaddashClient(Address(server.url))
        async with aclosing(client.http):
            path = request_["path"].removeprefix("/maddash")
            if request_["status"] == 200:
                document = await client.get(path, now_s=NOW_S)
                assert document is not None
                assert body == bytes(document.body)
            else:
                with pytest.raises(NetworkSourceError) as caught:
                    await client.get(path, now_s=NOW_S)
                assert f"{server.url}{request_['path']}: status {request_['status']}: " in str(caught.value)
                assert body.decode()[:80].strip() in str(caught.value)


def both(forward: str, reverse: str) -> dict[tuple[str, str], float]:
    """The values of a disjoint grid: rows to columns, and columns to rows."""
    there = recorded.values(forward, factor=1e9)
    back = recorded.values(reverse, factor=1e9)
    return there | {(column, row): value for (row, column), value in back.items()}


UNCONFIRMED = {pair: max(ms, 0.0) for pair, ms in recorded.values(recorded.DELAY_UNCONFIRMED_MS, factor=1.0).items()}
DELAYS, UNCONFIRMED_DELAYS = (recorded.reasons(one) for one in (recorded.DELAY_MS, recorded.DELAY_UNCONFIRMED_MS))
GRIDS = {  # recording: (metric, the value of each direction that has one, the reasons of the others)
    "grid-loss.json": (Metric.LOSS, recorded.LOSS, recorded.reasons(recorded.LOSS_PERCENT)),
    "grid-loss-startup.json": (Metric.LOSS, {}, {"not_run": 29}),
    "grid-delay.json": (Metric.DELAY, recorded.DELAY, DELAYS | {"negative_delay": 1}),
    "grid-delay-unconfirmed.json": (Metric.DELAY, UNCONFIRMED, UNCONFIRMED_DELAYS | {"negative_delay": 1}),
    "grid-throughput.json": (Metric.THROUGHPUT, recorded.THROUGHPUT, recorded.reasons(recorded.THROUGHPUT_GBPS)),
    "grid-reverse.json": (Metric.THROUGHPUT, both(recorded.FORWARD_GBPS, recorded.REVERSE_GBPS), {}),
    "grid-random.json": (Metric.LOSS, {}, {"not_numeric": 2}),
}


@pytest.mark.parametrize("file", GRIDS)
async def test_each_recorded_grid_pair_by_pair(file: str) -> None:
    """Every direction has exactly its recorded value, and every cell without one its reason; nothing else is there."""
    metric, wanted, reasons = GRIDS[file]
    with site({"Some / 100% name+": file}) as server:
        batch = await read(server)
    found = {(m.source, m.target): m.value for m in batch.measurements}
    assert {metric} == {m.metric for m in batch.measurements} or not wanted
    assert sorted(wanted) == sorted(found)
    for pair, value in wanted.items():
        assert found[pair] == pytest.approx(value, rel=1e-12, abs=1e-15), pair  # type: ignore[index]
    assert reasons == batch.rejected


async def test_the_recorded_site_link_by_link() -> None:
    """The three grids together: one record for each direction that is checked, `None` where it has no value."""
    with site({"L": "grid-loss.json", "D": "grid-delay.json", "T": "grid-throughput.json"}) as server:
        survey = await survey_maddash(Address(server.url), now_s=NOW_S)
    directions = {(a, b) for a in recorded.ENDS.values() for b in recorded.ENDS.values() if a != b}
    assert sorted(directions) == [(link.source, link.target) for link in survey.links]
    recorded.agree(survey.links, "L", "D", "T")
    for link in survey.links:  # delay and throughput are of the first run, loss of the second; the oldest value counts
        pair = (link.source, link.target)
        runs = [recorded.RUN_2_S] * (pair in recorded.LOSS)
        runs += [recorded.RUN_1_S] * (pair in recorded.DELAY or pair in recorded.THROUGHPUT)
        assert link.age_s == (NOW_S - min(runs) if runs else None), pair
    assert survey.labels[recorded.ENDS["s5"]] == "s5 Zürich"
