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
from typing import Any, Final, NamedTuple

import msgspec
import numpy as np
from msgspec.structs import replace

from scoring import NodeName, ZoneName
from scoring.explain.advice import annotated_with, constrained, helpful, would_start
from scoring.explain.words import counted, shown, some, zone_text
from scoring.feasibility.filters import line_rows, selected_rows, tolerated
from scoring.model import Constraints, MemberClass, Node, NodeSelectorTerm, Pod, Reason, Requirement
from scoring.model.pod import PODS, Resources, quantity
from scoring.model.policy import LIKE_VALUE, nearest
from scoring.model.reasons import CauseReason
from scoring.model.snapshot import LabelIndex, RowSet, fit_counts
from scoring.network.matrix import Ints
from scoring.plan import Run
from scoring.plan.capacity import When
from scoring.plan.demand import GangDemand
from scoring.queue.states import camel_case
from scoring.records import PlaceInQueue, WaitingCause, ZoneVerdict

_MOST_LINES: Final = 16  # Lines of selectors and affinity that are looked at, names and clauses of one sentence
_MOST_KNOWN: Final = 200  # Values that one may have meant
_ANY_LABELS: Final[Mapping[str, Any]] = {"node_selector": (), "affinity": None}
_IN_SERVICE: Final[Mapping[str, bool]] = {"unschedulable": False, "ready": True, "leaving": False}
_CORDON: Final = "node.kubernetes.io/unschedulable"  # Taint that the control plane gives to a node that is cordoned
_OF_STATE: Final = "node.kubernetes.io/"  # Taints that go with a node's state, and not by themselves
_DROP_PORT, _LABEL_THEM = "drop hostPort from the pod template", "label more nodes, or ask for fewer labels"
_OBSTACLES: Final[Mapping[str, tuple[str, str, str]]] = {  # → (cause, clause, advice); {of}: "2 of 3 nodes of a"
    "cordon": (CauseReason.UNAVAILABLE, "{of} {is_} cordoned", "run `kubectl uncordon {command}`"),
    "not ready": (CauseReason.UNAVAILABLE,
        "{of} {is_} not ready", "see why {names} {is_} not ready (kubectl describe node)"),
    "leaving": (CauseReason.UNAVAILABLE,
        "{of} {is_} out of service or about to be removed", "have nodes in place of {names}"),
    "taint": (CauseReason.TAINT, "{of} {has} taint {what}, which the pods do not tolerate for good",
        "add a toleration of {what} to the pod template, if the pods may run there"),
    "label": (CauseReason.LABEL, "{of} {lacks} labels of the pods' nodeSelector or node affinity", _LABEL_THEM),
    "port": (CauseReason.PORT, "host port {what} is taken on {of}", _DROP_PORT),
    "filters": (camel_case(Reason.FILTERED), "filters of kube-scheduler that netgang does not model refuse {of}",
        "see which filter in the Event FailedScheduling of its pods"),
}  # fmt: skip


class NodeObstacle(NamedTuple):
    """One thing that keeps pods off nodes."""

    kind: str
    what: str  # Which taint or port
    at: tuple[NodeName, ...]  # Those with most room first
    fits: tuple[int, ...]  # How many members would have room on each
    members: int  # And on all

    def clause(self, nodes: int, where: str) -> str:
        """What it is, and of how many of `nodes`."""
        is_, has, lacks = ("is", "has", "lacks") if len(self.at) == 1 else ("are", "have", "lack")
        of = f"{len(self.at)} of {counted(nodes, 'node')} of {where}"
        return _OBSTACLES[self.kind][1].format(of=of, what=self.what, is_=is_, has=has, lacks=lacks)


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


