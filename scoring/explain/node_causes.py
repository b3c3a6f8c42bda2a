"""Why there are too few nodes for a gang: which label, resource, taint or cordon, in which zone, on how many nodes.

Steps, for the kind of member that fits least: what no node can give (a label, a size) is said first, for no waiting
helps; then the zone is taken that would hold most members if nothing kept them off its nodes, and what does is counted
there, by nodes, of each node the first thing. Labels come first: a node that the pods do not select is not meant,
whatever its state. When even that would not do, the room itself is missing. Of a tenant's lines of selectors and
affinity the first few are looked at.
"""

from collections.abc import Iterable, Mapping, Sequence
from functools import reduce
from operator import or_
from typing import Final, NamedTuple

import msgspec
import numpy as np

from scoring import NO_ZONE, NodeName, ZoneName
from scoring.explain.queue_report import PlaceInQueue
from scoring.explain.words import counted, quantity, shown, some, zone_text
from scoring.explain.zones import ZoneVerdict
from scoring.feasibility.filters import line_rows, selected_rows, tolerated
from scoring.model import Constraints, MemberClass, Node, NodeSelectorTerm, Pod, Reason, Requirement
from scoring.model.pod import PODS
from scoring.model.policy import LIKE_VALUE, nearest
from scoring.model.reasons import CauseReason, WaitingCause
from scoring.model.snapshot import LabelIndex, RowSet, fit_counts
from scoring.network.matrix import Ints
from scoring.plan import Run
from scoring.plan.capacity import When
from scoring.plan.demand import GangDemand
from scoring.queue.statuses import camel_case

_NAMED: Final = 3
_MOST_LINES: Final = 16  # Lines of selectors and affinity that are looked at
_MOST_KNOWN: Final = 200  # Values that one may have meant
_OBSTACLES: Final[Mapping[str, tuple[str, str, str]]] = {  # → (cause, clause, remedy); {of}: "2 of 3 nodes of zone a"
    "cordon": (CauseReason.UNAVAILABLE, "{of} {is_} cordoned", "kubectl uncordon {first}"),
    "not ready": (CauseReason.UNAVAILABLE,
        "{of} {is_} not ready", "See why {names} {is_} not ready: kubectl describe node."),
    "leaving": (CauseReason.UNAVAILABLE,
        "{of} {is_} out of service or about to be removed", "Wait for new nodes, or allow other zones."),
    "taint": (CauseReason.TAINT, "{of} {has} taint {what}, which the pods do not tolerate",
        "Add a toleration of {what} to the pod template, if the pods may run there."),
    "label": (CauseReason.LABEL, "{of} {lacks} labels of the pods' nodeSelector or node affinity",
        "Label more nodes, or ask for fewer labels."),
    "port": (CauseReason.PORT, "host port {what} is taken on {of}",
        "Drop hostPort from the pod template, or wait until the pods that have it end."),
    "filters": (camel_case(Reason.FILTERED), "filters of kube-scheduler that netgang does not model refuse {of}",
        "The Event FailedScheduling of the pods says which filter: volumes, affinity between pods, spreading."),
}  # fmt: skip


class NodeObstacle(NamedTuple):
    """One thing that keeps pods off nodes."""

    kind: str
    what: str  # Which taint or port
    at: tuple[NodeName, ...]
    members: int  # So many would have room there


class ZoneRoom(msgspec.Struct, frozen=True):
    """What one zone has for members of one kind: their room, and the room behind obstacles."""

    zone: ZoneName
    nodes: int
    wanted: int
    each: str  # What one of them asks for
    room: int
    obstacles: tuple[NodeObstacle, ...]  # Those with most members first

    @property
    def hidden(self) -> int:
        """Members for which there would be room without the obstacles."""
        return sum(obstacle.members for obstacle in self.obstacles)

    @property
    def promise(self) -> tuple[int, bool, int, int, ZoneName]:
        """The zone with the most would hold most members: on nodes with the pods' labels first, for those are meant."""
        unlabelled = [obstacle for obstacle in self.obstacles if obstacle.kind == "label"]
        labelled = self.room + self.hidden - sum(obstacle.members for obstacle in unlabelled)
        selected = sum(len(obstacle.at) for obstacle in unlabelled) < self.nodes
        return min(labelled, self.wanted), selected, min(self.room + self.hidden, self.wanted), self.room, self.zone

    def text(self) -> str:
        """How many of the pods have room, as the end of a sentence."""
        each = f" ({self.each}{' each' if self.wanted > 1 else ''})" if self.each else ""
        fit = f"{min(self.room, self.wanted)} of {counted(self.wanted, 'pod')}"
        return f"{zone_text(self.zone)} has room for {fit}{each}"

    def words(self, obstacle: NodeObstacle) -> tuple[str, str, str]:
        """Its cause, the clause and the remedy."""
        at = obstacle.at
        is_, has, lacks = ("is", "has", "lacks") if len(at) == 1 else ("are", "have", "lack")
        values = {
            **{"is_": is_, "has": has, "lacks": lacks},
            "of": f"{len(at)} of {counted(self.nodes, 'node')} of {zone_text(self.zone)}",
            "what": obstacle.what,
            "names": some(at),
            "first": " ".join(at[:_NAMED]) + (" …" if len(at) > _NAMED else ""),
        }
        cause, clause, remedy = _OBSTACLES[obstacle.kind]
        return cause, clause.format(**values), remedy.format(**values)


