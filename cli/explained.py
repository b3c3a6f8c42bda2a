"""Explanations and suppositions as lists and sentences for people."""

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Final

from rich.console import Console

from cli.output import NONE, columns, print_lines, safe
from scoring.explain.gang import Explained, ExplainedPod
from scoring.explain.queue_report import PlaceInQueue
from scoring.explain.words import counted, duration_text, some, value_text
from scoring.explain.zones import GangNetwork, ZoneVerdict
from scoring.network.measurement import METRICS
from scoring.what_if import Fate, Supposed, Turned

_MEMBERS: Final = 20
_DECISIONS: Final = 5
_ZONES: Final = 3
_COLOURS: Final = {"admitted": "green", "running": "green", "waiting": "yellow"}


def print_explanation(console: Console, found: Explained | ExplainedPod) -> None:
    """Why a gang or pod is where it is."""
    if isinstance(found, ExplainedPod):
        _say(console, f"{found.pod.name} is a pod of no gang; node: {found.pod.node or 'none yet'}")
        return
    where = f" in zone {found.zone}" if found.zone else ""
    where += "" if found.score is None else f", network score {found.score:.1f}"
    _say(console, f"{found.gang}: {found.state}{where}", style=_COLOURS.get(found.state, ""))
    if found.cause is not None:
        _say(console, f"{found.cause.reason}: {' '.join(filter(None, (found.cause.message, found.cause.suggestion)))}")
    if found.reason:
        _say(console, f"{found.reason}{f' ({found.detail})' if found.detail else ''}")
    if found.expected_start is not None:
        _say(console, found.expected_start.text)
    shown = ("on_nodes", "held", "planned", "waiting", "ended", "missing")
    parts = [f"{found.counts[name]} {name.replace('_', ' ')}" for name in shown if found.counts.get(name)]
    exist, needed = found.counts.get("exist", 0), found.counts.get("needed", 0)
    _say(console, f"members: {exist} exist, {needed} needed; {', '.join(parts)}")
    if found.network is not None:
        _say(console, network_line(found.network))
    for line in _turn(found.turn):
        _say(console, line)
    if found.admission_lapses_in_s is not None:
        _say(console, f"it is admitted, and has {duration_text(found.admission_lapses_in_s)} to come to bind")
    if found.admission_refused is not None:
        _say(console, f"the API server refused to admit it: {found.admission_refused}", style="red")
    members = found.members[:_MEMBERS]
    rows = [(member.pod, member.role, member.state, member.node or NONE, member.why) for member in members]
    _lines(console, ("POD", "ROLE", "STATE", "NODE", "WHY"), rows)
    if len(found.members) > _MEMBERS:
        _say(console, f"{len(found.members) - _MEMBERS} more members; see --json")
    _zones(console, found.zones)
    for note in found.notes:
        _say(console, f"note: {note}")
    for problem in found.problems:
        _say(console, f"note: {problem}", style="yellow")
    for one in found.decisions[:_DECISIONS]:
        what = " · ".join(part for part in (one.what, one.reason or "yes", one.detail) if part)
        _say(console, f"{datetime.fromtimestamp(one.at_s, UTC):%Y-%m-%d %H:%M:%S}Z {what}")


def print_supposed(console: Console, found: Supposed) -> None:
    """What would differ."""
    _say(console, f"Supposed: {found.said}")
    for one in (*found.admitted, *found.other):
        if one.before.state == "absent":
            _say(console, f"{one.gang}: {_submitted(one.after)}", style=_COLOURS.get(one.after.state, ""))
    rows = [
        *(_turned(one, one.after.state) for one in found.admitted),
        *(_turned(one, one.after.state) for one in found.refused),
        *(_turned(one, "moved") for one in found.moved),
        *(_turned(one, _GONE.get(one.after.state, one.after.state)) for one in found.other),
    ]
    _lines(console, ("GANG", "NOW", "THEN", "ZONE", "WHERE OR WHY"), rows)
    if not rows:
        _say(console, "nothing would be different for any gang")
    admitted, waiting = found.gangs.get("admitted", 0), found.gangs.get("waiting", 0)
    _say(console, f"then {counted(admitted, 'gang')} admitted, {waiting} waiting")


