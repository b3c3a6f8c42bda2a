"""Read loss, delay and throughput from a MaDDash server: one GET per grid, which it would build whole for each pair.

Rules:
- Places of a grid's document disagree: labels need not be unique, `columnProps` is empty in square meshes. So ids come
  only from the cells' own uris. A row is the source and a column the destination, except for checks whose name says
  "Reverse". A cell that makes no sense is counted and left out, whatever is wrong with it.
- A value stands in a sentence ("Average throughput is 9.412Gbps"), which must match whole, or the cell has no value and
  says why: picking out digits would fuse the addresses of an error text into a number.
- Grids are decoded row by row, so that a thread that does it lets the event loop run.
- A grid, and a pair in it, that gives nothing good keeps what it gave before (`extender.network.answers`): the server
  reloads its configuration hourly, and then answers with errors, empty lists or half a grid for seconds.
- A text that is exactly a grid's name means that grid alone; any other is a pattern in which `*`, `?` and `[…]` stand
  for characters. A metric that names grids uses these alone; one that names none uses every grid whose messages show
  it. A grid's address is rebuilt from its name (the server's own `uri` is wrong for names with `%` or `+`).
- MaDDash's times are those of the check; the value may be older by the plugin's window.
"""

import re
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import suppress
from decimal import Decimal
from enum import StrEnum
from fnmatch import fnmatchcase
from functools import lru_cache, partial
from typing import Any, Final, NamedTuple, TypeAlias
from urllib.parse import quote, quote_plus, unquote_plus

import msgspec
from msgspec.structs import replace

from extender.errors import UNREADABLE, NetworkSourceError
from extender.network.answers import LastAnswers, Readings, SourceAnswer, decoded, off_loop
from extender.network.http import HttpClient
from extender.ports import Batch
from extender.settings.network import MaddashSettings
from scoring import EndpointId
from scoring.network.matrix import METRICS, Metric

MAX_MESSAGE_CHARS: Final = 256  # A plugin's longest numeric sentence has about 60; MaDDash stores up to 2000


class Rejection(StrEnum):
    """Why a cell gives no value; counted under these words."""

    UNKNOWN_STATUS = "unknown_status"  # Status 3: the check ran and found no data
    NOT_RUN = "not_run"  # Status 4: whatever the message says is left over from before
    MAINTENANCE = "maintenance"  # Status 5: message and time are frozen
    CUSTOM_STATUS = "custom_status"  # Status 6 and above: a comparison, never a value
    NEVER_CHECKED = "never_checked"  # The check's time is 0
    EMPTY = "empty"
    OVER_LONG = "over_long"
    NOT_NUMERIC = "not_numeric"
    COMPARISON = "comparison"  # Forward against reverse delay, in percent: neither a delay nor a loss
    PACKETS_NOT_RATIO = "packets_not_ratio"  # Lost packets, with no word about how many were sent
    NOT_AVERAGE = "not_average"  # A total over the window
    OTHER_METRIC = "other_metric"  # A number, but neither loss nor delay nor throughput
    WRONG_UNIT = "wrong_unit"
    OUT_OF_RANGE = "out_of_range"  # Loss outside 0..100 %, negative throughput or round trip, or not finite
    BAD_CELL = "bad_cell"  # The cell's uri does not name row, column and check
    SELF_PAIR = "self_pair"  # Row and column are the same endpoint: no link


class Reading(NamedTuple):
    """One value: loss as ratio 0..1, delays in ms (one-way delay may be negative: clock skew), throughput in bit/s."""

    metric: Metric
    is_round_trip: bool  # Kept apart: it must never mix with one-way delay
    value: float


