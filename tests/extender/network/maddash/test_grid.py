"""Recorded grids of a real server, pair by pair, and documents that no server should send."""

import json
from typing import Any

import pytest

from extender.errors import NetworkSourceError
from extender.network.maddash.grid import read_grid
from tests.extender.network import recorded


def test_endpoints_have_labels_and_addresses_as_aliases() -> None:
    reading = read_grid(recorded.body("grid-loss.json"), name="any")
    names = {one.id: one.aliases for one in reading.endpoints}
    assert names == {
        "2001:db8:c::2": ("s6 (IPv6)",),
        "ps1.zone-a.example.org": ("s1 zone-a", "192.0.2.11"),
        "ps2.zone-a.example.org": ("s2 zone-a",),
        "ps1.zone-b.example.org": ("s3 zone-b",),
        "ps2.zone-b.example.org": (),
        "ps1.zone-c.example.org": ("s5 Zürich",),
    }


def test_columns_of_disjoint_grids_have_aliases_too() -> None:
    reading = read_grid(recorded.body("grid-reverse.json"), name="any")
    names = {one.id: one.aliases for one in reading.endpoints}
    assert names["ps1.zone-b.example.org"] == ("s3 zone-b",)  # type: ignore[index]
    assert len(names) == 6


NOT_GRIDS = {  # case: body
    "error text": recorded.body("grid-unknown-500.txt"),
    "another error text": recorded.body("grid-empty-500.txt"),
    "nothing": b"",
    "a page": b"<html><body>log in</body></html>",
    "cut off": recorded.body("grid-loss.json")[:3000],
    "a list": b"[]",
    "no rows": b'{"grid":[]}',
    "row that is a number": b'{"rows":[],"grid":[1]}',
    "status that is a text": b'{"rows":[],"grid":[[[{"uri":"/g/a/b/c","status":"0"}]]]}',
    "bytes that are no text": b'{"rows":[],"grid":[[[{"uri":"/g/a/b/\xff","status":0}]]]}',
    "deep": b'{"rows":[],"grid":[' + b"[" * 100_000,
}


@pytest.mark.parametrize("body", NOT_GRIDS.values(), ids=NOT_GRIDS)
def test_not_a_grid(body: bytes) -> None:
    with pytest.raises(NetworkSourceError, match="the answer is not a grid document"):
        read_grid(body, name="Loss")


def _grid(*checks: dict[str, Any] | None) -> bytes:
    filled = [None if c is None else {"status": 0, "prevCheckTime": 100, "message": ""} | c for c in checks]
    return json.dumps({"rows": [], "grid": [[filled]]}).encode()


def test_values_without_time_or_name_are_refused() -> None:
    loss = "Average packet loss is 1%"
    body = _grid(
        {"uri": "/maddash/grids/Loss/a/b/never", "message": loss, "prevCheckTime": 0},
        {"uri": "/maddash/grids/Loss/a/b/no-time", "message": loss, "prevCheckTime": None},
        {"uri": "a/b", "message": loss},
        {"uri": "/maddash/grids/Loss/a//c", "message": loss},
        {"uri": "/maddash/grids/Loss/a/a/c", "message": loss},
        None,
    )
    reading = read_grid(body, name="Loss")
    assert not reading.values
    assert reading.rejected == {"never_checked": 2, "bad_cell": 2, "self_pair": 1}
    assert reading.cells == 5
