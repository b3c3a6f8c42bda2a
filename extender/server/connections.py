"""Bound the connections of one port: how many, how long one may idle, and which one ends when there are too many.

Why: any client that reaches a port can open connections and leave them, send half a request, or not read an answer;
each costs memory and a file, and at a common limit kube-scheduler is refused for what another client does.

Rules (docs/safety.md S28):
- A connection says something within `head_s`, ends a head in that time, a body in `body_s`, reads its answer in
  `unread_s`, and is idle for `idle_s` at most; for `kept_s` if it has called a verb, because kube-scheduler keeps idle
  connections for 90 s and does not repeat a POST on one that was closed as it was written to.
- What is bounded is connections that are in no verb's call, for each peer and in all, and bytes that are kept for them
  (bodies not whole, answers not read). A call that is being answered is never ended: `max_held_binds` bounds those.
- Beyond a bound the peer that has most loses what it has left lying for longest: a connection that never got to the
  point before one that is idle or waits for a document, before one that calls verbs. So a newcomer always has room.
- Cost: two moves between ordered dicts a call; once a second a look at the oldest of each peer.
"""

import asyncio
from collections import OrderedDict, deque
from collections.abc import Callable
from dataclasses import dataclass
from enum import IntEnum
from typing import Final

PAUSE_S: Final = 0.001  # Between documents while others wait: they take less than half of the loop


class DocumentLine:
    """Whose document begins next, at one port. Bounded by its connections."""

    def __init__(self) -> None:
        self._waiting: deque[Callable[[], bool]] = deque()
        self._moves = False

    def __len__(self) -> int:
        return len(self._waiting)

    def enter(self, begin: Callable[[], bool]) -> None:
        """Call `begin` now, or when it is next; `False` from it: no client waits for that one any more."""
        if self._moves:
            self._waiting.append(begin)
        else:
            self._moves = True
            asyncio.get_running_loop().call_soon(self._move)  # before what `begin` puts into the loop's next turn
            begin()

    def _move(self) -> None:
        self._moves = bool(self._waiting)
        if self._moves:
            asyncio.get_running_loop().call_later(PAUSE_S, self._next)

    def _next(self) -> None:
        while self._waiting:
            if self._waiting[0]():
                self._waiting.popleft()
                asyncio.get_running_loop().call_soon(self._move)
                return
            self._waiting.popleft()
        self._moves = False


class State(IntEnum):
    """What a connection is at. Beyond a bound those named first end first; `CALL` never does."""

    HEAD = 0  # It has said nothing yet, or half a head
    BODY = 1
    UNREAD = 2  # An answer that the client does not read, or a close that it does not let happen
    IDLE = 3
    ASKED = 4
    KEPT = 5  # Idle, and its last request was a verb's
    CALL = 6


@dataclass(frozen=True, slots=True)
class PortLimits:
    """Bounds of one port, at least 1. `per_peer` and `peer_bytes` are of one address."""

    connections: int = 1024
    per_peer: int = 512
    kept_bytes: int = 128 * 2**20
    peer_bytes: int = 64 * 2**20
    head_s: float = 5.0
    body_s: float = 15.0  # A backstop: `dispatch` and the documents have shorter limits, and words for them
    unread_s: float = 60.0
    idle_s: float = 60.0
    kept_s: float = 120.0


class Connection:
    """One connection as the port counts it; made by `Connections.opened`."""

    __slots__ = ("bytes", "on_end", "peer", "state", "transport")

    def __init__(self, transport: asyncio.Transport, peer: "_Peer", end: Callable[[], None]) -> None:
        self.transport = transport
        self.peer = peer
        self.state = State.HEAD
        self.bytes = 0
        self.on_end = end  # Of the protocol that has the connection

    def end(self) -> None:
        """End it for want of room or time."""
        if not self.transport.is_closing():
            self.on_end()
        else:
            self.transport.abort()  # closed before, and the client does not take what is left to send


class _Peer:
    __slots__ = ("address", "bytes", "queues")

    def __init__(self, address: str) -> None:
        self.address = address
        self.bytes = 0
        self.queues: tuple[OrderedDict[Connection, float], ...] = tuple(OrderedDict() for _ in State)
        """Of each state: connection → since when, the oldest first"""

    @property
    def expendable(self) -> int:
        return sum(map(len, self.queues)) - len(self.queues[State.CALL])

    def oldest(self, states: range) -> Connection | None:
        for state in states:
            if self.queues[state]:
                return next(iter(self.queues[state]))
        return None


_EXPENDABLE: Final = range(State.HEAD, State.CALL)
_HOLDING_BYTES: Final = range(State.BODY, State.IDLE)


