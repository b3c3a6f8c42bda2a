"""What an agent keeps: windows that netgang has not taken yet, and what netgang knew when it answered last.

Why here: netgang has no database, and a leader that fails cannot hand over; so the agents tell the next one. Rules:
- Of windows at most `MOST_WINDOWS` a link, about a minute of failing exchanges, the oldest is dropped first. If netgang
  took a report and its answer was lost, windows are reported twice: figures are ratios and percentiles, which that does
  not distort.
- Of links, and of bursts, those `MOST` that were heard of last.
"""

from collections import OrderedDict, deque
from collections.abc import Mapping
from typing import Any, Final, Generic, TypeAlias, TypeVar

from probe.window import Window, figures, merged

MOST_WINDOWS: Final = 6
MOST: Final = 128
LINKS_KEPT_S: Final = 3600.0
BURSTS_KEPT_S: Final = 172_800.0
_T = TypeVar("_T")
Aged: TypeAlias = Mapping[str, tuple[float, _T]]  # Peer, or id of a burst → age in seconds, what is known of it


class Memory(Generic[_T]):
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

        >>> memory = Memory[str](kept_s=3600.0)
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