_SENTENCE: Final = re.compile(
    r"\s*(?:[A-Z][A-Z0-9_]*\s+(?:OK|WARNING|CRITICAL)\s+-\s+)?"
    r"(?P<stat>average|avg|mean|median|total)\s+(?P<metric>\S.*?)\s+is\s+"
    r"(?P<number>[-+]?(?:\d+(?:\.\d*)?|\.\d+)(?:e[-+]?\d{1,3})?)\s*"
    r"(?P<unit>[tgmk]?(?:bps|b/s|bits?/s(?:ec)?)|[mu\u00b5\u03bc]?s(?:ecs?)?|(?:milli|micro)?seconds?"
    r"|%|percent|packets per session|packets)?\s*\.?\s*(?:\|.*)?",
    re.IGNORECASE | re.ASCII,
)
"""Plugins of 5.x print Gbps, ms and %; the other spellings are those of older and of sites' own plugins. What stands
before the sentence (name and state of the check) and behind it (performance data) MaDDash itself takes away."""
_BYTES: Final = re.compile(r"[TGMKtgmk]?B(?:ps|/s)")  # Bytes per second; GBPS, all in capitals, never stands for that
_COMPARISON: Final = re.compile(r"\bdifference between forward and reverse\b", re.IGNORECASE)
_NOT_OURS: Final = re.compile(r"\b(?:variation|jitter|deviation|difference|error)\b", re.IGNORECASE)  # Of a value
_TIMES: Final = {"s": Decimal(1000), "ms": Decimal(1), "us": Decimal("0.001")}
_RATES: Final = {f"{prefix}bps": Decimal(1000**power) for power, prefix in enumerate(("", "k", "m", "g", "t"))}
_SPELLINGS: Final = (  # what may stand for a unit → its usual form
    (re.compile(r"b(?:its?)?/s(?:ec)?$"), "bps"),
    (re.compile(r"(?<=s)ec(?:s|onds?)?$"), ""),
    (re.compile(r"^(?:[\u00b5\u03bc]|micro)"), "u"),
    (re.compile(r"^milli"), "m"),
    (re.compile(r"^percent$"), "%"),
)
_KINDS: Final = (  # a phrase → metric, whether of a round trip, unit → factor to our unit, lowest and highest value
    (re.compile(r"throughput|\bbandwidth\b", re.IGNORECASE), (Metric.THROUGHPUT, False, _RATES, 0.0, 1e15)),
    (re.compile(r"\b(?:loss|lost)\b", re.IGNORECASE), (Metric.LOSS, False, {"%": Decimal("0.01")}, 0.0, 1.0)),
    (re.compile(r"\brtt\b|round[ -]?trip|\bping\b", re.IGNORECASE), (Metric.DELAY, True, _TIMES, 0.0, 1e12)),
    (re.compile(r"\b(?:delay|latency)\b", re.IGNORECASE), (Metric.DELAY, False, _TIMES, -1e12, 1e12)),
)
_STATUSES: Final = {3: Rejection.UNKNOWN_STATUS, 4: Rejection.NOT_RUN, 5: Rejection.MAINTENANCE}


def read_message(text: str | None, *, status: int) -> Reading | Rejection:
    """Give the value of a cell, or the reason why it has none.

    Statuses 0, 1 and 2 are only colours of a value; all others mean that there is none, even if the message looks like
    one. Numbers are scaled in decimal, so that 8.977Gbps is exactly 8977000000 bit/s.
    """
    if not 0 <= status <= 2:
        return _STATUSES.get(status, Rejection.CUSTOM_STATUS if status > 5 else Rejection.UNKNOWN_STATUS)
    if text is None or not text.strip():
        return Rejection.EMPTY
    if len(text) > MAX_MESSAGE_CHARS:
        return Rejection.OVER_LONG
    match = _SENTENCE.fullmatch(text)
    if match is None:
        return Rejection.COMPARISON if _COMPARISON.search(text) else Rejection.NOT_NUMERIC
    written = match["unit"] or ""
    if _BYTES.fullmatch(written):
        return Rejection.WRONG_UNIT
    unit = written.lower()
    if unit.startswith("packets"):
        return Rejection.PACKETS_NOT_RATIO
    if match["stat"].lower() == "total":
        return Rejection.NOT_AVERAGE
    kind = _kind_of(match["metric"])
    if kind is None:
        return Rejection.OTHER_METRIC
    metric, is_round_trip, scale, lowest, highest = kind
    if unit not in scale:
        for spelling, usual in _SPELLINGS:
            unit = spelling.sub(usual, unit)
    if unit not in scale:
        return Rejection.WRONG_UNIT
    value = float(Decimal(match["number"]) * scale[unit])
    if not lowest <= value <= highest:
        return Rejection.OUT_OF_RANGE
    return Reading(metric, is_round_trip, value + 0.0)  # −0.0 becomes 0.0


@lru_cache(maxsize=256)
def _kind_of(phrase: str) -> tuple[Metric, bool, Mapping[str, Decimal], float, float] | None:
    """Of a phrase such as `95th percentile of delay`; `None`: nothing of ours."""
    kinds = (kind for pattern, kind in _KINDS if pattern.search(phrase))
    return None if _NOT_OURS.search(phrase) else next(kinds, None)


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


