"""Agents that report in one line, for the tests of the probe: a cluster of them in virtual time."""

from collections import Counter
from collections.abc import Callable, Mapping
from typing import Any

import msgspec

from extender.network.probe_agents import INTERVAL_S, AgentPod, Agents, ReportRefusal
from extender.network.probe_bursts import BurstOptions, Bursts
from extender.network.probe_source import ProbeSource
from extender.ports import Batch
from extender.schemas import ProbeOrders, ProbeReport
from extender.signed_notes import Notes
from probe.documents import read_assignment
from scoring import Metric, NodeName, ZoneName
from tests.fakes.clock import FakeClock

KEY = Notes(b"the same for all leaders")
GOOD: Mapping[str, Any] = {"sent": 50, "lost": 0, "lost_out": 0, "lost_back": 0, "rtt_ms": 1.0}
DEAD: Mapping[str, Any] = {"sent": 50, "lost": 50, "lost_out": None, "lost_back": None, "rtt_ms": None}


def report(node: str, sequence: int = 0, *links: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {"node": node, "since_s": 1000.0, "sequence": sequence, "reflector_port": 8862, "links": links, **more}


def pod_of(node: str, **more: str) -> AgentPod:
    return AgentPod(**{"uid": f"uid-{node}", "node": node, "address": f"10.0.0.{node[1:]}", **more})


class Mesh:
    """Nodes n1, n2, …, all of them with an agent that does what it is answered."""

    def __init__(self, *nodes: str, interval_s: float = INTERVAL_S, bursts: BurstOptions | None = None) -> None:
        self.clock = FakeClock()
        self.zones = {NodeName(node): ZoneName("a") for node in nodes}
        self.wanted: frozenset[NodeName] = frozenset()
        self.leads = True
        self.interval_s, self._burst_options = interval_s, bursts
        self.with_gangs: frozenset[NodeName] = frozenset()
        self.outcomes = Counter[str]()
        self.lead()
        self.memories: dict[str, str] = {}  # node → what its agent keeps for the next leader
        self.resends: set[str] = set()
        self.orders: dict[str, ProbeOrders] = {}
        self.silent: set[str] = set()
        self.suspect: dict[str, int] = {}  # node → suspect packets of each link
        self.faults: dict[tuple[str, str], Mapping[str, Any]] = {}  # (node, peer) → what its agent counts there
        self.rates: dict[str, Any] = {"sent_bps": 2e9, "received_bps": 1e9}  # what each client finds, or …
        self.rates_of: Callable[[str, str], float] | None = None  # … by client and server, in both directions
        self.without_iperf3: set[str] = set()
        self.started: list[tuple[str, bool, float]] = []  # (node, whether as server, when) of each order of a burst
        self._reported_s: dict[str, float] = {}
        self._sequence = 0

    def lead(self) -> None:
        """A netgang that knows nothing begins to lead."""
        self.bursts: Bursts | None = None
        if (options := self._burst_options) is not None:
            count: Callable[[str], None] = lambda outcome: self.outcomes.update([outcome])  # noqa: E731
            self.bursts = Bursts(self.clock, options, with_gangs=lambda: self.with_gangs, count=count)
        self.agents = Agents(self.clock, KEY, self.interval_s, bursts=self.bursts)
        zones, wanted, acting = lambda: dict(self.zones), lambda: self.wanted, lambda: self.leads
        self.source = ProbeSource(self.agents, zones=zones, wanted=wanted, acting=acting, seed="seed")
        self.values: dict[tuple[str, str, Metric], float] = {}
        self.table_s: dict[tuple[str, str, Metric], float] = {}

    def send(self, document: Mapping[str, Any], **pod: str) -> ProbeOrders | ReportRefusal:
        found = msgspec.convert(document, ProbeReport)
        return self.agents.take(found, pod_of(**{"node": found.node, **pod}))

    async def rounds(self, count: int, *, seconds: float = 10.0, until: Callable[[], bool] = lambda: False) -> None:
        """Each agent reports, and before that if it was asked to for a burst; then the source is asked.

        `until`: ends it early, after any report.
        """
        for _ in range(count):
            end_s = self.clock.now_s() + seconds
            while self.bursts is not None and (due := self._due(end_s)) is not None:
                at_s, node = due
                self.clock.advance(max(at_s - self.clock.now_s(), 0.0))
                self._sequence += 1
                self._report(node)
                if until():
                    return
            self.clock.advance(max(end_s - self.clock.now_s(), 0.0))
            self._sequence += 1
            for node in sorted(self.zones):
                if node not in self.silent and self.clock.now_s() - self._reported_s.get(node, 0.0) >= 1.0:
                    self._report(node)
            await self.fetch()

    def _due(self, end_s: float) -> tuple[float, str] | None:
        """The next agent that was asked to report a second before then or sooner, and when."""
        there = self.zones.keys() - self.silent
        times = [(self._reported_s[node] + one.interval_s, node) for node, one in self.orders.items() if node in there]
        return min((one for one in times if one[0] <= end_s - 1.0), default=None)

    async def until_started(self, count: int) -> None:
        """Until so many orders of bursts were given."""
        while len(self.started) < count:
            await self.rounds(1, until=lambda: len(self.started) >= count)

    async def fetch(self) -> Batch | None:
        batch = await self.source.fetch(now_s=self.clock.now_s())
        if batch is not None:
            keys = [((one.source, one.target, one.metric), one) for one in batch.measurements]
            self.values = {key: one.value for key, one in keys}
            self.table_s = {key: one.measured_at_s for key, one in keys}
        return batch

    async def problems(self) -> tuple[str, ...]:
        """After half a minute without any report."""
        self.clock.advance(30.0)
        batch = await self.fetch()
        assert batch is not None
        return batch.problems

    def _report(self, node: str) -> None:
        orders = self.orders.get(node)
        suspect = 40 if orders is not None and orders.burst is not None else self.suspect.get(node, 0)
        links = [
            {"peer": peer.node, **self.faults.get((node, peer.node), GOOD), "suspect": suspect}
            for peer in (orders.peers if orders is not None else ())
        ]
        more: dict[str, Any] = {}
        if orders is not None and orders.throughput:
            more["iperf3"] = node not in self.without_iperf3
            if orders.burst is not None and not orders.burst.server:
                server = next(peer for peer in self.zones if pod_of(peer).address == orders.burst.address)
                rate = self.rates_of(node, server) if self.rates_of is not None else None
                rates = self.rates if rate is None else {"sent_bps": rate, "received_bps": rate}
                more["burst"] = {"id": orders.burst.id, **rates}
        if node in self.resends:
            more["memory"] = self.memories.get(node, "")
        answer = self.send(report(node, self._sequence, *links, **more))
        assert isinstance(answer, ProbeOrders), answer
        self._reported_s[node] = self.clock.now_s()
        if answer.resend:
            self.resends.add(node)
            return
        self.resends.discard(node)
        if answer.burst is not None:
            self.started.append((node, answer.burst.server, self.clock.now_s()))
        self.orders[node] = answer
        self.memories[node] = read_assignment(msgspec.json.encode(answer)).memory
