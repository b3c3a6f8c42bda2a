"""Events on nodes: over-committed by two schedulers, or with a network that got bad, and that is good again."""

from collections.abc import Sequence
from datetime import UTC, datetime
from functools import partial
from typing import Final

from extender.controllers.context import ControllerContext, ControlLoop
from extender.controllers.recorder import Happening, node_subject
from extender.network.answers import off_loop
from scoring import NodeName, ZoneName
from scoring.explain.words import quantity, some, zone_text
from scoring.feasibility.recheck import Overcommit, overcommits, suspects
from scoring.model.policy import ScorePolicy
from scoring.model.snapshot import Snapshot
from scoring.network import node_links
from scoring.network.measurement import METRICS, Metric, value_text
from scoring.network.node_links import Alarm, AlarmState, DegradedLinks, LinksLook, Subject, SubjectKind

SCAN_S: Final = 0.25  # Least time between two looks at all pods: pods that are not bound make nodes suspect, too
_MOST_SHOWN: Final = 100  # Of what has bad links
EVENTS_AT_ONCE: Final = 10  # Nodes that get an Event after one look; all are counted
_NAMES: Final = {Metric.LOSS: "packet loss", Metric.DELAY: "one-way delay", Metric.THROUGHPUT: "throughput"}


class Overcommits(ControlLoop):
    """Nodes that two schedulers have over-committed now (docs/how-to/which-scheduler.md).

    Why: no scheduler sees the Binding that another one sends in the same second. Rules: only nodes on which a pod of
    ours is bound; after each plan, because a kubelet rejects one of the pods within a second or two.
    """

    leads_only = False  # All replicas count; one tells

    def __init__(self, context: ControllerContext) -> None:
        super().__init__(context)
        self._now: frozenset[NodeName] = frozenset()  # Nodes that were over-committed at the last scan
        self._scanned: tuple[object, ...] = ()  # The suspects, and all that is counted on them, at the last scan
        self._not_before_s = 0.0

    def reconcile(self) -> None:
        """Scan what is suspect. Cost: O(nodes × resources), and O(pods) when a suspect node changed."""
        cache, snapshot = self.context.cache, self.context.cache.snapshot()
        suspected = suspects(snapshot)
        if not suspected:
            self._note(())
            self._scanned = ()
            return
        rows = sorted(snapshot.table.index[name] for name in suspected)
        seen = (suspected, snapshot.used[rows].tobytes(), snapshot.table.allocatable[rows].tobytes())
        now_s = self.context.clock.monotonic_s()
        if seen == self._scanned or now_s < self._not_before_s:
            return
        # A pod whose Binding the watch has not shown yet may stand where another has gone that the watch still shows.
        pods = [pod for pod in cache.pods if pod.node in suspected]
        shown = [pod for pod in pods if pod.uid not in cache.pods.assumed]
        self._scanned, self._not_before_s = seen if len(shown) == len(pods) else (), now_s + SCAN_S
        over = overcommits([snapshot.table.nodes[row] for row in rows], shown)
        self._note([overcommit for overcommit in over if any(cache.is_own(pod) for pod in overcommit.pods)])

    def _note(self, over: Sequence[Overcommit]) -> None:
        before, self._now = self._now, frozenset(overcommit.node for overcommit in over)
        new = [overcommit for overcommit in over if overcommit.node not in before]
        self.context.telemetry.overcommitted(len(new))
        for overcommit in new[:EVENTS_AT_ONCE] if self.context.acting() else ():
            excess = ((each.resource, each.requested, each.allocatable) for each in overcommit.excess)
            much = ", ".join(f"{quantity(what, asked)} {what} of {quantity(what, of)}" for what, asked, of in excess)
            ours = some(pod.key for pod in overcommit.pods if self.context.cache.is_own(pod))
            others = some(pod.key for pod in overcommit.pods if not self.context.cache.is_own(pod))
            note = (
                f"Its bound pods request {much}. Of netgang: {ours or 'none'}; of other schedulers: {others or 'none'}."
                " Two schedulers have bound to it at the same moment, or it has become smaller. Its kubelet may reject"
                " a pod; a member that is lost so is replaced."
                " A taint that only gangs tolerate keeps other schedulers' pods off a node."
            )
            self.context.events.post(node_subject(overcommit.node), Happening.NODE_OVERCOMMITTED, note)


