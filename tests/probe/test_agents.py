"""Agents on loopback addresses: what they measure, and that an agent's own trouble blames no link."""

import os
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager
from itertools import pairwise
from pathlib import Path
from time import monotonic
from typing import Any

import pytest

from lab.testbed.processes.network import free_ports
from probe.documents import Assignment, Peer
from probe.prober import Prober
from probe.session import Window
from probe.udp import MachineClock, UdpSocket
from tests.liveness import LIVENESS_S
from tests.probe.assigner import Assigner, serving, token

__all__ = ["token"]

pytestmark = pytest.mark.slow  # agents are processes


@contextmanager
def agents(
    token_file: Path, interval_s: float = 1.0
) -> Iterator[tuple[Assigner, dict[str, "subprocess.Popen[bytes]"]]]:
    """Three, and what assigns them to each other."""
    (port,) = free_ports(1)
    assigner = Assigner(dict(zip(("n1", "n2", "n3"), ADDRESSES, strict=True)), interval_s=interval_s, port=port)
    with serving(assigner), ExitStack() as stack:
        found = {}
        for node, address in assigner.addresses.items():
            command = [sys.executable, "-m", "probe", "--url", assigner.url]
            command += ["--node", node, "--address", address, "--port", str(assigner.port)]
            command += ["--token-file", str(token_file)]
            process = subprocess.Popen(command, cwd=ROOT, env=os.environ, stderr=subprocess.DEVNULL)
            stack.callback(_end, process)
            found[node] = process
        yield assigner, found


def _end(process: "subprocess.Popen[bytes]") -> None:
    process.terminate()
    try:
        process.wait(10.0)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


ADDRESSES = ("127.0.3.1", "127.0.3.2", "127.0.3.3")
ROOT = Path(__file__).parents[2]
MOST_RSS_MIB = 40.0
LATER = 16  # So many packets take longer than a lost one waits


def totals(reports: list[dict[str, Any]]) -> dict[str, int]:
    links = [link for report in reports for link in report["links"]]
    return {name: sum(link[name] for link in links) for name in ("sent", "lost", "suspect")}


