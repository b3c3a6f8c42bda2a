"""What netgang says of gangs, jobs and links: the answers of /v1 as records, which the CLI and other clients read.

Why a module of its own: whoever prints a table need not import what decides, nor numpy. Rule: nothing but msgspec is
needed here. Words of a closed set are `str`, because a client may be older than the service that it asks.
"""

from collections.abc import Mapping
from enum import StrEnum
from typing import NamedTuple

import msgspec
from msgspec import UNSET, UnsetType
from msgspec.structs import replace

from scoring import GangKey, Metric, NodeName, ResourceName, ZoneName, value_text


class Unknown(StrEnum):
    """Why it is not known when a gang starts; the sentences are in `scoring.explain.words`."""

    NEVER = "NEVER"
    NOT_FOR_ROOM = "NOT_FOR_ROOM"
    LENGTH = "LENGTH"
    RESERVED = "RESERVED"
    OTHERS = "OTHERS"
    FAR = "FAR"


class ExpectedStart(msgspec.Struct, frozen=True):
    """When a gang is expected to start, or why that is not known."""

    start_s: float | None = None  # Unix seconds; null: it is not known.
    after: GangKey | None = None  # Whose end it waits for last; where nothing is known, the gang that is in the way.
    promised: bool = False  # The plan has promised it a start: gangs that come later do not delay it.
    unknown: str | None = None  # NEVER, NOT_FOR_ROOM, LENGTH, RESERVED, OTHERS or FAR (docs/explanation/queue.md).
    text: str = ""  # The same as a sentence.


class GangWeight(msgspec.Struct, frozen=True):
    """KOD2's weight of a gang."""

    omega_prime: float  # ω′, which orders the queue.
    exact: str  # ω′ as a fraction.
    omega: float
    given: bool  # An operator set it.


class MemberCounts(msgspec.Struct, frozen=True):
    """How many pods a gang has, by what they do."""

    min_available: int
    pending: int
    running: int  # On a node and not ended.
    succeeded: int
    failed: int


class QueuedGang(msgspec.Struct, frozen=True):
    """One gang in the queue."""

    gang: GangKey
    queue: str  # WQ, RQ or FQ.
    state: str  # WAITING, STARVING, RUNNING or COMPLETED.
    rank: int | None  # Its place among those that want nodes and may start, from 1.
    priority: int
    weight: GangWeight
    created_s: float  # Unix seconds.
    waiting_since_s: float | None  # Unix seconds.
    waited_s: float | None  # null: it does not wait, or cannot start as it is.
    starves_in_s: float | None  # 0: it is STARVING; null: it never will be as it is.
    running_since_s: float | None  # Unix seconds.
    members: MemberCounts
    admitted: bool  # The plan has nodes for it.
    zone: str | None  # Of its nodes: planned, reserved, or those on which it runs; with commas.
    held_nodes: tuple[NodeName, ...]  # Nodes that are reserved for it.
    makes_room: tuple[GangKey, ...]  # Gangs that leave, or have left, for it.
    leaves_for: GangKey | None  # The gang for which it leaves, or has left.
    code: str | None  # Name of the reason for which it waits.
    reason: str | None  # That reason, a constant sentence.
    detail: str  # The same with numbers.
    expected_start: ExpectedStart | None = None  # null: it does not wait, no gang has a length, or it just came.
    bad_link: str = ""  # The worst link between its nodes, if it is bad.


class Queue(msgspec.Struct, frozen=True):
    """Every gang, those that wait first, in the order of their turns."""

    at_s: float  # Unix seconds.
    order: str  # weight, fifo or another order of the settings.
    counts: Mapping[str, int]  # state → gangs.
    gangs: tuple[QueuedGang, ...]


class AdmittedGang(msgspec.Struct, frozen=True):
    """A gang that the plan gives nodes."""

    gang: GangKey
    rank: int
    zone: str  # Its zones, with commas.
    score: float | None  # Mean points (0 to 100) of its links.
    committed: bool
    members: Mapping[str, NodeName]  # pod → node.
    state: str | UnsetType = UNSET  # `netgang plan` alone, as `weight`: as in the queue.
    weight: GangWeight | UnsetType = UNSET


class WaitingGang(msgspec.Struct, frozen=True):
    """A gang that waits."""

    gang: GangKey
    rank: int | None  # null: it never starts as it is.
    code: str  # Name of the reason.
    reason: str
    detail: str  # The same with numbers.
    state: str | UnsetType = UNSET  # `netgang plan` alone, as `weight`: as in the queue.
    weight: GangWeight | UnsetType = UNSET


class PlannedGangs(msgspec.Struct, frozen=True):
    """Admitted gangs with their nodes, waiting ones with their reasons, both in the order of the plan."""

    version: int
    admitted: tuple[AdmittedGang, ...]
    waiting: tuple[WaitingGang, ...]


class PlanInForce(PlannedGangs, frozen=True, kw_only=True):
    """The plan of a running service, and how far it is carried out."""

    committed: Mapping[GangKey, int]  # gang → members whose nodes are committed.
    being_admitted: tuple[GangKey, ...]  # Gangs whose gates are being opened.
    held_binds: int  # Bind calls that wait for the rest of their gang.


