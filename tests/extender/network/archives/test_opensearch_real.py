"""The perfSONAR archive source against a real OpenSearch node that holds documents of pScheduler's shape.

Documents are created as Logstash does it, in indices and in a data stream of a template like the archive's. Its
security plugin has the archive's roles, so whoever gives no name may read.
"""

import json
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import aclosing
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, TypeAlias

import httpx
import pytest

from extender.errors import NetworkSourceError
from extender.network.opensearch import OpenSearchSource
from extender.ports import Batch
from extender.settings.network import OpenSearchSettings as Settings
from scoring.network.matrix import Metric
from tests.real.servers import START_S, missing_opensearch, opensearch

pytestmark = [
    pytest.mark.slow,  # a real server, fetched by `make e2e`
    pytest.mark.skipif(missing_opensearch() is not None, reason=str(missing_opensearch())),
    pytest.mark.timeout(START_S + 60.0),
    pytest.mark.xdist_group("opensearch"),
]

TEMPLATE = Path(__file__).parents[3] / "fixtures" / "opensearch" / "index_template.json"
NOW_S = float(round(datetime.fromtimestamp(time.clock_gettime(time.CLOCK_REALTIME), UTC).timestamp()))  # of this run


def document(
    kind: str, source: str, target: str, result: dict[str, Any], *, age_s: float, sets: Any = None, **spec: Any
) -> str:
    ends = {"source": f"{source}.example.org", "dest": f"{target}.example.org"}
    start = datetime.fromtimestamp(NOW_S - age_s, UTC).isoformat().replace("+00:00", "Z")
    ip = {"ps-a": "192.0.2.1", "ps-b": "192.0.2.2", "ps-c": "2001:db8::3"}
    ip |= {"ps-d-v6": "2001:db8::4", "ps-d": "192.0.2.4"}
    version = 6 if ":" in ip[target] else 4  # Logstash adds it
    hosts = (("source", source), ("destination", target))
    whole = {
        "test": {"type": kind, "spec": {**ends, **spec}},
        "meta": {end: {"ip": ip[host], "hostname": f"{host}.example.org"} for end, host in hosts}
        | {"ip_version": version},
        "@timestamp": start,
        "pscheduler": {"start_time": start, "tool": "x"},
        "reference": {"display-task-name": "Lab", **(sets or {})},
        "result": {"succeeded": True, **result},
    }
    return json.dumps(whole)


def latency(lost: int, median: float) -> dict[str, Any]:
    packets = {"sent": 600, "lost": lost, "loss": lost / 600}
    return {"packets": packets, "latency": {"min": median / 2, "median": median, "mean": median, "p_95": median * 2}}


HOST = {"display-task-name": "Lab 6", "display-set-dest": "host d"}
DOCUMENTS = [
    # two rounds a → b: losses add up, medians are averaged, the newer time counts; bucket width as said, or 1 ms
    ("latencybg", document("latencybg", "ps-a", "ps-b", latency(6, 100.0), age_s=120, **{"bucket-width": 0.0001})),
    ("latencybg", document("latencybg", "ps-a", "ps-b", latency(0, 300.0), age_s=60, **{"bucket-width": 0.0001})),
    ("latencybg", document("latencybg", "ps-b", "ps-a", latency(0, 7.5), age_s=30)),
    ("latency", document("latency", "ps-b", "ps-c", latency(0, -0.25), age_s=30)),
    # too old, failed
    ("latencybg", document("latencybg", "ps-c", "ps-a", latency(0, 1.0), age_s=2000)),
    ("latencybg", document("latencybg", "ps-c", "ps-b", {"succeeded": False, "error": "no"}, age_s=10)),
    # ping: seconds; its loss counts only where nothing better is known; 100 is what it writes in doubt
    ("rtt", document("rtt", "ps-a", "ps-b", {"rtt": {"min": 0.1, "mean": 0.1}, "packets": {"loss": 0.5}}, age_s=20)),
    ("rtt", document("rtt", "ps-c", "ps-a", {"rtt": {"min": 0.1, "mean": 0.1}, "packets": {"loss": 100.0}}, age_s=20)),
    # throughput: the median of a day; UDP tests are sent at a chosen rate
    ("throughput", document("throughput", "ps-a", "ps-b", {"throughput": 9.0e9}, age_s=40_000)),
    ("throughput", document("throughput", "ps-a", "ps-b", {"throughput": 9.4e9}, age_s=20_000)),
    ("throughput", document("throughput", "ps-a", "ps-b", {"throughput": 1.0e9}, age_s=600)),
    ("throughput", document("throughput", "ps-a", "ps-b", {"throughput": 1.0e6}, age_s=50, udp=True)),
    ("throughput", document("throughput", "ps-b", "ps-a", {"throughput": 8.5e9}, age_s=600)),
    # one host with two addresses
    ("throughput", document("throughput", "ps-a", "ps-d-v6", {"throughput": 8.0e9}, age_s=600, sets=HOST)),
    ("throughput", document("throughput", "ps-a", "ps-d", {"throughput": 9.0e9}, age_s=600, sets=HOST)),
]


Archive: TypeAlias = tuple[httpx.Client, Path]  # Its administrator, the file of its authority


