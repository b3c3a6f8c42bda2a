"""What /v1/explain answers, as models for /openapi.json.

Rule: documents are written from values, not through these; a test holds a real document against them.
"""

from typing import Any

from pydantic import BaseModel, ConfigDict


class _Part(BaseModel):
    model_config = ConfigDict(extra="forbid")


class Member(_Part):
    """One member."""

    pod: str
    uid: str
    role: str
    state: str
    """running, bound, held, planned, pending, gated, deleting, succeeded or failed"""
    node: str | None
    why: str


class Short(_Part):
    """How much of a resource is missing in a zone; amounts are Kubernetes quantities."""

    resource: str
    amount: str
    nodes: dict[str, str]


class Zone(_Part):
    """What a zone has for the gang, as if it were next."""

    zone: str
    allowed: bool
    nodes: int
    room: int
    room_when_empty: int
    wanted: int
    reference_bps: float | None
    short: list[Short]
    homeless: int
    closed: dict[str, int]
    score: float | None
    distance_ms: float | None


class Ahead(_Part):
    """Who is planned before it."""

    waiting: list[str]
    waiting_count: int
    admitted: list[str]
    admitted_count: int
    starting: list[str]


class Reservation(_Part):
    """What is kept for it: committed, planned, held or claimed."""

    kind: str
    zone: str | None
    nodes: dict[str, str]
    held_nodes: list[str]
    until_s: float | None
    givers: list[str]


class Turn(_Part):
    """Its place in the queue."""

    state: str
    queue: str
    rank: int | None
    of: int
    priority: int
    weight: dict[str, Any]
    waiting_since_s: float | None
    waited_s: float | None
    starves_in_s: float | None
    starves_at_s: float | None
    backs_off_until_s: float | None
    ahead: Ahead
    reservation: Reservation | None


class Note(_Part):
    """What else stands in its way, or is not known."""

    about: str
    text: str


class Past(_Part):
    """A decision about it."""

    at_s: float
    what: str
    reason: str
    detail: str


class Missing(_Part):
    """Members that do not exist."""

    count: int
    why: str


class Suggestion(_Part):
    """Changes with which the planner let it in; they can be sent to /v1/what-if."""

    text: str
    changes: list[dict[str, Any]]
    also_admitted: list[str]
    refused_instead: list[str]


class WouldHelp(_Part):
    """What would let it in."""

    text: str
    impossible: bool
    trials: int
    suggestions: list[Suggestion]


class Explained(_Part):
    """Why a gang is where it is. Asked for a pod, `pod` has its scores; of a pod of no gang there is nothing else."""

    gang: str
    state: str
    source: str
    min_member: int
    rank: int | None
    zone: str | None
    score: float | None
    code: str | None
    reason: str | None
    detail: str
    counts: dict[str, int]
    members: list[Member]
    missing: Missing
    turn: Turn
    zones: list[Zone]
    links: dict[str, Any] | None
    notes: list[Note]
    decisions: list[Past]
    problems: list[str]
    being_admitted: bool
    admission_refused: str | None
    admission_lapses_in_s: float | None
    preemption: dict[str, Any]
    repair: str
    would_help: WouldHelp | None = None
    """null: too many asked at this moment"""
    pod: dict[str, Any] | None = None
