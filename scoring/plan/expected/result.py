"""What is said of when a waiting gang starts: a moment with an interval, or why it is not known."""

from dataclasses import dataclass
from enum import StrEnum
from typing import TypeAlias

from scoring.ids import GangKey, ZoneName


class Unknown(StrEnum):
    """Why it is not known when a gang starts."""

    OFF = "back-fill by end times is off (queue.backfill.mode)"
    NEVER = "it would not fit the empty cluster"
    NOT_FOR_ROOM = "it does not wait for the end of other gangs"
    LENGTH = "how long a gang that is in its way runs is not known"
    RESERVED = "room is reserved for a gang of which it is not known when it starts"
    OTHERS = "the room that it needs is not held by gangs whose end is known"
    FAR = "too many gangs wait before it"


@dataclass(frozen=True, slots=True)
class ExpectedStart:
    """Gang `gang` is expected to start at `start_s`, and eight times in ten between the other two; Unix seconds."""

    gang: GangKey
    start_s: float
    low_s: float
    high_s: float
    zone: ZoneName
    after: GangKey | None = None
    """The gang whose end it waits for last; `None`: it does not wait for one"""
    promised: bool = False
    """The plan has promised it a start: later arrivals do not delay it."""


@dataclass(frozen=True, slots=True)
class NotKnown:
    """When gang `gang` starts is not known."""

    gang: GangKey
    why: Unknown
    about: GangKey | None = None
    """The gang that is in the way"""


AnyStart: TypeAlias = ExpectedStart | NotKnown
