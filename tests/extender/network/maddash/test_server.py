"""The fake MaDDash server has the shapes of the recorded one."""

import json
from collections.abc import Iterator
from typing import Any
from urllib.request import urlopen

import pytest

from tests.extender.network import recorded
from tests.fakes.maddash_server import MaddashServer
from tests.fakes.mesh import full_mesh, paper_mesh

NOW_S = 1_800_000_000.0


@pytest.fixture
def server() -> Iterator[MaddashServer]:
    """A server with three ends."""
    with MaddashServer(full_mesh("a", "b", "c"), checked_at_s=lambda: NOW_S) as server:
        yield server


def shape(value: Any) -> Any:
    """The keys and types of a document; lists by the shapes of their members, in any order."""
    if isinstance(value, dict):
        return {key: shape(member) for key, member in sorted(value.items())}
    if isinstance(value, list):
        return sorted({json.dumps(shape(member), sort_keys=True) for member in value})
    return "text" if isinstance(value, str) else type(value).__name__


@pytest.mark.parametrize("path", ["grids", "dashboards", "rows", "columns"])
def test_lists_have_the_recorded_shape(server: MaddashServer, path: str) -> None:
    """The fake's lists have the keys and types of the real server's."""
    with urlopen(f"{server.url}/{path}") as answer:
        assert shape(json.load(answer)) == shape(json.loads(recorded.body(f"{path}.json")))


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
