"""What is said on nodes: over-committed by two schedulers (Event); with a bad network (Event, condition and taint)."""

import logging
from collections.abc import Sequence
from functools import partial
from typing import Final

import msgspec

from extender.controllers.context import ControllerContext, ControlLoop
from extender.controllers.recorder import Happening, node_subject
from extender.convert.patches import mark_patch, taints_patch
from extender.errors import ApiError, ApiUnavailableError, ConflictError, NotFoundError
from extender.network.answers import off_loop
from scoring import METRICS, NodeName, ZoneName
from scoring.explain.words import some, zone_text
from scoring.feasibility.recheck import Overcommit, overcommits, suspects
from scoring.model.pod import quantity
from scoring.model.policy import ScorePolicy
from scoring.model.snapshot import Node, Snapshot
from scoring.network import node_links
from scoring.network.node_links import AlarmState, LinksLook, NodeMark
from scoring.records import DegradedLinks, Subject, SubjectKind

SCAN_S: Final = 0.25  # Least time between two looks at all pods: pods that are not bound make nodes suspect, too
MARKED_AT_ONCE: Final = 5  # Nodes that are written in one turn of 5 s: a minute has at most 60
_REFUSED_S: Final = 60.0  # Until the next turn after a write that failed
_log = logging.getLogger(__name__)
_MOST_SHOWN: Final = 100  # Of what has bad links
EVENTS_AT_ONCE: Final = 10  # Nodes that get an Event after one look; all are counted


class Overcommits(ControlLoop):
    """Nodes that two schedulers have over-committed now (docs/how-to/gates-and-schedulers.md).

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
    count; only the leader writes. Of former terms it knows what the nodes' own conditions tell.
    """

    every_s = 5.0
    leads_only = False

    def __init__(self, context: ControllerContext) -> None:
        super().__init__(context)
        self.look = LinksLook()  # At the last matrix
        self._seen: tuple[object, ...] = ()  # Version of the matrix, and the nodes, at the last look
        self.states: dict[Subject, AlarmState] = {}  # What is announced, and about to be
        self.marks: dict[NodeName, NodeMark | None] = {}  # Of nodes with netgang's condition or taint
        self._table_version = -1

    async def reconcile(self) -> None:
        """Look at the matrix, if it is new, and write what is due. Cost: O(m log m) for m values, if it is."""
        snapshot, now_s = self.context.cache.snapshot(), self.context.clock.now_s()
        seen = snapshot.network.version, snapshot.table.names
        if seen != self._seen:
            self._seen = seen
            size = sum(snapshot.network.known_pairs(metric) for metric in METRICS)
            self.look = await off_loop(size, partial(_look, snapshot, self.context.planner.policy.score))
        if not self.context.acting():
            self.states = {}
            self.context.telemetry.network_degraded({})
            return
        if snapshot.table.version != self._table_version:
            self._table_version = snapshot.table.version
            marked = (node for node in snapshot.table.nodes if node.mark or _tainted(node))
            self.marks = {node.name: node.mark for node in marked}
        marks = {Subject(SubjectKind.NODE, name): mark for name, mark in self.marks.items() if mark is not None}
        recalled = {about: node_links.recalled(mark, now_s=now_s) for about, mark in marks.items()}
        self.states, alarms = node_links.step(recalled | self.states, self.look, now_s=now_s)
        for about in alarms:
            (kind, name), state = about, self.states[about]
            told = node_links.mark_words(about, state, self.look)
            assert told is not None, "what is announced as bad is bad at this look"
            where = f"Node {name}" if kind is SubjectKind.NODE else f"Inside {zone_text(ZoneName(name))}"
            more = " Gangs are placed elsewhere where they can be." if state.announced_bad else ""
            first_row = snapshot.table.zones.get(ZoneName(name), ())[:1]
            for node in [name] if kind is SubjectKind.NODE else [snapshot.table.names[row] for row in first_row]:
                what = Happening.NETWORK_DEGRADED if state.announced_bad else Happening.NETWORK_RECOVERED
                self.context.events.post(node_subject(node), what, f"{where}: {told[1]}.{more}", name)
        bad = [about.kind for about, state in self.states.items() if state.announced_bad]
        self.context.telemetry.network_degraded({kind.value: bad.count(kind) for kind in SubjectKind})

    def bad_now(self) -> tuple[DegradedLinks, ...]:
        """The first that are bad beyond doubt by the last matrix, announced or not: zones, then the larger share."""
        bad = self.look.degraded
        bad_first = sorted(bad, key=lambda links: (links.kind == SubjectKind.NODE, -links.bad / links.of, links.name))
        return tuple(bad_first[:_MOST_SHOWN])


