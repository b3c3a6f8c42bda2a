"""The Lease as we read and write it, the calls that a candidate makes, and the label `netgang.io/role: leader`.

Times in a Lease are another clock's: they are compared for being the same or not. The label is kept on the pod that
leads and on no other, for the Service to select by: a leader that was killed cannot take it away (docs/safety.md S16).
"""

import asyncio
import logging
from collections.abc import Sequence
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from typing import Final, Protocol

import msgspec
from msgspec import Struct, field

from extender.errors import ApiError, ApiUnavailableError, NotFoundError

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


class LeaseSpec(Struct, frozen=True):
    """What a Lease says; times as text, because no other clock is trusted."""

    holder: str = field(name="holderIdentity", default="")  # The leader; "": there is none to wait for
    duration_s: int = field(name="leaseDurationSeconds", default=0)  # How long others wait after the last change
    acquired: str = field(name="acquireTime", default="")
    renewed: str = field(name="renewTime", default="")
    transitions: int = field(name="leaseTransitions", default=0)


class Lease(msgspec.Struct, frozen=True):
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


LEADER: Final = "leader"
_AGAIN_FIRST_S = 0.2
_AGAIN_LONGEST_S = 5.0

_log = logging.getLogger("netgang.leadership")


class RoleLabel:
    """The label of our own pod; `pod` "" means that we are none, and nothing is labelled."""

    def __init__(self, api: LeaseApi, pod: str) -> None:
        self._api = api
        self._pod = pod
        self._leader = False
        self._changed = asyncio.Event()
        self._changed.set()  # a former process in this pod may have left its label
        self._settled = asyncio.Event()

    def want(self, *, leader: bool) -> None:
        """The label shall be there, or not; see `run`."""
        self._leader = leader
        self._settled.clear()
        self._changed.set()

    async def settled(self) -> None:
        """Wait until the last wanted state is reached."""
        if self._pod:
            await self._settled.wait()

    async def run(self) -> None:
        """Bring about wanted states until cancelled."""
        failures = 0
        while self._pod:
            await self._changed.wait()
            self._changed.clear()
            try:
                await self._fulfil(leader=self._leader)
            except (ApiError, ApiUnavailableError) as error:
                failures += 1
                if failures == 1:
                    _log.warning("the label of pod %s cannot be changed: %s", self._pod, error)
                with suppress(TimeoutError):  # not longer than until another state is wanted
                    async with asyncio.timeout(min(_AGAIN_FIRST_S * 2.0 ** (failures - 1), _AGAIN_LONGEST_S)):
                        await self._changed.wait()
                self._changed.set()
            else:
                failures = 0
                if not self._changed.is_set():
                    self._settled.set()

    async def _fulfil(self, *, leader: bool) -> None:
        await self._api.label(self._pod, LEADER if leader else None)
        if not leader:
            return
        for other in await self._api.labelled(LEADER):
            if other != self._pod and self._leader:
                with suppress(NotFoundError):  # it is gone, and its label with it
                    await self._api.label(other, None)
