"""Write Events when links of a node, or inside a zone as a whole, got bad, and when they are good again.

Why on nodes: that is what people describe when training is slow, and a zone is no object; what is about a zone is
written once, on its first node. Rules: each new matrix is looked at once, a large one in a thread, whichever sources
gave it; only values within the soft TTL count. When to write is decided by `scoring.network.degraded`; only the leader
writes, and one that begins to lead starts without memory. What was found is kept for documents and the page.
"""

import asyncio
from datetime import UTC, datetime
from functools import partial
from typing import Final

from extender.controllers.context import ControllerContext
from extender.controllers.events.recorder import Happening, Subject
from extender.network.answers import off_loop
from scoring.explain.words import value_text, zone_text
from scoring.ids import ZoneName
from scoring.model.policy import ScorePolicy
from scoring.model.snapshot import Snapshot
from scoring.network.degraded import Alarm, AlarmState, Degraded, DegradedLinks, SubjectKind, degraded, step
from scoring.network.degraded import Subject as About
from scoring.network.measurement import METRICS, Metric
from scoring.network.node_links import links_of

LOOK_S: Final = 5.0
_NAMES: Final = {Metric.LOSS: "packet loss", Metric.DELAY: "one-way delay", Metric.THROUGHPUT: "throughput"}


class NetworkAlarms:
    """One task. Bounded by nodes and zones."""

    def __init__(self, context: ControllerContext) -> None:
        self._context = context
        self._look: DegradedLinks | None = None  # At the last matrix; `None`: there was none yet
        self._version = 0
        self._states: dict[About, AlarmState] = {}

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
            size = sum(snapshot.network.known_pairs(metric) for metric in METRICS)
            self._look = await off_loop(size, partial(_look, snapshot, self._context.planner.policy.score))
        if self._look is None or not self._context.acting():
            self._states = {}
            self._context.telemetry.network_degraded({})
            return
        self._states, alarms = step(self._states, self._look, now_s=now_s)
        for alarm in alarms:
            self._post(alarm, snapshot)
        self._context.telemetry.network_degraded(self.degraded())

    def degraded(self) -> dict[str, int]:
        """How many of each kind are announced as bad."""
        bad = [about.kind for about, state in self._states.items() if state.announced_bad]
        return {kind.value: bad.count(kind) for kind in SubjectKind}

    def bad_now(self) -> tuple[Degraded, ...]:
        """What is bad beyond doubt by the last matrix, announced or not yet: zones first, then the larger share."""
        found = [one for one in self._look.degraded if one.certain] if self._look is not None else []
        return tuple(
            sorted(found, key=lambda one: (one.about.kind is SubjectKind.NODE, -one.bad / one.of, one.about.name))
        )

    def _post(self, alarm: Alarm, snapshot: Snapshot) -> None:
        kind, name = alarm.about
        table = snapshot.table
        rows = () if kind is SubjectKind.NODE else table.zones.get(ZoneName(name), ())
        on = name if kind is SubjectKind.NODE else next((table.names[row] for row in rows), None)
        if on is None:
            return
        node = Subject("v1", "Node", "", on, on)  # as kubelets write Events: its name for a uid
        what = Happening.NETWORK_DEGRADED if alarm.degraded else Happening.NETWORK_RECOVERED
        self._context.post_event(node, what, _words(alarm), name)


def _look(snapshot: Snapshot, policy: ScorePolicy) -> DegradedLinks:
    links = links_of(snapshot.network, {node.name: node.zone for node in snapshot.table.nodes})
    return degraded(links.within({metric: policy.soft_ttl_s.of(metric) for metric in METRICS}))


def _words(alarm: Alarm) -> str:
    kind, about = alarm.about
    name = f"Node {about}" if kind is SubjectKind.NODE else f"Inside {zone_text(ZoneName(about))}"
    since = datetime.fromtimestamp(alarm.since_s, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")
    if not alarm.degraded:
        return f"{name}: links are good again since {since}."
    said = "; ".join(_measured(one) for one in alarm.degraded)
    return f"{name}: links are bad since {since}: {said}. Gangs are placed elsewhere where they can be."


def _measured(one: Degraded) -> str:
    """The metric, how many links, and the worst."""
    value, (source, target) = value_text(one.metric, one.worst), one.where
    return f"{_NAMES[one.metric]} of {one.bad} of {one.of} links, the worst {value} ({source} → {target})"
