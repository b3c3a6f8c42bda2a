"""The probes themselves, as they run inside a node: packets for loss and one-way delay, a TCP stream for throughput.

One-way delay needs no synchronised clocks here: all nodes are on one machine and read the same monotonic clock, which
is stated because a real mesh cannot do that. Loss is counted by the receiver. Throughput counts acknowledged bytes (the
kernel's own count), after a warm-up in which the connection grows and the token bucket's savings are spent.
"""

import select
import socket
import struct
import threading
from collections.abc import Mapping
from time import monotonic_ns
from typing import Final

from lab.bench.testbed.wire import prefer_cubic

UDP_PORT: Final = 7001
TCP_PORT: Final = 7002
_PACKET: Final = struct.Struct("=16sIQ")
"""sender, run, monotonic nanoseconds"""
_FILL: Final = b"\0" * 72
_CHUNK: Final = b"\0" * 65536
_CONNECT_S: Final = 1.5
_BYTES_ACKED_AT: Final = 120
"""Offset of tcpi_bytes_acked in Linux's struct tcp_info"""


class Listening:
    """Takes what other nodes send, in threads, for as long as the process lives."""

    def __init__(self, address: str) -> None:
        self._seen: dict[tuple[int, str], tuple[int, int]] = {}  # (run, sender) → (packets, least nanoseconds)
        self._lock = threading.Lock()
        self._packets = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self._packets.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 22)
        self._packets.bind((address, UDP_PORT))
        self._streams = socket.create_server((address, TCP_PORT))
        for task in (self._count, self._accept):
            threading.Thread(target=task, daemon=True).start()

    def seen(self, run: int) -> dict[str, tuple[int, float]]:
        """Sender → packets of a run, and the least delay of one in ms; a sender from which none came is not there."""
        with self._lock:
            found = {sender: one for (number, sender), one in self._seen.items() if number == run}
            self._seen = {key: one for key, one in self._seen.items() if key[0] > run}
        return {sender: (count, least_ns / 1e6) for sender, (count, least_ns) in found.items()}

    def _count(self) -> None:
        while True:
            data = self._packets.recv(2048)
            now_ns = monotonic_ns()
            sender, run, sent_ns = _PACKET.unpack_from(data)
            key = (run, sender.rstrip(b"\0").decode())
            with self._lock:
                count, least_ns = self._seen.get(key, (0, now_ns))
                self._seen[key] = (count + 1, min(least_ns, now_ns - sent_ns))

    def _accept(self) -> None:
        while True:
            one, _ = self._streams.accept()
            threading.Thread(target=_drain, args=(one,), daemon=True).start()


def _drain(one: socket.socket) -> None:
    into = bytearray(1 << 18)
    with one:
        try:
            while one.recv_into(into):
                pass
        except OSError:
            pass  # the sender has measured enough and went


def send_packets(sender: str, targets: Mapping[str, str], *, run: int, count: int, gap_s: float) -> None:
    """Send `count` packets to each target (node → address), with a pause between two rounds over all of them."""
    name = sender.encode()
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as one:
        for _ in range(count):
            for address in targets.values():
                one.sendto(_PACKET.pack(name, run, monotonic_ns()) + _FILL, (address, UDP_PORT))
            select.select([], [], [], gap_s)


def measured_bps(address: str, *, warm_up_s: float, seconds: float) -> float | None:
    """Throughput of one TCP stream in bit/s; None: no connection came about."""
    with socket.socket() as one:
        prefer_cubic(one)
        one.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        one.settimeout(_CONNECT_S)
        try:
            one.connect((address, TCP_PORT))
            one.setblocking(False)
            before = _sent_until(one, monotonic_ns() + int(warm_up_s * 1e9))
            began_ns = monotonic_ns()
            after = _sent_until(one, began_ns + int(seconds * 1e9))
            return (after - before) * 8e9 / (monotonic_ns() - began_ns)
        except OSError:
            return None


def _sent_until(one: socket.socket, end_ns: int) -> int:
    """Send as much as goes until then; bytes that were acknowledged since the connection began."""
    while (left_ns := end_ns - monotonic_ns()) > 0:
        _, ready, _ = select.select([], [one], [], left_ns / 1e9)
        if ready:
            one.send(_CHUNK)
    info = one.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 192)
    return int(struct.unpack_from("=Q", info, _BYTES_ACKED_AT)[0])