def _look(snapshot: Snapshot, policy: ScorePolicy) -> LinksLook:
    ages_s = {metric: policy.soft_ttl_s.for_metric(metric) for metric in METRICS}
    return node_links.degraded(snapshot.network, {node.name: node.zone for node in snapshot.table.nodes}, ages_s=ages_s)


class NodeConditions(ControlLoop):
    """The condition NetworkDegraded on nodes that are announced as bad, and the taint, if one is chosen.

    Why: every scheduler and controller can keep off such a node, and none of them reads Events. Rules: what the cluster
    shows is compared with what was announced, so what a turn could not write the next one does; a write only where they
    differ; the taint follows the condition that the cluster shows.
    """

    every_s = 5.0

    def __init__(self, context: ControllerContext, alarms: NetworkAlarms, effect: str | None) -> None:
        super().__init__(context)
        self._alarms, self._effect = alarms, effect
        self._refused: set[NodeName] = set()  # At their last try: others go first

    async def reconcile(self) -> float | None:
        """Write at most `MARKED_AT_ONCE` nodes. Cost: O(announced + marked nodes)."""
        table, left, pause_s = self.context.cache.snapshot().table, MARKED_AT_ONCE, None
        announced = {NodeName(about.name) for about in self._alarms.states if about.kind is SubjectKind.NODE}
        concerned = announced.union(self._alarms.marks) & table.index.keys()
        self._refused &= concerned
        for name in sorted(concerned, key=lambda name: (name in self._refused, name)):
            row = table.index[name]
            try:
                left -= await self._condition(table.nodes[row]) or await self._taint(table.nodes[row])
            except (ConflictError, NotFoundError):  # it has changed, or is gone: the next turn sees that
                left -= 1
            except ApiError as error:
                _log.warning("node %s is not marked: %s", name, error)
                self._refused.add(name)
                left, pause_s = left - 1, _REFUSED_S
            except ApiUnavailableError:
                return _REFUSED_S
            else:
                self._refused.discard(name)
            if not left or not self.context.acting():
                break
        return pause_s

    async def _condition(self, node: Node) -> bool:
        """Whether the condition had to be written."""
        about = Subject(SubjectKind.NODE, node.name)
        state = self._alarms.states.get(about)
        if state is None or state.announced_s is None or state.announced_bad is bool(node.mark and node.mark.degraded):
            return False
        if (words := node_links.mark_words(about, state, self._alarms.look)) is None:
            return False
        reason, message = words
        mark = NodeMark(state.announced_bad, state.announced_s)
        await self.context.api.patch_node_status(node.name, mark_patch(mark, reason=reason, message=message))
        _log.info("node %s: condition NetworkDegraded is %s: %s", node.name, mark.degraded, message)
        return True

    async def _taint(self, node: Node) -> bool:
        """Whether the taint had to be looked at."""
        effect = self._effect if node.mark is not None and node.mark.degraded else None
        if self._effect is None or _tainted(node) == ([effect] if effect else []):
            return False
        now = msgspec.json.decode(await self.context.api.get_object("v1", "Node", "", node.name))
        if (patch := taints_patch(now, effect)) is not None:
            await self.context.api.patch_object("v1", "Node", "", node.name, msgspec.json.encode(patch))
        return True


def _tainted(node: Node) -> list[str]:
    return [taint.effect for taint in node.taints if taint.key == node_links.DEGRADED_TAINT]
