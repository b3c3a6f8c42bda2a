"""Whether bursts find a node with a slow link, and a gang then avoids it: agents in network namespaces, real iperf3.

    sudo python -m lab.bench.probe.throughput

Four nodes of one zone at 100 Mbit/s, the first by name at 10 (tc). netgang's own parts assign the bursts; only tokens
and pods are left out. One line: the throughput found on links of the slow node and of the others, and the nodes of a
gang of three with it and without any measurement (then names decide). Ends with status 1 if the slow node is not found
or not avoided.
"""

import asyncio
import json
import resource
import shutil
import sys
import threading
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from time import monotonic, process_time
from typing import Any, Final

import msgspec

from extender.network.probe.agent_pods import AgentPod
from extender.network.probe.agents import Agents, ProbeOptions
from extender.network.probe.bursts import BurstOptions, Bursts
from extender.network.probe.refusals import Refusal
from extender.network.probe.source import ProbeSource
from extender.runtime.clock import SystemClock
from extender.schemas.probe import ProbeReport
from lab.bench.probe.assigner import Assigner
from lab.bench.probe.network import agents_in
from lab.bench.probing.estimates import chosen, matrix_of
from lab.bench.testbed.cases import BASE_BPS, Impairment, Setting
from lab.bench.testbed.errors import BedError, BedUnavailable
from lab.bench.testbed.kernel import examined
from lab.bench.testbed.nodes import address, bed
from lab.bench.testbed.shaping import shaped
from lab.testbed.processes.network import free_ports
from probe.burst import BurstRunner
from probe.documents import Burst
from scoring.ids import NodeName, ZoneName
from scoring.network.measurement import Measurement, MeasurementTable, Metric
from scoring.probing.burst_history import PastBurst
from scoring.probing.bursts import BurstLimits, BurstView, next_burst

NODES: Final = ("node28", "node29", "node30", "node31")
SLOW: Final = "node28"
SLOW_MBPS: Final = 10.0
_PAIRS: Final = len(NODES) * (len(NODES) - 1) // 2
_ZONES: Final = {NodeName(node): ZoneName("a") for node in NODES}
_INTERVAL_S: Final = 2.0
_LONGEST_S: Final = 300.0
_MISSING: Final = "iperf3 is missing: install the package iperf3"
_BURST: Final = BurstOptions(seconds=2.0, size_bytes=10_000_000)


class BurstAssigner(Assigner):
    """Answers as netgang does, and has its table."""

    def __init__(self) -> None:
        super().__init__({node: address(node) for node in NODES}, interval_s=_INTERVAL_S)
        self.outcomes = Counter[str]()
        clock = SystemClock()
        self._clock = clock
        self._lock = threading.Lock()
        bursts = Bursts(
            clock, _BURST, with_gangs=frozenset,
            count=lambda outcome: self.outcomes.update([outcome]),
        )  # fmt: skip
        self._agents = Agents(clock, ProbeOptions(interval_s=_INTERVAL_S), bursts=bursts)
        self._source = ProbeSource(
            self._agents, zones=lambda: _ZONES, wanted=frozenset, acting=lambda: True, seed="bench"
        )

    def answer(self, body: bytes) -> bytes:
        """Keep a report, and answer it; one that came too soon with nothing, so that the agent tries again."""
        super().answer(body)
        report = msgspec.json.decode(body, type=ProbeReport)
        with self._lock:
            found = self._agents.take(report, AgentPod(report.node, report.node, self.addresses[report.node]))
        return b"" if isinstance(found, Refusal) else msgspec.json.encode(found)

    def table(self) -> MeasurementTable | None:
        """What is known by now; `None`: what was known."""
        with self._lock, ThreadPoolExecutor(1) as aside:  # a caller's own event loop stays as it is
            batch = aside.submit(asyncio.run, self._source.fetch(now_s=self._clock.now_s())).result()
        return MeasurementTable.of(batch.measurements) if batch is not None else None


