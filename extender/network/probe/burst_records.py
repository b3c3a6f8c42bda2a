"""What the two agents of each burst keep of it, and what both of them say of it to the next leader.

Why by agents: netgang has no database, and a leader that fails cannot hand over; without it the day's count of bursts
begins again and throughput is unknown for hours. Rules:
- The answer to an agent has the bursts of its node that ended since the answer before the last: one lost answer loses
  none.
- A burst counts for a new leader once both of its agents have said the same of it, so that neither can invent one.
- What one agent alone has said is forgotten after `_CLAIMS_S`.

Pure of effects; times are arguments, Unix seconds.
"""

from collections import deque
from collections.abc import Iterable, Sequence
from typing import Final, NamedTuple

from extender.schemas.probe import MOST_LINKS, KnownBurst
from scoring.ids import NodeName
from scoring.probing.burst_history import KEPT_S

MAX_BPS: Final = 4e11  # No link has more bits per second: a result above it is not taken
_CLAIMS_S: Final = 600.0
_SAME_S: Final = 60.0  # Two agents' clocks and rounded ages differ by less in `KEPT_S`


class EndedBurst(NamedTuple):
    """One that was started and has ended; `None`: that direction was not measured."""

    id: str
    server: NodeName
    client: NodeName
    at_s: float
    to_server_bps: float | None = None
    to_client_bps: float | None = None

    def known_to(self, node: NodeName, now_s: float) -> KnownBurst:
        """As its agent is answered."""
        age_s = round(max(now_s - self.at_s, 0.0), 1)
        if node == self.server:
            return KnownBurst(self.id, self.client, True, age_s, self.to_client_bps, self.to_server_bps)
        return KnownBurst(self.id, self.server, False, age_s, self.to_server_bps, self.to_client_bps)


class BurstRecords:
    """Bursts of `KEPT_S`; one writer, on the loop."""

    def __init__(self) -> None:
        self._ended: deque[tuple[int, EndedBurst]] = deque()  # In the order of `number`
        self._ids: set[str] = set()
        self._claims: dict[str, tuple[NodeName, EndedBurst]] = {}  # id → whose agent said it, what
        self._claims_until_s: float | None = None
        self.number = 0  # Of the last one

    def add(self, burst: EndedBurst) -> None:
        """A burst has ended."""
        self.number += 1
        self._ended.append((self.number, burst))
        self._ids.add(burst.id)

    def since(self, node: NodeName, number: int, now_s: float) -> tuple[KnownBurst, ...]:
        """Bursts of a node after this number, the newest `MOST_LINKS`, oldest first. Cost: O(bursts after it)."""
        found: list[KnownBurst] = []
        for at, burst in reversed(self._ended):
            if at <= number or len(found) == MOST_LINKS:
                break
            if node in (burst.server, burst.client) and burst.at_s > now_s - KEPT_S:
                found.append(burst.known_to(node, now_s))
        return tuple(reversed(found))

    def confirmed(self, node: NodeName, said: Iterable[KnownBurst], now_s: float) -> Sequence[EndedBurst]:
        """Take what the agent of this node says of bursts under an earlier leader; those that both ends have said."""
        if self._claims_until_s is None:
            self._claims_until_s = now_s + _CLAIMS_S
        found = []
        for one in said if now_s < self._claims_until_s else ():
            claim = self._read(node, one, now_s)
            if claim is None:
                continue
            first, other = self._claims.setdefault(one.id, (node, claim))
            if first != node and other._replace(at_s=claim.at_s) == claim and abs(other.at_s - claim.at_s) < _SAME_S:
                del self._claims[one.id]
                self.add(claim)
                found.append(claim)
        return found

    def _read(self, node: NodeName, said: KnownBurst, now_s: float) -> EndedBurst | None:
        peer, at_s = NodeName(said.peer), now_s - said.age_s
        most_bps = max(said.sent_bps or 0.0, said.received_bps or 0.0)
        if said.id in self._ids or peer == node or said.age_s >= KEPT_S or most_bps > MAX_BPS:
            return None
        if said.server:
            return EndedBurst(said.id, node, peer, at_s, said.received_bps, said.sent_bps)
        return EndedBurst(said.id, peer, node, at_s, said.sent_bps, said.received_bps)

    def forget_old(self, now_s: float) -> None:
        """Forget bursts, and what one agent alone has said, that count no more."""
        while self._ended and self._ended[0][1].at_s <= now_s - KEPT_S:
            self._ids.discard(self._ended.popleft()[1].id)
        if self._claims_until_s is not None and now_s >= self._claims_until_s:
            self._claims.clear()
