"""The sentences of perfSONAR's plugins, grids of any names, numbers and units, and documents gone wrong."""

import copy
import json
import re
from collections.abc import Iterator, Mapping
from fractions import Fraction
from itertools import permutations
from typing import Any
from urllib.parse import unquote, unquote_plus

import httpx
import pytest
from hypothesis import given
from hypothesis import strategies as st

from extender.errors import NetworkSourceError
from extender.network.answers import SourceAnswer
from extender.network.maddash import MAX_MESSAGE_CHARS, Reading, Rejection, read_message
from scoring.network.matrix import Metric
from tests.extender.network import recorded
from tests.extender.network.maddash.scripted import Script, grids, read, reading
from tests.fakes.maddash_server import grid_document

LOSS, THROUGHPUT = (Metric.LOSS, False), (Metric.THROUGHPUT, False)
ONE_WAY_DELAY, ROUND_TRIP = (Metric.DELAY, False), (Metric.DELAY, True)
PRINTED = "PS_CHECK_LOSS WARNING - Average packet loss is 0.012% | Count=4;; Min=0;; Max=0.1;; Average=0.012;;"
VALUES = {  # case: (kind, value, message)
    "throughput of zero": (THROUGHPUT, 0.0, " Average throughput is 0.000Gbps "),
    "owamp loss": (LOSS, 0.00012, " Average packet loss is 0.012% "),
    "ping loss": (LOSS, 0.0, "Average loss is 0.00%"),
    "owdelay -l -p": (LOSS, 0.0, "Average Loss is 0.000%"),
    "all packets lost": (LOSS, 1.0, " Average packet loss is 100.000% "),
    "loss with an exponent": (LOSS, 1e-7, "Average packet loss is 1e-05%"),
    "median delay": (ONE_WAY_DELAY, 2.5, "Average median delay is 2.5ms"),
    "delay in msec": (ONE_WAY_DELAY, 2.5, "Average delay is 2.5 msec"),
    "delay in microseconds, a word": (ONE_WAY_DELAY, 0.25, "Mean one-way delay is 250 microseconds"),
    "delay in seconds, a word": (ROUND_TRIP, 2000.0, "Average ping time is 2 seconds."),
    "loss in words": (LOSS, 0.00012, "Avg packet loss is 0.012 percent."),
    "loss of a round trip is a loss": (LOSS, 0.1, "Average round trip packet loss is 10%"),
    "bandwidth": (THROUGHPUT, 9.4e9, "Average TCP bandwidth is 9.4 Gb/s"),
    "throughput in Gbit/s": (THROUGHPUT, 9.1e9, "Average throughput is 9.1 Gbit/s"),
    "as the plugin prints it": (LOSS, 0.00012, PRINTED),
    "throughput in Mbits/sec": (THROUGHPUT, 94e6, "Average throughput is 94 Mbits/sec"),
    "throughput in capitals": (THROUGHPUT, 9.1e9, "AVERAGE THROUGHPUT IS 9.1GBPS"),
    "delay in words": (ONE_WAY_DELAY, 2.5, "Average one-way latency is 2.5 milliseconds"),
    "throughput in Tbps": (THROUGHPUT, 1.2e12, "Average throughput is 1.2Tbps"),
    "negative delay": (ONE_WAY_DELAY, -0.35, " Average minimum delay is -0.350ms "),
    "no digit before the point": (ONE_WAY_DELAY, 0.5, "Average minimum delay is .5ms"),
}

NO_TEST = " Unable to find any tests with data in the given time range where source is 192.0.2.1 and destination is x"
REJECTED = {  # case: (reason, status, message)
    "no test found": (Rejection.UNKNOWN_STATUS, 3, NO_TEST),
    "unknown though numeric": (Rejection.UNKNOWN_STATUS, 3, "Average packet loss is 0.012%"),
    "not run": (Rejection.NOT_RUN, 4, "Check has not run"),
    "maintenance": (Rejection.MAINTENANCE, 5, " Average packet loss is 0.056% "),
    "comparison by status": (Rejection.CUSTOM_STATUS, 6, "There is a 120.50% difference between forward and reverse"),
    "comparison": (Rejection.COMPARISON, 1, " There is a 12% difference between forward and reverse one-way delay. "),
    "empty": (Rejection.EMPTY, 0, ""),
    "null": (Rejection.EMPTY, 0, None),
    "packets per session": (Rejection.PACKETS_NOT_RATIO, 0, "Average Loss is 0.010 packets per session"),
    "a total": (Rejection.NOT_AVERAGE, 0, "Total throughput is 3Gbps"),
    "lost packets, counted": (Rejection.PACKETS_NOT_RATIO, 0, "Average packets lost is 10 packets"),
    "minutes": (Rejection.NOT_NUMERIC, 0, "Average delay is 2 minutes"),
    "no sentence of ours": (Rejection.NOT_NUMERIC, 0, "Random result"),
    "not a number": (Rejection.NOT_NUMERIC, 0, "Average packet loss is nan%"),
    "infinite": (Rejection.NOT_NUMERIC, 0, "Average throughput is infGbps"),
    "text after the value": (Rejection.NOT_NUMERIC, 0, "Average packet loss is 0.012% of all"),
    "text before the value": (Rejection.NOT_NUMERIC, 0, "OK: Average packet loss is 0.012%"),
    "unit of another century": (Rejection.NOT_NUMERIC, 0, "Average throughput is 9.4 bauds"),
    "bytes": (Rejection.WRONG_UNIT, 0, "Average throughput is 9.4MB/s"),
    "bytes, abbreviated": (Rejection.WRONG_UNIT, 0, "Average throughput is 1.2GBps"),
    "delay variation": (Rejection.OTHER_METRIC, 0, "Average delay variation is 0.5ms"),
    "jitter": (Rejection.OTHER_METRIC, 0, "Average one-way delay jitter is 0.5ms"),
    "difference of delays": (Rejection.OTHER_METRIC, 0, "Average difference of delay is 0.5ms"),
    "unknown, as the plugin prints it": (Rejection.NOT_NUMERIC, 0, "PS_CHECK_LOSS UNKNOWN - Average loss is 1%"),
    "another metric": (Rejection.OTHER_METRIC, 0, "Average path count is 3"),
    "loss without unit": (Rejection.WRONG_UNIT, 0, "Average Loss is 0.010"),
    "more than everything lost": (Rejection.OUT_OF_RANGE, 2, "Average packet loss is 100.001%"),
    "negative loss": (Rejection.OUT_OF_RANGE, 0, "Average packet loss is -0.001%"),
    "beyond any link": (Rejection.OUT_OF_RANGE, 0, "Average throughput is 1e300Gbps"),
    "absurd exponent": (Rejection.NOT_NUMERIC, 0, "Average throughput is 1e9999999Gbps"),
    "over-long": (Rejection.OVER_LONG, 0, "Average packet loss is 0.012%" + " " * MAX_MESSAGE_CHARS),
}


