"""What is kept of one grid from round to round: its last good values, in our time.

Why: the server reloads its configuration hourly and then answers with errors, empty lists or half a grid for seconds;
and ages are our clock minus the server's, while nothing keeps the two equal. Rules: a grid with clearly fewer checks
than before, or without any value of those it had, keeps its last good ones with their old times. A server whose `Date`
header is ahead of our clock has its times moved back by the difference; a time that is still in the future counts from
when it was first seen, and from then on it ages, so that no clock keeps values young without end. A `Date` behind ours
corrects nothing: a cache that answers with an old page looks the same, and an age that is too high does less harm than
one that is too low. MaDDash's times are those of the check; the value may be older by the plugin's window.
"""

from collections.abc import Generator
from dataclasses import dataclass, field, replace
from typing import Final

from extender.network.batches import TOLERANCE_S
from extender.network.maddash.grid import CellValue, CheckKey, GridReading
from extender.network.maddash.messages import Rejection

COMPLETE_RATIO: Final = 0.8  # A grid with fewer than this share of its last checks is in the middle of a reload
SAME_POLLS: Final = 3  # … unless it has shown the same number of checks this many times in a row …
SAME_FOR_S: Final = 30.0  # … and for so long, twice the longest reload that was measured: then it did shrink
SLOW_S: Final = 5.0  # A grid that takes longer rests for `REST_RATIO` times as long before it is asked again
REST_RATIO: Final = 4.0
_SLICE: Final = 500


@dataclass(slots=True)
class KeptGrid:
    """What is known of one grid."""

    reading: GridReading | None = None
    digest: bytes = b""
    etag: str = ""
    parsed: int = 0
    read_at_s: float = 0.0
    listed_at_s: float = 0.0
    failed: bool = False
    tried_at_s: float = 0.0
    future: int = 0  # Times further ahead than the tolerance, after the correction
    note: str | None = None
    _partial: tuple[int, int, float] = (-1, 0, 0.0)  # Checks of a partial grid, in how many polls, since when
    _rests: tuple[float, float] = (0.0, 0.0)  # Not asked from … to …, Unix seconds; a clock that was set back ends it
    _first_seen_s: dict[tuple[CheckKey, float], float] = field(default_factory=dict)
    """check and its time in the server's future → when we saw it first, in our time"""

    @property
    def kept(self) -> str:
        """For a sentence about a failure."""
        return "" if self.reading is None else ", its last good values stay"

    def is_resting(self, now_s: float) -> bool:
        """Whether the grid took so long that it is not asked now."""
        return self._rests[0] <= now_s < self._rests[1]

    def took(self, seconds: float, *, now_s: float) -> None:
        """Note how long an attempt that began at `now_s` took."""
        self._rests = (now_s, now_s + REST_RATIO * seconds) if seconds > SLOW_S else (0.0, 0.0)

    def accept(self, now_s: float) -> None:
        """What the grid said is as good as read now."""
        self.failed = False
        self._partial = (-1, 0, 0.0)
        self.read_at_s = now_s

    def forget_dates(self) -> None:
        """Judge times that lay in the future again: our own clock was set."""
        if self._first_seen_s:
            self._first_seen_s, self.digest, self.etag = {}, b"", ""

    def looks_partial(self, reading: GridReading, now_s: float) -> bool:
        """Whether a new reading is taken for half a grid."""
        if self.reading is None or reading.cells >= COMPLETE_RATIO * self.reading.cells:
            return False
        cells, polls, since_s = self._partial if self._partial[0] == reading.cells else (reading.cells, 0, now_s)
        self._partial = (cells, polls + 1, since_s)
        return polls + 1 < SAME_POLLS or now_s - since_s < SAME_FOR_S

    def take_in_slices(self, reading: GridReading, *, ahead_s: float, now_s: float) -> Generator[None, None, None]:
        """Take a reading over; `ahead_s`: the server's clock before ours, or 0. Cost: O(values), in slices."""
        moved_s = ahead_s if ahead_s > TOLERANCE_S else 0.0
        values: dict[CheckKey, CellValue] = {}
        seen: dict[tuple[CheckKey, float], float] = {}
        future = 0
        for number, (key, value) in enumerate(reading.values.items()):
            if number % _SLICE == 0:
                yield
            ours_s = value.checked_at_s - moved_s
            if ours_s > now_s:
                future += ours_s > now_s + TOLERANCE_S
                first_s = self._first_seen_s.get((key, value.checked_at_s), now_s)
                ours_s = seen[key, value.checked_at_s] = min(first_s, now_s)
            values[key] = value if ours_s == value.checked_at_s else CellValue(value.kind, value.value, ours_s)
        self._first_seen_s, self.future = seen, future
        self.reading, self.note = _with_last(replace(reading, values=values), self.reading)


def _with_last(reading: GridReading, last: GridReading | None) -> tuple[GridReading, str | None]:
    """Give values of the last reading to checks that say nothing about their links, with their old times.

    These are checks that the server created again and has not run; and all checks, if all that had a value lost it at
    once: then the archive behind MaDDash is away, and not every link. One check among others that lost its has none.
    """
    if last is None or not last.values:
        return reading, None
    lost = not reading.values and any(reason is not Rejection.NOT_RUN for reason in reading.empty.values())
    carried = {
        key: last.values[key]
        for key, reason in reading.empty.items()
        if key in last.values and (lost or reason is Rejection.NOT_RUN)
    }
    if not carried:
        return reading, None
    shows = dict(reading.shows)
    for key, value in carried.items():
        shows[key.check] = shows.get(key.check, frozenset()) | {value.kind}
    said = f"grid {reading.name!r} has lost all its values at once: its last good values stay" if lost else None
    return replace(reading, values={**reading.values, **carried}, shows=shows), said


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