def node_cause(
    run: Run, ask: GangDemand, zones: Sequence[ZoneVerdict], turn: PlaceInQueue, reason: Reason
) -> WaitingCause | None:
    """The cause among nodes; `None`: nodes and room are not what is missing. Cost: O(nodes)."""
    need = ask.need or tuple((member_class, pods[:1]) for member_class, pods in ask.more[:1])
    allowed = run.view.candidate_zones(ask)
    if not need or not allowed:
        return None
    member_class, count = _hardest(run, need, ask, allowed)
    constraints, rows, empty = member_class.constraints, run.view.rows(allowed), reason is Reason.IMPOSSIBLE
    if (missing := _missing_label(run, constraints, rows.tolist())) is not None:
        return _label(run, ask, constraints, missing, allowed)
    if (cause := _too_large(run, ask, member_class, rows)) is not None:
        return cause
    rooms = _zone_rooms(run, member_class, count, allowed, empty=empty)
    room = max(rooms, key=lambda room: room.promise)
    free_zone = next((z for z in zones if z.zone and not z.allowed and 0 < z.wanted <= z.room), None)
    named = ask.options.zones is not None and not ask.siblings
    if free_zone and named and would_start(run, annotated_with(ask.gang, zones=free_zone.zone), empty=False):
        all_pods = f"all {free_zone.wanted} pods" if free_zone.wanted > 1 else "its pod"
        annotated = f"Annotation netgang.io/zones={shown(','.join(ask.options.zones or ()))}"
        text = f"{annotated} leaves out {zone_text(free_zone.zone)}, which has room for {all_pods}; {room.text()}."
        advice = f"Add {free_zone.zone} to annotation netgang.io/zones, or remove it."
        return WaitingCause(CauseReason.ZONES_EXCLUDED, text, advice)
    if constraints.host_ports and room.nodes < room.wanted:
        have = f"{zone_text(room.zone)} has {counted(room.nodes, 'node')} for {counted(room.wanted, 'pod')}"
        text = f"Each pod has host port {_ports_text(constraints)}, so one fits a node, and {have}."
        advice = helpful(run, ask.gang, (_DROP_PORT, constrained(ask.gang, host_ports=())), empty=empty)
        return WaitingCause(CauseReason.PORT, text, advice)
    if reason in (Reason.NO_ROOM, Reason.BEHIND) and room.room < room.wanted:
        at_start = run.capacity.zone_counts(member_class, When.AT_START)  # if no gang were starting
        if room.wanted <= int(at_start[run.zones.index(room.zone)]):
            return committed(turn, f": {room.text()} next to them")
    return _of_room(run, ask, rooms, zones, reason)


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
            most, whose = quantity(name, largest), " that it may use" if len(rows) < len(column) else ""
            text = f"Each pod asks for {name} {quantity(name, amount)}; the largest node{whose} has {most}."
            less = Resources.from_amounts({**dict(member_class.requests), name: largest})
            fits = replace(member_class, requests=less)
            pods = (replace(p, member_class=fits) if p.member_class == member_class else p for p in ask.gang.members)
            smaller = (f"ask for at most {most} {name} a pod", replace(ask.gang, members=tuple(pods)))
            advice = helpful(run, ask.gang, *([smaller] if largest else []), empty=True)
            return WaitingCause(CauseReason.TOO_LARGE, text, advice)
    return None


def _zone_rooms(
    run: Run, member_class: MemberClass, count: int, allowed: tuple[ZoneName, ...], *, empty: bool
) -> list[ZoneRoom]:
    """What the allowed zones have for the members; `empty`: as if nothing ran there."""
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
            node, why = run.table.nodes[row], ("label", "")
            if selected >> row & 1:
                why = _obstacle(node, member_class.constraints, node.name in refused)
            barred.setdefault(why, []).append(row)
        obstacles: list[NodeObstacle] = []
        for (kind, what), at in barred.items():
            at.sort(key=lambda row: -int(fits[row]))
            names = tuple(run.table.names[row] for row in at)
            obstacles.append(NodeObstacle(kind, what, names, tuple(fits[at].tolist()), int(fits[at].sum())))
        obstacles.sort(key=lambda obstacle: (-obstacle.members, obstacle.kind, obstacle.what))
        room = int(fits[rows].sum()) - sum(obstacle.members for obstacle in obstacles)
        rooms.append(ZoneRoom(zone, len(rows), count, each, room, tuple(obstacles)))
    return rooms