@pytest.mark.parametrize("status", [0, 1, 2])
@pytest.mark.parametrize(("kind", "value", "message"), VALUES.values(), ids=VALUES)
def test_values(kind: tuple[Metric, bool], value: float, message: str, status: int) -> None:
    assert Reading(*kind, value) == read_message(message, status=status)


@pytest.mark.parametrize(("reason", "status", "message"), REJECTED.values(), ids=REJECTED)
def test_rejections(reason: Rejection, status: int, message: str | None) -> None:
    assert reason is read_message(message, status=status)


@given(st.text(max_size=300), st.integers(-2, 9))
def test_any_text_has_an_answer(message: str, status: int) -> None:
    found = read_message(message, status=status)
    assert isinstance(found, Rejection) or re.search("average|avg|mean|median", message, re.IGNORECASE)


# Names

ODD = ["a b", "a+b", "100%", "a/b", "%2F", "a%20b", "2001:db8::1", "fe80::1%eth0", "Zürich", "北京", "a&b=c?d#e"]
TEXTS = st.text(st.characters(exclude_categories=["Cs", "Cc"]), min_size=1)
NAMES = st.one_of(st.sampled_from([*ODD, "ps-1.x"]), st.ip_addresses().map(str), TEXTS)
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
    keys = [(*pair, check) for pair in permutations(ends, 2) for check in checks]
    values = {key: number / 1000.0 for number, key in enumerate(keys, 1)}
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
    script = Script({"grids": grids(name)}, unknown=httpx.Response(200, content=body))
    batch = await read(script.source(), 1_800_000_060.0)
    first, path = (unquote(one) for one in script.asked)  # first decoding: of the path
    assert (first, unquote_plus(path)) == ("grids", f"grids/{name}")  # second one: of the name
    assert [(m.source, m.target, m.metric, m.value) for m in batch.measurements] == [("a", "b", Metric.DELAY, 3.0)]


# Numbers and units

MS, US, S = Fraction(1), Fraction(1, 1000), Fraction(1000)
SCALES: dict[tuple[Metric, bool], tuple[str, dict[str, Fraction]]] = {  # kind: (phrase, unit → factor to ours)
    LOSS: ("packet loss", {"%": Fraction(1, 100)}),
    ONE_WAY_DELAY: ("median delay", {"ms": MS, "us": US, "µs": US, "μs": US, "s": S}),
    ROUND_TRIP: ("minimum rtt", {"ms": MS, "us": US, "s": S}),
    THROUGHPUT: ("throughput", {f"{name}bps": Fraction(1000**i) for i, name in enumerate(("", *"KMG"))}),
}
NUMBERS = st.from_regex(r"[0-9]{1,2}(\.[0-9]{0,4})?(e-0?[0-9])?", fullmatch=True)
SPACE = st.sampled_from(["", " ", "  ", "\t", "\n"])


@given(st.sampled_from(sorted(SCALES)), st.data(), NUMBERS, SPACE, SPACE, SPACE, st.sampled_from([0, 1, 2]))
def test_any_number_in_any_unit(
    kind: tuple[Metric, bool], data: st.DataObject, number: str, before: str, between: str, after: str, status: int
) -> None:
    phrase, units = SCALES[kind]
    unit = data.draw(st.sampled_from(sorted(units)))
    text = f"{before}Average {phrase} is {number}{between}{unit}{after}"
    assert read_message(text, status=status) == Reading(*kind, float(Fraction(number) * units[unit]))
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
        assert place in (("grid",), ("rows",))
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
