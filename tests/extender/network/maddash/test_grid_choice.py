"""Which grids and checks count, and what recorded grids, or documents that no server should send, say."""

import json
from typing import Any

import pytest
from pydantic import ValidationError

from extender.errors import NetworkSourceError
from extender.network.maddash.grid import read_grid
from extender.network.maddash.grid_choice import Wanted, read_grids
from extender.settings.network import MaddashSource
from scoring.network.matrix import Metric
from tests.extender.network import recorded

LISTED = (
    "Lab - Loss", "Lab - Delay", "Lab [v4] - Loss", "Lab v - Loss", "WAN/Edge - Loss", "100% A+B", "lab - loss",
)  # fmt: skip
GRIDS = {  # case: (names, grids that count)
    "exact name": (("Lab - Loss",), {"Lab - Loss"}),
    "several names": (("Lab - Loss", "WAN/Edge - Loss"), {"Lab - Loss", "WAN/Edge - Loss"}),
    "star": (("* - Loss",), {"Lab - Loss", "Lab [v4] - Loss", "Lab v - Loss", "WAN/Edge - Loss"}),
    "question mark": (("Lab ? - Loss",), {"Lab v - Loss"}),
    "a name that looks like a pattern is that name": (("Lab [v4] - Loss",), {"Lab [v4] - Loss"}),
    "set of characters": (("Lab [vw] - Loss",), {"Lab v - Loss"}),
    "upper and lower case differ": (("lab - *",), {"lab - loss"}),
    "percent and plus are no signs": (("100% A+B",), {"100% A+B"}),
    "a plain name that is not listed": (("New",), {"New"}),
    "a pattern that meets nothing": (("New*",), set()),
}


@pytest.mark.parametrize(("names", "wanted"), GRIDS.values(), ids=GRIDS)
def test_grids(names: tuple[str, ...], wanted: set[str]) -> None:
    """A text that is a grid's name means that grid, any other is a pattern; the other metrics are not restricted."""
    places = Wanted(grids={Metric.LOSS: names}).among(LISTED)
    assert wanted == set(places.grids[Metric.LOSS])
    assert (Metric.DELAY, "anything", "check") in places
    assert [(f"no grid is called {names[0]!r}")] * (not wanted) == list(places.missing)


def test_checks_by_name_and_pattern() -> None:
    places = Wanted(checks={Metric.THROUGHPUT: ("Throughput*",), Metric.LOSS: ("Packet Loss",)}).among(LISTED)
    assert (Metric.THROUGHPUT, "g", "Throughput - Reverse") in places
    assert (Metric.LOSS, "g", "Ping Loss") not in places
    assert (Metric.DELAY, "g", "whatever") in places


NEEDS = {  # case: (wanted, asks for the grids)
    "all grids by name": (Wanted(dict.fromkeys(Metric, ("g",))), False),
    "a pattern": (Wanted({Metric.LOSS: ("g*",), Metric.DELAY: ("g",), Metric.THROUGHPUT: ("g",)}), True),
    "nothing said": (Wanted(), True),
}


@pytest.mark.parametrize(("wanted", "grids"), NEEDS.values(), ids=NEEDS)
def test_no_request_without_need(wanted: Wanted, grids: bool) -> None:
    assert grids == wanted.needs_grids


def test_lists_are_read_entry_by_entry() -> None:
    body = (
        b'\xef\xbb\xbf{"grids":[{"name":"b"},{"name":5},null,"c",{"uri":"/x"},{"name":""},{"name":"a"},{"name":"b"}]}'
    )
    assert read_grids(body, where="here") == ("a", "b")


@pytest.mark.parametrize(
    "body", [b"", b"<html>", b"[]", b"{}", b'{"grids":{}}', b'{"grids":null}', b"\xff", b"[" * 9999]
)
def test_no_list(body: bytes) -> None:
    with pytest.raises(NetworkSourceError, match="http://h/grids is not a list of grids"):
        read_grids(body, where="http://h/grids")


NAMES: dict[str, tuple[object, dict[Metric, tuple[str, ...]]]] = {  # case: (as written, by metric)
    "a text": ("Lab*", dict.fromkeys(Metric, ("Lab*",))),
    "a list": (["A", "B*"], dict.fromkeys(Metric, ("A", "B*"))),
    "by metric": ({"loss": "L", "delay": ["D", "E"]}, {Metric.LOSS: ("L",), Metric.DELAY: ("D", "E")}),
    "nothing": ({}, {}),
}


@pytest.mark.parametrize(("written", "wanted"), NAMES.values(), ids=NAMES)
@pytest.mark.parametrize("place", ["grids", "checks"])
def test_settings(place: str, written: object, wanted: dict[Metric, tuple[str, ...]]) -> None:
    settings = MaddashSource.model_validate({"kind": "maddash", "url": "https://h/maddash", place: written})
    assert wanted == getattr(settings, place).named()


@pytest.mark.parametrize("written", [[], "", [""], {"speed": "x"}, 5, {"loss": []}])
def test_settings_that_mean_nothing(written: object) -> None:
    with pytest.raises(ValidationError):
        MaddashSource.model_validate({"kind": "maddash", "url": "https://h/maddash", "grids": written})


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
