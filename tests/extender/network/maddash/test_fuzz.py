"""Grids that are in no recording: any names, any printed number, several checks a cell, and documents gone wrong."""

import copy
import json
from collections.abc import Iterator, Mapping
from fractions import Fraction
from typing import Any
from urllib.parse import unquote, unquote_plus

import httpx
import pytest
from hypothesis import given
from hypothesis import strategies as st

from extender.errors import NetworkSourceError
from extender.network.maddash.grid import GridReading, read_grid
from extender.network.maddash.messages import Kind, Reading, Rejection, read_message
from scoring.network.matrix import Metric
from tests.extender.network import recorded
from tests.extender.network.maddash.scripted import Script, grids, read
from tests.fakes.maddash_server import grid_document

# Names

ODD = [
    "a b",
    "a+b",
    "100%",
    "a/b",
    "%2F",
    "a%20b",
    "2001:db8::1",
    "fe80::1%eth0",
    "Zürich",
    "北京",
    "a&b=c?d#e",
    "ps-1.x",
]
NAMES = st.one_of(
    st.sampled_from(ODD),
    st.ip_addresses().map(str),
    st.text(st.characters(exclude_categories=["Cs", "Cc"]), min_size=1),
)
ENDS = st.lists(NAMES, min_size=2, max_size=5, unique=True)
CHECKS = st.lists(NAMES.filter(lambda name: "reverse" not in name.casefold()), min_size=1, max_size=3, unique=True)


def document(name: str, ends: list[str], checks: list[str], cells: Mapping[tuple[str, str, str], str]) -> bytes:
    """A square grid; `cells`: (row, column, check) → message."""

    def cell(*key: str) -> tuple[int, str] | None:
        return (0, cells[key]) if key in cells else None  # type: ignore[index]

    return json.dumps(grid_document(name, {end: f"label {end}" for end in ends}, checks, cell)).encode()


def found_in(reading: GridReading) -> dict[tuple[str, str, str], float]:
    return {(key.check, key.source, key.target): value.value for key, value in reading.values.items()}


@given(NAMES, ENDS, CHECKS, st.booleans())
def test_any_names_come_back_as_they_are(name: str, ends: list[str], checks: list[str], reverse: bool) -> None:
    checks = [*checks, f"{checks[0]} - Reverse"] if reverse else checks
    values = {
        (row, column, check): (number + 1) / 1000.0
        for number, (row, column, check) in enumerate((a, b, c) for a in ends for b in ends for c in checks if a != b)
    }
    messages = {key: f" Average minimum delay is {value:.3f}ms " for key, value in values.items()}
    reading = read_grid(document(name, ends, checks, messages), name=name)
    wanted = {
        (check, column, row) if check.endswith("- Reverse") else (check, row, column): value
        for (row, column, check), value in values.items()
    }
    assert found_in(reading) == pytest.approx(wanted)
    labels = {end: f"label {end}".strip() for end in ends}
    assert {one.id: one.aliases for one in reading.endpoints} == {end: (label,) for end, label in labels.items()}


@given(NAMES)
async def test_a_grid_of_any_name_is_found(name: str) -> None:
    """The server decodes the path twice; what comes out is the grid's name, and its values are read."""
    body = document(name, ["a", "b"], ["Delay"], {("a", "b", "Delay"): "Average delay is 3ms"})
    script = Script({"grids": grids(name)})
    script.unknown = httpx.Response(200, content=body)
    batch = await read(script.source(), 1_800_000_060.0)
    first, path = (unquote(one) for one in script.asked)  # first decoding: of the path
    assert (first, unquote_plus(path)) == ("grids", f"grids/{name}")  # second one: of the name
    assert [(m.source, m.target, m.metric, m.value) for m in batch.measurements] == [("a", "b", Metric.DELAY, 3.0)]


# Numbers and units

SCALES: dict[Kind, tuple[str, dict[str, Fraction]]] = {  # kind: (phrase, unit → factor to ours)
    Kind.LOSS: ("packet loss", {"%": Fraction(1, 100)}),
    Kind.ONE_WAY_DELAY: (
        "median delay",
        {
            "ms": Fraction(1),
            "us": Fraction(1, 1000),
            "µs": Fraction(1, 1000),
            "μs": Fraction(1, 1000),
            "s": Fraction(1000),
        },
    ),
    Kind.ROUND_TRIP: ("minimum rtt", {"ms": Fraction(1), "us": Fraction(1, 1000), "s": Fraction(1000)}),
    Kind.THROUGHPUT: (
        "throughput",
        {"bps": Fraction(1), "Kbps": Fraction(10**3), "Mbps": Fraction(10**6), "Gbps": Fraction(10**9)},
    ),
}
NUMBERS = st.from_regex(r"[0-9]{1,2}(\.[0-9]{0,4})?(e-0?[0-9])?", fullmatch=True)
SPACE = st.sampled_from(["", " ", "  ", "\t", "\n"])


