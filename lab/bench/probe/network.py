"""What agents measure on networks whose faults are known: nodes as network namespaces, as in `lab.bench.testbed`.

    sudo python -m lab.bench.probe.network [--seconds 30]

One line for each case, beside what `ping` measures at the same time; ends with status 1 if a case is not found:

- clean: no packet lost, and the 95th percentile of the round trip within 0.1 ms of ping's;
- loss: each other node drops 1 % of what one node sends; its agent sees that on the way there, theirs on the way back;
- delay: what one node sends is 5 ms later (by the relay where the kernel has no netem).
"""

import argparse
import ctypes
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, Final

from lab.bench.probe.agents import agents
from lab.bench.probe.assigner import Assigner, serving
from lab.bench.testbed.cases import Impairment, Setting
from lab.bench.testbed.commands import ip_in
from lab.bench.testbed.errors import BedError, BedUnavailable
from lab.bench.testbed.kernel import examined
from lab.bench.testbed.nodes import Bed, address, bed, small_packets_only
from lab.bench.testbed.record import NAMESPACES
from lab.bench.testbed.shaping import shaped

NODES: Final = ("node28", "node29", "node33")
FAULTY: Final = "node33"
_OTHER: Final = "node28"
_SERVER: Final = "10.77.0.1"
LOSS_RATIO: Final = 0.01
DELAY_MS: Final = 5.0
MOST_FROM_PING_MS: Final = 0.1
_INTERVAL_S: Final = 2.0
_PACKET_INTERVAL_S: Final = 0.05
_CLONE_NEWNET: Final = 0x40000000
_START_S: Final = 60.0
_SETTLED_REPORTS: Final = 3
"""After so many of a node none speaks of a change before them: a loss is known a second later, so in the second one."""


def main() -> int:
    """Print the cases, and say whether all were found."""
    parser = argparse.ArgumentParser(description="What agents measure on networks with known faults.")
    parser.add_argument("--seconds", type=float, default=30.0)
    seconds = parser.parse_args().seconds
    try:
        found = []
        for line in cases(seconds):
            sys.stdout.write(json.dumps(line) + "\n")
            sys.stdout.flush()
            found.append(line["found"])
    except BedError as error:
        sys.stderr.write(f"error: {error}\n")
        return 2
    return 0 if all(found) else 1


def cases(seconds: float) -> Iterator[dict[str, Any]]:
    """Each case measured for so long. Errors: BedError, where this machine has no namespaces."""
    kernel = examined()
    if shutil.which("ping") is None:
        raise BedUnavailable("ping is missing: install the package iputils-ping")
    settings = {
        "clean": None,
        "loss": Setting(Impairment.LOSS, LOSS_RATIO * 100.0, (FAULTY,)),
        "delay": Setting(Impairment.DELAY, DELAY_MS, (FAULTY,)),
    }
    own = Assigner(
        {node: address(node) for node in NODES}, interval_s=_INTERVAL_S, packet_interval_s=_PACKET_INTERVAL_S
    )
    with bed(nodes=NODES) as made, agents_in(made, own) as assigner:
        for name, setting in settings.items():
            with ExitStack() as stack:
                if setting is not None:
                    stack.enter_context(shaped(made, kernel, setting))
                settled = {node: len(assigner.reports(node)) + _SETTLED_REPORTS for node in NODES}
                for node, count in settled.items():
                    assigner.wait(node, count, timeout_s=_START_S)
                before = {node: len(assigner.reports(node)) for node in NODES}
                pings_ms = _ping(made.namespace(_OTHER), address(FAULTY), seconds)
                found = {node: assigner.reports(node)[before[node] :] for node in NODES}
            yield _line(name, found, pings_ms)


