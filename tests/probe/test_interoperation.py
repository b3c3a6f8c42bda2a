"""Both ways with another implementation: stamp-suite 1.0.0 (Rust, crates.io), recorded and, where it is, run.

`cargo install stamp-suite --version 1.0.0 --root DIR`, then NETGANG_STAMP_SUITE=DIR/bin/stamp-suite.
"""

import json
import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from time import monotonic

import pytest

from lab.testbed.processes.network import free_ports
from probe import packets
from probe.documents import Assignment, Peer
from probe.prober import Prober
from probe.session import Session
from probe.udp import MachineClock, UdpSocket
from tests.liveness import LIVENESS_S

OURS, THEIRS = "127.0.4.1", "127.0.4.2"
REQUEST = bytes.fromhex("00000001eeb14e71cf16050b0001004d") + bytes(28)
PADDED = bytes.fromhex("00000001eeb14e71de7ac6780001004d") + bytes(28) + bytes.fromhex("80010008aec9b92552e5678a")
ANSWERS = [  # of a stateful reflector to our numbers 5 and 9
    bytes.fromhex(text)
    for text in (
        "00000000eeb14e725fe945170001beefeeb14e725fe86db00000000583aa7e80000000018a20000040000000",
        "00000001eeb14e725ff160100001beefeeb14e725ff1348b0000000983aa7e80000000018a20000040000000",
    )
]


def test_its_recorded_requests_are_answered() -> None:
    for datagram in (REQUEST, PADDED):
        session = packets.session_of(datagram)
        assert session == (77).to_bytes(2, "big")
        answer = packets.answer(datagram, session, sequence=0, error=1, received=2, ttl=64, now=3)
        assert answer[24:38] == datagram[:14], "sequence, timestamp and error estimate of the sender come back"
        assert answer[44:] == datagram[44:].replace(b"\x80\x01", b"\0\x01"), "padding is understood"


def test_its_recorded_answers_are_taken() -> None:
    session = Session(0xBEEF)
    for number in range(10):
        sent = session.send(0x83AA7E8000000001, 0x8A20, at_s=number * 0.1)
        assert len(sent) == 44
    assert [session.take(one, 0x83AA7E8000000001 + (1 << 22), own_error_s=None) for one in ANSWERS] == [True] * 2
    assert session.take(ANSWERS[0], 0, own_error_s=None) is False
    window = session.close(100.0)
    assert (window.answered, window.lost, window.lost_out, window.suspect) == (2, 3, 3, 5)


program = os.environ.get("NETGANG_STAMP_SUITE", "")
needs_program = pytest.mark.skipif(not program, reason="NETGANG_STAMP_SUITE does not name stamp-suite")


@contextmanager
def prober(*peers: Peer) -> Iterator[tuple[Prober, int]]:
    clock = MachineClock()
    answering, asking = UdpSocket(OURS, 0, clock.unix_ns, ttl=True), UdpSocket(OURS, 0, clock.unix_ns)
    found = Prober(clock, answering, asking)
    found.assign(Assignment(10.0, 0.05, peers, (THEIRS,)))
    yield found, answering.port
    answering.close()
    asking.close()


@pytest.mark.slow
@needs_program
@pytest.mark.parametrize("padding", [0, 8])
def test_its_sender_measures_our_reflector(padding: int) -> None:
    with prober() as (one, port):
        command = [program, "-r", OURS, "-S", THEIRS, "-p", str(port), "-c", "20", "-d", "20", "-L", "1"]
        command += (
            ["--output-format", "json", "--extra-padding", str(padding)] if padding else ["--output-format", "json"]
        )
        with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as process:
            end_s = monotonic() + LIVENESS_S
            while process.poll() is None and monotonic() < end_s:
                one.step()
            assert process.stdout is not None
            lines = process.stdout.read().splitlines()
    found = next(json.loads(line) for line in lines if line.startswith(b'{"type":"summary"'))
    assert (found["packets_sent"], found["packets_received"]) == (20, 20)
    assert found["measurements"]["last_reflector_sequence"] == 19
    assert found["measurements"]["tlv_validation"]["rejected_replies"] == 0


@pytest.mark.slow
@needs_program
def test_our_sender_measures_its_reflector() -> None:
    (port,) = free_ports(1)
    command = [program, "-i", "-S", THEIRS, "-o", str(port), "--stateful-reflector"]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
        try:
            with prober(Peer("them", THEIRS, port)) as (one, _):
                answered, end_s = 0, monotonic() + LIVENESS_S
                while answered < 20 and monotonic() < end_s:
                    one.step()
                    window = one.close()["them"]
                    answered += window.answered
                    assert window.lost == 0
        finally:
            process.terminate()
    assert answered >= 20