@given(st.sampled_from(sorted(SCALES)), st.data(), NUMBERS, SPACE, SPACE, SPACE, st.sampled_from([0, 1, 2]))
def test_any_number_in_any_unit(
    kind: Kind, data: st.DataObject, number: str, before: str, between: str, after: str, status: int
) -> None:
    phrase, units = SCALES[kind]
    unit = data.draw(st.sampled_from(sorted(units)))
    text = f"{before}Average {phrase} is {number}{between}{unit}{after}"
    assert read_message(text, status=status) == Reading(kind, float(Fraction(number) * units[unit]))
    assert not isinstance(read_message(text.replace(number, number + ",5"), status=status), Reading)
    for other in {"%", "ms", "bps"} - set(units):
        assert read_message(f"Average {phrase} is {number}{other}", status=status) is Rejection.WRONG_UNIT


# Documents gone wrong

RECORDED = ("grid-loss.json", "grid-delay.json", "grid-throughput.json", "grid-reverse.json", "grid-random.json")
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=5,
)


def places(node: Any, path: tuple[str | int, ...] = ()) -> Iterator[tuple[str | int, ...]]:
    entries = node.items() if isinstance(node, dict) else enumerate(node) if isinstance(node, list) else ()
    for key, inner in entries:
        yield (*path, key)
        yield from places(inner, (*path, key))


DOCUMENTS = {file: json.loads(recorded.body(file)) for file in RECORDED}
PLACES = {file: sorted(places(document), key=str) for file, document in DOCUMENTS.items()}


@given(st.sampled_from(RECORDED), st.data(), JSON | st.just("removed"))
def test_anything_anywhere_in_a_recorded_grid(file: str, data: st.DataObject, other: Any) -> None:
    place = data.draw(st.sampled_from(PLACES[file]))
    broken = copy.deepcopy(DOCUMENTS[file])
    at = broken
    for key in place[:-1]:
        at = at[key]
    if other == "removed":
        del at[place[-1]]
    else:
        at[place[-1]] = other
    try:
        reading = read_grid(json.dumps(broken).encode(), name="any")
    except NetworkSourceError:
        assert place[0] in ("grid", "rows")
        assert len(place) == 1
        return
    wanted = found_in(read_grid(recorded.body(file), name="any"))
    found = found_in(reading)
    assert all(0.0 <= value <= 1e15 or "Delay" in check for (check, _, _), value in found.items())
    if place[0] != "grid":
        assert found == wanted
        return
    if len(place) == 1:
        return  # the whole grid is another one
    row: list[Any] = DOCUMENTS[file]["grid"][place[1]]
    touched = [row[place[2]]] if len(place) > 2 and isinstance(place[2], int) else row
    uris = [check["uri"].rsplit("/", 3) for cell in touched for check in cell or () if check]
    rows, columns = ({unquote_plus(uri[part]) for uri in uris} for part in (1, 2))
    lost = {key for key in wanted if key not in found or found[key] != wanted[key]}
    assert all(_in(key, rows, columns) for key in lost)


def _in(key: tuple[str, str, str], rows: set[str], columns: set[str]) -> bool:
    check, source, target = key
    row, column = (target, source) if "Reverse" in check else (source, target)
    return row in rows and column in columns


@given(st.sampled_from(RECORDED), st.integers(0, 20_000), st.binary(max_size=6), st.integers(0, 6))
def test_bytes_gone_wrong(file: str, at: int, inserted: bytes, removed: int) -> None:
    body = recorded.body(file)
    at %= len(body)
    try:
        reading = read_grid(body[:at] + inserted + body[at + removed :], name="any")
    except NetworkSourceError:
        return
    for value in reading.values.values():
        low, high = (0.0, 1.0) if value.kind is Kind.LOSS else (-1e12, 1e15)
        assert low <= value.value <= high
        assert value.checked_at_s > 0.0


@given(st.sampled_from(RECORDED), st.integers(0, 20_000))
def test_a_grid_cut_off_anywhere_is_no_grid(file: str, at: int) -> None:
    body = recorded.body(file).rstrip()
    with pytest.raises(NetworkSourceError):
        read_grid(body[: at % len(body)], name="any")
