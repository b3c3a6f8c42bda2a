"""GET /v1/network/{source}/{target}: one link; and the links between a gang's nodes, a part of other documents."""

import msgspec

from extender.schemas.record import Record


class Measured(Record):
    """The newest value of one direction."""

    value: float
    age_s: float
    origin: str  # Its source.


class LinkPart(Record):
    """One metric of a link: both directions, and what counts of them."""

    there: Measured | None
    back: Measured | None
    counts: float | None  # The value that the score uses.
    basis: str = msgspec.field(name="from")
    """What `counts` rests on: both directions, one of them, the median between the nodes' zones, or nothing."""
    no_better_than: float | None = None
    """What both say, where one is too old to count: the link has no more points than for this."""


class LinkMetric(LinkPart, kw_only=True):
    """One metric of a link that was asked for."""

    unit: str  # ratio, ms or bit/s.
    endpoints: tuple[str | None, ...]  # Where the two nodes are measured.
    points: float


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


class GangMetric(Record):
    """One metric of a gang's links."""

    unit: str
    worst: float | None
    oldest_s: float | None
    sources: dict[str, int]  # source → values from it.
    basis: dict[str, int] = msgspec.field(name="from")  # What values rest on → how many.


class GangLink(Record):
    """One of a gang's links."""

    source: str
    target: str
    pairs: int  # Pairs of members that use it.
    points: float
    stale: bool
    metrics: dict[str, LinkPart]


class GangLinks(Record):
    """The links between a gang's nodes: by metric where the values are from, and the worst one by one."""

    nodes: int  # Nodes of its members that are compared.
    of_nodes: int
    links: int
    reference_bps: float | None
    metrics: dict[str, GangMetric]
    worst: tuple[GangLink, ...]
    left_out: int  # Links that are not in `worst`.
