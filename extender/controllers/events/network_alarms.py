"""Write Events when links of a node, in a zone or between zones got bad, and when they are good again.

Why on nodes: that is what people describe when training is slow, and a zone is no object; what is about a zone is
written once, on its first node. Rules: each new matrix is looked at once, a large one in a thread, whichever sources
gave it; only values within the soft TTL count. When to write is decided by `scoring.network.alarms`; only the leader
writes, and one that begins to lead starts without memory. What was found is kept for documents and the page.
"""

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from typing import Final

from extender.controllers.context import ControllerContext
from extender.controllers.events.recorder import Happening, Subject
from extender.network.batches import off_loop
from scoring.explain.words import zone_text
from scoring.ids import ZoneName
from scoring.model.policy import ScorePolicy
from scoring.model.snapshot import Snapshot
from scoring.network.alarms import Alarm, State, step
from scoring.network.degraded import Degraded, Kind, Levels, Look, degraded
from scoring.network.degraded import Subject as About
from scoring.network.measurement import METRICS, Metric
from scoring.network.node_links import links_of
from scoring.probing.summary import PairsSeen, Summary, pairs_seen, summarise

LOOK_S: Final = 5.0
_NAMES: Final = {Metric.LOSS: "packet loss", Metric.DELAY: "one-way delay", Metric.THROUGHPUT: "throughput"}


@dataclass(frozen=True, slots=True)
class LinksSeen:
    """What the last look found. Values up to the hard TTL."""

    summary: Summary
    pairs: Mapping[Metric, PairsSeen]  # Of metrics with a value
    look: Look


class NetworkAlarms:
    """One task. Bounded by nodes and pairs of zones."""

    def __init__(self, context: ControllerContext, policy: ScorePolicy) -> None:
        self._context = context
        self._policy = policy
        self.seen: LinksSeen | None = None  # `None`: nothing was measured yet
        self._version = 0
        self._at_s = 0.0
        self._states: dict[About, State] = {}

    async def run(self) -> None:
        """Look at each new matrix, until cancelled."""
        while True:
            await self.look()
            await asyncio.sleep(LOOK_S)

    async def look(self) -> None:
        """Look at the matrix, if it is new, and write what is due. Cost: O(m log m) for m values, if it is."""
        snapshot, now_s = self._context.cache.snapshot(), self._context.clock.now_s()
        if snapshot.network.version != self._version:
            self._version = snapshot.network.version
            levels = self.seen.look.levels if self.seen is not None else {}
            size = sum(snapshot.network.known_pairs(metric) for metric in METRICS)
            elapsed_s, self._at_s = max(now_s - self._at_s, 0.0), now_s
            self.seen = await off_loop(size, partial(_seen, snapshot, self._policy, levels, elapsed_s))
        if self.seen is None or not self._context.acting():
            self._states = {}
            self._context.telemetry.network_degraded({})
            return
        self._states, alarms = step(self._states, self.seen.look, now_s=now_s)
        for alarm in alarms:
            self._post(alarm, snapshot)
        self._context.telemetry.network_degraded(self.degraded())

    def degraded(self) -> dict[str, int]:
        """How many of each kind are announced as bad."""
        bad = [about.kind for about, state in self._states.items() if state.announced_bad]
        return {kind.value: bad.count(kind) for kind in Kind}

    def announced(self) -> tuple[str, ...]:
        """What is announced as bad, a sentence each, sorted."""
        return tuple(
            f"{_name(about)}: links are bad since {_time(state.since_s)}"
            for about, state in sorted(self._states.items())
            if state.announced_bad and state.bad
        )

    def _post(self, alarm: Alarm, snapshot: Snapshot) -> None:
        kind, names = alarm.about
        table = snapshot.table
        rows = () if kind is Kind.NODE else table.zones.get(ZoneName(names[0]), ())
        on = names[0] if kind is Kind.NODE else next((table.names[row] for row in rows), None)
        if on is None:
            return
        node = Subject("v1", "Node", "", on, on)  # as kubelets write Events: its name for a uid
        what = Happening.NETWORK_DEGRADED if alarm.degraded else Happening.NETWORK_RECOVERED
        self._context.post_event(node, what, _words(alarm), " ".join(alarm.about.names))


def _seen(snapshot: Snapshot, policy: ScorePolicy, levels: Levels, elapsed_s: float) -> LinksSeen:
    network = snapshot.network
    links = links_of(network, {node.name: node.zone for node in snapshot.table.nodes})
    links = links.within({metric: policy.hard_ttl_s.of(metric) for metric in METRICS})
    pairs = {metric: pairs_seen(links, metric, estimates=network.estimates) for metric in METRICS}
    young = links.within({metric: policy.soft_ttl_s.of(metric) for metric in METRICS})
    return LinksSeen(
        summarise(links),
        {metric: one for metric, one in pairs.items() if one.measured},
        degraded(young, levels, elapsed_s=elapsed_s),
    )


def _words(alarm: Alarm) -> str:
    name, since = _name(alarm.about), _time(alarm.since_s)
    if not alarm.degraded:
        return f"{name}: links are good again since {since}."
    said = "; ".join(_measured(one) for one in alarm.degraded)
    return f"{name}: links are bad since {since}: {said}. Gangs are placed elsewhere where they can be."


def _name(about: About) -> str:
    zones = [zone_text(ZoneName(name)) for name in about.names]
    match about.kind:
        case Kind.NODE:
            return f"Node {about.names[0]}"
        case Kind.ZONE:
            return f"Inside {zones[0]}"
        case Kind.UPLINK:
            return f"Uplink of {zones[0]}"
        case Kind.BETWEEN:
            return f"Between {' and '.join(zones)}"


def _measured(one: Degraded) -> str:
    """The metric, how many links or zones, and the worst."""
    value, (source, target) = value_text(one.metric, one.worst), one.where
    match one.about.kind:
        case Kind.NODE | Kind.ZONE:
            much = f"of {one.bad} of {one.of} links, the worst {value}"
        case Kind.UPLINK:
            much = f"to {one.bad} of {one.of} zones, the worst median {value}"
        case Kind.BETWEEN:
            much = f"has a median of {value}"
    return f"{_NAMES[one.metric]} {much} ({source} → {target})"


def value_text(metric: Metric, value: float) -> str:
    """A value in the unit that people read.

    >>> [value_text(*one) for one in ((Metric.LOSS, 0.016), (Metric.DELAY, 5.25), (Metric.THROUGHPUT, 1e7))]
    ['1.6 %', '5.25 ms', '10 Mbit/s']
    """
    if metric is Metric.LOSS:
        return f"{100.0 * value:.3g} %"
    return f"{value:.3g} ms" if metric is Metric.DELAY else f"{value / 1e6:.4g} Mbit/s"


def _time(at_s: float) -> str:
    return datetime.fromtimestamp(at_s, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")
