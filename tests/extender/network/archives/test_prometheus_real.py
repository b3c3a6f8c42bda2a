"""The Prometheus source against a real Prometheus that scrapes an exporter of a mesh."""

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AsyncExitStack
from typing import Any

import pytest

from extender.errors import NetworkSourceError
from extender.network.prometheus.presets import PRESETS
from extender.network.prometheus.source import PrometheusSource
from extender.network.sources.http import HttpClient, HttpServer
from extender.ports import Batch
from extender.settings.sources import Preset
from extender.settings.sources import PrometheusSource as Settings
from scoring.network.matrix import Metric
from tests.liveness import LIVENESS_S
from tests.real.servers import START_S, missing_prometheus, scraped

pytestmark = [
    pytest.mark.slow,  # a real server, fetched by `make e2e`
    pytest.mark.skipif(missing_prometheus() is not None, reason=str(missing_prometheus())),
    pytest.mark.timeout(START_S + 60.0),
    pytest.mark.xdist_group("prometheus"),
]

Connect = Callable[..., PrometheusSource]

ENDS = {"source_label": "from", "target_label": "to"}
OWN = {
    "loss": {"query": "mesh_lost_percent", "unit": "percent", **ENDS},
    "delay": {"query": "mesh_round_trip_us > 0", "unit": "us", "round_trip": True, **ENDS},
    "throughput": {
        "query": "last_over_time(mesh_rate_mbit[$window])",
        "unit": "Mbit/s",
        "window_s": 3600,
        "time_query": "mesh_measured_at_seconds",
        **ENDS,
    },
}


class Mesh:
    def __init__(self) -> None:
        self.delay_us = {("a", "b"): 600.0, ("b", "a"): 800.0, ("a", "c"): 0.0}
        self.measured_at_s = 1_700_000_000.0

    def text(self) -> str:
        lines = [f'mesh_round_trip_us{{from="{a}",to="{b}:80"}} {us}' for (a, b), us in self.delay_us.items()]
        lines += [
            'mesh_lost_percent{from="a",to="b:80"} 2.5',
            'mesh_lost_percent{from="b",to="a:80"} NaN',
            'mesh_lost_percent{to="a:80"} 1',
            'mesh_rate_mbit{from="a",to="b"} 9400',
            'mesh_rate_mbit{from="b",to="a"} 100',
            f'mesh_measured_at_seconds{{from="a",to="b"}} {self.measured_at_s}',
            'ping_loss_ratio{target="b",ip="127.0.0.2",ip_version="4"} 0.25',
            'ping_rtt_mean_seconds{target="b",ip="127.0.0.2",ip_version="4"} 0.004',
            'iperf3_up{target="127.0.0.2",port="5201"} 1',
            'iperf3_received_bytes{target="127.0.0.2",port="5201"} 1.25e9',
            'iperf3_received_seconds{target="127.0.0.2",port="5201"} 10',
            'iperf3_up{target="127.0.0.3",port="5201"} 0',
            'iperf3_received_bytes{target="127.0.0.3",port="5201"} 0',
            'iperf3_received_seconds{target="127.0.0.3",port="5201"} 0',
            'kube_node_info{node="node1",internal_ip="127.0.0.1"} 1',
            'kube_node_info{node="node2",internal_ip="127.0.0.2"} 1',
        ]
        return "\n".join(lines) + "\n"


@pytest.fixture(scope="module")
def mesh() -> Mesh:
    return Mesh()


@pytest.fixture(scope="module")
def server(mesh: Mesh, tmp_path_factory: pytest.TempPathFactory) -> Iterator[HttpServer]:
    with scraped(mesh.text, tmp_path_factory.mktemp("prometheus")) as url:
        yield HttpServer(url)


@pytest.fixture
async def connect(server: HttpServer) -> AsyncIterator[Connect]:
    async with AsyncExitStack() as stack:

        def make(**settings: Any) -> PrometheusSource:
            source = PrometheusSource(HttpClient(server), Settings(kind="prometheus", url=server.url, **settings))
            stack.push_async_callback(source.aclose)
            return source

        yield make


def now_s() -> float:
    return time.clock_gettime(time.CLOCK_REALTIME)


async def read(source: PrometheusSource, enough: Callable[[dict[str, float], Batch], bool]) -> dict[str, float]:
    """Metric, source and target → value, once there is enough of it."""
    async with asyncio.timeout(LIVENESS_S):
        while True:
            batch = await source.fetch(now_s=now_s())
            if batch is not None:  # None: nothing is new, as before the first scrape
                found = {f"{m.metric} {m.source}-{m.target}": m.value for m in batch.measurements}
                if enough(found, batch):
                    return found
            await asyncio.sleep(0.2)  # a scrape is due every second


async def test_queries_of_ones_own(connect: Connect, mesh: Mesh) -> None:
    source = connect(queries=OWN)
    found = await read(source, lambda found, _: len(found) >= 4)
    assert found == {
        "loss a-b": pytest.approx(0.025),
        "delay a-b": pytest.approx(0.3),
        "delay b-a": pytest.approx(0.4),
        "throughput a-b": 9.4e9,
    }
    mesh.delay_us["a", "b"] = 5000.0
    found = await read(source, lambda found, _: found["delay a-b"] > 1.0)
    assert found["delay a-b"] == pytest.approx(2.5)


async def test_times_and_reasons(connect: Connect, mesh: Mesh) -> None:
    source = connect(queries=OWN)
    batches: list[Batch] = []

    def enough(found: dict[str, float], batch: Batch) -> bool:
        batches.append(batch)
        return len(found) >= 4  # the first scrape may come between two queries of one look

    await read(source, enough)
    at_s = {m.metric: m.measured_at_s for m in batches[-1].measurements}
    assert at_s[Metric.THROUGHPUT] == mesh.measured_at_s
    assert abs(now_s() - at_s[Metric.DELAY]) < 60.0
    assert batches[-1].rejected == {"not_finite": 1, "no_label": 1, "no_time": 1}


async def test_presets_with_addresses_as_names(connect: Connect) -> None:
    # this Prometheus is seconds old: a step of five minutes has seen nothing yet
    rate = PRESETS[Preset.IPERF3].throughput
    assert rate is not None
    assert rate.time_query is not None
    text, time_text = (text.replace(":5m]", ":1s]") for text in (rate.query, rate.time_query))
    soon = rate.model_copy(update={"query": text, "time_query": time_text, "window_s": 60})
    source = connect(presets=["ping_exporter", "iperf3"], queries={"throughput": soon})
    # until the first scrape is there as a whole, addresses may have no node's name yet
    found = await read(
        source, lambda found, _: {name.partition(" ")[2] for name in found} == {"node1-node2"} and len(found) >= 3
    )
    assert found == {"loss node1-node2": 0.25, "delay node1-node2": pytest.approx(2.0), "throughput node1-node2": 1e9}


@pytest.mark.parametrize("name", sorted(PRESETS))
async def test_every_preset_is_promql(connect: Connect, name: str) -> None:
    source = connect(presets=[name])
    batch = await source.fetch(now_s=now_s())
    assert batch is not None
    assert batch.problems == ()


async def test_a_wrong_query_is_told(connect: Connect) -> None:
    source = connect(queries={"loss": {"query": "sum(", "unit": "ratio"}})
    with pytest.raises(NetworkSourceError, match=r"status 400.*parse error"):
        await source.fetch(now_s=now_s())
