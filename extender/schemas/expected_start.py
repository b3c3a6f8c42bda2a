"""When a gang that waits is expected to start, a part of /v1/explain and /v1/queue."""

from extender.schemas.record import Record


class ExpectedStart(Record):
    """When a gang is expected to start, or why that is not known."""

    start_s: float | None  # Unix seconds; null: it is not known.
    after: str | None  # The gang whose end it waits for last; where nothing is known, the gang that is in the way.
    promised: bool  # The plan has promised it a start: gangs that come later do not delay it.
    unknown: str | None  # NEVER, NOT_FOR_ROOM, LENGTH, RESERVED, OTHERS or FAR (docs/explanation/queue.md).
    text: str  # The same as a sentence.
