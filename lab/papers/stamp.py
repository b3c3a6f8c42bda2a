"""Stamp-suite, another program that speaks STAMP (RFC 8762), beside the agents: its delays, and whether both agree.

It is no part of this project: `cargo install stamp-suite --version 1.0.0 --locked` puts it on the path. Its reflector
numbers its answers as the agents' does (stateful), which is how a sender knows the lost from the way back.
"""

import shutil
import socket
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from time import monotonic, time_ns
from typing import Final

from lab.bench.testbed.commands import in_namespace, run_in
from lab.bench.testbed.nodes import Bed, address
from probe.packets import SessionReflector, error_estimate, from_unix_ns
from probe.session import Session

PROGRAM: Final = "stamp-suite"
_PORT, _PACKETS, _WAITS_S = 8620, 20, 2.0


def round_trip_ms(made: Bed, one: str, other: str) -> float:
    """The median of 25, by itself at both ends. Blocks for 13 s. Errors: BedError."""
    with _its_reflector(made, other):
        told = run_in(made.namespace(one), *_its_sender(address(other), packets=25, every_ms=500))
    return float(next(line for line in told.splitlines() if line.startswith("Median RTT")).split()[2])


def understood(made: Bed, one: str, other: str) -> float:
    """The share of answers that senders take: ours those of its reflector, and it those of ours; blocks for seconds."""
    ours, theirs = _socket(made, one), _socket(made, other)
    with ours, theirs:
        session, taken = Session(session_id=7), 0
        with _its_reflector(made, other):
            for _ in range(_PACKETS):
                sent = session.send(_now(), error_estimate(1e-3, synchronized=False), at_s=monotonic())
                ours.sendto(sent, (address(other), _PORT))
                with suppress(TimeoutError):  # one that is lost is not taken
                    taken += session.take(ours.recv(2048), _now(), own_error_s=None)
        reflector = SessionReflector()
        reflector.allow([address(one)])
        theirs.bind((address(other), _PORT))
        command = ["ip", "netns", "exec", made.namespace(one), *_its_sender(address(other), _PACKETS, every_ms=20)]
        with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as sender:
            with suppress(TimeoutError):
                for _ in range(_PACKETS):
                    packet, source = theirs.recvfrom(2048)
                    if answer := reflector.answer(packet, source, received=_now(), now=_now()):
                        theirs.sendto(answer, source)
            told = sender.communicate()[0]
    received = next(line for line in told.splitlines() if line.startswith("Packets received"))
    return (taken + int(received.split()[2])) / (2 * _PACKETS)


def _its_sender(to: str, packets: int, every_ms: int) -> list[str]:
    return [str(shutil.which(PROGRAM)), *f"-r {to} -p {_PORT} -c {packets} -d {every_ms} -L {_WAITS_S:g}".split()]


@contextmanager
def _its_reflector(made: Bed, node: str) -> Iterator[None]:
    words = f"-i -S {address(node)} -o {_PORT} --stateful-reflector".split()
    command = ["ip", "netns", "exec", made.namespace(node), str(shutil.which(PROGRAM)), *words]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as reflector:
        assert reflector.stdout is not None
        try:
            next(line for line in reflector.stdout if "listening" in line)
            yield
        finally:
            reflector.kill()


def _socket(made: Bed, node: str) -> socket.socket:
    found = list[socket.socket]()
    in_namespace(made.namespace(node), lambda: found.append(socket.socket(type=socket.SOCK_DGRAM)))
    found[0].settimeout(_WAITS_S)
    return found[0]


def _now() -> int:
    return from_unix_ns(time_ns())
