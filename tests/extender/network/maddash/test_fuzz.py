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
from extender.network.answers import SourceAnswer
from extender.network.maddash_messages import CheckKind, Reading, Rejection, read_message
from scoring.network.matrix import Metric
from tests.extender.network import recorded
from tests.extender.network.maddash.scripted import Script, grids, read, reading
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


def found_in(answer: SourceAnswer) -> list[tuple[str, str, str, float]]:
    """(metric, from, to, value) of each check with a value."""
    tables = (*answer.table, *answer.round_trips)
    return sorted((str(one.metric), str(one.source), str(one.target), one.value) for one in tables)


@given(NAMES, ENDS, CHECKS, st.booleans())
def test_any_names_come_back_as_they_are(name: str, ends: list[str], checks: list[str], reverse: bool) -> None:
    checks = [*checks, f"{checks[0]} - Reverse"] if reverse else checks
    values = {
        (row, column, check): (number + 1) / 1000.0
        for number, (row, column, check) in enumerate((a, b, c) for a in ends for b in ends for c in checks if a != b)
    }
    messages = {key: f" Average minimum delay is {value:.3f}ms " for key, value in values.items()}
    answer = reading(document(name, ends, checks, messages))
    wanted = [
        ("delay", column, row, value) if check.endswith("- Reverse") else ("delay", row, column, value)
        for (row, column, check), value in values.items()
    ]
    assert found_in(answer) == [(*ends, pytest.approx(value)) for *ends, value in sorted(wanted)]
    assert answer.aliases == {end: (f"label {end}".strip(),) for end in ends if end.strip()}


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

SCALES: dict[CheckKind, tuple[str, dict[str, Fraction]]] = {  # kind: (phrase, unit → factor to ours)
    CheckKind.LOSS: ("packet loss", {"%": Fraction(1, 100)}),
    CheckKind.ONE_WAY_DELAY: (
        "median delay",
        {
            "ms": Fraction(1),
            "us": Fraction(1, 1000),
            "µs": Fraction(1, 1000),
            "μs": Fraction(1, 1000),
            "s": Fraction(1000),
        },
    ),
    CheckKind.ROUND_TRIP: ("minimum rtt", {"ms": Fraction(1), "us": Fraction(1, 1000), "s": Fraction(1000)}),
    CheckKind.THROUGHPUT: (
        "throughput",
        {"bps": Fraction(1), "Kbps": Fraction(10**3), "Mbps": Fraction(10**6), "Gbps": Fraction(10**9)},
    ),
}
NUMBERS = st.from_regex(r"[0-9]{1,2}(\.[0-9]{0,4})?(e-0?[0-9])?", fullmatch=True)
SPACE = st.sampled_from(["", " ", "  ", "\t", "\n"])


@given(st.sampled_from(sorted(SCALES)), st.data(), NUMBERS, SPACE, SPACE, SPACE, st.sampled_from([0, 1, 2]))
def test_any_number_in_any_unit(
    kind: CheckKind, data: st.DataObject, number: str, before: str, between: str, after: str, status: int
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
        answer = reading(json.dumps(broken).encode())
    except NetworkSourceError:
        assert place[0] in ("grid", "rows")
        assert len(place) == 1
        return
    wanted, found = found_in(reading(recorded.body(file))), found_in(answer)
    if place[0] != "grid":
        assert found == wanted
        return
    if len(place) == 1:
        return  # the whole grid is another one
    row: list[Any] = DOCUMENTS[file]["grid"][place[1]]
    touched = [row[place[2]]] if len(place) > 2 and isinstance(place[2], int) else row
    uris = [check["uri"].rsplit("/", 3) for cell in touched for check in cell or () if check]
    rows, columns = ({unquote_plus(uri[part]) for uri in uris} for part in (1, 2))
    ends = [{source, target} for _, source, target, _ in set(wanted) - set(found)]
    assert all(pair & rows and pair & columns for pair in ends)


@given(st.sampled_from(RECORDED), st.integers(0, 20_000), st.binary(max_size=6), st.integers(0, 6))
def test_bytes_gone_wrong(file: str, at: int, inserted: bytes, removed: int) -> None:
    body = recorded.body(file)
    at %= len(body)
    try:
        answer = reading(body[:at] + inserted + body[at + removed :])
    except NetworkSourceError:
        return
    for one in answer.table:
        assert 0.0 <= one.value <= (1.0 if one.metric is Metric.LOSS else 1e15)
        assert one.measured_at_s > 0.0


@given(st.sampled_from(RECORDED), st.integers(0, 20_000))
def test_a_grid_cut_off_anywhere_is_no_grid(file: str, at: int) -> None:
    body = recorded.body(file).rstrip()
    with pytest.raises(NetworkSourceError):
        reading(body[: at % len(body)])