_Counts: TypeAlias = Callable[..., bool]  # Whether a metric (and its `check`) is taken from a grid
_DOCUMENT: Final = msgspec.json.Decoder(_Document)
_RAW_LIST: Final = msgspec.json.Decoder(list[msgspec.Raw] | None)
_ONE_CHECK: Final = msgspec.json.Decoder(_Check | None)
_ROW: Final = msgspec.json.Decoder(_Row)
_BYTE_ORDER_MARK: Final = b"\xef\xbb\xbf"
_REVERSE: Final = re.compile(r"(?:.*[^a-z0-9])?reverse\W*|\W*reverse[^a-z0-9].*", re.IGNORECASE | re.DOTALL)


def read_grid(body: bytes | bytearray, *, counts: _Counts, now_s: float) -> SourceAnswer:
    """Parse a grid. Cost: O(checks). Errors: NetworkSourceError when it is no grid document, or no cell makes sense."""
    whole = memoryview(body)[3:] if body.startswith(_BYTE_ORDER_MARK) else body
    document = decoded(_DOCUMENT, whole, "the answer is not a grid document")
    entries = Readings(now_s)
    columns: dict[int, EndpointId] = {}  # column number → id
    cells, nonsense = 0, ""
    for raw in document.grid:
        for number, check in _checks(raw):
            if check is None:
                continue
            cells += 1
            if isinstance(check, _Check):
                refusal = _read_check(check, number, entries, columns, counts=counts)
            else:
                refusal, nonsense = Rejection.BAD_CELL, nonsense or check
            if refusal is not None:
                entries.rejected[refusal.value] += 1
    if nonsense and entries.rejected[Rejection.BAD_CELL] == cells:
        raise NetworkSourceError(f"the answer is not a grid document: {nonsense}")
    for raw in document.rows:
        with suppress(*UNREADABLE):  # its cells are read all the same, only its label is lost
            row = _ROW.decode(raw)
            if encoded := row.uri.rsplit("/", 1)[-1]:
                entries.end(unquote_plus(encoded), *_names(row.name, row.props))
    labels, props = _any_list(document.column_names), _any_list(document.column_props)
    for number, column in columns.items():
        label = labels[number] if number < len(labels) else None
        entries.end(column, *_names(label, props[number] if number < len(props) else None))
    halved = any(row.metric is Metric.DELAY for row in entries.round_trips)
    note = ("some delays are round-trip times: half of each is used where no one-way delay is known",) if halved else ()
    return entries.answer(*note)


def _checks(raw: msgspec.Raw, *, depth: int = 2, number: int = 0) -> Iterator[tuple[int, _Check | str | None]]:
    """Column number and check of each check of a row, which is a list of cells, each a list; or what is wrong."""
    try:
        if depth == 0:
            yield number, _ONE_CHECK.decode(raw)
            return
        parts = _RAW_LIST.decode(raw) or []
    except UNREADABLE as error:
        yield number, str(error)
        return
    for place, part in enumerate(parts):
        yield from _checks(part, depth=depth - 1, number=place if depth == 2 else number)


_decode = lru_cache(maxsize=1 << 14)(unquote_plus)  # Part of a uri → name; one string, however many cells have it