def node_cause(
    run: Run, ask: GangDemand, zones: Sequence[ZoneVerdict], turn: PlaceInQueue, reason: Reason
) -> WaitingCause | None:
    """The cause among nodes; `None`: nodes and room are not what is missing. Cost: O(nodes)."""
    need = ask.need or tuple((member_class, pods[:1]) for member_class, pods in ask.more[:1])
    allowed = run.view.candidate_zones(ask)
    if not need or not allowed:
        return None
    member_class, count = _hardest(run, need, ask, allowed)
    constraints, rows = member_class.constraints, run.view.rows(allowed)
    if (missing := _missing_label(run, constraints, rows.tolist())) is not None:
        return _label(run, constraints, missing, allowed)
    if (cause := _too_large(run, ask, member_class, rows)) is not None:
        return cause
    room = _best_zone(run, member_class, count, allowed, empty=reason is Reason.IMPOSSIBLE)
    free_zone = next((z for z in zones if z.zone and not z.allowed and 0 < z.wanted <= z.room), None)
    if free_zone is not None and ask.options.zones is not None and not ask.siblings:
        all_pods = f"all {free_zone.wanted} pods" if free_zone.wanted > 1 else "its pod"
        annotated = f"Annotation netgang.io/zones={shown(','.join(ask.options.zones))}"
        text = f"{annotated} leaves out {zone_text(free_zone.zone)}, which has room for {all_pods}; {room.text()}."
        return WaitingCause(CauseReason.ZONES_EXCLUDED, text, f"Add {free_zone.zone} to the annotation, or remove it.")
    if constraints.host_ports and room.nodes < room.wanted:
        have = f"{zone_text(room.zone)} has {counted(room.nodes, 'node')} for {counted(room.wanted, 'pod')}"
        text = f"Each pod has host port {_ports_text(constraints)}, so one fits a node, and {have}."
        return WaitingCause(CauseReason.PORT, text, "Drop hostPort from the pod template, or lower the minimum.")
    if reason in (Reason.NO_ROOM, Reason.BEHIND) and room.room < room.wanted:
        at_start = run.capacity.zone_counts(member_class, When.AT_START)  # if no gang were starting
        if room.wanted <= int(at_start[run.zones.index(room.zone)]):
            return committed(turn, f": {room.text()} beside them")
    return _of_room(room, zones, reason)


def committed(turn: PlaceInQueue, more: str = "") -> WaitingCause:
    """Gangs that are starting have the room."""
    starting = len(turn.ahead.starting)
    gangs = f"{counted(starting, 'gang')} that {'is' if starting == 1 else 'are'} starting"
    return WaitingCause(CauseReason.AHEAD, f"The room that it needs is committed to {gangs}{more}.")


def _hardest(
    run: Run, need: Sequence[tuple[MemberClass, Sequence[Pod]]], ask: GangDemand, allowed: tuple[ZoneName, ...]
) -> tuple[MemberClass, int]:
    """The kind of member of which the smallest part fits the best zone."""
    members, columns = run.view.member_set(ask.need or ask.more[:1], ask), run.view.columns(allowed)
    empty = run.capacity.zone_fits(members, When.EMPTY)[:, columns].max(axis=1)
    now = run.capacity.zone_fits(members)[:, columns].max(axis=1)
    counts = [len(pods) for _, pods in need]
    at = min(range(len(need)), key=lambda i: (empty[i] >= counts[i], now[i] / counts[i], i))
    return need[at][0], counts[at]


