"""Read the number out of a check's message, as perfSONAR's plugins print it and MaDDash repeats it.

Why: MaDDash's grids carry values only as sentences ("Average throughput is 9.412Gbps"); picking out digits would fuse
the addresses of an error text into a number. Rule: the whole sentence must match, or the cell has no value and says
why with a constant from a closed set. Units become ours here, once: ratio, milliseconds, bit/s.
"""

import re
from decimal import Decimal
from enum import StrEnum
from functools import lru_cache
from typing import Final

import msgspec

from scoring.network.measurement import Metric

MAX_MESSAGE_CHARS: Final = 256  # A plugin's longest numeric sentence has about 60; MaDDash stores up to 2000


class CheckKind(StrEnum):
    """What a message is about. Round-trip time is kept apart: it must never mix with one-way delay."""

    LOSS = "loss"
    ONE_WAY_DELAY = "one_way_delay"
    ROUND_TRIP = "round_trip"
    THROUGHPUT = "throughput"


METRIC_OF: Final = {
    CheckKind.LOSS: Metric.LOSS,
    CheckKind.ONE_WAY_DELAY: Metric.DELAY,
    CheckKind.ROUND_TRIP: Metric.DELAY,
    CheckKind.THROUGHPUT: Metric.THROUGHPUT,
}


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


class Reading(msgspec.Struct, frozen=True):
    """One value: loss as ratio 0..1, delays in ms (one-way delay may be negative: clock skew), throughput in bit/s."""

    kind: CheckKind
    value: float


_PATTERN: Final = re.compile(
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
_METRICS: Final = (
    (re.compile(r"throughput|\bbandwidth\b", re.IGNORECASE), CheckKind.THROUGHPUT),
    (re.compile(r"\b(?:loss|lost)\b", re.IGNORECASE), CheckKind.LOSS),
    (re.compile(r"\brtt\b|round[ -]?trip|\bping\b", re.IGNORECASE), CheckKind.ROUND_TRIP),
    (re.compile(r"\b(?:delay|latency)\b", re.IGNORECASE), CheckKind.ONE_WAY_DELAY),
)
_TIMES: Final = {"s": Decimal(1000), "ms": Decimal(1), "us": Decimal("0.001")}
_RATES: Final = {f"{prefix}bps": Decimal(1000**power) for power, prefix in enumerate(("", "k", "m", "g", "t"))}
_SPELLINGS: Final = (  # what may stand for a unit → its usual form
    (re.compile(r"b(?:its?)?/s(?:ec)?$"), "bps"),
    (re.compile(r"(?<=s)ec(?:s|onds?)?$"), ""),
    (re.compile(r"^(?:[\u00b5\u03bc]|micro)"), "u"),
    (re.compile(r"^milli"), "m"),
    (re.compile(r"^percent$"), "%"),
)
_SCALES: Final = {  # kind → unit → factor to our unit
    CheckKind.LOSS: {"%": Decimal("0.01")},
    CheckKind.ONE_WAY_DELAY: _TIMES,
    CheckKind.ROUND_TRIP: _TIMES,
    CheckKind.THROUGHPUT: _RATES,
}
_RANGES: Final = {  # kind → lowest and highest possible value
    CheckKind.LOSS: (0.0, 1.0),
    CheckKind.ONE_WAY_DELAY: (-1e12, 1e12),
    CheckKind.ROUND_TRIP: (0.0, 1e12),
    CheckKind.THROUGHPUT: (0.0, 1e15),
}
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
    found = _PATTERN.fullmatch(text)
    if found is None:
        return Rejection.COMPARISON if _COMPARISON.search(text) else Rejection.NOT_NUMERIC
    written = found["unit"] or ""
    if _BYTES.fullmatch(written):
        return Rejection.WRONG_UNIT
    unit = written.lower()
    if unit.startswith("packets"):
        return Rejection.PACKETS_NOT_RATIO
    if found["stat"].lower() == "total":
        return Rejection.NOT_AVERAGE
    kind = metric_kind(found["metric"])
    if kind is None:
        return Rejection.OTHER_METRIC
    if unit not in _SCALES[kind]:
        for spelling, usual in _SPELLINGS:
            unit = spelling.sub(usual, unit)
    if unit not in _SCALES[kind]:
        return Rejection.WRONG_UNIT
    value = float(Decimal(found["number"]) * _SCALES[kind][unit])
    lowest, highest = _RANGES[kind]
    return Reading(kind, value + 0.0) if lowest <= value <= highest else Rejection.OUT_OF_RANGE  # −0.0 becomes 0.0


@lru_cache(maxsize=256)
def metric_kind(text: str) -> CheckKind | None:
    """What a phrase such as `95th percentile of delay` is about; `None`: nothing of ours."""
    if _NOT_OURS.search(text):
        return None
    return next((kind for pattern, kind in _METRICS if pattern.search(text)), None)
