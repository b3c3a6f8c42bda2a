"""What was measured of one link in one window, and the figures that a report says of it.

Windows add up: one that netgang did not take is merged with the next. Units: packets, milliseconds.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any


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