class PlanOfFiles(PlannedGangs, frozen=True, kw_only=True):
    """What `netgang plan` shows: the plan of a saved cluster with its queue."""

    order: str  # weight, fifo or another order of the settings.
    held: Mapping[GangKey, tuple[NodeName, ...]]  # gang → nodes that are reserved for it.


class Ahead(msgspec.Struct, frozen=True):
    """Gangs that are planned before it, first come first."""

    waiting: tuple[GangKey, ...]  # Gangs that wait before it, the first few.
    waiting_count: int  # How many there are.
    admitted: tuple[GangKey, ...]  # Gangs that were given room in zones that it may use, the first few.
    admitted_count: int
    starting: tuple[GangKey, ...]  # Gangs whose start is under way.

    def first(self, most: int) -> "Ahead":
        """The same with at most so many names of each."""
        return replace(self, **{name: getattr(self, name)[:most] for name in ("waiting", "admitted", "starting")})


class KeptForGang(msgspec.Struct, frozen=True):
    """What is kept for it: committed, planned, held or claimed."""

    kind: str
    """committed (its start is under way), planned (may be planned again), held (it is STARVING) or claimed (other gangs
    leave for it)."""
    zone: str | None
    nodes: Mapping[str, NodeName]  # pod → node.
    held_nodes: tuple[NodeName, ...] = ()  # Nodes that are held for it while it starves.
    until_s: float | None = None  # Unix seconds.


class PlaceInQueue(msgspec.Struct, frozen=True):
    """Its place in the queue."""

    state: str  # WAITING, STARVING, RUNNING or COMPLETED.
    queue: str  # WQ, RQ or FQ.
    rank: int | None  # Its place among those that want nodes and may start, from 1.
    of: int  # How many they are.
    priority: int
    weight: GangWeight
    waiting_since_s: float | None  # Unix seconds; null: it has too few pods.
    waited_s: float | None
    starves_in_s: float | None
    ahead: Ahead
    reservation: KeptForGang | None


class WaitingCause(msgspec.Struct, frozen=True):
    """Why it waits; the same words as in its Event, so no gang of another namespace is named."""

    reason: str  # NodesUnavailable, NodeLabelMissing, PodsMissing and so on: docs/reference/reasons.md
    message: str  # One or two sentences
    suggestion: str = ""  # What its owner or an administrator can do; empty: nothing but wait


class MemberState(msgspec.Struct, frozen=True):
    """One member."""

    pod: str
    role: str  # ps, chief, worker or other.
    state: str  # running, bound, held, planned, pending, gated, deleting, succeeded or failed.
    node: NodeName | None  # Where it is, or is planned.
    why: str = ""  # Why it has no node; empty: it has one, or waits as its gang does.


class LeavingGangs(msgspec.Struct, frozen=True):
    """Which gangs leave for it, and what is in the way."""

    makes_room: tuple[GangKey, ...]  # Gangs and jobs that leave for it.
    leaves_for: GangKey | None  # The gang for which it leaves.
    blocked: str | None = None  # Why a gang that would make room stays.


class Past(msgspec.Struct, frozen=True):
    """A decision about it."""

    at_s: float  # Unix seconds.
    what: str  # filter, admit, lapse, bind, evict and so on.
    reason: str  # Why not; empty: yes.
    detail: str


class Shortage(msgspec.Struct, frozen=True):
    """How much of a resource is missing in a zone; amounts are Kubernetes quantities."""

    resource: ResourceName
    amount: str  # A Kubernetes quantity.
    nodes: Mapping[NodeName, str]  # node → how much of it is missing there.


class ZoneVerdict(msgspec.Struct, frozen=True):
    """What a zone has for the gang, as if it were next."""

    zone: ZoneName
    allowed: bool  # Whether the gang may go there.
    nodes: int  # Nodes of the zone.
    room: int  # How many of the wanted members fit into what is neither used nor committed.
    room_when_empty: int  # The same, if nothing ran there.
    wanted: int  # Members that must start at once.
    short: tuple[Shortage, ...] = ()  # What is missing for all wanted.
    homeless: int = 0  # Members that may go to none of its nodes.
    score: float | None = None  # Mean points (0 to 100) that its links would have there.
    distance_ms: float | None = None  # One-way delay from where its users are.


class WorstLink(msgspec.Struct, frozen=True):
    """The link with the fewest points, bad ones first; each value is the one that counts, null where none is known."""

    source: NodeName
    target: NodeName
    points: float  # 0 to 100; as among the nodes of the zone, if the gang is in one, else as among the gang's own nodes
    loss_ratio: float | None
    delay_ms: float | None  # One way
    throughput_bps: float | None
    oldest_s: float | None  # Age of the oldest value that was measured on it, in either direction
    bad: str = ""  # Its values that are bad, such as "13 % loss"; empty: none is

    @property
    def text(self) -> str:
        """Which it is, and how bad, for people."""
        what = f"{'bad' if self.bad else 'worst'} link {self.source} → {self.target}"
        return f"{what}: {self.bad or f'{self.points:.0f} points'}"


