"""Keep the label `netgang.io/role: leader` on the pod that leads and on no other, for the Service to select by.

Others too, because a leader that was killed or cut off cannot take its own label away (docs/safety.md S16). Rule: what
is wanted is a state and not an act, so it is tried until it is so, and only the last one counts.
"""

import asyncio
import logging
from contextlib import suppress
from typing import Final

from extender.errors import ApiError, ApiUnavailableError, NotFoundError
from extender.leadership.lease import LeaseApi

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