def _obstacle(node: Node, constraints: Constraints, refused: bool) -> tuple[str, str]:
    if not node.ready:
        return "not ready", ""
    if node.leaving:
        return "leaving", ""
    if barriers := [taint for taint in node.barriers if not tolerated((taint,), constraints.tolerations)]:
        shown_as = (f"{t.key}{f'={t.value}' if t.value else ''}:{t.effect}" for t in barriers if t.key != _CORDON)
        taints = ", ".join(sorted(shown_as))  # as kubectl writes them
        return ("taint", taints) if taints else ("cordon", "")
    return ("filters", "") if refused or not constraints.host_ports else ("port", _ports_text(constraints))


def _ports_text(constraints: Constraints) -> str:
    return shown(", ".join(sorted({str(port.port) for port in constraints.host_ports})))


def _of_room(
    run: Run, ask: GangDemand, rooms: Sequence[ZoneRoom], zones: Sequence[ZoneVerdict], reason: Reason
) -> WaitingCause | None:
    """What keeps the pods off the zone's nodes, if they would have room there; else that there is too little."""
    room, empty = max(rooms, key=lambda room: room.promise), reason is Reason.IMPOSSIBLE
    short = next((verdict.short for verdict in zones if verdict.zone == room.zone), ())
    names = {PODS: "places for pods"}  # A node has as many pods as it may have
    needed = some([f"{lack.amount} more {names.get(lack.resource, lack.resource)}" for lack in short])
    if room.room >= room.wanted and not empty:
        if not needed:
            return None
        text = f"{zone_text(room.zone)} has room for each of its pods, not for all at once: {needed} would do."
        return WaitingCause(CauseReason.NO_ROOM, f"Too little room is free: {text}")
    helps = [obstacle for obstacle in room.obstacles if obstacle.members]
    clauses = [obstacle.clause(room.nodes, zone_text(room.zone)) for obstacle in helps]
    opened, fit = _without_obstacles(run, ask, room, empty=empty) if helps else "", room.text()
    if room.room >= room.wanted:
        fit = f"{zone_text(room.zone)} has room for each kind of its pods, not for all of them at once"
    if opened or (helps and (room.room + room.hidden >= room.wanted > room.room or room.room == 0)):
        text, advice = "; ".join(clauses), opened or helpful(run, ask.gang, empty=empty)
        return WaitingCause(_OBSTACLES[helps[0].kind][0], f"{text[0].upper()}{text[1:]}; {fit}.", advice)
    if empty:
        left_out = "".join(f"; {clause}" for clause in _left_out(rooms))
        advice = helpful(run, ask.gang, empty=True)
        return WaitingCause(CauseReason.ZONE_TOO_SMALL, f"Even empty, {fit}{left_out}.", advice)
    more, besides = f", {needed} would do" if needed else "", "".join(f"; {clause}" for clause in clauses[:2])
    full = bool(short) and all(lack.resource == PODS for lack in short)
    advice = "Wait until pods end, or raise maxPods of the kubelets." if full else ""
    return WaitingCause(CauseReason.NO_ROOM, f"Too little room is free: {fit}{more}{besides}.", advice)


def _left_out(rooms: Sequence[ZoneRoom]) -> list[str]:
    """What of all zones was not counted, with its number."""
    at: dict[tuple[str, str], tuple[NodeName, ...]] = {}
    for obstacle in (obstacle for room in rooms for obstacle in room.obstacles):
        at[obstacle.kind, obstacle.what] = (*at.get((obstacle.kind, obstacle.what), ()), *obstacle.at)
    nodes, where = sum(room.nodes for room in rooms), "its zones" if len(rooms) > 1 else zone_text(rooms[0].zone)
    most = sorted(at.items(), key=lambda left: (-len(left[1]), left[0]))[:_MOST_LINES]
    return [NodeObstacle(*kind, names, (), 0).clause(nodes, where) for kind, names in most]


