"""Take one MaDDash grid document apart: pure, cell by cell.

Why: the document says the same thing in several places that disagree. Row and column names are labels and need not be
unique; `columnProps` is empty in square meshes; checks of one cell may run in opposite directions. Rule: ids come only
from the cells' own uris, a row is the source and a column the destination, except for checks whose name says
"Reverse". A cell that makes no sense is counted and left out, whatever is wrong with it; the others are read. Row by
row, so that a thread that does it lets the event loop run.
"""

import re
from collections.abc import Callable, Iterator, Mapping
from functools import lru_cache
from typing import Any, Final
from urllib.parse import unquote_plus

import msgspec

from extender.errors import NetworkSourceError
from extender.network.answers import UNREADABLE, Found, SourceAnswer, decoded
from extender.network.maddash_messages import METRIC_OF, CheckKind, Rejection, read_message
from scoring.ids import EndpointId
from scoring.network.measurement import Metric


class _Document(msgspec.Struct, rename="camel"):
    grid: list[msgspec.Raw]
    rows: list[msgspec.Raw]
    column_names: msgspec.Raw = msgspec.Raw(b"[]")
    column_props: msgspec.Raw = msgspec.Raw(b"[]")


class _Row(msgspec.Struct):
    name: str | None = None
    uri: str = ""
    props: dict[str, Any] | None = None


class _Check(msgspec.Struct, rename="camel"):
    uri: str
    status: int
    message: str | None = None
    prev_check_time: float | None = None


_DOCUMENT: Final = msgspec.json.Decoder(_Document)
_RAW_LIST: Final = msgspec.json.Decoder(list[msgspec.Raw] | None)
_ONE_CHECK: Final = msgspec.json.Decoder(_Check | None)
_ROW: Final = msgspec.json.Decoder(_Row)
_BYTE_ORDER_MARK: Final = b"\xef\xbb\xbf"
_REVERSE: Final = re.compile(r"(?:.*[^a-z0-9])?reverse\W*|\W*reverse[^a-z0-9].*", re.IGNORECASE | re.DOTALL)


def read_grid(
    body: bytes | bytearray, *, counts: Callable[..., bool], now_s: float, ahead_s: float = 0.0
) -> SourceAnswer:
    """Parse a grid; `counts`: whether a metric (and its `check`) is taken from it, `ahead_s`: of the server's clock.

    Cost: O(checks). Errors: NetworkSourceError when the body is no grid document, or not one of its cells makes sense.
    """
    whole = memoryview(body)[3:] if body.startswith(_BYTE_ORDER_MARK) else body
    document = decoded(_DOCUMENT, whole, "the answer is not a grid document")
    found = Found(now_s)
    columns: dict[int, EndpointId] = {}  # column number → id
    cells, nonsense = 0, ""
    for raw in document.grid:
        for number, check in _checks(raw):
            if check is None:
                continue
            cells += 1
            if isinstance(check, _Check):
                refusal = _read_check(check, number, found, columns, counts=counts, ahead_s=ahead_s)
            else:
                refusal, nonsense = Rejection.BAD_CELL, nonsense or check
            if refusal is not None:
                found.rejected[refusal.value] += 1
    if nonsense and found.rejected[Rejection.BAD_CELL] == cells:
        raise NetworkSourceError(f"the answer is not a grid document: {nonsense}")
    for end, *names in _described(document, columns):
        found.end(end, *names)
    halved = any(one.metric is Metric.DELAY for one in found.round_trips)
    said = ("some delays are round-trip times: half of each is used where no one-way delay is known",) if halved else ()
    return found.answer(*said)


def _checks(raw_row: msgspec.Raw) -> Iterator[tuple[int, _Check | str | None]]:
    """Column number and check of each check of a row, or what is wrong."""
    try:
        raw_cells = _RAW_LIST.decode(raw_row) or []
    except UNREADABLE as error:
        yield 0, str(error)
        return
    for number, raw_cell in enumerate(raw_cells):
        try:
            raw_checks = _RAW_LIST.decode(raw_cell) or []
        except UNREADABLE as error:
            yield number, str(error)
            continue
        for raw_check in raw_checks:
            try:
                yield number, _ONE_CHECK.decode(raw_check)
            except UNREADABLE as error:
                yield number, str(error)


_decode = lru_cache(maxsize=1 << 14)(unquote_plus)  # Part of a uri → name; one string, however many cells have it


def _read_check(
    check: _Check,
    number: int,
    found: Found,
    columns: dict[int, EndpointId],
    *,
    counts: Callable[..., bool],
    ahead_s: float,
) -> Rejection | None:
    parts = check.uri.rsplit("/", 3)
    if len(parts) < 4 or not all(parts[1:]):
        return Rejection.BAD_CELL
    row, column, name = EndpointId(_decode(parts[1])), EndpointId(_decode(parts[2])), _decode(parts[3])
    columns.setdefault(number, column)
    if row == column:
        return Rejection.SELF_PAIR
    source, target = (column, row) if is_reverse(name) else (row, column)
    reading = read_message(check.message, status=check.status)
    if isinstance(reading, Rejection):
        if reading is not Rejection.NOT_RUN:  # made anew by a reload
            found.silent.add((source, target))
        return reading
    if (checked_at_s := check.prev_check_time or 0.0) <= 0.0:
        return Rejection.NEVER_CHECKED
    metric = METRIC_OF[reading.kind]
    if not counts(metric, check=name):
        return None
    round_trip = reading.kind is CheckKind.ROUND_TRIP
    value = reading.value / 2.0 if round_trip else reading.value
    found.add(source, target, metric, value, checked_at_s - ahead_s, round_trip=round_trip)
    return None


@lru_cache(maxsize=1024)
def is_reverse(check: str) -> bool:
    """Whether a check measures from the column to the row.

    >>> [is_reverse(name) for name in ("Throughput - Reverse", "Throughput Reverse", "Loss (reverse)", "Reverse Loss")]
    [True, True, True, True]
    >>> [is_reverse(name) for name in ("Throughput", "Reversed", "Irreverse", "Traverse", "")]
    [False, False, False, False, False]
    """
    return _REVERSE.fullmatch(check) is not None


def _described(document: _Document, columns: Mapping[int, EndpointId]) -> Iterator[tuple[str, ...]]:
    """Each end's id, and its other names."""
    for raw in document.rows:
        try:
            row = _ROW.decode(raw)
        except UNREADABLE:
            continue  # its cells are read all the same, only its label is lost
        if encoded := row.uri.rsplit("/", 1)[-1]:
            yield unquote_plus(encoded), *_names(row.name, row.props)
    labels, props = _any_list(document.column_names), _any_list(document.column_props)
    for number, column in columns.items():
        label = labels[number] if number < len(labels) else None
        yield column, *_names(label, props[number] if number < len(props) else None)


def _any_list(raw: msgspec.Raw) -> list[Any]:
    """A list of whatever; nothing where it is no list, since labels are only other names."""
    try:
        found = msgspec.json.decode(raw)
    except UNREADABLE:
        return []
    return found if isinstance(found, list) else []


def _names(label: object, props: object) -> tuple[str, ...]:
    """Label, and every address that the properties name: the usual one and those for single peers."""
    known = props if isinstance(props, Mapping) else {}
    found = [label, known.get("label")]
    peers = known.get("map")
    if isinstance(peers, Mapping):
        found += [of_peer.get("address") for of_peer in peers.values() if isinstance(of_peer, Mapping)]
    return tuple(name.strip() for name in found if isinstance(name, str) and name.strip())
