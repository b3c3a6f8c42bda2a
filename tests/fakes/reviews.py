"""What an API server would say about people, from two tables."""

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from extender.ports import Identity


@dataclass
class FakeReviews:
    """The Reviews port: token → whose it is, and the rights (user name, verb, path) that exist. Counts questions."""

    owners: Mapping[str, str | Identity] = field(default_factory=dict)
    rights: frozenset[tuple[str, str, str]] = frozenset()
    sees: frozenset[tuple[str, str]] = frozenset()  # (user name, namespace)
    audiences: Mapping[str, str] = field(default_factory=dict)  # token → for whom; else the API server
    error: Exception | None = None  # raised instead of every answer
    asked: list[str] = field(default_factory=list)  # `who` or `may`, in order
    closed: asyncio.Event | None = None  # while it is not set, no answer comes

    async def identity(self, token: str, *, audiences: Sequence[str] = ()) -> Identity | None:
        await self._answer("identity")
        if self.audiences.get(token) not in (audiences or (None,)):
            return None
        owner = self.owners.get(token)
        return Identity(owner, groups=("system:authenticated",)) if isinstance(owner, str) else owner

    async def may(self, caller: Identity, verb: str, path: str) -> bool:
        await self._answer("may")
        return (caller.username, verb, path) in self.rights

    async def may_see(self, caller: Identity, namespace: str) -> bool:
        await self._answer("may_see")
        return (caller.username, namespace) in self.sees

    async def _answer(self, question: str) -> None:
        self.asked.append(question)
        if self.closed is not None:
            await self.closed.wait()
        if self.error is not None:
            raise self.error
