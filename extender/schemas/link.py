"""GET /v1/network/{source}/{target}: one link."""

import msgspec

from extender.schemas.record import Record


class Measured(Record):
    """The newest value of one direction."""

    value: float
    age_s: float
    origin: str  # Its source.


class LinkMetric(Record):
    """One metric of a link: both directions, and what counts of them."""

    there: Measured | None
    back: Measured | None
    counts: float | None  # The value that the score uses.
    basis: str = msgspec.field(name="from")
    """What `counts` rests on: both directions, one of them, the median between the nodes' zones, or nothing."""
    unit: str  # ratio, ms or bit/s.
    endpoints: tuple[str | None, ...]  # Where the two nodes are measured.
    points: float
    no_better_than: float | None = None
    """What both say, where one is too old to count: the link has no more points than for this."""


class Link(Record):
    """Both directions of the link between two nodes, and what it is worth among the nodes of their zones."""

    source: str
    target: str
    version: int  # Of the network's values.
    same_endpoint: bool  # The nodes are one, or share their endpoint: the link is perfect by definition.
    stale: bool  # Some value is old: its points fade.
    points: float  # 0 to 100.
    reference_bps: float | None  # The throughput that has full points.
    compared_with: int  # Nodes among which it is compared.
    metrics: dict[str, LinkMetric]  # loss, delay, throughput.