def _read_check(
    check: _Check, number: int, entries: Readings, columns: dict[int, EndpointId], *, counts: _Counts
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
            entries.silent.add((source, target))
        return reading
    if (checked_at_s := check.prev_check_time or 0.0) <= 0.0:
        return Rejection.NEVER_CHECKED
    if counts(reading.metric, check=name):
        value = reading.value / 2.0 if reading.is_round_trip else reading.value
        entries.add((source, target), reading.metric, value, checked_at_s, round_trip=reading.is_round_trip)
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


def _any_list(raw: msgspec.Raw) -> list[Any]:
    """A list of whatever; nothing where it is no list, since labels are only other names."""
    try:
        value = msgspec.json.decode(raw)
    except UNREADABLE:
        return []
    return value if isinstance(value, list) else []


def _names(label: object, props: object) -> tuple[str, ...]:
    """Label, and every address that the properties name: the usual one and those for single peers."""
    properties = props if isinstance(props, Mapping) else {}
    names = [label, properties.get("label")]
    peers = properties.get("map")
    if isinstance(peers, Mapping):
        names += [of_peer.get("address") for of_peer in peers.values() if isinstance(of_peer, Mapping)]
    return tuple(name.strip() for name in names if isinstance(name, str) and name.strip())


MAX_GRIDS: Final = 500
ROUND_S: Final = 120.0  # For the grids of one fetch; those not reached by then keep their last good data
_VALUE_BYTES: Final = 36  # A check has 180 in its grid, and costs as much time as five values of other sources
_SIGN: Final = re.compile(r"[*?\[]")
_JSON: Final = msgspec.json.Decoder()


class MaddashSource:
    """A NetworkSource over one MaDDash server. `fetch` is called by one task at a time."""

    def __init__(self, settings: MaddashSettings, *, name: str = "maddash") -> None:
        self.name = name
        self._settings = settings
        self._client = HttpClient(settings)
        self.aclose = self._client.aclose
        self._listed: tuple[str, ...] = ()
        self._answers = LastAnswers(name, at_once=settings.in_flight, within_s=ROUND_S)

    async def fetch(self, *, now_s: float) -> Batch | None:
        """Read all grids of use; `None`: nothing is new. NetworkSourceError when nothing answered well."""
        problems = await self._list()
        # a grid that is named without any sign of a pattern need not be listed
        plain = (name for names in self._settings.grids.values() for name in names if not _SIGN.search(name))
        named = dict.fromkeys((*self._listed, *plain))
        grids = [name for name in named if any(self._counts(metric, name) for metric in METRICS)]
        if not grids:
            raise NetworkSourceError(f"{self.name}: {'; '.join(problems) or f'{self._client.url} has no grids'}")
        questions = {f"grid {name!r}": partial(self._ask, name, now_s) for name in grids}
        batch = await self._answers.ask(questions, now_s=now_s, problems=problems)
        if batch is None:
            return None
        there = {row.metric for row in batch.measurements}
        absent = (f"no grid gives a value of {metric}" for metric in METRICS if metric not in there)
        return replace(batch, problems=(*batch.problems, *absent))

    async def _list(self) -> list[str]:
        """Learn the names of grids, as far as the settings need them; sentences on what failed."""
        named = self._settings.grids
        if all(metric in named and not any(map(_SIGN.search, named[metric])) for metric in METRICS):
            return []
        problems: list[str] = []
        try:
            body = await self._client.ask("GET", "/grids")
            listed = read_grids(body, where=self._client.where("/grids"))
            if len(listed) > MAX_GRIDS:
                problems.append(f"{len(listed)} grids are listed: name those that count, only {MAX_GRIDS} are read")
            self._listed = listed[:MAX_GRIDS] or self._listed  # it lists none while it reloads
        except NetworkSourceError as error:
            problems.append(str(error))
        patterns = {name for names in named.values() for name in names if _SIGN.search(name)}
        met = {name for name in patterns if any(_matches(name, grid, self._listed) for grid in self._listed)}
        return problems + [f"no grid is called {name!r}" for name in sorted(patterns - met)]

    def _counts(self, metric: Metric, grid: str, check: str | None = None) -> bool:
        grids, checks = self._settings.grids.get(metric), self._settings.checks.get(metric)
        if grids is not None and not any(_matches(name, grid, self._listed) for name in grids):
            return False
        return check is None or checks is None or any(_matches(name, check, (check,)) for name in checks)

    async def _ask(self, name: str, now_s: float) -> SourceAnswer:
        # MaDDash decodes a grid's name twice
        body = await self._client.ask("GET", f"/grids/{quote(quote_plus(name), safe='')}")
        work = partial(read_grid, body, counts=partial(self._counts, grid=name), now_s=now_s)
        return await off_loop(len(body) // _VALUE_BYTES, work)


def _matches(pattern: str, name: str, present: Collection[str]) -> bool:
    return pattern == name or (pattern not in present and fnmatchcase(name, pattern))


def read_grids(body: bytes | bytearray, *, where: str) -> tuple[str, ...]:
    """Names of the grids, sorted, each once. Errors: NetworkSourceError when the body is no list of grids."""
    document = decoded(_JSON, body.removeprefix(b"\xef\xbb\xbf"), f"{where} is not a list of grids")
    entries = document.get("grids") if isinstance(document, dict) else None
    if not isinstance(entries, list):
        raise NetworkSourceError(f"{where} is not a list of grids: it has no 'grids'")
    names = [entry.get("name") for entry in entries if isinstance(entry, dict)]
    return tuple(sorted({name for name in names if isinstance(name, str) and name}))
