"""The Prometheus source and its presets against a real Prometheus that scrapes exporters.

Of a network with known faults; the pages and how they were recorded: tests/fixtures/exporters. A page is scraped as a
whole, each sample with its time.
"""

import asyncio
import re
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import msgspec
import pytest

from extender.errors import NetworkSourceError
from extender.network.prometheus import PrometheusSource
from extender.ports import Batch
from extender.settings.network import Preset
from extender.settings.network import PrometheusSettings as Settings
from tests.liveness import LIVENESS_S
from tests.newcomer.document import fenced
from tests.real.servers import START_S, missing_prometheus, scraped

pytestmark = [
    pytest.mark.slow,  # a real server, fetched by `make e2e`
    pytest.mark.skipif(missing_prometheus() is not None, reason=str(missing_prometheus())),
    pytest.mark.timeout(START_S + 60.0),
    pytest.mark.xdist_group("prometheus"),
]

Connect = Callable[..., PrometheusSource]

ENDS = {"source_label": "from", "target_label": "to"}
TIMED = {"time_query": "mesh_measured_at_seconds", **ENDS}
OWN = {
    "loss": {"query": "mesh_lost_percent", "unit": "percent", **ENDS},
    "delay": {"query": "mesh_round_trip_us / 1e3 > 0", "unit": "ms", "round_trip": True, **ENDS},
    "throughput": {
        "query": "1e6 * last_over_time(mesh_rate_mbit[$window])",
        "unit": "bit/s",
        "window_s": 3600,
        **TIMED,
    },
}