def network_line(network: GangNetwork) -> str:
    """Zones, nodes, score, and the worst link, on which people can act, with its loss, one-way delay and throughput."""
    named = [zone for zone in network.zones if zone]
    zones = f"{'zone' if len(named) == 1 else 'zones'} {some(named, _ZONES)}" if named else "no zone"
    nodes = counted(network.of_nodes, "node")
    if network.score is None:
        return f"network: {zones}, {nodes}; no two members exchange data over a link that is scored"
    said = [f"network: {zones}, {nodes}, score {network.score:.1f}"]
    if (worst := network.worst) is not None:
        values = zip(METRICS, (worst.loss_ratio, worst.delay_ms, worst.throughput_bps), strict=True)
        known = (f"{metric} {'not known' if value is None else value_text(metric, value)}" for metric, value in values)
        said.append(f"worst link {worst.source} → {worst.target}: {worst.points:.0f} points, {', '.join(known)}")
    return "; ".join(said)


def _turn(turn: PlaceInQueue) -> list[str]:
    rank = f"rank {turn.rank} of {turn.of}, " if turn.rank is not None else ""
    parts = [f"{turn.state}: {rank}priority {turn.priority}, weight ω′ {turn.weight.omega_prime:.4g}"]
    parts += [f"waited {duration_text(turn.waited_s)}"] if turn.waited_s else []
    parts += [f"STARVING in {duration_text(turn.starves_in_s)}"] if turn.starves_in_s else []
    lines, ahead = [", ".join(parts)], turn.ahead
    if ahead.waiting_count:
        named = some([*ahead.waiting[:3], *([""] * (ahead.waiting_count - 3))])
        lines.append(f"ahead of it wait {named}")
    if ahead.admitted_count or ahead.starting:
        lines.append(f"ahead of it were given room: {some([*ahead.admitted, *ahead.starting])}")
    kept = turn.reservation
    if kept is not None:
        what = f"nodes {some(kept.held_nodes)}" if kept.held_nodes else f"{len(kept.nodes)} places"
        until = f" until {datetime.fromtimestamp(kept.until_s, UTC):%H:%M:%S}Z" if kept.until_s is not None else ""
        lines.append(f"{kept.kind} for it: {what}{f' in zone {kept.zone}' if kept.zone else ''}{until}")
    return lines


def _zones(console: Console, zones: Sequence[ZoneVerdict]) -> None:
    if not any(zone.wanted for zone in zones):
        return
    rows = [
        (
            one.zone or "(none)",
            "yes" if one.allowed else "no",
            str(one.nodes),
            f"{min(one.room, one.wanted)} of {one.wanted}",
            f"{min(one.room_when_empty, one.wanted)} of {one.wanted}",
            NONE if one.score is None else f"{one.score:.1f}",
            NONE if one.distance_ms is None else f"{one.distance_ms:.3g} ms",
            "; ".join(f"{short.amount} {short.resource} on {some(short.nodes)}" for short in one.short)
            + ("; " if one.short and one.homeless else "")
            + (f"nodes for {one.homeless} members" if one.homeless else ""),
        )
        for one in sorted(zones, key=lambda zone: (not zone.allowed, -zone.room, zone.zone))
    ]
    _lines(console, ("ZONE", "ALLOWED", "NODES", "ROOM", "WHEN EMPTY", "NETWORK", "DISTANCE", "SHORT OF"), rows)


def _submitted(after: Fate) -> str:
    """Whether a gang that is new would start: where and how good, or behind which gangs, or why not."""
    if after.state == "admitted":
        score = "" if after.score is None else f", network score {after.score:.1f}"
        return f"would start now in zone {after.zone or '(none)'}{score}"
    why = (after.reason or after.state).removeprefix("netgang: ") + (f" ({after.detail})" if after.detail else "")
    if after.code in _NEVER:
        return f"would not start as it is: {why}"
    rank = f", rank {after.rank}" if after.rank is not None else ""
    behind = f", behind {some(after.behind)}" if after.behind else ""
    return f"would wait{rank}{behind}: {why}"


_NEVER: Final = frozenset(("IMPOSSIBLE", "INVALID_GROUP", "MIXED_SCHEDULERS", "MIXED_PRIORITIES", "NO_ALLOWED_ZONE"))
"""Reasons that waiting does not take away"""
_GONE: Final = {"absent": "gone", "settled": "running or ended"}  # Of a gang for which nothing is to be decided


def _turned(one: Turned, then: str) -> tuple[str, ...]:
    after = one.after
    where = some([f"{pod} → {node}" for pod, node in after.members.items()])
    now = NONE if one.before.state == "absent" else _GONE.get(one.before.state, one.before.state)
    return one.gang, now, then, after.zone or NONE, where or (after.reason or "").removeprefix("netgang: ")


def _lines(console: Console, names: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """A list, unless it is empty; lines are never cut, because an explanation is read once and as a whole."""
    if rows:
        print_lines(console, columns(console, names, rows, cut=False, styles=_COLOURS))


def _say(console: Console, text: str, *, style: str = "") -> None:
    console.print(safe(console, text), style=style, soft_wrap=True, highlight=False)
