"""Bursts of throughput with the real iperf3 on loopback; what it says is read with care."""

import json
import shutil
from collections.abc import Callable
from threading import Event
from time import monotonic
from typing import Any

import pytest

from lab.testbed.processes.network import free_ports
from probe.burst import BurstRunner, figures
from probe.documents import Burst
from tests.liveness import LIVENESS_S

SERVER, CLIENT, STRANGER = "127.0.3.1", "127.0.3.2", "127.0.3.9"
SECONDS = 1.0
needs_iperf3 = pytest.mark.skipif(shutil.which("iperf3") is None, reason="iperf3 is not installed (Debian: iperf3)")


def until(done: Callable[[], bool], *runners: BurstRunner) -> float:
    """Step as the agent's loop does; for how long it took, in seconds."""
    began_s, step = monotonic(), Event()
    while not done():
        assert monotonic() < began_s + LIVENESS_S
        for one in runners:
            one.step(monotonic())
        step.wait(0.02)
    return monotonic() - began_s


def pair(size_bytes: int, *, expected: str = CLIENT) -> tuple[BurstRunner, BurstRunner, float]:
    """A burst from beginning to end: (server, client, seconds that the client took)."""
    (port,) = free_ports(1)
    server, client = BurstRunner(SERVER), BurstRunner(CLIENT)
    order = Burst("b1", True, expected, port, SECONDS, size_bytes, wait_s=30.0)
    server.start(order, monotonic())
    until(lambda: listens(port))
    client.start(Burst("b1", False, SERVER, port, SECONDS, size_bytes, wait_s=30.0), monotonic())
    took_s = until(lambda: client.process is None, client, server)
    until(lambda: server.process is None, client, server)
    return server, client, took_s


def listens(port: int) -> bool:
    """Whether something listens at the port; asking itself would use up the server's only client."""
    with open("/proc/net/tcp") as table:
        return any(f":{port:04X} 00000000:0000 0A" in line for line in table)


def result(client: BurstRunner) -> dict[str, Any]:
    said = client.said()
    assert (said["iperf3"], said["burst"].pop("id")) == (True, "b1")
    return dict(said["burst"])


@pytest.mark.parametrize("size_bytes", [20_000_000, 10_000_000_000], ids=["ends by bytes", "ends by time"])
@pytest.mark.slow
@needs_iperf3
def test_both_directions_are_measured(size_bytes: int) -> None:
    server, client, took_s = pair(size_bytes)
    found = result(client)
    assert min(found["sent_bps"], found["received_bps"]) > 1e8
    assert took_s < LIVENESS_S / 2.0
    assert "burst" not in server.said()
    client.taken()
    assert "burst" not in client.said()


@pytest.mark.slow
@needs_iperf3
def test_a_stranger_spoils_the_burst_and_no_more() -> None:
    _, client, _ = pair(10_000_000_000, expected=STRANGER)
    assert "error" in result(client)


@pytest.mark.slow
@needs_iperf3
def test_without_a_server_there_is_an_error_and_a_pause() -> None:
    (port,) = free_ports(1)
    client = BurstRunner(CLIENT)
    order = Burst("b1", False, SERVER, port, SECONDS, 1_000_000, wait_s=5.0)
    client.start(order, 0.0)
    until(lambda: client.process is None, client)
    assert "unable to connect" in result(client)["error"]
    client.start(order, monotonic())
    assert (client.process, result(client)) == (None, {"error": "another burst has just been here"})


@pytest.mark.slow
@needs_iperf3
def test_a_server_that_nothing_came_to_ends_with_the_agent() -> None:
    (port,) = free_ports(1)
    server = BurstRunner(SERVER)
    server.start(Burst("b1", True, CLIENT, port, SECONDS, 1_000_000, wait_s=30.0), monotonic())
    until(lambda: listens(port))
    server.close()
    until(lambda: not listens(port))
    assert server.process is None


def test_an_agent_without_iperf3_tells_once(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    client = BurstRunner(CLIENT)
    assert [client.said(), client.said()] == [{"iperf3": False}] * 2
    assert caplog.messages == ["iperf3 is not installed here: throughput is not measured"]
    client.start(Burst("b1", False, SERVER, 9, SECONDS, 1, wait_s=1.0), 0.0)
    assert "cannot be started" in client.said()["burst"]["error"]


def sums(*bits: float) -> dict[str, dict[str, float]]:
    names = ("sum_received", "sum_received_bidir_reverse")
    return {name: {"bits_per_second": value} for name, value in zip(names, bits, strict=True)}


INTERVALS = [
    {"sum": {"bytes": 8_000_000, "seconds": 1.0}, "sum_bidir_reverse": {"bytes": 1_000_000, "seconds": 1.0}},
    {"sum": {"bytes": 1_000_000, "seconds": 1.0}, "sum_bidir_reverse": {"bytes": 2_000_000, "seconds": 1.0}},
]
INTERRUPTED = "interrupt - the client has terminated"
READ: dict[str, tuple[Any, dict[str, Any]]] = {  # case: (what iperf3 said, what is reported)
    "all bytes": ({"end": sums(1e9, 2e9)}, {"sent_bps": 10**9, "received_bps": 2 * 10**9}),
    "its time was up": (
        {"intervals": INTERVALS, "error": INTERRUPTED},
        {"sent_bps": 8_000_000, "received_bps": 16_000_000},
    ),
    "one interval": (
        {"intervals": INTERVALS[:1], "error": INTERRUPTED},
        {"sent_bps": 64_000_000, "received_bps": 8_000_000},
    ),
    "no interval": (
        {"intervals": [], "error": INTERRUPTED},
        {"error": "iperf3's answer cannot be read: ZeroDivisionError"},
    ),
    "an error": ({"error": "x" * 999}, {"error": "x" * 200}),
    "no figures": ({"end": {}}, {"error": "iperf3's answer cannot be read: KeyError"}),
    "no number": ({"end": sums(float("nan"), 1.0)}, {"error": "iperf3 gave no rates"}),
    "below zero": ({"end": sums(-1.0, 1.0)}, {"error": "iperf3 gave no rates"}),
    "no object": ([1], {"error": "iperf3's answer cannot be read: AttributeError"}),
}  # fmt: skip


@pytest.mark.parametrize(("said", "want"), READ.values(), ids=READ)
def test_what_iperf3_says(said: Any, want: dict[str, Any]) -> None:
    assert figures(json.dumps(said).encode()) == want
    assert figures(b"") == {"error": "iperf3's answer cannot be read: JSONDecodeError"}
