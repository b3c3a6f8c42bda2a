"""What an API server would say about callers that show a token, from a table."""

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from extender.ports import Identity


@dataclass
class FakeReviews:
    """The Reviews port: token → whose it is. Counts questions."""

    owners: Mapping[str, str | Identity] = field(default_factory=dict)
    audiences: Mapping[str, str] = field(default_factory=dict)  # token → for whom; else the API server
    error: Exception | None = None  # raised instead of every answer
    asked: list[str] = field(default_factory=list)  # Tokens, in order
    closed: asyncio.Event | None = None  # while it is not set, no answer comes

    async def identity(self, token: str, *, audiences: Sequence[str] = ()) -> Identity | None:
        self.asked.append(token)
        if self.closed is not None:
            await self.closed.wait()
        if self.error is not None:
            raise self.error
        if self.audiences.get(token) not in (audiences or (None,)):
            return None
        owner = self.owners.get(token)
        return Identity(owner) if isinstance(owner, str) else owner