class Mesh:
    def __init__(self) -> None:
        self.delay_us = {("a", "b"): 600.0, ("b", "a"): 800.0, ("a", "c"): 0.0}

    def text(self) -> str:
        lines = [f'mesh_round_trip_us{{from="{a}",to="{b}:80"}} {us}' for (a, b), us in self.delay_us.items()]
        lines += [
            'mesh_lost_percent{from="a",to="b:80"} 2.5',
            'mesh_lost_percent{from="b",to="a:80"} NaN',
            'mesh_lost_percent{to="a:80"} 1',
            'mesh_rate_mbit{from="a",to="b"} 9400',
            'mesh_rate_mbit{from="b",to="a"} 100',
            'mesh_measured_at_seconds{from="a",to="b"} 1700000000',
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
def server(mesh: Mesh, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with scraped(mesh.text, tmp_path_factory.mktemp("prometheus")) as url:
        yield url


@pytest.fixture
async def connect(server: str) -> AsyncIterator[Connect]:
    async with AsyncExitStack() as stack:

        def make(**settings: Any) -> PrometheusSource:
            source = PrometheusSource(msgspec.convert({"kind": "prometheus", "url": server, **settings}, Settings))
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
    want = {"loss a-b": 0.025, "delay a-b": 0.3, "delay b-a": 0.4, "throughput a-b": 9.4e9}
    assert found == pytest.approx(want)
    mesh.delay_us["a", "b"] = 5000.0
    found = await read(source, lambda found, _: found["delay a-b"] > 1.0)
    assert found["delay a-b"] == pytest.approx(2.5)


async def test_a_wrong_query_is_told(connect: Connect) -> None:
    source = connect(queries={"loss": {"query": "sum(", "unit": "ratio"}})
    with pytest.raises(NetworkSourceError, match=r"status 400.*parse error"):
        await source.fetch(now_s=now_s())


PAGES = Path(__file__).parents[3] / "fixtures" / "exporters"
PAGE = Path(__file__).parents[4] / "docs" / "reference" / "network.md"
_BLOCK = re.compile(r"# AT (?P<at_s>\S+) \{(?P<labels>.*)\}")
_SAMPLE = re.compile(r"(?P<name>\w+)\{?(?P<labels>.*?)\}? (?P<value>\S+)")
SOON_S = 270.0
BACK_S = 1.0  # the last sample's age
NODES = [f"node{number}" for number in (28, 33, 34, 35)]
CLUSTER = [f'kube_node_info{{node="{node}",internal_ip="10.77.0.{node[4:]}"}} 1' for node in NODES]


def recorded(name: str, until_s: float, now_s: float) -> Iterator[str]:
    """The samples up to a moment of the recording, which becomes `BACK_S` before now."""
    at_ms, labels = 0, ""
    for line in (PAGES / f"{name}.txt").read_text().splitlines():
        if block := _BLOCK.fullmatch(line):
            if float(block["at_s"]) > until_s + 5.0:
                return
            at_ms, labels = round((now_s - BACK_S - until_s + float(block["at_s"])) * 1000), block["labels"]
        elif sample := _SAMPLE.fullmatch(line):
            yield f"{sample['name']}{{{sample['labels']},{labels}}} {sample['value']} {at_ms}".replace("{,", "{")


def page(until_s: float, now_s: float) -> str:
    others = (line for name in ("blackbox", "smokeping") for line in recorded(name, until_s, now_s))
    return "\n".join((*CLUSTER, *others, ""))


@pytest.fixture(scope="module", params=[SOON_S, 750.0], ids=["just gone", "long gone"])
def stored(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[float, str]]:
    text = page(request.param, now_s())  # made once: the samples' times must stay
    with scraped(lambda: text, tmp_path_factory.mktemp("prometheus")) as url:
        yield request.param, url


async def values(server: str, preset: str, enough: int = 4) -> dict[str, float]:
    """Metric, source and target → value, once so many have nodes' names: addresses come before these are scraped."""

    def named(found: dict[str, float]) -> dict[str, float]:
        return {name: value for name, value in found.items() if "10." not in name}

    source = PrometheusSource(Settings(server, presets=(Preset(preset),)))
    try:
        return named(await read(source, lambda found, _: len(named(found)) >= enough))
    finally:
        await source.aclose()


LOSS, DELAY = "loss node28-node33", "delay node28-node34"  # the faults
RECORDED = {  # preset: loss of the node that loses 5 %, half of the round trip to the one that is 5 ms late: from, to
    "blackbox": ((0.0, 0.3), (2.5, 5.0)),
    "smokeping": ((0.03, 0.08), (2.5, 5.0)),
}


@pytest.mark.parametrize("preset", RECORDED)
async def test_presets_find_the_faults_of_the_recording(stored: tuple[float, str], preset: str) -> None:
    loss, delay_ms = RECORDED[preset]
    found = await values(stored[1], preset)
    assert loss[0] <= found[LOSS] <= loss[1]
    assert delay_ms[0] <= found[DELAY] <= delay_ms[1]
    assert found["loss node28-node34"] <= 0.005
    assert found["delay node28-node33"] < 0.7


async def test_a_node_that_is_gone(stored: tuple[float, str]) -> None:
    until_s, server = stored
    if until_s > SOON_S:
        for name in RECORDED:  # which are not told and go on asking
            dead = await values(server, name)
            assert (dead["loss node28-node35"], "delay node28-node35" in dead) == (1.0, False)


async def test_the_relabelling_for_blackbox_that_the_reference_shows(tmp_path: Path) -> None:
    [shown] = [text for text in fenced(PAGE.read_text(), "yaml") if "scrape_configs" in text]
    page = 'probe_success 1\nprobe_icmp_duration_seconds{phase="rtt"} 0.002\n' + "".join(
        f'kube_node_info{{node="node{end}",internal_ip="10.0.0.{end}"}} 1\n' for end in (28, 33)
    )
    with scraped(lambda: page, tmp_path, jobs=lambda at: shown.replace("10.0.0.28:9115", at)) as url:
        found = await values(url, "blackbox", enough=2)
    assert found == {"loss node28-node33": 0.0, "delay node28-node33": pytest.approx(1.0)}