def measured() -> dict[str, Any]:
    """The line. Errors: BedError, where this machine has no namespaces or no iperf3."""
    kernel = examined()
    if shutil.which("iperf3") is None:
        raise BedUnavailable(_MISSING)
    assigner, table, began_s, pause = BurstAssigner(), MeasurementTable(), monotonic(), threading.Event()
    with (
        bed(nodes=NODES) as made,
        shaped(made, kernel, Setting(Impairment.BANDWIDTH, SLOW_MBPS, (SLOW,))),
        agents_in(made, assigner),
    ):
        while table_pairs(table) < 2 * _PAIRS and monotonic() < began_s + _LONGEST_S:
            pause.wait(1.0)
            table = assigner.table() or table
    return line(list(table), assigner.outcomes, seconds=monotonic() - began_s)


def table_pairs(table: MeasurementTable) -> int:
    """Directions with a throughput."""
    return sum(one.metric is Metric.THROUGHPUT for one in table)


def line(rows: list[Measurement], outcomes: Counter[str], *, seconds: float) -> dict[str, Any]:
    """What was found, and what it makes a gang of three do."""
    rates = [(SLOW in (one.source, one.target), one.value / 1e6) for one in rows if one.metric is Metric.THROUGHPUT]
    slow, healthy = (sorted(rate for is_slow, rate in rates if is_slow is which) for which in (True, False))
    now_s = max(one.measured_at_s for one in rows)
    gang, blind = (chosen(_ZONES, matrix_of(_ZONES, these, now_s=now_s), len(NODES) - 1) for these in (rows, ()))
    complete = len(rates) == 2 * _PAIRS
    is_found = complete and slow[-1] < 1.5 * SLOW_MBPS and healthy[0] > 0.5 * BASE_BPS / 1e6
    return {
        "bench": "probe throughput", "found": is_found and SLOW not in gang, "directions": len(rates),
        "slow_mbps": [round(rate, 1) for rate in slow], "healthy_mbps": [round(rate, 1) for rate in healthy],
        "gang": gang, "gang_unmeasured": blind, "outcomes": dict(outcomes), "seconds": round(seconds),
    }  # fmt: skip


def cost() -> dict[str, Any]:
    """CPU of a burst's programs, both ends on loopback; CPU of one choice among 1,000 nodes.

    Errors: BedError without iperf3.
    """
    if shutil.which("iperf3") is None:
        raise BedUnavailable(_MISSING)
    (free,) = free_ports(1)
    whole, pause = BurstOptions(), threading.Event()
    order = Burst("cost", True, "127.0.3.2", free, whole.seconds, whole.size_bytes, wait_s=_LONGEST_S)
    server, client = BurstRunner("127.0.3.1"), BurstRunner("127.0.3.2")
    server.start(order, monotonic())
    pause.wait(1.0)
    client.start(replace(order, server=False, address="127.0.3.1"), monotonic())
    while server.is_running or client.is_running:
        pause.wait(0.05)
        server.step(monotonic())
        client.step(monotonic())
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    zone_of = {NodeName(f"n{i:03}"): ZoneName(f"z{i // 100}") for i in range(1000)}
    nodes = list(zone_of)
    past = [PastBurst((nodes[i % 999], nodes[i % 999 + 1]), 5.0 * i, 1e9) for i in range(34_560)]
    began_s = process_time()
    next_burst(BurstView(zone_of), past, BurstLimits(), running=False, now_s=5.0 * len(past))
    return {
        "bench": "probe burst cost", **client.said()["burst"], "cpu_s": round(used.ru_utime + used.ru_stime, 2),
        "choice_ms": round(1000.0 * (process_time() - began_s), 1),
    }  # fmt: skip


def main() -> int:
    """Print the lines, and say whether the slow node was found and avoided."""
    try:
        sys.stdout.write(json.dumps(cost()) + "\n")
        found = measured()
    except BedError as error:
        sys.stderr.write(f"error: {error}\n")
        return 2
    sys.stdout.write(json.dumps(found) + "\n")
    return 0 if found["found"] else 1


if __name__ == "__main__":
    sys.exit(main())
