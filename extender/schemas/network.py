"""GET /v1/network: the network as the planner sees it; GET /v1/network/{source}/{target}: one link."""

from collections.abc import Mapping

import msgspec
from msgspec import UNSET, UnsetType

from scoring.ids import EndpointId, NodeName
from scoring.network.matrix import Known, PairCounts


class KnownPairs(msgspec.Struct, frozen=True):
    """How much of a metric is known."""

    known_pairs: int
    mapped_nodes: int  # Nodes with an endpoint.
    nodes: int


class Pairs(msgspec.Struct, frozen=True):
    """Values and ages of all directed pairs of some nodes, as matrices indexed [from][to]; null is unknown."""

    zone: str | None  # The one that was asked for.
    nodes: tuple[str, ...]
    of: int  # Nodes of the zone, or of the cluster.
    loss_ratio: list[list[float | None]]
    delay_ms: list[list[float | None]]
    throughput_bps: list[list[float | None]]
    loss_age_s: list[list[float | None]]
    delay_age_s: list[list[float | None]]
    throughput_age_s: list[list[float | None]]


class Source(msgspec.Struct, frozen=True):
    """How a source of measurements does."""

    name: str
    last_success_s: float | None = None  # Unix seconds of the last good answer.
    error: str | None = None  # Why the last attempt failed; null: it did not.
    failures: int = 0  # Failed attempts since the last success.
    measurements: int = 0
    endpoints: int = 0
    problems: tuple[str, ...] = ()
    rejected: dict[str, int] = msgspec.field(default_factory=dict)  # why → values that were not taken.


class AmbiguousNode(msgspec.Struct, frozen=True):
    """A node whose endpoint is not certain: several candidates, or one that several nodes claim."""

    metric: str
    node: NodeName
    candidates: tuple[EndpointId, ...]
    reason: str
    more_candidates: int = 0


class LeftOut(msgspec.Struct, frozen=True):
    """How many more entries each list has."""

    unmapped: dict[str, int]
    ambiguous: int
    unknown: int
    unused: int


class MappedNodes(msgspec.Struct, frozen=True):
    """Where nodes are measured: counts, and the first of each list."""

    nodes: dict[str, dict[str, int]]  # metric → mapped, unmapped, ambiguous → nodes.
    unmapped: dict[str, tuple[str, ...]]  # metric → nodes without an endpoint.
    ambiguous: tuple[AmbiguousNode, ...]
    unknown: tuple[str, ...]  # Sentences about endpoints that settings or annotations name, and no source knows.
    unused: tuple[str, ...]  # Endpoints at which no node is measured.
    left_out: LeftOut


class SourcesStatus(msgspec.Struct, frozen=True):
    """How sources and mapping do."""

    version: int
    published_at_s: float | None  # Unix seconds.
    sources: tuple[Source, ...]
    known_pairs: Mapping[str, int]  # metric → directed pairs of endpoints with a value.
    pairs: Mapping[str, PairCounts]  # metric → the same by age.
    mapping: MappedNodes | None
    crash: str | None  # An error that netgang did not expect.


class AgentsAmiss(msgspec.Struct, frozen=True):
    """Nodes whose agents have the same trouble: the first five, and their zone if all are of one of several."""

    count: int
    since_s: float | None  # Unix seconds, of the first; null: not known.
    nodes: tuple[str, ...]
    zone: str | None


class ProbeAgents(msgspec.Struct, frozen=True):
    """The agents of the probe; absent are nodes whose agent has never reported to this leader."""

    reporting: int  # Report, and get answers from peers, or have no peers yet.
    silent: AgentsAmiss
    absent: AgentsAmiss
    unanswered: AgentsAmiss  # Report, and none of their packets is answered.


class DegradedLinks(msgspec.Struct, frozen=True):
    """A node, or a zone as a whole, with bad links of one metric inside its zone."""

    kind: str  # node or zone.
    name: str
    metric: str  # loss, delay or throughput.
    bad: int  # Directed links.
    of: int
    worst: float  # In the metric's unit: ratio, ms or bit/s.
    source: str  # From and to, of the worst.
    target: str


class Network(msgspec.Struct, frozen=True):
    """Sources and mapping of the network data, and the values between some nodes."""

    version: int
    evaluated_at_s: float  # Unix seconds.
    metrics: dict[str, KnownPairs]  # loss, delay, throughput.
    zones: dict[str, int]  # zone → nodes.
    pairs: Pairs
    status: SourcesStatus | UnsetType = UNSET  # Left out: there are no sources.
    degraded: tuple[DegradedLinks, ...] = ()  # Nodes, and zones as a whole, with bad links; at most 100.
    probe: ProbeAgents | UnsetType = UNSET  # Left out: the probe is off, or this replica does not lead.


class LinkMetric(msgspec.Struct, frozen=True):
    """One metric of a link: both directions, and what counts of them."""

    there: Known | None
    back: Known | None
    counts: float | None  # The value that the score uses.
    basis: str = msgspec.field(name="from")
    """What `counts` rests on: both directions, one of them, the median between the nodes' zones, or nothing."""
    unit: str  # ratio, ms or bit/s.
    endpoints: tuple[str | None, ...]  # Where the two nodes are measured.
    points: float
    no_better_than: float | None = None
    """What both say, where one is too old to count: the link has no more points than for this."""


class LinkInFull(msgspec.Struct, frozen=True):
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
