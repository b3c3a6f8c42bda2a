"""The Lease as we read and write it, and the calls that a candidate makes.

Rule: times in a Lease are another clock's. They are compared for being the same or not, and for nothing else.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Protocol

from msgspec import Struct, field

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


class LeaseSpec(Struct, frozen=True):
    """What a Lease says; times as text, because no other clock is trusted."""

    holder: str = field(name="holderIdentity", default="")  # The leader; "": there is none to wait for
    duration_s: int = field(name="leaseDurationSeconds", default=0)  # How long others wait after the last change
    acquired: str = field(name="acquireTime", default="")
    renewed: str = field(name="renewTime", default="")
    transitions: int = field(name="leaseTransitions", default=0)


@dataclass(frozen=True, slots=True)
class Lease:
    """A Lease as it is stored."""

    spec: LeaseSpec
    version: str  # Its resourceVersion: a write that names another one is refused
    raw: bytes = b""  # The whole object, so that what others wrote on it stays


class LeaseApi(Protocol):
    """What a candidate asks of the API server. Its own connection: nothing else may delay a renewal."""

    async def read(self) -> Lease | None:
        """The Lease as storage has it; `None`: there is none. Errors: ApiError, ApiUnavailableError."""

    async def write(self, spec: LeaseSpec, over: Lease | None) -> Lease:
        """Replace `over`, or create the Lease; as stored. Errors: ConflictError, NotFoundError, and as `read`."""

    async def label(self, pod: str, role: str | None) -> None:
        """Set or remove the role's label on a pod of our namespace. Errors: NotFoundError and as `read`."""

    async def labelled(self, role: str) -> Sequence[str]:
        """Names of the pods of our namespace that carry this role's label. Errors: as `read`."""


def micro_time(since_epoch_us: int) -> str:
    """What the API calls MicroTime: RFC 3339 with exactly six digits, so that what was written is read again."""
    return (_EPOCH + timedelta(microseconds=since_epoch_us)).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
