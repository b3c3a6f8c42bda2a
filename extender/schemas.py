"""Documents under /v1 and /readyz that are about netgang itself; those about gangs are records of `scoring.explain`.

The server encodes a record, the client decodes it; OpenAPI and the docs have the text beside or below each field.
Rules: a client ignores the fields that it does not know, and words of a closed set are `str`. `UNSET` is a field that
is left out; `None` and NaN are written as null.
"""

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Annotated

import msgspec
from msgspec import UNSET, Meta, UnsetType, field

from scoring import EndpointId, NodeName
from scoring.records import DegradedLinks, GangWeight, PairCounts, PairReading, Point


class Problem(msgspec.Struct, frozen=True):
    """What went wrong with a request; `status` repeats the HTTP status, `detail` is a sentence for people."""

    type: str = "about:blank"
    title: str = ""
    status: int = 0
    detail: str = ""


class Workers(msgspec.Struct, frozen=True):
    """How many workers a job has, and may have."""

    now: int
    min: int
    max: int
    min_from: str | None  # What says the minimum.


class Placement(msgspec.Struct, frozen=True):
    """Where a job's pods are."""

    zones: tuple[str, ...]
    nodes: dict[str, int]  # node → pods.


class MetricsDemand(msgspec.Struct, frozen=True):
    """What a job's own metrics ask for."""

    policy: str
    workers: int | UnsetType | None = UNSET  # Left out, as `reason` and `detail`: there is no report yet.
    reason: str | UnsetType = UNSET
    detail: str | UnsetType = UNSET


class LastReport(Point, frozen=True, kw_only=True):
    """The last report."""

    age_s: float


class WorkerChange(msgspec.Struct, frozen=True):
    """One change of a job's worker count."""

    before: int
    after: int
    who: str  # What decided it.
    why: str
    beneficiary: str | None = msgspec.field(name="for")  # The gang that it is for.
    stage: str
    decided_s: float  # Unix seconds, as all times of a change.
    gone_s: float | None
    ended_s: float | None
    took_s: float | None  # How long it took.
    lost_pod_s: float | None  # Pod-seconds that were idle because of it.


class Job(msgspec.Struct, frozen=True):
    """An elastic job in short."""

    job: str  # NAMESPACE/NAME.
    kind: str
    state: str  # WAITING, STARVING, RUNNING or COMPLETED.
    gang: str | None
    weight: GangWeight | None
    workers: Workers
    placement: Placement
    network: float | None  # Mean points of the links between its nodes.
    refusal: str | None  # Why it is not resized.
    wish: str  # What the last scaling decision says of it.
    metrics: MetricsDemand | None  # null: it is not elastic.
    reported: LastReport | None
    last_change: WorkerChange | None


class Points(msgspec.Struct, frozen=True):
    """A job's reports."""

    kept: int
    last: tuple[Point, ...]


class JobInFull(Job, frozen=True, kw_only=True):
    """One job, with its pods, reports and the history of its changes."""

    uid: str
    pods: dict[str, str | None]  # pod → node.
    changes: tuple[WorkerChange, ...]
    points: Points


class FirstWaiting(msgspec.Struct, frozen=True):
    """The gang for which jobs may shrink, and why none does."""

    gang: str | None
    reason: str | None
    detail: str


class JobList(msgspec.Struct, frozen=True):
    """All jobs of kinds that netgang resizes, by name."""

    at_s: float  # Unix seconds.
    counts: dict[str, int]  # state → jobs.
    first_waiting: FirstWaiting
    jobs: tuple[Job, ...]
    of: int  # More than are shown: see `limit`.


class Accepted(msgspec.Struct, frozen=True):
    """The outcome of a report."""

    accepted: int  # Points that were taken.
    step: int | None  # The last step.


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
    since_s: float | None = None  # Unix seconds of this leader's first values.
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
    rules: tuple[str, ...] = ()  # For each of `unused` the entry of `network.mapping` that would give it nodes.