def rss_mib(process: int) -> float:
    lines = Path(f"/proc/{process}/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("VmRSS")) / 1024.0


class SetClock(MachineClock):
    """The machine's, but for the time of day, which somebody sets."""

    ahead_ns = 0

    def unix_ns(self) -> int:
        return super().unix_ns() + self.ahead_ns


@contextmanager
def probers() -> Iterator[tuple[list[Prober], list[UdpSocket], SetClock]]:
    (port,), clock = free_ports(1), SetClock()
    answering = [UdpSocket(address, port) for address in ADDRESSES]
    asking = [UdpSocket(address, 0) for address in ADDRESSES]
    found = [Prober(clock, *sockets) for sockets in zip(answering, asking, strict=True)]
    for own, one in zip(ADDRESSES, found, strict=True):
        others = tuple(address for address in ADDRESSES if address != own)
        one.assign(Assignment(10.0, 0.05, tuple(Peer(f"at {a}", a, port) for a in others), others))
    yield found, answering, clock
    for each in (*answering, *asking):
        each.close()


def run(some: Sequence[Prober], *, until: int) -> None:
    """Steps until each has sent so many packets to each peer."""
    end_s = monotonic() + 0.08 * until
    while monotonic() < end_s:
        for one in some:
            one.step()


def decided(prober: Prober) -> Window:
    found = prober.close()
    return found[min(found)]


def flood(target: tuple[str, int]) -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sender:
        for _ in range(20_000):
            sender.sendto(b"x" * 44, target)


def test_ipv6_is_measured_and_other_families_are_left_alone() -> None:
    try:
        answering, asking = UdpSocket("::1", 0), UdpSocket("::1", 0)
    except OSError as error:
        pytest.skip(f"no IPv6 here: {error}")
    with closing(answering), closing(asking):
        one = Prober(MachineClock(), answering, asking)
        peers = (Peer("itself", "::1", answering.port), Peer("other family", ADDRESSES[0], answering.port))
        one.assign(Assignment(10.0, 0.05, peers, ("::1",)))
        run([one], until=4)
        found = one.close()
        assert set(found) == {"itself"}
        assert (found["itself"].answered >= 2, found["itself"].lost) == (True, 0)


def test_a_peer_keeps_its_turn_however_often_it_is_assigned() -> None:
    with probers() as (found, _, _):
        again = Assignment(10.0, 60.0, tuple(target.peer for target in found[0].targets.values()), ())
        found[0].assign(again)
        turns = {address: target.due_s for address, target in found[0].targets.items()}
        found[0].assign(again)
        assert {address: target.due_s for address, target in found[0].targets.items()} == turns


def test_a_full_socket_of_the_agent_blames_no_link() -> None:
    """The kernel drops requests of one that stopped; it says so by beginning again."""
    with probers() as (found, answering, _):
        run(found, until=4)
        stopped = found.pop(1)
        flood((ADDRESSES[1], answering[1].port))
        run(found, until=4)
        found.insert(1, stopped)
        for _ in range(5):
            stopped.step()
        run(found, until=LATER)
        window = decided(found[0])
        assert (window.lost, window.suspect >= 2, window.answered >= 4) == (0, True, True)


def test_a_clock_that_is_set_makes_the_packets_on_their_way_suspect_and_no_others() -> None:
    with probers() as (found, _, clock):
        run(found, until=LATER + 4)
        clock.ahead_ns = 5_000_000
        found[0].step()
        clock.ahead_ns = 0
        found[0].step()
        window = decided(found[0])
        assert (window.lost, window.suspect >= 2, window.answered >= 2) == (0, True, True)


def lose(prober: Prober, at: UdpSocket) -> tuple[str, int]:
    """Steps of the prober, while what comes to the socket is read and left: lost. Gives the sender."""
    end_s, seen = monotonic() + 0.25, []
    while monotonic() < end_s:
        prober.step()
        seen += [source for _, source, _ in at.waiting() if source[0] == ADDRESSES[0]]
    return seen[0]


def test_late_steps_hide_no_loss_and_spoil_no_packet() -> None:
    with probers() as (found, answering, _):
        run(found, until=3)
        lose(found[0], answering[1])
        run(found, until=LATER)
        window = decided(found[0])
        assert (window.lost >= 2, window.suspect < 4, window.answered >= 2) == (True, True, True)


def test_dropped_answers_make_packets_of_that_time_suspect_and_hide_no_earlier_loss() -> None:
    with probers() as (found, answering, _):
        run(found, until=3)
        asking = lose(found[0], answering[1])
        run(found, until=LATER)
        flood(asking)
        run(found[1:], until=2)  # their answers find no room
        run(found, until=2)
        run(found, until=LATER)
        window = decided(found[0])
        assert (window.lost >= 2, window.suspect >= 2, window.answered >= 4) == (True, True, True)
        assert window.lost <= 6  # in a quarter of a second, one each 50 ms


def test_a_report_that_was_taken_late_is_not_followed_too_soon(token: Path) -> None:
    """netgang refuses what comes within a second of what it took last, and a burst would wait for the next report."""
    with agents(token, interval_s=1.2) as (served, _):
        for lag_s in (0.9, 0.0, 0.9, 0.0):
            served.lag_s = lag_s
            served.wait("n1", len(served.reports("n1")) + 1, timeout_s=LIVENESS_S)
        times = served.taken_s("n1")
        assert min(after - before for before, after in pairwise(times)) >= 1.0


def test_a_leader_change_costs_no_packet(token: Path) -> None:
    with agents(token) as (served, running):
        served.wait("n1", 3, timeout_s=LIVENESS_S)
        served.status = 503
        before = len(served.reports("n1"))
        served.wait("n1", 2, timeout_s=LIVENESS_S, taken=False)
        served.status = 200
        reports = served.wait("n1", before + 1, timeout_s=LIVENESS_S)
        sent = {link["peer"]: link["sent"] for link in reports[-1]["links"]}
        assert min(sent.values()) > 12, "more than the second of one report"
        assert ({*sent}, totals(reports)["lost"]) == ({"n2", "n3"}, 0)
        assert rss_mib(running["n1"].pid) <= MOST_RSS_MIB


def test_what_netgang_gave_to_keep_is_sent_to_a_new_leader_and_to_no_other(token: Path) -> None:
    with agents(token) as (served, _):

        def memory_after(answered: dict[str, Any]) -> list[str | None]:
            served.more, before = answered, len(served.reports("n1"))
            return [one.get("memory") for one in served.wait("n1", before + 3, timeout_s=LIVENESS_S)[before:]]

        assert set(memory_after({"memory": "signed"})) == {None}
        assert memory_after({"resend": True})[-1] == "signed"


def test_an_agent_with_one_percent_of_a_core_blames_no_link(token: Path) -> None:
    """It runs for 2 ms, then stands still for 198 ms, again and again."""
    with agents(token) as (served, running):
        served.wait("n1", 3, timeout_s=LIVENESS_S)
        pause, enough = threading.Event(), len(served.reports("n1")) + 8
        while len(served.reports("n1")) < enough:
            running["n2"].send_signal(signal.SIGSTOP)
            pause.wait(0.198)
            running["n2"].send_signal(signal.SIGCONT)
            pause.wait(0.002)
        for node in served.addresses:
            served.wait(node, len(served.reports(node)) + 2, timeout_s=LIVENESS_S)
            found = totals(served.reports(node))
            assert (found["lost"], found["sent"] > 0) == (0, True)


def test_the_program_is_the_agent_alone(token: Path) -> None:
    (port,) = free_ports(1)
    command = [sys.executable, "-m", "probe", "--node", "n1", "--url", "http://127.0.0.1:1"]
    command += ["--address", "127.0.3.7", "--port", str(port), "--token-file", str(token)]
    with subprocess.Popen(command, cwd=ROOT, stderr=subprocess.PIPE) as process:
        assert process.stderr is not None
        assert f"answers at 127.0.3.7 port {port}".encode() in process.stderr.readline()
        assert rss_mib(process.pid) <= MOST_RSS_MIB
        taken = subprocess.run(command, cwd=ROOT, capture_output=True)
        assert (taken.returncode, b"error: 127.0.3.7 port" in taken.stderr) == (3, True)
        process.terminate()
        assert process.wait(LIVENESS_S) == 0


BAD = {  # case: (options, what is said)
    "no node": (["--url", "http://a"], "--node or NETGANG_PROBE_NODE must be given"),
    "no url": (["--node", "n1"], "--url or NETGANG_PROBE_URL must be given"),
    "a url that is none": (["--node", "n1", "--url", "a:b"], "is no address such as"),
    "no port": (["--node", "n1", "--url", "http://a", "--port", "x"], "--port: 'x' is no port"),
    "no address": (["--node", "n1", "--url", "http://a", "--address", "n1"], "--address: 'n1' is no IP address"),
}


@pytest.mark.parametrize(("options", "said"), BAD.values(), ids=BAD)
def test_bad_settings(options: list[str], said: str, capsys: pytest.CaptureFixture[str]) -> None:
    from probe.__main__ import main

    try:
        code: object = main(options)
    except SystemExit as end:
        code = end.code
    assert (code, said in capsys.readouterr().err) == (2, True)
