"""GET /v1/queue: state, weight, clock and rank of every gang."""

from extender.schemas import Record


class Weight(Record):
    """KOD2's weight of a gang."""

    omega_prime: float  # ω′, which orders the queue.
    exact: str  # ω′ as a fraction.
    omega: float
    given: bool  # An operator set it.


class MemberCounts(Record):
    """How many pods a gang has, by what they do."""

    min_available: int
    pending: int
    running: int
    succeeded: int
    failed: int


class ExpectedStart(Record):
    """When a gang is expected to start, or why that is not known."""

    start_s: float | None  # Unix seconds; null: it is not known.
    after: str | None  # The gang whose end it waits for last; where nothing is known, the gang that is in the way.
    promised: bool  # The plan has promised it a start: gangs that come later do not delay it.
    unknown: str | None  # NEVER, NOT_FOR_ROOM, LENGTH, RESERVED, OTHERS or FAR (docs/explanation/queue.md).
    text: str  # The same as a sentence.


class QueuedGang(Record):
    """One gang in the queue."""

    gang: str
    queue: str  # WQ, RQ or FQ.
    state: str  # WAITING, STARVING, RUNNING or COMPLETED.
    rank: int | None  # Its place among those that want nodes, from 1.
    priority: int
    weight: Weight
    created_s: float  # Unix seconds.
    waiting_since_s: float | None  # Unix seconds.
    waited_s: float | None  # null: it does not wait, or cannot start as it is.
    starves_in_s: float | None  # 0: it is STARVING; null: it never will be as it is.
    running_since_s: float | None  # Unix seconds.
    members: MemberCounts
    admitted: bool  # The plan has nodes for it.
    zone: str | None  # Of its nodes: planned, reserved, or those on which it runs; with commas.
    held_nodes: tuple[str, ...]  # Nodes that are reserved for it.
    makes_room: tuple[str, ...]  # Gangs that leave, or have left, for it.
    leaves_for: str | None  # The gang for which it leaves, or has left.
    code: str | None  # Name of the reason for which it waits.
    reason: str | None  # That reason, a constant sentence.
    detail: str  # The same with numbers.
    expected_start: ExpectedStart | None = None  # null: it does not wait, no gang has a length, or it just came.


class NamespaceShare(Record):
    """What the gangs of a limited namespace have, as shares of the cluster."""

    namespace: str
    cap: float
    cpu: float
    memory: float


class Queue(Record):
    """Every gang, those that wait first, in the order of their turns."""

    at_s: float  # Unix seconds.
    order: str  # weight, fifo or another order of the settings.
    counts: dict[str, int]  # state → gangs.
    gangs: tuple[QueuedGang, ...]
    shares: tuple[NamespaceShare, ...]  # Namespaces with a limit.
