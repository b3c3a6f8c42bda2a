"""What was measured of one link in one window, the figures that a report says of it, and what an agent keeps of both.

Windows add up: one that netgang did not take is merged with the next. Units: packets, milliseconds. Agents keep what
netgang knew when it answered last: it has no database, and a leader that fails cannot hand over. Rules:
- Of windows at most `MOST_WINDOWS` a link, about a minute of failing exchanges, the oldest is dropped first. If netgang
  took a report and its answer was lost, windows are reported twice: figures are ratios and percentiles, which that does
  not distort.
- Of links, and of bursts, those `MOST` that were heard of last.
"""

from collections import OrderedDict, deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Generic, TypeAlias, TypeVar


@dataclass(slots=True)
class Window:
    """Packets whose fate is known, in the order in which they were sent."""

    answered: int = 0
    lost: int = 0
    lost_out: int | None = 0  # Of `lost`: on the way there; `None`: not known
    lost_back: int | None = 0
    suspect: int = 0  # Packets that the agents themselves may have spoilt; they are in none of the other figures
    rtts_ms: list[float] = field(default_factory=list)
    changes_ms: list[float] = field(default_factory=list)  # Difference of each round trip from the one before
    one_ways_ms: list[float] = field(default_factory=list)  # There alone; empty where the clocks are not known to agree

    @property
    def is_empty(self) -> bool:
        """Whether there is nothing to report."""
        return not (self.answered or self.lost or self.suspect)


def merged(windows: Sequence[Window]) -> Window:
    """One window for several that follow each other."""
    return Window(
        answered=sum(one.answered for one in windows),
        lost=sum(one.lost for one in windows),
        lost_out=_sum_known([one.lost_out for one in windows]),
        lost_back=_sum_known([one.lost_back for one in windows]),
        suspect=sum(one.suspect for one in windows),
        rtts_ms=[value for one in windows for value in one.rtts_ms],
        changes_ms=[value for one in windows for value in one.changes_ms],
        one_ways_ms=[value for one in windows for value in one.one_ways_ms],
    )


def figures(peer: str, window: Window) -> dict[str, Any]:
    """A link of a report's body (docs/reference/probe-agent.md).

    `rtt_ms` are the 50th and the 95th percentile; jitter is the mean difference of neighbouring round trips without
    their largest twentieth, which a single late answer of the peer would fill. Both are null without an answer.
    """
    changes = sorted(window.changes_ms)[: max(len(window.changes_ms) * 19 // 20, 1)]
    rtts = sorted(window.rtts_ms)
    return {
        "peer": peer,
        "sent": window.answered + window.lost,
        "lost_out": window.lost_out,
        "lost_back": window.lost_back,
        "lost": window.lost,
        "rtt_ms": [_rounded(percentile(rtts, 50)), _rounded(percentile(rtts, 95))] if rtts else None,
        "one_way_ms": _rounded(percentile(sorted(window.one_ways_ms), 50)) if window.one_ways_ms else None,
        "jitter_ms": _rounded(sum(changes) / len(changes)) if changes else None,
        "suspect": window.suspect,
    }


def percentile(ascending: Sequence[float], percent: int) -> float:
    """The nearest rank.

    >>> percentile([1.0, 2.0, 3.0, 4.0], 50), percentile([1.0, 2.0, 3.0, 4.0], 95)
    (2.0, 4.0)
    """
    return ascending[max(-(-len(ascending) * percent // 100), 1) - 1]


def _sum_known(counts: Sequence[int | None]) -> int | None:
    known = [one for one in counts if one is not None]
    return sum(known) if len(known) == len(counts) else None


def _rounded(value_ms: float) -> float:
    return round(value_ms, 4)  # a tenth of a microsecond


MOST_WINDOWS: Final = 6
MOST: Final = 128
LINKS_KEPT_S: Final = 3600.0
BURSTS_KEPT_S: Final = 172_800.0
_T = TypeVar("_T")
Aged: TypeAlias = Mapping[str, tuple[float, _T]]  # Peer, or id of a burst → age in seconds, what is known of it


class LastKnown(Generic[_T]):
    """What netgang knows of links or of bursts. Times are monotonic."""

    def __init__(self, kept_s: float) -> None:
        self._kept_s = kept_s
        self._known: OrderedDict[str, tuple[float, _T]] = OrderedDict()  # Key → when that was, what

    def keep(self, known: Aged[_T], *, now_s: float) -> None:
        """Remember these as of now."""
        for key, (age_s, what) in known.items():
            self._known[key] = now_s - age_s, what
            self._known.move_to_end(key)
        while len(self._known) > MOST:
            self._known.popitem(last=False)

    def at(self, now_s: float) -> dict[str, tuple[float, _T]]:
        """The same with the ages that they have at `now_s`.

        >>> memory = LastKnown[str](kept_s=3600.0)
        >>> memory.keep({"n2": (5.0, "a link")}, now_s=100.0)
        >>> memory.at(110.0), memory.at(9999.0)
        ({'n2': (15.0, 'a link')}, {})
        """
        aged = {key: (round(max(now_s - at_s, 0.0), 1), what) for key, (at_s, what) in self._known.items()}
        return {key: one for key, one in aged.items() if one[0] <= self._kept_s}


class Batches:
    """Windows by peer (node's name), in the order of time."""

    def __init__(self) -> None:
        self._batches: deque[Mapping[str, Window]] = deque(maxlen=MOST_WINDOWS)
        self._first = 0  # Number of the oldest, counted since the start

    def add(self, windows: Mapping[str, Window]) -> None:
        """Keep another batch."""
        self._first += len(self._batches) == MOST_WINDOWS
        self._batches.append(windows)

    def links(self) -> tuple[list[dict[str, Any]], int]:
        """Figures of all links with anything to report, and a mark for `taken`."""
        windows: dict[str, list[Window]] = {}
        for batch in self._batches:
            for peer, window in batch.items():
                if not window.is_empty:
                    windows.setdefault(peer, []).append(window)
        found = [figures(peer, merged(several)) for peer, several in sorted(windows.items())]
        return found, self._first + len(self._batches)

    def taken(self, mark: int) -> None:
        """Forget what netgang has: everything before the mark."""
        while self._batches and self._first < mark:
            self._batches.popleft()
            self._first += 1