class SourcesStatus(msgspec.Struct, frozen=True):
    """How sources and mapping do."""

    version: int
    published_at_s: float | None  # Unix seconds.
    sources: tuple[Source, ...]
    pairs: Mapping[str, PairCounts]  # metric → directed pairs of endpoints with a value, by its age.
    mapping: MappedNodes | None
    crash: str | None  # An error that netgang did not expect.


class AgentsAmiss(msgspec.Struct, frozen=True):
    """Nodes whose agents have the same trouble: the first five, and their zone if all are of one of several."""

    count: int
    since_s: float | None  # Unix seconds, of the first; null: not known.
    nodes: tuple[str, ...]
    zone: str | None

    @property
    def where(self) -> str:
        """Since when, if that is known, the first nodes, how many more there are, and the zone if all are of one."""
        since_s, more = self.since_s, self.count - len(self.nodes)
        since = "" if since_s is None else f" since {datetime.fromtimestamp(since_s, UTC):%Y-%m-%d %H:%M:%S} UTC"
        names = ", ".join(self.nodes) + (f" and {more} more" if more > 0 else "")
        return f"{since}: {names}{f'; all in zone {self.zone}' if self.zone is not None else ''}"


class ProbeAgents(msgspec.Struct, frozen=True):
    """The agents of the probe; absent are nodes whose agent has never reported to this leader."""

    reporting: int  # Report, and get answers from peers, or have no peers yet.
    silent: AgentsAmiss
    absent: AgentsAmiss
    unanswered: AgentsAmiss  # Report, and none of their packets is answered.

    @property
    def known(self) -> int:
        """How many have reported."""
        return self.reporting + self.silent.count + self.unanswered.count


class Network(msgspec.Struct, frozen=True):
    """Sources and mapping of the network data, and the values between some nodes."""

    version: int
    evaluated_at_s: float  # Unix seconds.
    metrics: dict[str, KnownPairs]  # loss, delay, throughput.
    zones: dict[str, int]  # zone → nodes.
    pairs: Pairs
    endpoints: dict[str, tuple[str | None, ...]] = {}  # node of `pairs` → where loss, delay, throughput are measured.
    status: SourcesStatus | UnsetType = UNSET  # Left out: there are no sources.
    degraded: tuple[DegradedLinks, ...] = ()  # Nodes, and zones as a whole, with bad links; at most 100.
    probe: ProbeAgents | UnsetType = UNSET  # Left out: the probe is off, or this replica does not lead.


class LinkMetric(msgspec.Struct, frozen=True):
    """One metric of a link: both directions, and what counts of them."""

    there: PairReading | None
    back: PairReading | None
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
    stale: bool  # Some value is old: its points fade.
    points: float  # 0 to 100.
    reference_bps: float | None  # The throughput that has full points.
    compared_with: int  # Nodes among which it is compared.
    metrics: dict[str, LinkMetric]  # loss, delay, throughput.


MOST_LINKS = 128
MOST_MEMORY_CHARS = 48 << 10
_Name = Annotated[str, Meta(min_length=1, max_length=253)]
_Count = Annotated[int, Meta(ge=0, le=1_000_000)]
_Ms = Annotated[float, Meta(ge=0.0, le=600_000.0)]
_Bps = Annotated[float, Meta(ge=0.0, le=1e15)]


