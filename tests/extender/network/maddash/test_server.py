"""The MaddashSource against a real HTTP server on loopback that misbehaves, and the server's own shapes."""

import json
from collections.abc import AsyncIterator, Iterator
from typing import Any
from urllib.request import urlopen

import pytest

from extender.network.maddash.client import MaddashServer as Address
from extender.network.maddash.source import MaddashSource
from extender.ports import Batch
from scoring.network.matrix import Metric
from tests.extender.network import recorded
from tests.fakes.maddash_server import Fault, MaddashServer
from tests.fakes.mesh import full_mesh, paper_mesh

NOW_S = 1_800_000_000.0


@pytest.fixture
def server() -> Iterator[MaddashServer]:
    """A server with three ends."""
    with MaddashServer(full_mesh("a", "b", "c"), checked_at_s=lambda: NOW_S) as server:
        yield server


@pytest.fixture
async def source(server: MaddashServer) -> AsyncIterator[MaddashSource]:
    """A source that has read it once."""
    one = MaddashSource(Address(server.url, timeout_s=2.0))
    assert len(losses(await one.fetch(now_s=NOW_S))) == 6
    yield one
    await one.aclose()


def losses(batch: Batch | None) -> dict[tuple[str, str], float]:
    """(source, target) → loss, of a batch that must be there."""
    assert batch is not None
    return {(m.source, m.target): m.value for m in batch.measurements if m.metric is Metric.LOSS}


FAULTS = {  # fault: what the problem says
    Fault.SERVER_ERROR: "status 500: Index 255 out of bounds for length 6",
    Fault.EMPTY: "the answer is not a grid document",
    Fault.SLOW: "no complete answer within 2 s",
    Fault.TRUNCATED: "peer closed connection",
    Fault.HTML: "the answer is not a grid document",
    Fault.HALF: "has only 2 of 6 checks, perhaps a reload",
}


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: str(fault.name))
async def test_a_faulty_grid_keeps_its_values(server: MaddashServer, source: MaddashSource, fault: Fault) -> None:
    """Whatever happens to one grid on the wire, its last values stay, the others are news, and it is said."""
    server.faults["Loss"] = fault
    server.mesh.change("a", "b", delay_ms=9.0, loss_ratio=0.5)
    batch = await source.fetch(now_s=NOW_S + 60.0)
    assert losses(batch)["a", "b"] == 0.0
    assert batch is not None
    assert 9.0 in [m.value for m in batch.measurements if m.metric is Metric.DELAY]
    assert any("'Loss'" in problem and FAULTS[fault] in problem for problem in batch.problems), batch.problems
    server.faults.clear()
    assert losses(await source.fetch(now_s=NOW_S + 120.0))["a", "b"] == 0.5


@pytest.mark.parametrize("fault", [Fault.EMPTY, Fault.SERVER_ERROR, Fault.HTML, Fault.TRUNCATED])
async def test_a_faulty_list_of_grids(server: MaddashServer, source: MaddashSource, fault: Fault) -> None:
    """If the list of grids fails or is empty, as in a reload, the known grids are read all the same."""
    server.faults["grids"] = fault
    server.mesh.change("a", "b", loss_ratio=0.5)
    assert losses(await source.fetch(now_s=NOW_S + 60.0))["a", "b"] == 0.5


@pytest.mark.parametrize("prefix", ["Lab mesh - loss - ", "WAN/Edge ", "Lab 100% A+B ", "Zürich "])
async def test_names_survive_both_decodings(prefix: str) -> None:
    """Grids with blanks, slash, percent, plus and non-ASCII letters in their names are found."""
    with MaddashServer(full_mesh("a", "b"), checked_at_s=lambda: NOW_S, prefix=prefix) as server:
        one = MaddashSource(Address(server.url))
        batch = await one.fetch(now_s=NOW_S)
        await one.aclose()
    assert batch is not None
    assert (len(batch.measurements), batch.problems) == (6, ())


async def test_one_request_per_grid() -> None:
    """36 nodes cost four requests: the list and one per grid."""
    with MaddashServer(paper_mesh(), checked_at_s=lambda: NOW_S) as server:
        one = MaddashSource(Address(server.url))
        await one.fetch(now_s=NOW_S)
        await one.aclose()
        assert sorted(server.requests) == [
            "/maddash/grids",
            "/maddash/grids/Delay",
            "/maddash/grids/Loss",
            "/maddash/grids/Throughput",
        ]


def shape(value: Any) -> Any:
    """The keys and types of a document; lists by the shapes of their members, in any order."""
    if isinstance(value, dict):
        return {key: shape(member) for key, member in sorted(value.items())}
    if isinstance(value, list):
        return sorted({json.dumps(shape(member), sort_keys=True) for member in value})
    return "text" if isinstance(value, str) else type(value).__name__


RECORDED = {  # path: recorded document
    "grids": "grids.json",
    "dashboards": "dashboards.json",
    "rows": "rows.json",
    "columns": "columns.json",
}


@pytest.mark.parametrize("path", RECORDED)
def test_lists_have_the_recorded_shape(server: MaddashServer, path: str) -> None:
    """The fake's lists have the keys and types of the real server's."""
    with urlopen(f"{server.url}/{path}") as answer:
        assert shape(json.load(answer)) == shape(json.loads(recorded.body(RECORDED[path])))


def test_grids_have_the_recorded_shape(server: MaddashServer) -> None:
    """The fake's grids have the keys and types of the real server's; only what hangs on `report` is less."""
    with urlopen(f"{server.url}/grids/Loss") as answer:
        found = json.load(answer)
    real = json.loads(recorded.body("grid-loss.json"))
    assert sorted(found) == sorted(real)
    assert shape(found["grid"]) == shape(real["grid"])
    assert sorted(found["rows"][0]) == sorted(real["rows"][0])
    assert shape(found["columnProps"]) == shape(real["columnProps"])
    assert found["grid"][0][1][0]["uri"] == "/maddash/grids/Loss/a/b/Packet+Loss"


def test_rows_are_ordered_by_label() -> None:
    """node10 comes before node2, as in the real server's alphabetical order: an index is no name."""
    with (
        MaddashServer(paper_mesh(), checked_at_s=lambda: NOW_S) as server,
        urlopen(f"{server.url}/grids/Loss") as answer,
    ):
        assert json.load(answer)["columnNames"][:3] == ["node1", "node10", "node11"]
