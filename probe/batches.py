"""What is measured and not yet taken by netgang: some windows of all links, so that a leader change loses none.

Rule: bounded by `MOST`, about a minute of failing exchanges; the oldest is dropped first. If netgang took a report and
its answer was lost, the windows are reported twice: figures are ratios and percentiles, which that does not distort.
"""

from collections import deque
from collections.abc import Mapping
from typing import Any, Final

from probe.window import Window, figures, merged

MOST: Final = 6


class Batches:
    """Windows by peer (node's name), in the order of time."""

    def __init__(self) -> None:
        self._batches: deque[Mapping[str, Window]] = deque(maxlen=MOST)
        self._first = 0
        """number of the oldest, counted since the start"""

    def add(self, windows: Mapping[str, Window]) -> None:
        """Keep another batch."""
        if len(self._batches) == MOST:
            self._first += 1
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
