"""GET /v1/explain/{namespace}/{name}: why a gang or pod is where it is."""

from extender.schemas import Record
from extender.schemas.queue import ExpectedStart, Weight
from scoring.explain.causes.reasons import Cause
from scoring.explain.gang import MemberState
from scoring.explain.gang_network import GangNetwork


class Short(Record):
    """How much of a resource is missing in a zone; amounts are Kubernetes quantities."""

    resource: str
    amount: str  # A Kubernetes quantity.
    nodes: dict[str, str]  # node → how much of it is missing there.


class Zone(Record):
    """What a zone has for the gang, as if it were next."""

    zone: str
    allowed: bool  # Whether the gang may go there.
    nodes: int  # Nodes of the zone.
    room: int  # How many of the wanted members fit into what is neither used nor committed.
    room_when_empty: int  # The same, if nothing ran there.
    wanted: int  # Members that must start at once.
    short: tuple[Short, ...]  # What is missing for all wanted.
    homeless: int  # Members that may go to none of its nodes.
    score: float | None  # Mean points (0 to 100) that its links would have there.
    distance_ms: float | None  # One-way delay from where its users are.


class Ahead(Record):
    """Gangs that are planned before it."""

    waiting: tuple[str, ...]  # Gangs that wait before it, the first few.
    waiting_count: int  # How many there are.
    admitted: tuple[str, ...]  # Gangs that were given room in zones that it may use, the first few.
    admitted_count: int
    starting: tuple[str, ...]  # Gangs whose start is under way.


class Reservation(Record):
    """What is kept for it: committed, planned, held or claimed."""

    kind: str  # committed, planned, held or claimed.
    zone: str | None
    nodes: dict[str, str]  # pod → node.
    held_nodes: tuple[str, ...]  # Nodes that are held for it while it starves.
    until_s: float | None  # Unix seconds.


class Turn(Record):
    """Its place in the queue."""

    state: str  # WAITING, STARVING, RUNNING or COMPLETED.
    queue: str  # WQ, RQ or FQ.
    rank: int | None  # Its place among those that wait, from 1.
    of: int  # How many wait.
    priority: int
    weight: Weight
    waiting_since_s: float | None  # Unix seconds; null: it has too few pods.
    waited_s: float | None
    starves_in_s: float | None
    ahead: Ahead
    reservation: Reservation | None


class Past(Record):
    """A decision about it."""

    at_s: float  # Unix seconds.
    what: str  # filter, admit, lapse, bind, evict and so on.
    reason: str  # Why not; empty: yes.
    detail: str


class Preemption(Record):
    """Which gangs leave for it, and what is in the way."""

    makes_room: tuple[str, ...]  # Gangs and jobs that leave for it.
    leaves_for: str | None  # The gang for which it leaves.
    blocked: str | None  # Why a gang that would make room stays.


class PodPlace(Record):
    """Where a pod is."""

    name: str
    uid: str
    own: bool  # netgang schedules it.
    node: str | None


class ExplainedPod(Record):
    """A pod of no gang."""

    pod: PodPlace


class Explained(Record):
    """Why a gang is where it is; asked for one of its pods, too."""

    gang: str
    state: str  # admitted, waiting or running.
    source: str  # By which mark its pods are a gang.
    min_member: int
    rank: int | None
    zone: str | None  # Its planned zones, with commas.
    score: float | None  # Mean points (0 to 100) of its planned links.
    code: str | None  # Name of the reason for which it waits.
    reason: str | None  # That reason, a constant sentence.
    detail: str  # The same with numbers.
    counts: dict[str, int]  # Members by what they do.
    members: tuple[MemberState, ...]
    turn: Turn
    zones: tuple[Zone, ...]
    notes: tuple[str, ...]  # What else stands in its way, or is not known: sentences.
    problems: tuple[str, ...]  # Annotations that were not understood.
    preemption: Preemption
    cause: Cause | None = None  # null: it does not wait.
    expected_start: ExpectedStart | None = None  # null: it does not wait, or was not looked at yet.
    network: GangNetwork | None = None  # What it has where it runs or is planned; null: it has no nodes.
    decisions: tuple[Past, ...] = ()  # The last ones about it, newest first.
    being_admitted: bool = False  # Its gates are being opened.
    admission_refused: str | None = None  # What the API server said to that.
    admission_lapses_in_s: float | None = None
    repair: str = ""  # What a gang that lost members waits for.