class GangNetwork(msgspec.Struct, frozen=True):
    """The network between the nodes of a gang's members."""

    zones: tuple[ZoneName, ...]
    nodes: tuple[NodeName, ...]  # By name, the first 64
    of_nodes: int  # More than `nodes`: the others are not looked at
    score: float | None  # Mean points (0 to 100) of the pairs of members that exchange data; null: there is none
    worst: WorstLink | None  # Null: all members are on one node, or exchange no data


class Explained(msgspec.Struct, frozen=True):
    """Why a gang is where it is; asked for one of its pods, too."""

    gang: GangKey
    state: str  # admitted, waiting or running.
    source: str  # By which mark its pods are a gang.
    min_member: int
    rank: int | None
    zone: str | None  # Its planned zones, with commas.
    score: float | None  # Mean points (0 to 100) of its planned links.
    code: str | None  # Name of the reason for which it waits.
    reason: str | None  # That reason, a constant sentence.
    detail: str  # The same with numbers.
    counts: Mapping[str, int]  # Members by what they do.
    members: tuple[MemberState, ...]
    turn: PlaceInQueue
    zones: tuple[ZoneVerdict, ...]
    notes: tuple[str, ...]  # What else stands in its way, or is not known: sentences.
    problems: tuple[str, ...]  # Annotations that were not understood.
    preemption: LeavingGangs
    cause: WaitingCause | None = None  # null: it does not wait.
    expected_start: ExpectedStart | None = None  # null: it does not wait, or was not looked at yet.
    network: GangNetwork | None = None  # What it has where it runs or is planned; null: it has no nodes.
    decisions: tuple[Past, ...] = ()  # The last ones about it, newest first.
    being_admitted: bool = False  # Its gates are being opened.
    admission_refused: str | None = None  # What the API server said to that.
    admission_lapses_in_s: float | None = None
    repair: str = ""  # What a gang that lost members waits for.


class Fate(msgspec.Struct, frozen=True):
    """One gang in one plan."""

    state: str  # admitted, waiting, settled (it wants no nodes) or absent.
    rank: int | None = None  # null: it does not wait, or never starts as it is.
    zone: str | None = None  # With commas.
    members: Mapping[str, NodeName] = {}  # pod → planned node.
    code: str | None = None  # Name of the reason.
    reason: str | None = None
    detail: str = ""
    score: float | None = None  # Mean points of its links.
    behind: tuple[GangKey, ...] = ()  # Up to ten gangs ahead that have its room.


class Turned(msgspec.Struct, frozen=True):
    """A gang for which something would differ."""

    gang: GangKey
    before: Fate
    after: Fate


class Supposed(msgspec.Struct, frozen=True):
    """What would differ from the plan of now; each gang is in one of the lists, by name."""

    said: str = msgspec.field(name="if")  # What is supposed, as a sentence.
    at_s: float  # The moment that was supposed, Unix seconds.
    gangs: Mapping[str, int]  # How many would be admitted, and how many would wait.
    admitted: tuple[Turned, ...]  # Would be admitted, and wait now.
    refused: tuple[Turned, ...]  # Are admitted now, and would wait.
    moved: tuple[Turned, ...]  # Are admitted either way, elsewhere.
    other: tuple[Turned, ...]  # Are there in one of the two plans alone, or wait for another reason.
    notes: tuple[str, ...] = ()  # What of the submitted pods was not understood, or is not counted.


class PairReading(msgspec.Struct, frozen=True):
    """One value of one direction as the matrix holds it: how old it is, and which source gave it."""

    value: float
    age_s: float
    origin: str  # Name of the source; "" where measurements came without one


class PairCounts(msgspec.Struct, frozen=True):
    """Directed pairs with a value of one metric, by age: below the soft TTL, up to the hard one, beyond it."""

    fresh: int
    fading: int
    expired: int


class SubjectKind(StrEnum):
    """What is bad."""

    NODE = "node"  # Its links inside its zone
    ZONE = "zone"  # Links inside it


class Subject(NamedTuple):
    """About what: the node or the zone."""

    kind: SubjectKind
    name: str


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

    @property
    def about(self) -> Subject:
        """The node or the zone."""
        return Subject(SubjectKind(self.kind), self.name)

    @property
    def words(self) -> str:
        """How bad, in short."""
        bound = "down to" if self.metric == Metric.THROUGHPUT else "up to"
        worst = f"{value_text(Metric(self.metric), self.worst)} ({self.source} → {self.target})"
        return f"{self.metric} {bound} {worst} on {self.bad} of {self.of} links"


class Point(msgspec.Struct, frozen=True):
    """One report of one job: how far it is, and how well it goes; numbers are finite. `None`: not reported."""

    step: int
    time_s: float = msgspec.field(name="time")  # When, by the job's clock; Unix seconds.
    loss: float | None = None
    samples_per_second: float | None = None  # Of all workers together
    compute_ratio: float | None = None  # Share of a worker's time that it computes; else it waits for ps or network
    workers: int | None = None  # Workers in force at that time
