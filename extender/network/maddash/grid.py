"""Take one MaDDash grid document apart: pure, cell by cell.

Why: the document says the same thing in several places that disagree. Row and column names are labels and need not be
unique; `columnProps` is empty in square meshes; checks of one cell may run in opposite directions. Rule: ids come only
from the cells' own uris, a row is the source and a column the destination, except for checks whose name says
"Reverse". A cell that makes no sense is counted and left out, whatever is wrong with it; the others are read. Row by
row, so that a thread that does it lets the event loop run.
"""

import re
from collections import Counter
from collections.abc import Iterator, Mapping
from functools import cached_property, lru_cache
from typing import Any, Final
from urllib.parse import unquote_plus

import msgspec

from extender.errors import NetworkSourceError
from extender.network.batches import UNREADABLE, decoded, merged
from extender.network.maddash.messages import Kind, Reading, Rejection, read_message
from extender.ports import EndpointInfo
from scoring.ids import EndpointId


class CheckKey(msgspec.Struct, frozen=True, gc=False):
    """Names a check: its own name and the direction it measures.

    Keys and values are unknown to the garbage collector (they hold nothing but texts and numbers): those of a large
    mesh would keep it, and with it the event loop, busy for 30 ms at a time.
    """

    check: str
    source: EndpointId
    target: EndpointId


class CellValue(msgspec.Struct, frozen=True, gc=False):
    """The value of one check: ratio, ms (possibly negative) or bit/s; `checked_at_s` in Unix seconds."""

    kind: Kind
    value: float
    checked_at_s: float


class GridReading(msgspec.Struct, dict=True):
    """What a grid says; once it is read nothing of it changes."""

    name: str
    values: dict[CheckKey, CellValue] = {}
    empty: dict[CheckKey, Rejection] = {}
    """checks between two endpoints that have no value → why"""
    cells: int = 0  # Checks in the grid, with and without value: fewer than before means that the server is reloading
    endpoints: tuple[EndpointInfo, ...] = ()
    rejected: Counter[Rejection] = msgspec.field(default_factory=Counter)

    @cached_property
    def shows(self) -> frozenset[tuple[str, Kind]]:
        """Each check and what its messages are about: names are every site's own."""
        return frozenset((key.check, value.kind) for key, value in self.values.items())

    def refuse(self, reason: Rejection) -> None:
        """Count a check without a value."""
        self.cells += 1
        self.rejected[reason] += 1


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


def read_grid(body: bytes | bytearray, *, name: str) -> GridReading:
    """Parse a grid.

    Cost: O(checks). Errors: NetworkSourceError when the body is no grid document, or not one of its cells makes sense.
    """
    whole = memoryview(body)[3:] if body.startswith(_BYTE_ORDER_MARK) else body
    document = decoded(_DOCUMENT, whole, "the answer is not a grid document")
    reading = GridReading(name)
    columns: dict[int, EndpointId] = {}  # column number → id
    nonsense = ""
    for raw in document.grid:
        for number, check in _checks(raw):
            if isinstance(check, _Check):
                _read_check(check, number, reading, columns)
            elif check is not None:
                reading.refuse(Rejection.BAD_CELL)
                nonsense = nonsense or check
    if nonsense and reading.rejected[Rejection.BAD_CELL] == reading.cells:
        raise NetworkSourceError(f"the answer is not a grid document: {nonsense}")
    reading.endpoints = merged(_described(document, columns))
    return reading


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


def _read_check(check: _Check, number: int, grid: GridReading, columns: dict[int, EndpointId]) -> None:
    parts = check.uri.rsplit("/", 3)
    if len(parts) < 4 or not all(parts[1:]):
        grid.refuse(Rejection.BAD_CELL)
        return
    row, column, name = EndpointId(_decode(parts[1])), EndpointId(_decode(parts[2])), _decode(parts[3])
    columns.setdefault(number, column)
    if row == column:
        grid.refuse(Rejection.SELF_PAIR)
        return
    key = CheckKey(name, column, row) if is_reverse(name) else CheckKey(name, row, column)
    reading = read_message(check.message, status=check.status)
    if isinstance(reading, Reading):
        checked_at_s = check.prev_check_time or 0.0
        if checked_at_s > 0.0:
            grid.cells += 1
            grid.values[key] = CellValue(reading.kind, reading.value, checked_at_s)
            return
        reading = Rejection.NEVER_CHECKED
    grid.refuse(reading)
    grid.empty[key] = reading


@lru_cache(maxsize=1024)
def is_reverse(check: str) -> bool:
    """Whether a check measures from the column to the row.

    >>> [is_reverse(name) for name in ("Throughput - Reverse", "Throughput Reverse", "Loss (reverse)", "Reverse Loss")]
    [True, True, True, True]
    >>> [is_reverse(name) for name in ("Throughput", "Reversed", "Irreverse", "Traverse", "")]
    [False, False, False, False, False]
    """
    return _REVERSE.fullmatch(check) is not None


def _described(document: _Document, columns: Mapping[int, EndpointId]) -> Iterator[EndpointInfo]:
    for raw in document.rows:
        try:
            row = _ROW.decode(raw)
        except UNREADABLE:
            continue  # its cells are read all the same, only its label is lost
        encoded = row.uri.rsplit("/", 1)[-1]
        if encoded:
            yield EndpointInfo(EndpointId(unquote_plus(encoded)), _names(row.name, row.props))
    labels, props = _any_list(document.column_names), _any_list(document.column_props)
    for number, column in columns.items():
        label = labels[number] if number < len(labels) else None
        yield EndpointInfo(column, _names(label, props[number] if number < len(props) else None))


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
