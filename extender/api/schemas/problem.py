"""What everything except the three verbs answers to a request that it refuses (RFC 9457)."""

from extender.api.schemas.record import Record


class Problem(Record):
    """What went wrong with a request; `status` repeats the HTTP status, `detail` is a sentence for people."""

    type: str = "about:blank"
    title: str = ""
    status: int = 0
    detail: str = ""
