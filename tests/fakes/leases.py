"""A LeaseApi in memory: one Lease and the pods' labels, which several candidates share and which break on demand."""

import asyncio
from collections.abc import Sequence

import msgspec

from extender.errors import ApiError, ApiUnavailableError, ConflictError, NotFoundError
from extender.leadership.election import Lease, LeaseSpec


class StoredLease(msgspec.Struct):
    lease: Lease | None = None
    labels: dict[str, str | None] = {}  # pod → its role, of pods that exist
    forbidden: bool = False  # nobody has the right to the Lease
    ghosts: list[str] = []  # pods that are still listed as leaders and exist no more
    version: int = 0

    @property
    def holder(self) -> str:
        """Who is in the Lease; "": nobody."""
        return self.lease.spec.holder if self.lease is not None else ""

    @property
    def transitions(self) -> int | None:
        return self.lease.spec.transitions if self.lease is not None else None

    def leaders(self) -> list[str]:
        return sorted(pod for pod, role in self.labels.items() if role == "leader")


class FakeLeases:
    def __init__(self, stored: StoredLease) -> None:
        self.stored = stored
        self.cut = False  # nothing is answered, and nothing arrives

    async def read(self) -> Lease | None:
        await self._begin("read")
        if self.stored.forbidden:
            raise ApiError(403, "leases is forbidden")
        return self.stored.lease

    async def write(self, spec: LeaseSpec, over: Lease | None) -> Lease:
        await self._begin("write")
        there = self.stored.lease
        if over is not None and there is None:
            raise NotFoundError(404, "leases not found")
        if (over and over.version) != (there and there.version):
            raise ConflictError(409, "the object has been modified")
        self.stored.version += 1
        self.stored.lease = Lease(spec, str(self.stored.version), over.raw if over is not None else b"{}")
        return self.stored.lease

    async def label(self, pod: str, role: str | None) -> None:
        await self._begin("label")
        if pod not in self.stored.labels:
            raise NotFoundError(404, f"pods {pod} not found")
        self.stored.labels[pod] = role

    async def labelled(self, role: str) -> Sequence[str]:
        await self._begin("labelled")
        return sorted([*self.stored.ghosts, *(pod for pod, its in self.stored.labels.items() if its == role)])

    async def _begin(self, name: str) -> None:
        if self.cut:
            await asyncio.sleep(1.25)  # the adapter's own time limit
            raise ApiUnavailableError(f"{name}: no answer in time")