def _too_large(run: Run, ask: GangDemand, member_class: MemberClass, rows: Ints) -> WaitingCause | None:
    selected = selected_rows(run.table.labels, member_class.constraints)
    rows = np.array([row for row in rows.tolist() if selected >> row & 1], np.int64)
    for name, amount in member_class.requests if len(rows) else ():
        if name not in run.table.axis:
            continue
        column = run.table.allocatable[:, run.table.axis.index(name)]
        largest = int(column[rows].max())
        if amount > largest:
            anywhere, most = int(column.max()), quantity(name, largest)
            named = ask.options.zones is not None and anywhere >= amount
            whose = " that it may use" if len(rows) < len(column) else ""
            more = f"; nodes outside netgang.io/zones have {quantity(name, anywhere)}" if named else ""
            text = f"Each pod asks for {name} {quantity(name, amount)}; the largest node{whose} has {most}{more}."
            advice = f"Ask for at most {most} {name} a pod, or add larger nodes."
            return WaitingCause(CauseReason.TOO_LARGE, text, advice)
    return None


def _best_zone(
    run: Run, member_class: MemberClass, count: int, allowed: tuple[ZoneName, ...], *, empty: bool
) -> ZoneRoom:
    """The allowed zone that would hold most members if nothing kept them off; `empty`: as if nothing ran there."""
    fits = fit_counts(run.table.allocatable if empty else run.capacity.room.free, run.view.vector(member_class))
    if member_class.constraints.host_ports:
        fits = np.minimum(fits, 1)
    mask, refused = run.capacity.mask(member_class), run.snapshot.excluded(member_class)
    selected = selected_rows(run.table.labels, member_class.constraints)
    asked = ((name, amount) for name, amount in member_class.requests if name != PODS)  # nobody asks for a place
    each, rooms = ", ".join(f"{name} {quantity(name, amount)}" for name, amount in asked), []
    for zone in allowed:
        rows = run.table.zones[zone]
        barred: dict[tuple[str, str], list[int]] = {}
        for row in rows[~mask[rows]].tolist():
            node, kind = run.table.nodes[row], ("label", "")
            if selected >> row & 1:
                kind = _obstacle(node, member_class.constraints, node.name in refused)
            barred.setdefault(kind, []).append(row)
        obstacles = [
            NodeObstacle(kind, what, tuple(run.table.names[row] for row in at), int(fits[at].sum()))
            for (kind, what), at in barred.items()
        ]
        obstacles.sort(key=lambda obstacle: (-obstacle.members, obstacle.kind, obstacle.what))
        room = int(fits[rows].sum()) - sum(obstacle.members for obstacle in obstacles)
        rooms.append(ZoneRoom(zone, len(rows), count, each, room, tuple(obstacles)))
    return max(rooms, key=lambda room: room.promise)


def _obstacle(node: Node, constraints: Constraints, refused: bool) -> tuple[str, str]:
    if not node.ready:
        return "not ready", ""
    if node.leaving:
        return "leaving", ""
    if barriers := [taint for taint in node.barriers if not tolerated((taint,), constraints.tolerations)]:
        shown_as = (f"{t.key}{f'={t.value}' if t.value else ''}:{t.effect}" for t in barriers if t in node.taints)
        taints = ", ".join(sorted(shown_as))  # as kubectl writes them
        return ("taint", taints) if taints else ("cordon", "")
    return ("filters", "") if refused or not constraints.host_ports else ("port", _ports_text(constraints))


def _ports_text(constraints: Constraints) -> str:
    return shown(", ".join(sorted({str(port.port) for port in constraints.host_ports})))


def _of_room(room: ZoneRoom, zones: Sequence[ZoneVerdict], reason: Reason) -> WaitingCause | None:
    """What keeps the pods off the zone's nodes, if they would have room there; else that there is too little."""
    short = next((verdict.short for verdict in zones if verdict.zone == room.zone), ())
    names = {PODS: "places for pods"}  # A node has as many pods as it may have
    needed = some([f"{lack.amount} more {names.get(lack.resource, lack.resource)}" for lack in short])
    if room.room >= room.wanted and reason is not Reason.IMPOSSIBLE:
        if not needed:
            return None
        text = f"{zone_text(room.zone)} has room for each of its pods, not for all at once: {needed} would do."
        return WaitingCause(CauseReason.NO_ROOM, f"Too little room is free: {text}")
    words = [room.words(obstacle) for obstacle in room.obstacles if obstacle.members]
    if words and (room.room + room.hidden >= room.wanted or room.room == 0):
        clauses = "; ".join(clause for _, clause, _ in words)
        return WaitingCause(words[0][0], f"{clauses[0].upper()}{clauses[1:]}; {room.text()}.", words[0][2])
    besides = "".join(f"; {clause}" for _, clause, _ in words[:2])
    if reason is Reason.IMPOSSIBLE:
        text = f"{room.text()} at once"
        if room.room >= room.wanted:
            text = f"{zone_text(room.zone)} has room for each kind of its pods, not for all of them at once"
        advice = "Lower the minimum or the requests, add nodes, or set netgang.io/zone-policy to preferred."
        return WaitingCause(CauseReason.ZONE_TOO_SMALL, f"Even empty, {text}{besides}.", advice)
    more = f", {needed} would do" if needed else ""
    full = bool(short) and all(lack.resource == PODS for lack in short)
    advice = "Wait until pods end, or raise maxPods of the kubelets." if full else ""
    return WaitingCause(CauseReason.NO_ROOM, f"Too little room is free: {room.text()}{more}{besides}.", advice)