class Connections:
    """All connections of one port on one event loop."""

    def __init__(self, limits: PortLimits, *, counted: Callable[[str], None] = lambda _: None) -> None:
        self.limits = limits
        self.documents = DocumentLine()
        self._counted = counted  # Hears why a connection was ended: a constant word
        self._peers: dict[str, _Peer] = {}
        self._open = 0
        self._calls = 0
        self._bytes = 0
        self._look_timer: asyncio.TimerHandle | None = None
        times_s = (limits.head_s, limits.body_s, limits.unread_s, limits.idle_s, limits.kept_s)
        self._ends_s = tuple(zip((State.HEAD, State.BODY, State.UNREAD, State.IDLE, State.KEPT), times_s, strict=True))
        self._look_s = min(1.0, min(times_s) / 5.0)

    def __len__(self) -> int:
        return self._open

    @property
    def kept_bytes(self) -> int:
        """Bytes kept for all connections now."""
        return self._bytes

    def opened(self, transport: asyncio.Transport, end: Callable[[], None]) -> Connection:
        """Count a new connection, which `end` ends. Ends another one when there are too many."""
        name = transport.get_extra_info("peername")
        address = str(name[0]) if isinstance(name, tuple) else ""
        peer = self._peers.get(address)
        greedy = self._too_many(peer)
        if greedy is not None:
            oldest = greedy.oldest(_EXPENDABLE)
            assert oldest is not None, "both bounds count these alone"
            self._end(oldest, "ended for another")
        peer = self._peers.setdefault(address, _Peer(address))
        made = Connection(transport, peer, end)
        loop = asyncio.get_running_loop()
        peer.queues[State.HEAD][made] = loop.time()
        self._open += 1
        if self._look_timer is None:
            self._look_timer = loop.call_later(self._look_s, self._look)
        return made

    def move(self, one: Connection, state: State, *, now_s: float) -> None:
        """The connection is at something else; in the same state as before its time goes on, but for one more call."""
        before, queues = one.state, one.peer.queues
        if before is state:
            if state is State.KEPT and one in queues[state]:
                queues[state].move_to_end(one)
                queues[state][one] = now_s
            return
        if queues[before].pop(one, None) is None:
            return  # it was ended
        one.state = state
        queues[state][one] = now_s
        self._calls += (state is State.CALL) - (before is State.CALL)

    def keep(self, one: Connection, kept_bytes: int) -> None:
        """So many bytes are kept for the connection now. Ends the oldest of the greediest when that is too much."""
        self._count_bytes(one, kept_bytes)
        while self._bytes > self.limits.kept_bytes or one.peer.bytes > self.limits.peer_bytes:
            own = one.peer.bytes > self.limits.peer_bytes
            greedy = one.peer if own else max(self._peers.values(), key=lambda peer: peer.bytes)
            oldest = next((held for state in _HOLDING_BYTES for held in greedy.queues[state] if held.bytes), one)
            self._end(oldest, "too many bytes")
            if oldest is one:
                return

    def _end(self, one: Connection, why: str) -> None:
        self._counted(why)
        self.closed(one)
        one.end()

    def _too_many(self, peer: _Peer | None) -> _Peer | None:
        """The peer of which a connection has to end before another one of `peer` begins; `None`: no peer."""
        if peer is not None and peer.expendable >= self.limits.per_peer:
            return peer
        if self._open - self._calls >= self.limits.connections:
            return max(self._peers.values(), key=lambda one: one.expendable)
        return None

    def _count_bytes(self, one: Connection, kept_bytes: int) -> None:
        more = kept_bytes - one.bytes
        one.bytes = kept_bytes
        one.peer.bytes += more
        self._bytes += more

    def closed(self, one: Connection) -> None:
        """Count the connection no more: it is gone, or is ended; again is harmless."""
        peer = one.peer
        if peer.queues[one.state].pop(one, None) is None:
            return
        self._count_bytes(one, 0)
        self._open -= 1
        self._calls -= one.state is State.CALL
        if not any(peer.queues):
            self._peers.pop(peer.address, None)
        if not self._open and self._look_timer is not None:
            self._look_timer.cancel()
            self._look_timer = None

    def _look(self) -> None:
        """End what has done nothing for too long. Cost: O(peers), and O(1) for each that ends."""
        loop = asyncio.get_running_loop()
        now_s = loop.time()
        for peer in list(self._peers.values()):
            for state, limit_s in self._ends_s:
                while (oldest := peer.oldest(range(state, state + 1))) is not None:
                    if now_s - peer.queues[state][oldest] < limit_s:
                        break
                    self._counted("too slow" if state < State.IDLE else "idle")
                    self._end_in_time(oldest, now_s=now_s)
        self._look_timer = loop.call_later(self._look_s, self._look) if self._open else None

    def _end_in_time(self, one: Connection, *, now_s: float) -> None:
        """End it; one that has to send something first stays counted, and has the time for that."""
        if one.state is State.UNREAD or one.transport.is_closing():
            self.closed(one)
            one.transport.abort()
            return
        self.move(one, State.UNREAD, now_s=now_s)
        one.end()
