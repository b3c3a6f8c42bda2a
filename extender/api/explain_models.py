"""What /v1/explain answers, as models for /openapi.json.

Rule: documents are written from values, not through these; a test holds a real document against them.
"""

from typing import Any

from pydantic import BaseModel, ConfigDict


class _Part(BaseModel):
    model_config = ConfigDict(extra="forbid", use_attribute_docstrings=True)


class Member(_Part):
    """One member."""

    pod: str
    uid: str
    role: str
    """ps, chief, worker or other."""
    state: str
    """running, bound, held, planned, pending, gated, deleting, succeeded or failed"""
    node: str | None
    """Where it is, or is planned."""
    why: str
    """Why it has no node; empty: it has one, or waits as its gang does."""


class Short(_Part):
    """How much of a resource is missing in a zone; amounts are Kubernetes quantities."""

    resource: str
    amount: str
    """A Kubernetes quantity."""
    nodes: dict[str, str]
    """node → how much of it is missing there."""


class Zone(_Part):
    """What a zone has for the gang, as if it were next."""

    zone: str
    allowed: bool
    """Whether the gang may go there."""
    nodes: int
    """Nodes of the zone."""
    room: int
    """How many of the wanted members fit into what is neither used nor committed."""
    room_when_empty: int
    """The same, if nothing ran there."""
    wanted: int
    """Members that must start at once."""
    reference_bps: float | None
    """Best measured throughput of the zone."""
    short: list[Short]
    """What is missing for all wanted."""
    homeless: int
    """Members that may go to none of its nodes."""
    closed: dict[str, int]
    """why → on how many nodes members may not be."""
    score: float | None
    """Mean points (0 to 100) that its links would have there."""
    distance_ms: float | None
    """One-way delay from where its users are."""


class Ahead(_Part):
    """Who is planned before it."""

    waiting: list[str]
    """Gangs that wait before it, the first few."""
    waiting_count: int
    """How many there are."""
    admitted: list[str]
    """Gangs that were given room in zones that it may use, the first few."""
    admitted_count: int
    starting: list[str]
    """Gangs whose start has begun."""


class Reservation(_Part):
    """What is kept for it: committed, planned, held or claimed."""

    kind: str
    """committed, planned, held or claimed."""
    zone: str | None
    nodes: dict[str, str]
    """pod → node."""
    held_nodes: list[str]
    """Nodes that are held for it while it starves."""
    until_s: float | None
    """Unix seconds."""
    givers: list[str]
    """Gangs or jobs that make room."""


class Turn(_Part):
    """Its place in the queue."""

    state: str
    """WAITING, STARVING, RUNNING or COMPLETED."""
    queue: str
    """WQ, RQ or FQ."""
    rank: int | None
    """Its place among those that wait, from 1."""
    of: int
    """How many wait."""
    priority: int
    weight: dict[str, Any]
    """ω′ as a number and, exactly, as a fraction; ω; whether it was given."""
    waiting_since_s: float | None
    """Unix seconds; null: it has too few pods."""
    waited_s: float | None
    starves_in_s: float | None
    starves_at_s: float | None
    """Unix seconds."""
    backs_off_until_s: float | None
    """Unix seconds."""
    ahead: Ahead
    reservation: Reservation | None


class Note(_Part):
    """What else stands in its way, or is not known."""

    about: str
    """Quota, active deadline, disruption budget, autoscaler, gate, lost node, daemon set, unreadable, ignored note."""
    text: str
    """A sentence."""


class Past(_Part):
    """A decision about it."""

    at_s: float
    """Unix seconds."""
    what: str
    """filter, admit, lapse, bind, evict and so on."""
    reason: str
    """Why not; empty: yes."""
    detail: str


class Missing(_Part):
    """Members that do not exist."""

    count: int
    """Without them the minimum cannot be reached; 0: enough exist."""
    why: str


class Suggestion(_Part):
    """Changes with which the planner let it in; they can be sent to /v1/what-if."""

    text: str
    changes: list[dict[str, Any]]
    """As /v1/what-if takes them."""
    also_admitted: list[str]
    """Who else would be let in."""
    refused_instead: list[str]
    """Who would wait instead."""


class WouldHelp(_Part):
    """What would let it in."""

    text: str
    impossible: bool
    """Waiting alone cannot help."""
    trials: int
    """How many changes were tried."""
    suggestions: list[Suggestion]


class Explained(_Part):
    """Why a gang is where it is. Asked for a pod, `pod` has its scores; of a pod of no gang there is nothing else."""

    gang: str
    state: str
    """admitted, waiting or running."""
    source: str
    """By which mark its pods are a gang."""
    min_member: int
    rank: int | None
    zone: str | None
    """Its planned zones, with commas."""
    score: float | None
    """Mean points (0 to 100) of its planned links."""
    code: str | None
    """Name of the reason for which it waits."""
    reason: str | None
    """That reason, a constant sentence."""
    detail: str
    """The same with numbers."""
    counts: dict[str, int]
    """Members by what they do."""
    members: list[Member]
    missing: Missing
    turn: Turn
    zones: list[Zone]
    links: dict[str, Any] | None
    """What its places are worth, and by whose measurements."""
    notes: list[Note]
    decisions: list[Past]
    problems: list[str]
    """Annotations that were not understood."""
    being_admitted: bool
    """Its gates are being opened."""
    admission_refused: str | None
    """What the API server said to that."""
    admission_lapses_in_s: float | None
    preemption: dict[str, Any]
    """Who leaves for it, and what is in the way."""
    repair: str
    """What a gang that lost members waits for."""
    would_help: WouldHelp | None = None
    """null: too many asked at this moment"""
    pod: dict[str, Any] | None = None
