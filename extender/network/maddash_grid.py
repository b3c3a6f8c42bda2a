"""Take one MaDDash grid document apart: pure, in slices, cell by cell.

Why: the document says the same thing in several places that disagree. Row and column names are labels and need not be
unique; `columnProps` is empty in square meshes; checks of one cell may run in opposite directions. Rule: ids come only
from the cells' own uris, a row is the source and a column the destination, except for checks whose name ends in
"Reverse". One row is parsed at a time, so that a grid of any size never holds the event loop for long.
"""

import re
from collections import Counter
from collections.abc import Generator, Mapping
from dataclasses import dataclass
from typing import Any, Final, NamedTuple
from urllib.parse import unquote_plus

import msgspec

from extender.errors import NetworkSourceError
from extender.network.messages import Kind, Reading, Rejection, read_message
from extender.ports import EndpointInfo
from scoring.ids import EndpointId


class CheckKey(NamedTuple):
    """Names a check: its own name and the direction it measures."""

    check: str
    source: EndpointId
    target: EndpointId


class CellValue(NamedTuple):
    """The value of one check: ratio, ms (possibly negative) or bit/s; `checked_at_s` in Unix seconds."""

    kind: Kind
    value: float
    checked_at_s: float


@dataclass(frozen=True, slots=True)
class GridReading:
    """What a grid says."""

    name: str
    values: Mapping[CheckKey, CellValue]
    waiting: tuple[CheckKey, ...]
    """Checks that have not run since the server made them: they say nothing about the link."""
    cells: int
    """Checks in the grid, with and without value: fewer than before means that the server is reloading."""
    endpoints: tuple[EndpointInfo, ...]
    rejected: Mapping[Rejection, int]
    shows: Mapping[str, frozenset[Kind]]
    """check name → what its messages are about; grids are told apart by this, names are every site's own."""


class _Row(msgspec.Struct):
    name: str | None = None
    uri: str = ""
    props: dict[str, Any] = msgspec.field(default_factory=dict)


class _Document(msgspec.Struct, rename="camel"):
    grid: list[msgspec.Raw]
    rows: list[_Row]
    name: str = ""
    column_names: list[str | None] = msgspec.field(default_factory=list)
    column_props: list[dict[str, Any]] = msgspec.field(default_factory=list)


class _Check(msgspec.Struct, rename="camel"):
    uri: str
    status: int
    message: str | None = None
    prev_check_time: int | None = None


_DOCUMENT: Final = msgspec.json.Decoder(_Document)
_ROW: Final = msgspec.json.Decoder(list[list[_Check | None] | None])
_REVERSE: Final = re.compile(r"[^\s-].*[\s-]reverse\s*", re.IGNORECASE | re.DOTALL)


def read_grid(body: bytes | bytearray, *, name: str) -> GridReading:
    """Parse a grid in one go; see `read_grid_in_slices`."""
    slices = read_grid_in_slices(body, name=name)
    while True:
        try:
            next(slices)
        except StopIteration as done:
            reading: GridReading = done.value
            return reading


def read_grid_in_slices(body: bytes | bytearray, *, name: str) -> Generator[None, None, GridReading]:
    """Parse a grid, giving control back after each row; the reading is the generator's return value.

    Cost: O(checks). Errors: NetworkSourceError when the body is not a grid document.
    """
    try:
        document = _DOCUMENT.decode(body)
        seen = _Seen()
        columns: dict[int, EndpointId] = {}  # column number → id
        for raw in document.grid:
            for number, cell in enumerate(_ROW.decode(raw) or ()):
                for check in cell or ():
                    if check is not None:
                        _read_check(check, number, seen, columns)
            yield
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise NetworkSourceError(f"the answer is not a grid document: {error}") from error
    return GridReading(
        name=name,
        values=seen.values,
        waiting=tuple(seen.waiting),
        cells=seen.cells,
        endpoints=_endpoints(document, columns),
        rejected=dict(seen.rejected),
        shows={check: frozenset(kinds) for check, kinds in seen.shows.items()},
    )


class _Seen:
    """What the rows gave so far."""

    def __init__(self) -> None:
        self.values: dict[CheckKey, CellValue] = {}
        self.waiting: list[CheckKey] = []
        self.rejected: Counter[Rejection] = Counter()
        self.shows: dict[str, set[Kind]] = {}
        self.cells = 0
        self._decoded: dict[str, str] = {}  # part of a uri → name; one string per name, however many cells have it

    def decode(self, part: str) -> str:
        """Decode a part of a uri."""
        name = self._decoded.get(part)
        if name is None:
            name = self._decoded[part] = unquote_plus(part)
        return name


def _read_check(check: _Check, number: int, seen: _Seen, columns: dict[int, EndpointId]) -> None:
    seen.cells += 1
    parts = check.uri.rsplit("/", 3)
    if len(parts) < 4 or not all(parts[1:]):
        seen.rejected[Rejection.BAD_CELL] += 1
        return
    row, column = EndpointId(seen.decode(parts[1])), EndpointId(seen.decode(parts[2]))
    columns.setdefault(number, column)
    name = seen.decode(parts[3])
    key = CheckKey(name, column, row) if is_reverse(name) else CheckKey(name, row, column)
    reading = read_message(check.message, status=check.status)
    if isinstance(reading, Reading) and not (check.prev_check_time or 0) > 0:
        reading = Rejection.NEVER_CHECKED
    if row == column:
        reading = Rejection.SELF_PAIR
    if isinstance(reading, Reading):
        seen.values[key] = CellValue(reading.kind, reading.value, float(check.prev_check_time or 0))
        seen.shows.setdefault(name, set()).add(reading.kind)
        return
    seen.rejected[reading] += 1
    if reading is Rejection.NOT_RUN:
        seen.waiting.append(key)


def is_reverse(check: str) -> bool:
    """Tell whether a check measures from the column to the row.

    >>> [is_reverse(name) for name in ("Throughput - Reverse", "Throughput Reverse", "Throughput", "Reverse")]
    [True, True, False, False]
    """
    return _REVERSE.fullmatch(check.strip()) is not None


def _endpoints(document: _Document, columns: Mapping[int, EndpointId]) -> tuple[EndpointInfo, ...]:
    aliases: dict[EndpointId, dict[str, None]] = {}  # id → its other names, in order
    for row in document.rows:
        encoded = row.uri.rsplit("/", 1)[-1]
        if encoded:
            found = aliases.setdefault(EndpointId(unquote_plus(encoded)), {})
            found.update(dict.fromkeys(_names(row.name, row.props)))
    for number, column in columns.items():
        label = document.column_names[number] if number < len(document.column_names) else None
        props = document.column_props[number] if number < len(document.column_props) else {}
        found = aliases.setdefault(column, {})
        found.update(dict.fromkeys(_names(label, props)))
    return tuple(EndpointInfo(one, tuple(n for n in names if n != one)) for one, names in sorted(aliases.items()))


def _names(label: str | None, props: Mapping[str, Any]) -> list[str]:
    """Label, and every address that the properties name: the usual one and those for single peers."""
    found = [label, props.get("label")]
    peers = props.get("map")
    if isinstance(peers, Mapping):
        found += [of_peer.get("address") for of_peer in peers.values() if isinstance(of_peer, Mapping)]
    return [name.strip() for name in found if isinstance(name, str) and name.strip()]
