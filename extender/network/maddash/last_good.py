"""What is kept of one grid from round to round: its last good values, in our time.

Why: the server reloads its configuration hourly and then answers with errors, empty lists or half a grid for seconds;
and ages are our clock minus the server's, while nothing keeps the two equal. Rules: a grid with clearly fewer checks
than before, or without any value of those it had, keeps its last good ones with their old times. A server whose `Date`
header is ahead of our clock has its times moved back by the difference; a time that is still in the future counts from
when it was first seen, and from then on it ages, so that no clock keeps values young without end. A `Date` behind ours
corrects nothing: a cache that answers with an old page looks the same, and an age that is too high does less harm than
one that is too low. MaDDash's times are those of the check; the value may be older by the plugin's window.
"""

from collections.abc import Mapping
from typing import Final

import msgspec
from msgspec.structs import replace

from extender.network.batches import TOLERANCE_S
from extender.network.maddash.client import Document
from extender.network.maddash.grid import CellValue, CheckKey, GridReading, read_grid
from extender.network.maddash.messages import Rejection

COMPLETE_RATIO: Final = 0.8  # A grid with fewer than this share of its last checks is in the middle of a reload
SAME_POLLS: Final = 3  # … unless it has shown the same number of checks this many times in a row …
SAME_FOR_S: Final = 30.0  # … and for so long, twice the longest reload that was measured: then it did shrink


class KeptGrid(msgspec.Struct, frozen=True):
    """What is known of one grid, and how its last attempt went. Replaced as a whole, since threads make new ones."""

    listed_at_s: float = 0.0
    reading: GridReading | None = None
    read_at_s: float = 0.0
    tried_at_s: float = 0.0
    problem: str = ""  # Of the last attempt
    failed: bool = False  # Whether it gave nothing
    future: int = 0  # Times further ahead than the tolerance, after the correction
    partial: tuple[int, int, float] = (-1, 0, 0.0)  # Checks of a partial grid, in how many polls, since when
    first_seen_s: Mapping[tuple[CheckKey, float], float] = {}
    """check and its time in the server's future → when we saw it first, in our time"""

    def with_problem(self, name: str, problem: str, why: str = "") -> "KeptGrid":
        """After an attempt that gave nothing."""
        kept = "" if self.reading is None else ", its last good values stay"
        return replace(self, problem=f"grid {name!r} {problem}{kept}{why}")

    def with_answer(self, document: Document, *, name: str, now_s: float) -> "KeptGrid":
        """After an answer. Cost: O(checks). Errors: NetworkSourceError when it is no grid."""
        reading = read_grid(document.body, name=name)
        if self.reading is not None and reading.cells < COMPLETE_RATIO * self.reading.cells:
            cells, polls, since_s = self.partial if self.partial[0] == reading.cells else (reading.cells, 0, now_s)
            if polls + 1 < SAME_POLLS or now_s - since_s < SAME_FOR_S:
                said = f"has only {cells} of {self.reading.cells} checks, perhaps a reload"
                return replace(self.with_problem(name, said), partial=(cells, polls + 1, since_s))
        moved_s = document.ahead_s if document.ahead_s is not None and document.ahead_s > TOLERANCE_S else 0.0
        values: dict[CheckKey, CellValue] = {}
        seen: dict[tuple[CheckKey, float], float] = {}
        future = 0
        for key, value in reading.values.items():
            ours_s = value.checked_at_s - moved_s
            if ours_s > now_s:
                future += ours_s > now_s + TOLERANCE_S
                first_s = self.first_seen_s.get((key, value.checked_at_s), now_s)
                ours_s = seen[key, value.checked_at_s] = min(first_s, now_s)
            values[key] = value if ours_s == value.checked_at_s else CellValue(value.kind, value.value, ours_s)
        reading, problem = _with_last(replace(reading, values=values), self.reading)
        return KeptGrid(self.listed_at_s, reading, now_s, now_s, problem, future=future, first_seen_s=seen)


def _with_last(reading: GridReading, last: GridReading | None) -> tuple[GridReading, str]:
    """Give values of the last reading to checks that say nothing about their links, with their old times.

    These are checks that the server created again and has not run; and all checks, if all that had a value lost it at
    once: then the archive behind MaDDash is away, and not every link. One check among others that lost its has none.
    """
    if last is None:
        return reading, ""
    lost = not reading.values and any(reason is not Rejection.NOT_RUN for reason in reading.empty.values())
    carried = {
        key: last.values[key]
        for key, reason in reading.empty.items()
        if key in last.values and (lost or reason is Rejection.NOT_RUN)
    }
    said = f"grid {reading.name!r} has lost all its values at once: its last good values stay"
    return replace(reading, values={**reading.values, **carried}), said if lost and carried else ""


def clock_problem(ahead_s: float | None, future: int) -> str | None:
    """A sentence about the server's clock; `None`: it is right as far as can be seen."""
    if ahead_s is not None and ahead_s > TOLERANCE_S:
        return f"the server's clock is about {ahead_s / 60.0:.0f} min ahead of ours: its times are moved back"
    if future:
        return "some times of the server are in the future: they count from when they were first seen"
    if ahead_s is not None and ahead_s < -TOLERANCE_S:
        ago = f"dated about {-ahead_s / 60.0:.0f} min ago (its clock, or a cache between)"
        return f"the server's answer is {ago}: ages may be too high"
    return None
