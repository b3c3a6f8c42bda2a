"""From measurements to netgang's choice: the bed's MaDDash document through the real source, service and planner."""

import asyncio
from collections.abc import Mapping

import httpx
import pytest

from extender.network.maddash.client import MaddashServer
from extender.network.maddash.source import MaddashSource
from extender.ports import Batch
from lab.bench.testbed.cases import IMPAIRED, WANTED, Impairment
from lab.bench.testbed.choosing import chosen
from lab.bench.testbed.maddash_view import documents, served
from lab.bench.testbed.nodes import NODES
from lab.bench.testbed.probes import Link, Measured
from scoring.network.matrix import MeasurementTable, Metric

NOW_S = 1_800_000_000.0
CLEAN = Link(loss_ratio=0.0, delay_ms=0.014, throughput_bps=95.6e6)
BAD = {  # case: what an impaired node's links show, as the bed measures it at the weakest end of the sweep
    "bandwidth": Link(0.0, 0.013, 86.1e6),
    "loss": Link(0.05, 0.015, 47.2e6),
    "delay": Link(0.0, 50.2, 27.0e6),
    "nothing was measured": Link(1.0, None, None),
}


def mesh(bad: Link, impaired: tuple[str, ...] = IMPAIRED) -> Measured:
    """All pairs of the bed; those from an impaired node are bad, with a little noise everywhere."""
    found = {}
    for number, (a, b) in enumerate((a, b) for a in NODES for b in NODES if a != b):
        link = bad if a in impaired else CLEAN
        rate = None if link.throughput_bps is None else link.throughput_bps * (1.0 - 0.002 * (number * 7 % 5))
        found[a, b] = Link(link.loss_ratio, link.delay_ms, rate)
    return found


def read(measured: Measured) -> Batch:
    bodies = documents(measured, checked_at_s=NOW_S)

    def answer(request: httpx.Request) -> httpx.Response:
        path = httpx.URL(request.url.raw_path.decode().replace("%2B", "+").replace("+", "%20")).path
        return httpx.Response(200, content=bodies[path]) if path in bodies else httpx.Response(500)

    async def fetched() -> Batch | None:
        source = MaddashSource(MaddashServer("http://bed/maddash"), transport=httpx.MockTransport(answer))
        try:
            return await source.fetch(now_s=NOW_S)
        finally:
            await source.aclose()

    with asyncio.Runner(loop_factory=asyncio.new_event_loop) as runner:  # asyncio.run would take pytest's loop away
        batch = runner.run(fetched())
    assert batch is not None
    return batch


def values(batch: Batch) -> Mapping[tuple[str, str, Metric], float]:
    """(source, target, metric) → value."""
    table = MeasurementTable.of(batch.measurements)
    return {(str(one.source), str(one.target), one.metric): one.value for one in table}


def test_the_real_source_reads_every_value() -> None:
    batch = read(mesh(BAD["delay"]))
    found = values(batch)
    assert len(found) == 3 * 9 * 8
    assert batch.problems == ()
    assert found["node33", "node28", Metric.DELAY] == pytest.approx(50.2, abs=5e-4)
    assert found["node28", "node33", Metric.DELAY] == pytest.approx(0.014, abs=5e-4)
    assert found["node28", "node29", Metric.THROUGHPUT] == pytest.approx(95.6e6, abs=5e5)
    assert found["node28", "node29", Metric.LOSS] == 0.0


def test_a_probe_without_an_answer_has_no_value() -> None:
    found = values(read({**mesh(CLEAN), ("node28", "node29"): BAD["nothing was measured"]}))
    assert len(found) == 3 * 9 * 8 - 2
    assert found["node28", "node29", Metric.LOSS] == 1.0


@pytest.mark.parametrize("bad", BAD.values(), ids=BAD)
def test_netgang_avoids_the_impaired_nodes(bad: Link) -> None:
    assert set(chosen(mesh(bad))) == set(NODES) - set(IMPAIRED)


def test_the_choice_follows_the_measurements() -> None:
    other = ("node28", "node30", "node36")
    found = chosen(mesh(BAD["loss"], impaired=other))
    assert (len(found), set(found)) == (WANTED, set(NODES) - set(other))


def test_the_server_answers_as_maddash_does() -> None:
    with served(mesh(CLEAN), checked_at_s=NOW_S) as url, httpx.Client() as client:
        listed = client.get(f"{url}/grids").json()["grids"]
        assert [one["name"] for one in listed] == ["Bed - Loss", "Bed - Delay", "Bed - Throughput"]
        assert client.get(f"{url}/grids/Bed%2B-%2BLoss").json()["name"] == "Bed - Loss"
        assert client.get(f"{url}/grids/Nothing").status_code == 500


def test_every_impairment_has_a_case_above() -> None:
    """A new impairment needs a measured example."""
    assert {one.value for one in Impairment} <= set(BAD)
