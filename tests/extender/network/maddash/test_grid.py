"""Recorded grids of a real server, pair by pair, and documents that no server should send."""

import json
from typing import Any

import pytest

from extender.errors import NetworkSourceError
from extender.network.maddash.grid import GridReading, read_grid, read_grid_in_slices
from extender.network.maddash.messages import Kind
from tests.extender.network import recorded

SQUARE = {  # fixture: (table, factor to our unit, kind, check, time of each value)
    "grid-loss": (recorded.LOSS_PERCENT, 0.01, Kind.LOSS, "Packet Loss", recorded.RUN_2_S),
    "grid-delay": (recorded.DELAY_MS, 1.0, Kind.ONE_WAY_DELAY, "One-way Delay", recorded.RUN_1_S),
    "grid-delay-unconfirmed": (
        recorded.DELAY_UNCONFIRMED_MS,
        1.0,
        Kind.ONE_WAY_DELAY,
        "One-way Delay",
        recorded.RUN_2_S,
    ),
    "grid-throughput": (recorded.THROUGHPUT_GBPS, 1e9, Kind.THROUGHPUT, "Throughput", recorded.RUN_1_S),
}


@pytest.mark.parametrize("fixture", SQUARE)
def test_recorded_square_grids(fixture: str) -> None:
    """Every pair of a recorded grid has the value, kind and time that stand in it, and no other pair has one."""
    table, factor, kind, check, checked_at_s = SQUARE[fixture]
    reading = read_grid(recorded.body(f"{fixture}.json"), name="any")
    found = {(key.source, key.target): value for key, value in reading.values.items()}
    wanted = recorded.values(table, factor=factor)
    assert sorted(wanted) == sorted(found)
    for pair, value in wanted.items():
        assert found[pair].value == pytest.approx(value, rel=1e-12, abs=0.0), pair  # type: ignore[index]
        assert (found[pair].kind, found[pair].checked_at_s) == (kind, checked_at_s), pair  # type: ignore[index]
    assert {check} == {key.check for key in reading.values}
    assert reading.shows == {check: frozenset({kind})}


@pytest.mark.parametrize("fixture", SQUARE)
def test_recorded_rejections(fixture: str) -> None:
    """Every cell without value is counted under its reason, and cells without a check are not counted at all."""
    table = SQUARE[fixture][0]
    reading = read_grid(recorded.body(f"{fixture}.json"), name="any")
    assert recorded.reasons(table) == {str(reason): count for reason, count in reading.rejected.items()}
    assert len(list(recorded.pairs(table))) == reading.cells


def test_reverse_checks_run_from_column_to_row() -> None:
    """In a disjoint grid the second check of a cell is the other direction."""
    reading = read_grid(recorded.body("grid-reverse.json"), name="any")
    forward = recorded.values(recorded.FORWARD_GBPS, factor=1e9)
    reverse = {(b, a): value for (a, b), value in recorded.values(recorded.REVERSE_GBPS, factor=1e9).items()}
    found = {(key.source, key.target): value.value for key, value in reading.values.items()}
    assert pytest.approx(forward | reverse) == found
    assert _per_check(reading) == {"Throughput": 8, "Throughput - Reverse": 8}


def _per_check(reading: GridReading) -> dict[str, int]:
    checks = [key.check for key in reading.values]
    return {check: checks.count(check) for check in checks}


def test_before_the_first_run_nothing_has_a_value() -> None:
    """A grid of a server that has just started gives no value; its checks are waiting, not lost."""
    reading = read_grid(recorded.body("grid-loss-startup.json"), name="any")
    assert not reading.values
    assert reading.rejected == {"not_run": 29}
    assert len(reading.empty) == reading.cells == 29
    assert len(reading.endpoints) == 6


def test_random_grid_has_no_values() -> None:
    """Messages that are no measurement give no value even when their status is good."""
    reading = read_grid(recorded.body("grid-random.json"), name="any")
    assert (not reading.values, dict(reading.rejected)) == (True, {"not_numeric": 2})


def test_endpoints_have_labels_and_addresses_as_aliases() -> None:
    """Ids come from the uris; label, usual address and addresses for single peers are other names of them."""
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
    """Where a column is no row, its own label and properties count."""
    reading = read_grid(recorded.body("grid-reverse.json"), name="any")
    names = {one.id: one.aliases for one in reading.endpoints}
    assert names["ps1.zone-b.example.org"] == ("s3 zone-b",)  # type: ignore[index]
    assert len(names) == 6


def test_the_whole_is_the_same_in_slices() -> None:
    """Control comes back after each row, so that a grid of any size can be parsed beside other work."""
    slices = read_grid_in_slices(recorded.body("grid-loss.json"), name="any")
    assert sum(1 for _ in slices) == 6


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
    """Whatever is not a grid document is one error of ours."""
    with pytest.raises(NetworkSourceError, match="the answer is not a grid document"):
        read_grid(body, name="Loss")


def _grid(*checks: dict[str, Any] | None) -> bytes:
    filled = [None if c is None else {"status": 0, "prevCheckTime": 100, "message": ""} | c for c in checks]
    return json.dumps({"rows": [], "grid": [[filled]]}).encode()


def test_values_without_time_or_name_are_refused() -> None:
    """A check that never ran, a uri without three parts and a link to itself give no value."""
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


def test_ids_are_decoded_once() -> None:
    """Ids with a blank, plus, percent, slash, colon and non-ASCII letters come out as they were configured."""
    body = _grid({"uri": "/maddash/grids/x/a+b%2Bc%25/d%2Fe%3A%C3%BC/One+%25", "message": "Average delay is 1ms"})
    [key] = read_grid(body, name="x").values
    assert (key.check, key.source, key.target) == ("One %", "a b+c%", "d/e:ü")