def _without_obstacles(run: Run, ask: GangDemand, room: ZoneRoom, *, empty: bool) -> str:
    """What takes away so many of the zone's obstacles, the greatest first, that the gang starts; empty: nothing."""
    gang, nodes, kinds, parts = ask.gang, list(run.table.nodes), set[str](), list[str]()
    lacks = room.wanted - room.room if room.room < room.wanted else room.hidden  # of another kind of its pods
    for obstacle in room.obstacles:
        if lacks <= 0:
            break
        cause, _, advice = _OBSTACLES[obstacle.kind]
        of_state = cause == CauseReason.UNAVAILABLE
        enough = int(np.searchsorted(np.cumsum(obstacle.fits), lacks)) + 1
        most = min(enough, sum(map(bool, obstacle.fits))) if of_state else len(obstacle.at)  # as few as suffice
        names, lacks = obstacle.at[:most], lacks - sum(obstacle.fits[:most])
        for row in (run.table.index[name] for name in names if of_state or obstacle.kind == "taint"):
            taints = tuple(taint for taint in nodes[row].taints if taint.key.startswith(_OF_STATE) is not of_state)
            nodes[row] = replace(nodes[row], taints=taints, **(_IN_SERVICE if of_state else {}))
        is_ = "is" if len(names) == 1 else "are"
        command, named = some(names, _MOST_LINES).replace(",", ""), some(names)
        parts.append(advice.format(command=command, names=named, is_=is_, what=obstacle.what))
        kinds.add(obstacle.kind)
    gang = constrained(gang, **_ANY_LABELS) if "label" in kinds else gang
    snapshot = replace(
        run.snapshot,
        table=replace(run.table, nodes=tuple(nodes), version=-1).after(run.table),
        exclusions={} if "filters" in kinds else run.snapshot.exclusions,
        host_ports={} if "port" in kinds else run.snapshot.host_ports,
    )
    helps = lacks <= 0 and would_start(run, gang, empty=empty, snapshot=snapshot)
    text = ", and ".join(parts)
    return f"{text[0].upper()}{text[1:]}." if helps else ""


class MissingLabel(NamedTuple):
    """A line of nodeSelector or node affinity that no node meets."""

    line: str  # As `key=value`, or `key In (a, b)`
    meant: str  # What is probably meant, as `key=value`; empty: nothing is near
    known: tuple[str, ...] = ()  # The key's values on the nodes, the first few


def _label(
    run: Run, ask: GangDemand, constraints: Constraints, missing: MissingLabel, allowed: tuple[ZoneName, ...]
) -> WaitingCause:
    """The cause when no node of the allowed zones has a label; nodes of other zones, or of none, may have it."""
    elsewhere = _missing_label(run, constraints, range(len(run.table.nodes)))
    missing = elsewhere or missing
    where = zone_text(allowed[0]) if len(allowed) == 1 else f"zones {some(allowed)}"
    meant = f" (did you mean {missing.meant}?)" if missing.meant else ""
    more = f"; nodes have {some(missing.known)}" if missing.known and not missing.meant else ""
    if elsewhere is not None or len(allowed) == len(run.zones):
        where = "the cluster"
    else:
        more += "; nodes of other zones, or of none, do"
    wider = (_LABEL_THEM, constrained(ask.gang, **_ANY_LABELS))
    text = f"No node of {where} has label {missing.line}, which the pods ask for{meant}{more}."
    return WaitingCause(CauseReason.LABEL, text, helpful(run, ask.gang, wider, empty=True))


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
