"""What is said about links, one record per direction: for people, not for the planner.

Why: `netgang network show` needs what the planner does not, namely pairs that are checked and have no value, and which
grid a value is from. Rule: units as everywhere (ratio, ms, bit/s, seconds); `None` is not known, never 0.
"""

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Link:
    """One direction of a link. `None`: not known."""

    source: str
    target: str
    loss_ratio: float | None = None
    delay_ms: float | None = None
    throughput_bps: float | None = None
    age_s: float | None = None
    """Seconds since the oldest of the values was checked."""
    grid: str | None = None
    """Grids that the values are from, in the order loss, delay, throughput; of a link without values: that check it."""


@dataclass(frozen=True, slots=True)
class Survey:
    """Links sorted by source and target, and what there is to say about them."""

    links: tuple[Link, ...]
    labels: Mapping[str, str]
    """end → the label it is known by, where that is another text"""
    problems: tuple[str, ...]
    note: str = ""
    """What part of the whole is shown, where it is a part."""
