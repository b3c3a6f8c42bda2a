"""One step of measuring: answer what asks, take what answers, send what is due.

A step needs no hurry: the kernel notes when a datagram came, and the sender subtracts how long the reflector had it. So
steps are a packet interval apart, at most a fifth of a second: waking costs more than a packet does.

What makes packets suspect, answered or not, as else only losses would be left out: the kernel dropped datagrams of the
agent's own socket, the clock was set, or sending took long. A step that comes late makes none suspect: what waits in
the socket is stamped and not lost.
"""

import random
from dataclasses import dataclass
from typing import Final

from probe import packets
from probe.documents import Assignment, Peer
from probe.packets import SessionReflector
from probe.session import Session, Window
from probe.udp import MachineClock, UdpSocket

_LONGEST_STEP_S: Final = 0.2
_SLOW_SEND_NS: Final = 1_000_000
_CLOCK_SET_NS: Final = 1_000_000
_ON_THEIR_WAY_S: Final = 1.0
SPREAD: Final = 0.4
"""A packet leaves up to this part of the interval early or late, so that it meets no rhythm of the network."""


@dataclass(slots=True)
class _Target:
    peer: Peer
    session: Session
    slot_s: float  # When the next packet would leave without the spread
    due_s: float


class Prober:
    """Measures the links to the assigned peers. `unix_ns` of `clock` must be the clock of the kernel's timestamps."""

    def __init__(self, clock: MachineClock, answering: UdpSocket, asking: UdpSocket) -> None:
        self._clock = clock
        self._answering = answering
        self._asking = asking
        self._chance = random.Random()  # noqa: S311 - spreads packets
        self._reflector = SessionReflector()
        self._interval_s = self.step_s = 0.1
        self.targets: dict[tuple[str, int], _Target] = {}  # Address and port → the peer
        self._own_error_s: float | None = None
        self._offset_ns: int | None = None
        self._dropped = 0
        self._taken_s = float("-inf")

    def assign(self, assignment: Assignment) -> None:
        """Measure these from now on; a peer that stays keeps its session, and its turn however often this is called."""
        now_s, same_pace = self._clock.monotonic_s(), assignment.packet_interval_s == self._interval_s
        self._interval_s = assignment.packet_interval_s
        self.step_s = min(self._interval_s, _LONGEST_STEP_S)
        self._reflector.allow(assignment.reflect_for)
        before, self.targets = self.targets, {}
        wanted = [peer for peer in assignment.peers if (":" in peer.address) == (self._asking.version == 6)]
        for place, peer in enumerate(wanted):
            address = (peer.address, peer.port)
            slot_s = due_s = now_s + self._interval_s * place / len(wanted)
            target = before.get(address)
            stays = target is not None and target.peer.node == peer.node
            session = target.session if target is not None and stays else Session(self._chance.randrange(1, 1 << 16))
            if target is not None and stays and same_pace:
                slot_s, due_s = target.slot_s, target.due_s
            self.targets[address] = _Target(peer, session, slot_s, due_s)

    def set_clock_error(self, error_s: float, *, synchronized: bool) -> None:
        """What is known of the clock; it goes into packets, and decides whether one-way delay can be measured."""
        self._own_error_s = error_s if synchronized else None
        self._reflector.error = packets.error_estimate(error_s, synchronized=synchronized)

    def step(self) -> None:
        """Do what there is to do."""
        now_s, clock_set = self._clock.monotonic_s(), self._was_clock_set()
        for content, source, received in self._answering.waiting():
            self._reflector.note_dropped(self._answering.dropped)
            now = packets.from_unix_ns(self._clock.unix_ns())
            answer = self._reflector.answer(content, source, received=received, now=now)
            if answer is not None:
                self._answering.send(answer, source)
        for content, source, received in self._asking.waiting():
            if (target := self.targets.get(source)) is not None:
                target.session.take(content, received, own_error_s=self._own_error_s)
        if clock_set or self._asking.dropped != self._dropped:
            self._dropped = self._asking.dropped
            self.doubt()
        self._taken_s = now_s
        self._send(now_s)

    def doubt(self) -> None:
        """Let what was under way since the socket was read last, or is sent in this step, be suspect."""
        for target in self.targets.values():
            target.session.doubt_since(self._taken_s - _ON_THEIR_WAY_S)

    def close(self) -> dict[str, Window]:
        """The window of each peer (node's name), which ends now."""
        now_s = self._clock.monotonic_s()
        return {target.peer.node: target.session.close(now_s) for target in self.targets.values()}

    def _send(self, now_s: float) -> None:
        before_ns = self._clock.unix_ns()
        for address, target in self.targets.items():
            if target.due_s > now_s:
                continue
            packet = target.session.send(packets.from_unix_ns(before_ns), self._reflector.error, at_s=now_s)
            sent = self._asking.send(packet, address)
            after_ns = self._clock.unix_ns()
            if not sent or after_ns - before_ns > _SLOW_SEND_NS:
                target.session.doubt_since(now_s)  # that packet alone
            before_ns = after_ns
            # A packet that a step came too early for goes with the next one; what was missed for longer does not.
            target.slot_s = max(target.slot_s + self._interval_s, now_s - self._interval_s)
            target.due_s = target.slot_s + self._interval_s * self._chance.uniform(0.0, SPREAD)

    def _was_clock_set(self) -> bool:
        """Whether the time of day moved against the monotonic one since the last step."""
        from_s = self._clock.monotonic_s()
        unix_ns = self._clock.unix_ns()
        if (self._clock.monotonic_s() - from_s) * 1e9 > _CLOCK_SET_NS / 2:
            return False  # interrupted between the two clocks: the next step sees it
        offset_ns = unix_ns - round(from_s * 1e9)
        before_ns, self._offset_ns = self._offset_ns, offset_ns
        return before_ns is not None and abs(offset_ns - before_ns) > _CLOCK_SET_NS
