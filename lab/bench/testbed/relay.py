"""Delay: hold whole Ethernet frames of some nodes back, then let them go.

    node's eth0 ── p33   [relay]   r33 ── q33 ── bridge

Between the port of an impaired node and the bridge stands a pair of interfaces, and a process of ours moves frames
between the port and it: what the node sends after the delay, what it gets at once. Frames are moved as they are, so TCP
in the nodes is the kernel's own and meets a late network; only the clock of the delay is ours (a few tenths of a
millisecond late on a busy machine). What exceeds the queue is dropped, as a router does.
"""

import json
import select
import socket
import sys
from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from time import monotonic
from typing import Final

import msgspec

from lab.bench.child import Child, say
from lab.bench.testbed.commands import ip_in
from lab.bench.testbed.nodes import Bed, port, small_packets_only

_ALL_PROTOCOLS: Final = 0x0003
_SOL_PACKET: Final = 263
_IGNORE_OUTGOING: Final = 23
MOST_BYTES: Final = 16 << 20
"""Frames that one direction may hold: half a second at full rate is 6 MB."""
_FRAME: Final = 65536
_AT_ONCE: Final = 64


@contextmanager
def relayed(bed: Bed, nodes: Sequence[str], *, delay_ms: float) -> Iterator[None]:
    """Delay what these nodes send, until the end of the block. Errors: BedError."""
    pairs = [(port(node), f"r{port(node)[1:]}", f"q{port(node)[1:]}") for node in nodes]
    before = [f"link add {ours} type veth peer name {theirs}" for _, ours, theirs in pairs]
    before += [f"link set {end} up" for _, *ends in pairs for end in ends]
    begin = [line for own, _, theirs in pairs for line in (f"link set {own} nomaster", f"link set {theirs} master br0")]
    after = [line for own, ours, _ in pairs for line in (f"link del {ours}", f"link set {own} master br0")]
    ip_in(bed.switch, before)
    try:
        given = json.dumps({"delay_s": delay_ms / 1e3, "pairs": [(own, ours) for own, ours, _ in pairs]})
        inside = ("ip", "netns", "exec", bed.switch)
        process = Child("the relay", "lab.bench.testbed.relay", given, within=inside)
        try:
            process.hello()
            ip_in(bed.switch, begin)  # only now: starting takes a second, in which the nodes would be cut off
            yield
        finally:
            process.close()
    finally:
        ip_in(bed.switch, after)


class Direction(msgspec.Struct):
    """Frames on their way from one interface to another."""

    source: socket.socket
    target: socket.socket
    delay_s: float
    most_bytes: int = MOST_BYTES
    held: deque[tuple[float, bytes]] = msgspec.field(default_factory=deque)
    """(when to send it, frame), in that order"""
    held_bytes: int = 0

    def take(self, now_s: float) -> None:
        """Take the frames that are there."""
        for _ in range(_AT_ONCE):
            try:
                frame = self.source.recv(_FRAME)
            except BlockingIOError:
                return
            if self.delay_s == 0.0:
                _forward(self.target, frame)
            elif self.held_bytes + len(frame) <= self.most_bytes:
                self.held.append((now_s + self.delay_s, frame))
                self.held_bytes += len(frame)

    def give(self, now_s: float) -> float:
        """Let go what is due; when the next frame is."""
        while self.held and self.held[0][0] <= now_s:
            _, frame = self.held.popleft()
            self.held_bytes -= len(frame)
            _forward(self.target, frame)
        return self.held[0][0] if self.held else float("inf")


def _forward(target: socket.socket, frame: bytes) -> None:
    with suppress(OSError):  # the token bucket behind is full, or the interface is gone: lost, as in a router
        target.send(frame)


def main() -> None:
    """Relay until the input ends or the process is killed."""
    given = json.loads(sys.argv[1])
    directions: dict[int, Direction] = {}  # file descriptor of the source → direction
    for own, ours in given["pairs"]:
        small_packets_only(ours)
        port_socket, bridge_socket = _raw(own), _raw(ours)
        directions[port_socket.fileno()] = Direction(port_socket, bridge_socket, given["delay_s"])
        directions[bridge_socket.fileno()] = Direction(bridge_socket, port_socket, 0.0)
    poll = select.epoll()
    poll.register(0, select.EPOLLIN)
    for number in directions:
        poll.register(number, select.EPOLLIN)
    say({"ok": None})
    next_s = float("inf")
    while True:
        wait_s = -1.0 if next_s == float("inf") else max(next_s - monotonic(), 0.0)
        for number, _ in poll.poll(wait_s):
            if number == 0:
                return
            directions[number].take(monotonic())
        next_s = min(one.give(monotonic()) for one in directions.values())


def _raw(interface: str) -> socket.socket:
    """A socket that takes and gives whole frames of an interface, without those that we send ourselves."""
    one = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(_ALL_PROTOCOLS))
    one.setsockopt(_SOL_PACKET, _IGNORE_OUTGOING, 1)
    one.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 23)
    one.bind((interface, 0))
    one.setblocking(False)
    return one


if __name__ == "__main__":
    main()
