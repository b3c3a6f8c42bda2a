"""The probe as a source of measurements: what agents reported becomes a table, and pairs take turns.

Rules: values of links that are not measured at the moment stay, and age, but not those of former gateways; a node that
left the cluster leaves the table at once. Assignment and large tables are worked on in threads, the links in slices. A
replica that does not lead forgets.
"""

import asyncio
from collections.abc import Callable, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import KW_ONLY, dataclass
from functools import partial
from typing import Any, Final, TypeAlias

import numpy as np

from extender.network import answers
from extender.network.answers import carried
from extender.network.mapping import PROBE
from extender.network.probe_agents import Agents
from extender.ports import Batch
from extender.schemas import AgentsAmiss, ProbeAgents
from scoring import METRICS, EndpointId, Metric, NodeName, ZoneName
from scoring.explain.words import some
from scoring.network.measurement import Measurement, MeasurementTable
from scoring.probing.links import LinkValue
from scoring.probing.peers import ZONE_PEERS, assign_peers, of_gateways

LOOK_S: Final = 5.0  # Between two looks whether peers must be assigned
_TABLE_S: Final = 30.0  # Between two tables: each is a new matrix, and so a new plan
_KEPT_S: Final = 3600.0  # A pair that is measured no more keeps its last value so long
_NAMED: Final = 5  # Nodes in one sentence
_FIRST_S: Final = 60.0  # As leader, before a node counts as one whose agent has never reported
_SLICE: Final = 20  # Agents read at once, about a millisecond
_Row: TypeAlias = tuple[NodeName, NodeName, LinkValue]  # From, to, what is known


@dataclass(eq=False, repr=False)
class ProbeSource:
    """The NetworkSource port over the agents."""

    agents: Agents
    _: KW_ONLY
    zones: Callable[[], Mapping[NodeName, ZoneName]]  # Of all nodes of the cluster
    wanted: Callable[[], AbstractSet[NodeName]]  # Nodes of gangs
    acting: Callable[[], bool]  # Whether this replica leads
    seed: str
    on_agents: Callable[[Mapping[str, int]], None] = lambda _: None  # At each look: how many are in which state

    def __post_init__(self) -> None:
        self.name = PROBE
        self.seen: ProbeAgents | None = None  # How the agents do; `None`: this replica does not lead
        self._leads_since_s: float | None = None
        self._asked: object = None
        self.table = MeasurementTable()
        self._table_at_s = -np.inf

    async def fetch(self, *, now_s: float) -> Batch | None:
        """What is known by now; `None`: it is too soon for another table."""
        if not self.acting():
            self.agents.reset()
            self.on_agents({})
            self.seen = self._leads_since_s = None
            return None
        self._leads_since_s = now_s if self._leads_since_s is None else self._leads_since_s
        zone_of = self.zones()
        asked = self.agents.question(zone_of, self.wanted(), self.seed)
        if asked != self._asked:
            there, turn, wanted = self._asked = asked
            work = partial(assign_peers, there, turn, wanted=wanted)
            self.agents.peers = await answers.off_loop(len(there) * ZONE_PEERS, work)
        if (bursts := self.agents.bursts) is not None:
            able = self.agents.with_iperf3() & asked[0].keys()
            question = bursts.question(zone_of, able, interval_s=self.agents.interval_s)
            bursts.assign(await answers.off_loop(*question))
        seen = self.seen = self._look(zone_of, now_s=now_s)
        silent, unanswered = seen.silent.count, seen.unanswered.count
        self.on_agents({"reporting": seen.reporting, "silent": silent, "unanswered": unanswered})
        gone = any(NodeName(end) not in zone_of for end in self.table.ends)
        is_new = now_s - self._leads_since_s <= _FIRST_S
        wait_s = 0.0 if not len(self.table) else 2.0 * LOOK_S if is_new else _TABLE_S
        if now_s < self._table_at_s + wait_s and not gone:
            return None
        measured: list[_Row] = []
        for number, node in enumerate(self.agents.names):
            if number % _SLICE == 0:
                await asyncio.sleep(0)
            measured += self.agents.values(node, since_s=self._table_at_s)
        rates = bursts.values() if bursts is not None else []
        size, inputs = len(measured) + len(rates) + len(self.table), (measured, rates, zone_of, now_s)
        self.table, self._table_at_s = await answers.off_loop(size, partial(self._tabled, *inputs)), now_s
        of, shared = len(self.agents.names), self.agents.shared
        problem = f"{len(shared)} of {of} agents have the address of another one and are not measured: {some(shared)}"
        return Batch(self.table, (), now_s, (problem,) if shared else ())

    def _look(self, zone_of: Mapping[NodeName, ZoneName], *, now_s: float) -> ProbeAgents:
        (silent, unanswered), names = self.agents.in_trouble(), set(self.agents.names)
        begun = self._leads_since_s is None or now_s - self._leads_since_s < _FIRST_S
        absent = {} if begun else dict.fromkeys(sorted(zone_of.keys() - names))
        several = len(set(zone_of.values())) > 1

        def amiss(since_s: Mapping[NodeName, float | None]) -> AgentsAmiss:
            zones = {zone_of[node] for node in since_s if node in zone_of}
            times = [at_s for at_s in since_s.values() if at_s is not None]
            zone = min(zones) if several and len(zones) == 1 else None
            return AgentsAmiss(len(since_s), min(times, default=None), tuple(since_s)[:_NAMED], zone)

        reporting = len(names) - len(silent) - len(unanswered)
        return ProbeAgents(reporting, amiss(silent), amiss(absent), amiss(unanswered))

    def _tabled(
        self, measured: list[_Row], rates: list[Measurement], zone_of: Mapping[NodeName, ZoneName], now_s: float
    ) -> MeasurementTable:
        """Loss and delay of links, where known, and `rates`; not by `Measurement`s, half of a table's time."""
        number: dict[NodeName, int] = {}
        source = np.array([number.setdefault(node, len(number)) for node, _, _ in measured], np.int32)
        target = np.array([number.setdefault(peer, len(number)) for _, peer, _ in measured], np.int32)
        at_s = np.array([value.measured_at_s for _, _, value in measured], np.float64)
        loss = [value.loss_ratio for _, _, value in measured]
        value = np.array([*loss, *(value.delay_ms for _, _, value in measured)], np.float64)  # `None` becomes NaN
        metric = np.repeat(np.array([METRICS.index(Metric.LOSS), METRICS.index(Metric.DELAY)], np.uint8), len(measured))
        columns: list[Any] = [metric, np.tile(source, 2), np.tile(target, 2), value, np.tile(at_s, 2)]
        new = MeasurementTable(tuple(map(EndpointId, number)), *(column[~np.isnan(value)] for column in columns))
        table = carried(new, self.table, since_s=now_s - _KEPT_S)
        if rates:
            table = carried(MeasurementTable.from_measurements(rates), table, since_s=-np.inf)
        table = table.renamed({end: end for end in table.ends if NodeName(end) in zone_of})
        zones = {end: zone_of[NodeName(end)] for end in table.ends}
        return of_gateways(table, zones, now_s=now_s, keep_s=self.agents.silent_after_s)