class MissingLabel(NamedTuple):
    """A line of nodeSelector or node affinity that no node meets."""

    line: str  # As `key=value`, or `key In (a, b)`
    meant: str  # What is probably meant, as `key=value`; empty: nothing is near
    known: tuple[str, ...] = ()  # The key's values on the nodes, the first few


def _label(run: Run, constraints: Constraints, missing: MissingLabel, allowed: tuple[ZoneName, ...]) -> WaitingCause:
    """The cause when no node of the allowed zones has a label; nodes of other zones, or of none, may have it."""
    elsewhere = _missing_label(run, constraints, range(len(run.table.nodes)))
    missing = elsewhere or missing
    where = zone_text(allowed[0]) if len(allowed) == 1 else f"zones {some(allowed)}"
    meant = f" (did you mean {missing.meant}?)" if missing.meant else ""
    more = f"; nodes have {some(missing.known)}" if missing.known and not missing.meant else ""
    advice = "Correct nodeSelector or node affinity of the pod template, or label nodes."
    zoneless = () if NO_ZONE in allowed else run.table.zones.get(NO_ZONE, ())
    if elsewhere is not None or len(allowed) == len(run.zones):
        where = "the cluster"
    elif len(zoneless) and _missing_label(run, constraints, list(zoneless)) is None:
        more = f"; nodes without zone label {run.policy.zone_label} do"
        advice = f"Give these nodes label {run.policy.zone_label}, or set netgang.io/zone-policy to preferred."
    else:
        more += "; nodes of other zones do"
    text = f"No node of {where} has label {missing.line}, which the pods ask for{meant}{more}."
    return WaitingCause(CauseReason.LABEL, text, advice)


def _missing_label(run: Run, constraints: Constraints, rows: Iterable[int]) -> MissingLabel | None:
    """The first line that none of `rows` meets, if any; of an affinity's terms one that nodes meet is enough."""
    labels, among = run.table.labels, reduce(or_, (1 << row for row in rows), 0)
    selector = NodeSelectorTerm(tuple(Requirement(key, "In", (value,)) for key, value in constraints.node_selector))
    if (missing := _missing_in(selector, labels, among)) is not None:
        return missing
    of_terms = [_missing_in(term, labels, among) for term in (constraints.affinity or ())[:_MOST_LINES]]
    return None if None in of_terms else next(iter(of_terms), None)


def _missing_in(term: NodeSelectorTerm, labels: LabelIndex, among: RowSet) -> MissingLabel | None:
    for line in term.expressions[:_MOST_LINES]:
        if line_rows(labels, line) & among:
            continue
        key, (_, values) = line.key, labels.rows(line.key)
        listed = sorted(value for value, rows in values.items() if rows & among)[:_MOST_KNOWN]
        near = nearest(line.values[0], listed, like=LIKE_VALUE) if line.values else None
        meant = f"{key}={near}" if near else ""
        if not listed:  # it is the key, then
            keys = sorted(name for name in labels.keys if labels.rows(name)[0] & among)[:_MOST_KNOWN]
            meant = nearest(key, keys, like=LIKE_VALUE) or ""
        return MissingLabel(_line(line), meant, tuple(f"{key}={value}" for value in listed))
    for line in term.fields[:_MOST_LINES]:
        if line.operator == "In" and not any(labels.names.get(name, 0) & among for name in line.values):
            names = [name for name, row in labels.names.items() if row & among][:_MOST_KNOWN]
            return MissingLabel(_line(line), (line.values and nearest(line.values[0], names, like=LIKE_VALUE)) or "")
    return None


def _line(requirement: Requirement) -> str:
    if requirement.operator == "In" and len(requirement.values) == 1:
        return shown(f"{requirement.key}={requirement.values[0]}")
    values = f" ({', '.join(requirement.values)})" if requirement.values else ""
    return shown(f"{requirement.key} {requirement.operator}{values}")