class ProbedLink(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One link since the agent's last report that was taken; suspect packets are in no other field."""

    peer: _Name  # Node at the other end.
    sent: _Count
    lost: _Count  # Of those sent, without an answer.
    lost_out: _Count | None = None  # On the way to the peer; null: not known.
    lost_back: _Count | None = None  # On the way back; null: not known.
    rtt_ms: _Ms | None = None  # Median round trip; null: no packet was answered.
    one_way_ms: _Ms | None = None  # To the peer; null: clocks are not known to be synchronised.
    suspect: _Count = 0  # Packets that the agents themselves may have spoilt.


class BurstResult(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What the client of a burst found; taken once, from the agent that the burst was assigned to."""

    id: Annotated[str, Meta(min_length=1, max_length=64)]
    sent_bps: _Bps | None = None  # To the server, bits a second; null: not known.
    received_bps: _Bps | None = None  # From the server.
    error: Annotated[str, Meta(max_length=200)] = ""


class ProbeReport(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What an agent sends every `interval_s`."""

    node: _Name  # That of the agent's own pod.
    since_s: Annotated[float, Meta(ge=0.0, le=1e11)]  # Unix seconds: when the agent began.
    sequence: Annotated[int, Meta(ge=0, le=2**53)]  # Grows with each report of this `since_s`.
    reflector_port: Annotated[int, Meta(ge=1, le=65535)]  # UDP port at which the agent answers.
    links: Annotated[list[ProbedLink], Meta(max_length=MOST_LINKS)] = field(default_factory=list)
    memory: Annotated[str, Meta(max_length=MOST_MEMORY_CHARS)] = ""  # If `resend`: the last one that was answered.
    iperf3: bool | None = None  # Whether the agent can run bursts; null: netgang did not ask for it.
    burst: BurstResult | None = None


class ProbePeer(msgspec.Struct, frozen=True, omit_defaults=True):
    """A node to measure."""

    node: str
    address: str
    port: int  # UDP port of its reflector.


class ProbeBurst(msgspec.Struct, frozen=True):
    """One measurement of throughput by iperf3, both directions at once, between this agent and one other."""

    id: str
    server: bool  # Whether this agent is the server, which waits for the other.
    address: str  # Of the other agent, the only one that the server takes.
    port: int  # TCP port of the server.
    seconds: float  # Longest time of the burst.
    size_bytes: int  # Most bytes of each direction.
    wait_s: float  # So long the server waits for the client.


class ProbeOrders(msgspec.Struct, frozen=True, omit_defaults=True):
    """What the agent is to do until its next report."""

    interval_s: float  # Seconds until the next report.
    packet_interval_s: float  # Seconds between two packets to one peer.
    peers: tuple[ProbePeer, ...]
    reflect_for: tuple[str, ...]  # Addresses whose packets are answered, and no others.
    resend: bool = False  # This leader is new: go on as before, and send links again, with `memory`.
    throughput: bool = False  # Whether netgang gives out bursts: then reports say `iperf3`.
    burst: ProbeBurst | None = None  # To be run now.
    memory: str = ""  # To be kept for the next leader, signed: what is known of the node's links and bursts.


class Watch(msgspec.Struct, frozen=True):
    """How the watch of a kind of objects does; counts are since the start."""

    path: str
    synced: bool
    absent: bool  # The kind is not installed.
    contact_age_s: float | None  # Seconds since the API server last said something: a list, an event, a bookmark.
    relists: int
    watches: int
    events: int
    unreadable: int  # How often an object could not be read.
    unreadable_now: int
    errors: int
    last_error: str


class CacheSizes(msgspec.Struct, frozen=True):
    """How much the cache holds."""

    version: int
    nodes: int
    pods: int
    pod_groups: int
    gangs: int
    assumed: int
    commitments: int
    excluded_pairs: int
    backing_off: int
    kept_for_daemon_sets: int


class Standing(msgspec.Struct, frozen=True):
    """Which replica leads, as far as this one knows."""

    leading: bool
    identity: str
    holder: str | None
    transitions: int | None
    terms: int
    led_for_s: float | None
    last_error: str


class NetworkSources(msgspec.Struct, frozen=True):
    """How sources and mapping do, in short."""

    sources: tuple[Source, ...]
    mapping: MappedNodes | UnsetType = UNSET
    probe: ProbeAgents | UnsetType = UNSET


class PartStates(msgspec.Struct, frozen=True):
    """The state of the parts."""

    sync: dict[str, Watch]  # kind → its watch.
    cache: CacheSizes
    notes: str | UnsetType = UNSET  # Why netgang's own notes are not written.
    started: str | UnsetType = UNSET  # Why the next netgang would not know which gangs have started.
    leadership: Standing | UnsetType = UNSET
    network: NetworkSources | UnsetType = UNSET


class Readiness(msgspec.Struct, frozen=True):
    """Whether kube-scheduler should be sent here, why not, and the state of the parts."""

    ready: bool
    reasons: tuple[str, ...]
    detail: PartStates
