"""Turn the check times of a MaDDash server into ours.

Why: ages are our clock minus the server's, and nothing keeps the two equal. Rule: a server whose `Date` header is ahead
of our clock has its times moved back by the difference; a time that is still in the future counts from when it was
first seen, and from then on it ages, so that no clock keeps values young without end. A `Date` behind ours corrects
nothing: a cache that answers with an old page looks the same, and an age that is too high does less harm than one that
is too low. MaDDash's times are those of the check; the value may be older by the plugin's window.
"""

from collections.abc import Generator
from dataclasses import dataclass, replace
from typing import Final

from extender.network.maddash.grid import CellValue, CheckKey, GridReading

TOLERANCE_S: Final = 60.0
"""Clocks that differ by less are taken for equal: answers take time, and MaDDash counts in seconds."""
_SLICE: Final = 500


@dataclass(frozen=True, slots=True)
class Dated:
    """A reading whose times are ours."""

    reading: GridReading
    first_seen_s: dict[tuple[CheckKey, float], float]
    """check and its time in the server's future → when we saw it first, in our time; give it to the next call."""
    future: int
    """Times further ahead than the tolerance, after the correction."""


def date_in_slices(
    reading: GridReading, first_seen_s: dict[tuple[CheckKey, float], float], *, ahead_s: float, now_s: float
) -> Generator[None, None, Dated]:
    """Date a reading; `ahead_s` is by how much the server's clock is ahead of ours, at most 0 if it is not known.

    Cost: O(values), in slices of a few hundred.
    """
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
            ours_s = seen[key, value.checked_at_s] = min(first_seen_s.get((key, value.checked_at_s), now_s), now_s)
        values[key] = value if ours_s == value.checked_at_s else CellValue(value.kind, value.value, ours_s)
    return Dated(replace(reading, values=values), seen, future)


def clock_problem(ahead_s: float | None, future: int) -> str | None:
    """A sentence about the server's clock; `None`: it is right as far as can be seen."""
    if ahead_s is not None and ahead_s > TOLERANCE_S:
        return f"the server's clock is about {ahead_s / 60.0:.0f} min ahead of ours: its times are moved back"
    if future:
        return "some times of the server are in the future: they count from when they were first seen"
    if ahead_s is not None and ahead_s < -TOLERANCE_S:
        return (
            f"the server's answer is dated about {-ahead_s / 60.0:.0f} min ago (its clock, or a cache between): "
            "ages may be too high"
        )
    return None
