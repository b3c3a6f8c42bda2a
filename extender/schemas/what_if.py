"""POST /v1/what-if: what the plan would be if something were different."""

import msgspec

from extender.schemas.record import Record


class Fate(Record):
    """One gang in one plan."""

    state: str  # admitted, waiting, settled (it wants no nodes) or absent.
    rank: int | None
    zone: str | None
    members: dict[str, str]  # pod → planned node.
    code: str | None
    reason: str | None
    detail: str
    score: float | None = None  # Mean points of its links.
    behind: tuple[str, ...] = ()  # Up to ten gangs ahead that have its room.


class Turned(Record):
    """A gang for which something would differ."""

    gang: str
    before: Fate
    after: Fate


class Supposed(Record):
    """What would differ from the plan of now."""

    said: str = msgspec.field(name="if")  # What is supposed, as a sentence.
    at_s: float  # The moment that was supposed, Unix seconds.
    gangs: dict[str, int]  # How many would be admitted, and how many would wait.
    admitted: tuple[Turned, ...]  # Would be admitted, and wait now.
    refused: tuple[Turned, ...]  # Are admitted now, and would wait.
    moved: tuple[Turned, ...]  # Are admitted either way, elsewhere.
    other: tuple[Turned, ...]  # Are there in one of the two plans alone, or wait for another reason.