class NetworkAlarms(ControlLoop):
    """Links of a node, or inside a zone as a whole, that got bad. Bounded by nodes and zones.

    Why on nodes: people describe them when training is slow, and a zone is no object: what is about it is written on
    its first node. Rules: each new matrix is looked at once, a large one in a thread; only values within the soft TTL
    count; only the leader writes, without memory of former terms.
    """

    every_s = 5.0
    leads_only = False

    def __init__(self, context: ControllerContext) -> None:
        super().__init__(context)
        self._look: LinksLook | None = None  # At the last matrix; `None`: there was none yet
        self._version = 0
        self._states: dict[Subject, AlarmState] = {}

    async def reconcile(self) -> None:
        """Look at the matrix, if it is new, and write what is due. Cost: O(m log m) for m values, if it is."""
        snapshot, now_s = self.context.cache.snapshot(), self.context.clock.now_s()
        if snapshot.network.version != self._version:
            self._version = snapshot.network.version
            size = sum(snapshot.network.known_pairs(metric) for metric in METRICS)
            self._look = await off_loop(size, partial(_look, snapshot, self.context.planner.policy.score))
        if self._look is None or not self.context.acting():
            self._states = {}
            self.context.telemetry.network_degraded({})
            return
        self._states, alarms = node_links.step(self._states, self._look, now_s=now_s)
        for alarm in alarms:
            kind, name = alarm.about
            first_row = snapshot.table.zones.get(ZoneName(name), ())[:1]
            for node in [name] if kind is SubjectKind.NODE else [snapshot.table.names[row] for row in first_row]:
                what = Happening.NETWORK_DEGRADED if alarm.degraded else Happening.NETWORK_RECOVERED
                self.context.events.post(node_subject(node), what, _words(alarm), name)
        bad = [about.kind for about, state in self._states.items() if state.announced_bad]
        self.context.telemetry.network_degraded({kind.value: bad.count(kind) for kind in SubjectKind})

    def bad_now(self) -> tuple[DegradedLinks, ...]:
        """The first that are bad beyond doubt by the last matrix, announced or not: zones, then the larger share."""
        bad = self._look.degraded if self._look is not None else ()
        bad_first = sorted(bad, key=lambda links: (links.kind == SubjectKind.NODE, -links.bad / links.of, links.name))
        return tuple(bad_first[:_MOST_SHOWN])


def _look(snapshot: Snapshot, policy: ScorePolicy) -> LinksLook:
    ages_s = {metric: policy.soft_ttl_s.for_metric(metric) for metric in METRICS}
    return node_links.degraded(snapshot.network, {node.name: node.zone for node in snapshot.table.nodes}, ages_s=ages_s)


def _words(alarm: Alarm) -> str:
    kind, about = alarm.about
    name = f"Node {about}" if kind is SubjectKind.NODE else f"Inside {zone_text(ZoneName(about))}"
    since = datetime.fromtimestamp(alarm.since_s, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")
    if not alarm.degraded:
        return f"{name}: links are good again since {since}."
    links = "; ".join(
        f"{_NAMES[Metric(degraded.metric)]} of {degraded.bad} of {degraded.of} links, "
        f"the worst {value_text(Metric(degraded.metric), degraded.worst)} ({degraded.source} → {degraded.target})"
        for degraded in alarm.degraded
    )
    return f"{name}: links are bad since {since}: {links}. Gangs are placed elsewhere where they can be."
