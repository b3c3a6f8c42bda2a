"""When a gang that waits is expected to start, a part of /v1/explain, /v1/queue and /v1/what-if."""

from extender.schemas.record import Record


class ExpectedStart(Record):
    """When a gang is expected to start, or why that is not known."""

    start_s: float | None  # Unix seconds; null: it is not known.
    low_s: float | None  # It starts after this eight times in ten, and before the next one: an interval of 80 %.
    high_s: float | None
    after: str | None  # The gang whose end it waits for last; where nothing is known, the gang that is in the way.
    promised: bool  # The plan has promised it a start: gangs that come later do not delay it.
    unknown: str | None  # OFF, NEVER, NOT_FOR_ROOM, LENGTH, RESERVED, OTHERS or FAR: docs/how-to/when-will-it-start.md.
    text: str  # The same as a sentence.


class IntervalCounts(Record):
    """Gangs that had an expected start, by where they started, seen from the interval that they were given first."""

    early: int
    inside: int
    late: int
