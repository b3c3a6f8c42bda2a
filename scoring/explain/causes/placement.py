"""Why there are too few nodes for a gang: which label, resource, taint or cordon, in which zone, on how many nodes.

Steps: what no node can give (a resource, a label, a size) is said first, for no waiting helps; then the zone is taken
that would hold most members if nothing kept them off its nodes, and what does keep them off is counted there. When
even that would not do, the room itself is missing. It looks at one kind of member, that which fits least. A tenant's
lines of selectors and affinity are looked at one by one, the first few only; O(nodes) a line.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

import msgspec
import numpy as np

from scoring.explain.causes.barriers import ZoneRoom, barrier_words, best_zone, ports_text
from scoring.explain.causes.reasons import Cause, CauseReason
from scoring.explain.queue_report import PlaceInQueue
from scoring.explain.words import counted, quantity, shown, some, zone_text
from scoring.explain.zones import ZoneVerdict
from scoring.feasibility.filters import node_allows
from scoring.ids import NO_ZONE, NodeName, ZoneName
from scoring.model import Constraints, MemberClass, Node, NodeSelectorTerm, Reason, Requirement, Resources
from scoring.model.nearest import LIKE_VALUE, nearest
from scoring.model.resources import PODS
from scoring.network.matrix import Ints
from scoring.plan import Run
from scoring.plan.capacity import When
from scoring.plan.demand import GangDemand

_NAMED = 3
_MOST_LINES: Final = 16  # Lines of selectors and affinity that are looked at
_MOST_KNOWN: Final = 200  # Values that one may have meant


class MissingLabel(msgspec.Struct, frozen=True):
    """A line of nodeSelector or node affinity that no node meets."""

    line: str  # As `key=value`, or `key In (a, b)`
    meant: str  # What is probably meant, as `key=value`; empty: nothing is near
    known: tuple[str, ...]  # The key's values on the nodes, the first few


def placement_cause(
    run: Run, ask: GangDemand, zones: Sequence[ZoneVerdict], turn: PlaceInQueue, reason: Reason
) -> Cause | None:
    """The cause among nodes; `None`: nodes and room are not what is missing. Cost: O(nodes)."""
    need = ask.need or tuple((member_class, pods[:1]) for member_class, pods in ask.more[:1])
    allowed = run.view.candidate_zones(ask)
    if not need or not allowed:
        return None
    demand = [(member_class, len(pods)) for member_class, pods in need]
    member_class, count = _hardest(run, demand, ask, allowed)
    rows = run.view.rows(allowed)
    missing = missing_label(run, member_class.constraints, rows.tolist())
    if missing is not None:
        return _label(run, member_class.constraints, missing, allowed)
    if (cause := _too_large(run, ask, member_class, rows)) is not None:
        return cause
    room = best_zone(run, member_class, count, allowed, empty=reason is Reason.IMPOSSIBLE)
    free_zone = next((z for z in zones if z.zone and not z.allowed and 0 < z.wanted <= z.room), None)
    if free_zone is not None and ask.options.zones is not None and not ask.siblings:
        all_pods = f"all {free_zone.wanted} pods" if free_zone.wanted > 1 else "its pod"
        return Cause(
            CauseReason.ZONES_EXCLUDED,
            f"Annotation netgang.io/zones={shown(','.join(ask.options.zones))} leaves out {zone_text(free_zone.zone)}, "
            f"which has room for {all_pods}; {room.text()}.",
            f"Add {free_zone.zone} to the annotation, or remove it.",
        )
    if member_class.constraints.host_ports and room.nodes < room.wanted:
        return Cause(
            CauseReason.PORT,
            f"Each pod has host port {ports_text(member_class.constraints)}, so one fits a node, and "
            f"{zone_text(room.zone)} has {counted(room.nodes, 'node')} for {counted(room.wanted, 'pod')}.",
            "Drop hostPort from the pod template, or lower the minimum.",
        )
    at_start = run.capacity.zone_counts(member_class, When.AT_START)[
        run.zones.index(room.zone)
    ]  # if no gang were starting
    if reason in (Reason.NO_ROOM, Reason.BEHIND) and room.room < room.wanted <= int(at_start):
        starting = len(turn.ahead.starting)
        gangs = f"{counted(starting, 'gang')} that {'is' if starting == 1 else 'are'} starting"
        text = f"The room that it needs is committed to {gangs}: {room.text()} beside them."
        return Cause(CauseReason.COMMITTED, text)
    return _of_room(room, zones, reason)


def _label(run: Run, constraints: Constraints, missing: MissingLabel, allowed: tuple[ZoneName, ...]) -> Cause:
    """The cause when no node of the allowed zones has a label; nodes of other zones, or of none, may have it."""
    elsewhere = missing_label(run, constraints, range(len(run.table.nodes)))
    missing = elsewhere or missing
    where = "the cluster" if elsewhere is not None or len(allowed) == len(run.zones) else _where(allowed)
    meant = f" (did you mean {missing.meant}?)" if missing.meant else ""
    known = f"; nodes have {some(missing.known, _NAMED)}" if missing.known and not missing.meant else ""
    text = f"No node of {where} has label {missing.line}, which the pods ask for{meant}"
    advice = "Correct nodeSelector or node affinity of the pod template, or label nodes."
    if where == "the cluster":
        return Cause(CauseReason.LABEL, f"{text}{known}.", advice)
    zoneless = () if NO_ZONE in allowed else run.table.zones.get(NO_ZONE, ())
    if len(zoneless) and missing_label(run, constraints, list(zoneless)) is None:
        label = run.policy.zone_label
        advice = f"Give these nodes label {label}, or set netgang.io/zone-policy to preferred."
        return Cause(CauseReason.LABEL, f"{text}; nodes without zone label {label} do.", advice)
    return Cause(CauseReason.LABEL, f"{text}{known}; nodes of other zones do.", advice)


def _hardest(
    run: Run, demand: Sequence[tuple[MemberClass, int]], ask: GangDemand, allowed: tuple[ZoneName, ...]
) -> tuple[MemberClass, int]:
    """The kind of member of which the smallest part fits the best zone."""
    members = run.view.member_set(ask.need or ask.more[:1], ask)
    columns = run.view.columns(allowed)
    empty = run.capacity.zone_fits(members, When.EMPTY)[:, columns].max(axis=1)
    now = run.capacity.zone_fits(members)[:, columns].max(axis=1)
    counts = np.array([count for _, count in demand], np.int64)
    at = min(range(len(demand)), key=lambda i: (empty[i] >= counts[i], now[i] / counts[i], i))
    return demand[at]


def _too_large(run: Run, ask: GangDemand, member_class: MemberClass, rows: Ints) -> Cause | None:
    """A pod for which the largest of the nodes with its labels is too small."""
    labels = Constraints(member_class.constraints.node_selector, member_class.constraints.affinity)
    if labels != Constraints():
        nodes = run.table.nodes
        rows = np.array([row for row in rows.tolist() if node_allows(nodes[row].at_best, labels)], np.int64)
    if not len(rows):
        return None
    for name, amount in member_class.requests:
        if name not in run.table.axis:
            continue
        column = run.table.allocatable[:, run.table.axis.index(name)]
        largest = int(column[rows].max())
        if amount > largest:
            anywhere = int(column.max())
            named = ask.options.zones is not None and anywhere >= amount
            whose = " that it may use" if len(rows) < len(column) else ""
            more = f"; nodes outside netgang.io/zones have {quantity(name, anywhere)}" if named else ""
            return Cause(
                CauseReason.TOO_LARGE,
                f"Each pod asks for {name} {quantity(name, amount)}; the largest node{whose} has "
                f"{quantity(name, largest)}{more}.",
                f"Ask for at most {quantity(name, largest)} {name} a pod, or add larger nodes.",
            )
    return None


def _of_room(room: ZoneRoom, zones: Sequence[ZoneVerdict], reason: Reason) -> Cause | None:
    verdict = next((one for one in zones if one.zone == room.zone), None)
    short = verdict.short if verdict is not None else ()
    needed = some([f"{one.amount} more {one.resource}" for one in short], _NAMED)
    if room.room >= room.wanted and reason is not Reason.IMPOSSIBLE:
        if not needed:
            return None
        text = f"{zone_text(room.zone)} has room for each of its pods, not for all at once: {needed} would do."
        return Cause(CauseReason.NO_ROOM, f"Too little room is free: {text}")
    words = [
        barrier_words(barrier, at, room.nodes, zone_text(room.zone))
        for barrier, at, members in room.barriers
        if members
    ]
    if words and (room.room + room.hidden >= room.wanted or room.room == 0):
        clauses = "; ".join(clause for clause, _ in words)
        message = f"{clauses[0].upper()}{clauses[1:]}; {room.text()}."
        return Cause(room.barriers[0][0].kind, message, words[0][1])
    besides = "".join(f"; {clause}" for clause, _ in words[:2])
    if reason is Reason.IMPOSSIBLE:
        text = f"{room.text()} at once"
        if room.room >= room.wanted:
            text = f"{zone_text(room.zone)} has room for each kind of its pods, not for all of them at once"
        return Cause(
            CauseReason.ZONE_TOO_SMALL,
            f"Even empty, {text}{besides}.",
            "Lower the minimum or the requests, add nodes, or set netgang.io/zone-policy to preferred.",
        )
    if short and all(one.resource == PODS for one in short):
        full = len({node for one in short for node in one.nodes})
        return Cause(
            CauseReason.POD_LIMIT,
            f"Nodes of {zone_text(room.zone)} have as many pods as they may have (allocatable pods): {room.text()}; "
            f"{short[0].amount} more places on {counted(full, 'node')} would do{besides}.",
            "Wait until pods end, or raise maxPods of the kubelets.",
        )
    more = f", {needed} would do" if needed else ""
    return Cause(CauseReason.NO_ROOM, f"Too little room is free: {room.text()}{more}{besides}.")


def _where(zones: Sequence[ZoneName]) -> str:
    return zone_text(zones[0]) if len(zones) == 1 else f"zones {some(zones, _NAMED)}"


def missing_label(run: Run, constraints: Constraints, rows: Iterable[int]) -> MissingLabel | None:
    """The first line that none of `rows` meets; `None`: each line is met by some node, or nothing is asked.

    Terms of an affinity are alternatives: one of them that nodes meet is enough.
    """
    nodes = [run.table.nodes[row] for row in rows]
    for key, value in constraints.node_selector[:_MOST_LINES]:
        values = _values(nodes, key)
        if value not in values:
            return _missing(f"{key}={value}", key, (value,), values, nodes)
    first: MissingLabel | None = None
    for term in (constraints.affinity or ())[:_MOST_LINES]:
        missing = _missing_in(term, nodes)
        if missing is None:
            return None
        first = first or missing
    return first


def _missing_in(term: NodeSelectorTerm, nodes: Sequence[Node]) -> MissingLabel | None:
    for one in term.expressions[:_MOST_LINES]:
        values = _values(nodes, one.key)
        alone = Constraints(affinity=(NodeSelectorTerm((one,)),))
        met = (one.operator in ("NotIn", "DoesNotExist") and len(values) < len(nodes)) or any(
            node_allows(Node(NodeName("any"), NO_ZONE, Resources(), ((one.key, value),)), alone) for value in values
        )
        if not met:
            return _missing(_line(one), one.key, one.values, values, nodes)
    for one in term.fields[:_MOST_LINES]:
        if one.operator == "In" and not any(node.name in one.values for node in nodes):
            names = {str(node.name): 1 for node in nodes[:_MOST_KNOWN]}
            return MissingLabel(_line(one), _near(one.values[0], names) if one.values else "", ())
    return None


def _values(nodes: Sequence[Node], key: str) -> Counter[str]:
    """The label's values, and how many nodes have each."""
    return Counter(value for node in nodes for name, value in node.labels if name == key)


def _missing(
    line: str, key: str, asked: Sequence[str], values: Mapping[str, int], nodes: Sequence[Node]
) -> MissingLabel:
    listed = sorted(values)[:_MOST_KNOWN]
    meant = _near(asked[0], listed) if asked and values else ""
    if meant:
        meant = f"{key}={meant}"
    elif not values:
        meant = _near(key, sorted({name for node in nodes[:_MOST_KNOWN] for name, _ in node.labels})[:_MOST_KNOWN])
    return MissingLabel(shown(line), meant, tuple(f"{key}={value}" for value in listed))


def _near(word: str, known: Iterable[str]) -> str:
    return nearest(word, known, like=LIKE_VALUE) or ""


def _line(one: Requirement) -> str:
    values = f" ({', '.join(one.values)})" if one.values else ""
    return shown(f"{one.key} {one.operator}{values}")