def _line(name: str, reports: dict[str, list[dict[str, Any]]], pings_ms: Sequence[float]) -> dict[str, Any]:
    links = [one for report in reports[_OTHER] for one in report["links"] if one["peer"] == FAULTY]
    healthy = [one for report in reports[_OTHER] for one in report["links"] if one["peer"] == NODES[1]]
    own = [one for report in reports[FAULTY] for one in report["links"]]
    rtts = sorted(one["rtt_ms"][1] for one in links if one["rtt_ms"])
    middles = sorted(one["rtt_ms"][0] for one in links if one["rtt_ms"])
    middle_ms = middles[len(middles) // 2]  # the relay that delays is itself late on a busy machine: not its tail
    rtt_ms, ping_ms = rtts[len(rtts) // 2], sorted(pings_ms)[len(pings_ms) * 95 // 100]
    back, out, sent = _sum(links, "lost_back"), _sum(own, "lost_out"), _sum(own, "sent")
    ratio = _sum(own, "lost") / max(sent, 1)
    close = abs(rtt_ms - ping_ms) <= MOST_FROM_PING_MS
    late = DELAY_MS <= rtt_ms <= ping_ms + 2.0  # ping meets the same tail of the relay
    healthy_ms = min(one["rtt_ms"][0] for one in healthy if one["rtt_ms"])
    none_lost = {"none lost": not ratio}
    wanted = {
        "clean": none_lost | {"near ping": close},
        "loss": {
            "ratio": 0.3 * LOSS_RATIO <= ratio <= 3.0 * LOSS_RATIO,
            "healthy peer": not _sum(healthy, "lost"),
            "direction": out > 0 and not _sum(own, "lost_back") and not _sum(links, "lost_out"),
        },
        "delay": none_lost
        | {"median": DELAY_MS <= middle_ms <= DELAY_MS + 2.0, "p95": late, "healthy peer": healthy_ms < 1.0},
    }[name]
    missed = [part for part, holds in ({"sent": sent > 0} | wanted).items() if not holds]
    return {
        "bench": "probe network", "case": name, "found": not missed, "missed": missed, "rtt_p95_ms": rtt_ms,
        "ping_p95_ms": round(ping_ms, 3), "healthy_rtt_p50_ms": healthy_ms, "lost_ratio": round(ratio, 5),
        "lost_out_of_faulty": out, "lost_back_to_other": back, "sent": sent, "suspect": _sum(own, "suspect"),
        "healthy_lost": _sum(healthy, "lost"), "lost_of_other": _sum(links, "lost"),
    }  # fmt: skip


def _sum(links: Sequence[dict[str, Any]], field: str) -> int:
    return sum(one[field] or 0 for one in links)


@contextmanager
def agents_in(made: Bed, assigner: Assigner) -> Iterator[Assigner]:
    """An agent in each node of the assigner, which is beside the bridge."""
    ip_in(made.switch, [f"addr add {_SERVER}/24 dev br0"])
    in_namespace(made.switch, lambda: small_packets_only("br0"))  # frames through the relay need their checksums
    within = {node: ("ip", "netns", "exec", made.namespace(node)) for node in assigner.addresses}
    with tempfile.TemporaryDirectory() as folder:
        token = Path(folder, "token")
        token.write_text("token")
        with (
            serving(assigner, _SERVER, listen=lambda bind: in_namespace(made.switch, bind)),
            agents(assigner, token, within=within),
        ):
            yield assigner


def in_namespace(name: str, act: Callable[[], None]) -> None:
    """Call this in a thread that is in a namespace; sockets that it makes stay there. Errors: BedError."""
    failed: list[str] = []

    def run() -> None:
        with Path(NAMESPACES, name).open() as place:
            if ctypes.CDLL(None, use_errno=True).setns(place.fileno(), _CLONE_NEWNET) != 0:
                failed.append(os.strerror(ctypes.get_errno()))
                return
        act()

    thread = threading.Thread(target=run)
    thread.start()
    thread.join()
    if failed:
        raise BedError(f"namespace {name} cannot be entered: {failed[0]}")


def _ping(namespace: str, target: str, seconds: float) -> list[float]:
    """Round trips in milliseconds, ten a second. Errors: BedError."""
    command = ["ip", "netns", "exec", namespace, "ping", "-n", "-i", "0.1", "-w", f"{seconds:.0f}", target]
    said = subprocess.run(command, capture_output=True, text=True, check=False)
    found = [float(text) for text in re.findall(r"time=([\d.]+) ms", said.stdout)]
    if not found:
        raise BedError(f"{' '.join(command)}: {said.stderr or said.stdout}")
    return found


if __name__ == "__main__":
    sys.exit(main())
