"""The session reflector: answer the assigned addresses, and number the answers of each session from zero.

Why numbers of its own (RFC 8762, stateful): the sender sees from them which packets came and which answers were lost.
Rule: a session whose requests the agent's own full socket may have dropped begins again at zero. The sender takes that
as the end of what it can judge (`probe.session`), and blames no link for it; the same happens when an agent restarts.
"""

from collections import OrderedDict
from collections.abc import Iterable
from typing import Final, TypeAlias

from probe import packets

Address: TypeAlias = tuple[str, int]  # (IP address, UDP port)
MOST_SESSIONS: Final = 1024  # Far above the twenty peers; a peer that opens ever new ones loses its own oldest
MOST_OF_ONE: Final = 8  # Sessions of one address


class Reflector:
    """Answers requests. Cost: O(1) a datagram."""

    def __init__(self) -> None:
        self.error = packets.error_estimate(1.0, synchronized=False)
        """Error estimate of the clock, renewed by the agent."""
        self._allowed: frozenset[str] = frozenset()
        self._sessions: dict[str, OrderedDict[tuple[int, bytes], int]] = {}
        """address → (port, session id) → number of the next answer"""
        self._dropped = 0

    def allow(self, addresses: Iterable[str]) -> None:
        """Answer these addresses alone from now on."""
        self._allowed = frozenset(addresses)
        for address in self._sessions.keys() - self._allowed:
            del self._sessions[address]

    def note_dropped(self, total: int) -> None:
        """Take how many datagrams the kernel has dropped for want of room in the agent's own socket."""
        if total != self._dropped:
            self._dropped = total
            self._sessions.clear()

    def answer(self, datagram: bytes, source: Address, *, received: int, ttl: int, now: int) -> bytes | None:
        """The answer, as long as the request; `None`: there is none. `received` and `now` are NTP timestamps."""
        address, port = source
        session = packets.session_of(datagram) if address in self._allowed else None
        if session is None:
            return None
        sequence = self._next(address, (port, session))
        return packets.answer(
            datagram, session, sequence=sequence, error=self.error, received=received, ttl=ttl, now=now
        )

    def _next(self, address: str, session: tuple[int, bytes]) -> int:
        mine = self._sessions.get(address)
        if mine is None:
            if len(self._sessions) * MOST_OF_ONE >= MOST_SESSIONS:
                self._sessions.clear()
            mine = self._sessions[address] = OrderedDict()
        sequence = mine.pop(session, 0)
        mine[session] = (sequence + 1) & 0xFFFFFFFF
        if len(mine) > MOST_OF_ONE:
            mine.popitem(last=False)
        return sequence