@pytest.fixture(scope="module")
def archive(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Archive]:
    with opensearch(tmp_path_factory.mktemp("opensearch")) as (admin, authority):
        template = json.loads(TEMPLATE.read_text())
        stream = {"index_patterns": ["pscheduler_throughput"], "data_stream": {}, "priority": 1}
        for name, one in (("pscheduler", template), ("stream", template | stream)):
            admin.put(f"/_index_template/{name}", json=one).raise_for_status()
        indexed = [(json.dumps({"create": {"_index": f"pscheduler_{kind}"}}), one) for kind, one in DOCUMENTS]
        body = "".join(f"{part}\n" for both in indexed for part in both)
        reply = admin.post("/_bulk?refresh=true", content=body, headers={"Content-Type": "application/x-ndjson"})
        assert not reply.json()["errors"], reply.text[:500]
        yield admin, authority


def over(archive: Archive, **settings: Any) -> OpenSearchSource:
    return OpenSearchSource(Settings(f"{archive[0].base_url}/", ca_file=archive[1], **settings))


def test_indices_have_the_alias_and_throughput_is_a_data_stream(archive: Archive) -> None:
    named = archive[0].get("/_alias/pscheduler").json()
    assert "pscheduler_latencybg" in named
    mapping = archive[0].get("/pscheduler_latencybg/_mapping").json()["pscheduler_latencybg"]
    assert mapping["mappings"]["properties"]["meta"]["properties"]["source"]["properties"]["ip"] == {"type": "ip"}
    streams = archive[0].get("/_data_stream").json()["data_streams"]
    assert [one["name"] for one in streams] == ["pscheduler_throughput"]


@pytest.mark.parametrize(("version", "want"), [(None, 8e9), (4, 9e9), (6, 8e9)])
async def test_addresses_of_one_host_and_versions_of_ip(archive: Archive, version: Any, want: float) -> None:
    async with aclosing(over(archive, task="Lab 6", ip_version=version)) as source:
        batch = await source.fetch(now_s=NOW_S)
    assert batch is not None
    [found] = batch.measurements
    assert [found.source, found.target] == ["ps-a.example.org", "host d"]
    assert found.value == pytest.approx(want)
    four, six = ["192.0.2.4", "ps-d.example.org"], ["2001:db8::4", "ps-d-v6.example.org"]
    names = sorted({None: four + six, 4: four, 6: six}[version])
    assert {str(one.id): sorted(one.aliases) for one in batch.endpoints}["host d"] == names


@pytest.fixture
async def source(archive: Archive) -> AsyncIterator[OpenSearchSource]:
    one = over(archive)
    yield one
    await one.aclose()


def values(batch: Batch | None, metric: Metric) -> dict[str, tuple[object, float]]:
    assert batch is not None
    found = [one for one in batch.measurements if one.metric is metric]
    return {f"{m.source[3]}-{m.target[3]}": (pytest.approx(m.value), NOW_S - m.measured_at_s) for m in found}


async def test_all_metrics_of_a_real_archive(source: OpenSearchSource) -> None:
    batch = await source.fetch(now_s=NOW_S)
    losses = {"a-b": (6 / 1200, 60.0), "b-a": (0.0, 30.0), "b-c": (0.0, 30.0), "c-a": (1.0, 20.0)}
    assert values(batch, Metric.LOSS) == losses
    assert values(batch, Metric.DELAY) == {"a-b": (20.0, 60.0), "b-a": (7.5, 30.0), "b-c": (0.0, 30.0)}
    assert values(batch, Metric.THROUGHPUT) == {"a-b": (9.0e9, 600.0), "b-a": (8.5e9, 600.0), "a-t": (8.0e9, 600.0)}
    assert batch is not None
    assert batch.rejected == {"negative_delay": 1, "round_trip": 2, "duplicate": 1}  # beside one-way delays
    assert {str(one.id): one.aliases for one in batch.endpoints}["ps-c.example.org"] == ("2001:db8::3",)


async def test_only_readers_may_and_anyone_is_one(archive: Archive, source: OpenSearchSource, tmp_path: Path) -> None:
    anyone = await source.fetch(now_s=NOW_S)
    secret = tmp_path / "password"
    secret.write_text("of-tests")
    users = [over(archive, username=name, password_file=secret) for name in ("pscheduler_reader", "stranger")]
    async with aclosing(users[0]) as reader, aclosing(users[1]) as stranger:
        batch = await reader.fetch(now_s=NOW_S)
        assert [values(batch, metric) for metric in Metric] == [values(anyone, metric) for metric in Metric]
        with pytest.raises(NetworkSourceError, match="status 403: this user may not read it"):
            await stranger.fetch(now_s=NOW_S)
        secret.write_text("wrong")
        with pytest.raises(NetworkSourceError, match="status 401: username, password or token are missing or wrong"):
            await reader.fetch(now_s=NOW_S)


async def test_pages(archive: Archive, source: OpenSearchSource, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = await source.fetch(now_s=NOW_S)
    monkeypatch.setattr("extender.network.opensearch.PAGE_PAIRS", 1)
    leafing = over(archive)
    batch = await leafing.fetch(now_s=NOW_S)
    for metric in Metric:
        assert values(batch, metric) == values(whole, metric)
    await leafing.aclose()


async def test_nothing_of_the_kind_is_no_error(archive: Archive) -> None:
    source = over(archive, task="another", ip_version=4)
    batch = await source.fetch(now_s=NOW_S)
    assert batch is not None
    assert len(batch.measurements) == 0
    await source.aclose()
