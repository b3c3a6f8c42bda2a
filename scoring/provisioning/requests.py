"""A request for nodes: what we ask, what an autoscaler answers, and what is to be done about it.

Why values: the same records come from the API server's JSON and from tests, and nothing else is remembered.
"""

from dataclasses import dataclass
from enum import StrEnum
from typing import Final, TypeAlias

from scoring.ids import GangKey, ZoneName
from scoring.model import Pod


class Outcome(StrEnum):
    """What an autoscaler has said to a request."""

    ASKED = "asked"  # Nothing yet
    ACCEPTED = "accepted"
    PROVISIONED = "provisioned"
    NOT_FOUND = "not found"  # There is no such room now; most autoscalers go on looking
    FAILED = "failed"
    EXPIRED = "expired"  # It was provided, and is not kept for the gang any more
    REVOKED = "revoked"


OVER: Final = frozenset({Outcome.NOT_FOUND, Outcome.FAILED, Outcome.EXPIRED, Outcome.REVOKED})  # Then it asks again


@dataclass(frozen=True, slots=True)
class Request:
    """A ProvisioningRequest of ours, as the API server shows it."""

    name: str
    gang: GangKey
    fingerprint: str  # Of what was asked for, see `Create`
    attempt: int = 1
    sets: int = 1  # Kinds of pods in it
    zones: tuple[ZoneName, ...] = ()  # Where all of them were to go; empty: anywhere
    outcome: Outcome = Outcome.ASKED
    since_s: float = 0.0  # Since when the outcome is so, Unix seconds
    message: str = ""  # The autoscaler's own words


@dataclass(frozen=True, slots=True)
class AskingLimits:
    """How often, and how many."""

    most: int = 10  # Requests at a time, over all gangs
    after_s: float = 30.0  # How long a gang waits before it asks
    backoff_s: float = 60.0  # From a refusal to the second attempt; it doubles with each one
    longest_s: float = 1800.0

    def backoff_of(self, attempt: int) -> float:
        """How long after the end of this attempt the next one begins.

        >>> [AskingLimits().backoff_of(attempt) for attempt in (1, 2, 3, 9, 10_000)]
        [60.0, 120.0, 240.0, 1800.0, 1800.0]
        """
        return min(self.backoff_s * 2.0 ** min(attempt - 1, 60), self.longest_s)


@dataclass(frozen=True, slots=True)
class Create:
    """Ask for nodes for these pods of the gang; pods of one kind together, each a tuple that is not empty."""

    gang: GangKey
    sets: tuple[tuple[Pod, ...], ...]
    fingerprint: str  # The same for the same kinds of pods in the same numbers
    attempt: int
    zones: tuple[ZoneName, ...]  # One zone, or several for a gang that may be spread; empty: anywhere


@dataclass(frozen=True, slots=True)
class Delete:
    """Take a request back."""

    request: Request
    why: str  # For the log


Step: TypeAlias = Create | Delete
