"""What commands print for people: gangs, plans, jobs and links in lists, explanations in sentences."""

import math
from collections import Counter
from collections.abc import Sequence
from datetime import UTC, datetime
from functools import partial
from typing import Final

from rich.console import Console, Group, RenderableType
from rich.text import Text

from cli.output import NONE, columns, print_lines, safe
from extender.schemas import Job, JobInFull, JobList, LinkInFull, Network
from scoring import METRICS, records, value_text
from scoring.explain.words import counted, duration_text, moment_text, some
from scoring.records import Queue, QueuedGang

COLOURS: Final = {"WAITING": "yellow", "STARVING": "hot_pink", "RUNNING": "green", "COMPLETED": "bright_black"}
_WIDE_OF_JOB: Final = ("NODES", "ZONES", "WEIGHT", "NETWORK", "STEP", "LOSS", "SAMPLES/S", "REPORTED")
_MEMBERS: Final = 20
_DECISIONS: Final = 5
_GONE: Final = {"absent": "gone", "settled": "running or ended"}  # Of a gang for which nothing is to be decided
_STATES: Final = {"admitted": "green", "running": "green", "waiting": "yellow"}
_whole: Final = partial(columns, cut=False, styles=_STATES)  # An explanation is read once, so no line is cut


def queue_table(console: Console, queue: Queue, wanted: Sequence[QueuedGang], *, wide: bool) -> RenderableType:
    """The queue, one line a gang, and the totals; `wide`: all that is known of each."""
    rows, styles, starts = [], dict(COLOURS), any(gang.expected_start is not None for gang in wanted)
    for gang in wanted:
        cells = [
            NONE if gang.rank is None else str(gang.rank),
            gang.gang,
            gang.state,
            f"{gang.members.running}/{gang.members.min_available}",
            NONE if gang.waited_s is None else duration_text(gang.waited_s),
        ]
        if starts:
            at_s = None if gang.expected_start is None else gang.expected_start.start_s
            cells.append(NONE if at_s is None else moment_text(at_s, now_s=queue.at_s))
        if wide:
            left_s, ended = gang.starves_in_s, gang.members.succeeded + gang.members.failed
            cells.append(NONE if left_s is None else duration_text(left_s) if left_s else "now")
            cells.append(f"{gang.weight.omega_prime:.4g}" + (" (given)" if gang.weight.given else ""))
            cells += [str(gang.members.pending), str(ended)]
        reasons = _why(gang, queue.gangs if wide else ())
        rows.append((*cells, "; ".join(reasons if wide else reasons[:1])))
        styles[rows[-1][-1]] = "red" if gang.bad_link else ""
    parts: list[RenderableType] = []
    if rows:
        names = ["RANK", "GANG", "STATE", "RUN", "WAITED", *(["STARTS"] if starts else [])]
        names += ["STARVES IN", "WEIGHT", "WAIT", "ENDED"] if wide else []
        parts.append(columns(console, [*names, "WHY"], rows, styles=styles))
    counts = ", ".join(f"{count} {name}" for name, count in sorted(queue.counts.items()) if count)
    parts.append(safe(console, f"{counts or 'no gangs'}; order: {queue.order}"))
    return Group(*parts)


def _why(gang: QueuedGang, gangs: Sequence[QueuedGang]) -> list[str]:
    reasons = [gang.bad_link, f"leaves for {gang.leaves_for}" if gang.leaves_for else ""]
    reasons.append(f"waits until {', '.join(gang.makes_room)} left" if gang.makes_room else "")
    if gang.held_nodes:
        place = f" in zone {gang.zone}" if gang.zone else ""
        reasons.append(f"{counted(len(gang.held_nodes), 'node')} held for it{place}")
    if gang.queue == "WQ" and gang.admitted:
        reasons.append(f"admitted{f' to zone {gang.zone}' if gang.zone else ''}, starting")
    elif gang.queue == "WQ":
        # Gangs ahead that have room of one that would fit without them; one that waits without room delays none.
        before = [each for each in gangs if each.queue == "WQ" and (each.rank or math.inf) < (gang.rank or 0)]
        before = sorted((each for each in before if gang.code == "BEHIND"), key=lambda each: each.rank or 0)
        ahead = [each.gang for each in before if each.admitted or each.held_nodes or each.makes_room]
        more = f" and {len(ahead) - 1} more" if len(ahead) > 1 else ""
        behind = f"behind {ahead[0]}{more}" if ahead else ""
        reasons += [gang.detail, (gang.reason or "").removeprefix("netgang: "), behind]
    return [each for each in reasons if each]


def plan_table(console: Console, plan: records.PlanOfFiles) -> RenderableType:
    """A line for each gang, in the order of the queue: its nodes, or why it waits; then reserved nodes."""
    rows, gangs = [], list[records.AdmittedGang | records.WaitingGang]((*plan.admitted, *plan.waiting))
    for gang in sorted(gangs, key=lambda gang: (gang.rank or math.inf, gang.gang)):
        if isinstance(gang, records.AdmittedGang):
            nodes = ", ".join(f"{pod} → {node}" for pod, node in gang.members.items())
            score = NONE if gang.score is None else f"{gang.score:.1f}"
            rows.append((str(gang.rank), gang.gang, "admitted", gang.zone, score, nodes))
        else:
            why = f"{gang.reason.removeprefix('netgang: ')}{f' ({gang.detail})' if gang.detail else ''}"
            rows.append((str(gang.rank or NONE), gang.gang, "waiting", NONE, NONE, why))
    parts: list[RenderableType] = []
    if rows:
        names = ("RANK", "GANG", "PLAN", "ZONE", "SCORE", "NODES OR WHY")
        parts.append(columns(console, names, rows, styles=_STATES))
    admitted = counted(len(plan.admitted), "gang")
    parts.append(Text(f"{admitted} admitted, {len(plan.waiting)} waiting; order: {plan.order}"))
    parts += [safe(console, f"held for {gang}: {', '.join(nodes)}") for gang, nodes in plan.held.items()]
    return Group(*parts)


def job_in_full(console: Console, job: JobInFull, *, wide: bool) -> RenderableType:
    """One job, with the history of its changes."""
    rows = [
        (
            f"{datetime.fromtimestamp(change.decided_s, UTC):%Y-%m-%dT%H:%M:%SZ}",
            f"{change.before} → {change.after}",
            change.who,
            change.stage,
            NONE if change.took_s is None else f"{change.took_s:.1f} s",
            NONE if change.lost_pod_s is None else f"{change.lost_pod_s:.0f}",
            change.why,
        )
        for change in job.changes
    ]
    names = ("DECIDED", "WORKERS", "BY", "STAGE", "TOOK", "LOST POD-SECONDS", "WHY")
    history = columns(console, names, rows) if rows else Text("its worker count has not been changed")
    return Group(_lines(console, [job], wide=wide), "", history)


def jobs_table(console: Console, jobs: JobList, *, wide: bool) -> RenderableType:
    """A line for each job."""
    if not jobs.jobs:
        return Text("no jobs of kinds that netgang resizes")
    totals = ", ".join(f"{count} {state}" for state, count in sorted(Counter(job.state for job in jobs.jobs).items()))
    more = f"; {len(jobs.jobs)} of {jobs.of} jobs; see --namespace" if len(jobs.jobs) < jobs.of else ""
    return Group(_lines(console, jobs.jobs, wide=wide), safe(console, totals + more))


def _lines(console: Console, listed: Sequence[Job], *, wide: bool) -> RenderableType:
    rows = []
    for job in listed:
        cells = [job.job, job.kind, job.state, *map(str, (job.workers.now, job.workers.min, job.workers.max))]
        if wide:
            last = job.reported
            loss, speed = (None, None) if last is None else (last.loss, last.samples_per_second)
            cells += [
                str(len(job.placement.nodes)),
                ",".join(job.placement.zones) if job.placement.nodes else NONE,
                NONE if job.weight is None else f"{job.weight.omega:.4f}",
                NONE if job.network is None else f"{job.network:.1f}",
                NONE if last is None else str(last.step),
                NONE if loss is None else f"{loss:.4g}",
                NONE if speed is None else f"{speed:.4g}",
                NONE if last is None else f"{duration_text(last.age_s)} ago",
            ]
        asked = ""  # By its metrics
        if (metrics := job.metrics) is not None and metrics.reason:
            by = f"{metrics.workers} by {metrics.policy}: " if isinstance(metrics.workers, int) else ""
            asked = f"{by}{metrics.reason}"
        alone = job.refusal is not None
        rows.append((*cells, f"left alone: {job.refusal}" if alone else "; ".join(filter(None, (asked, job.wish)))))
    names = ("JOB", "KIND", "STATE", "WORKERS", "MIN", "MAX", *(_WIDE_OF_JOB if wide else ()), "WHY")
    return columns(console, names, rows, styles=COLOURS)


def health(console: Console, network: Network) -> RenderableType:
    """How much is measured, what is bad, and how the probe does."""
    lines = [
        f"{metric}: {counts.known_pairs} pairs measured; {counts.mapped_nodes} of {counts.nodes} nodes have an endpoint"
        for metric, counts in network.metrics.items()
    ]
    lines += [f"{bad.kind} {bad.name or '(none)'}: {bad.words}" for bad in network.degraded]
    if probe := network.probe:
        lines.append(f"probe: {probe.reporting} of {probe.known} agents report and get answers")
        troubles = ((probe.silent, "silent"), (probe.unanswered, "without any answer"))
        for amiss, words in (*troubles, (probe.absent, "nodes without an agent")):
            lines += [f"probe: {amiss.count} {words}{amiss.where}"] if amiss.count else []
    return Group(*[safe(console, line) for line in lines])


def endpoint_table(console: Console, network: Network) -> RenderableType:
    """Where each node is measured; then what no node is measured at, and the rule that would change it."""
    rows = [(node, *(end or NONE for end in ends)) for node, ends in network.endpoints.items()]
    parts = [columns(console, ("NODE", *(metric.upper() for metric in METRICS)), rows)]
    mapping = network.status.mapping if network.status else None
    if mapping is not None:
        doubts = {f"node {doubt.node}: {doubt.reason}: {', '.join(doubt.candidates)}" for doubt in mapping.ambiguous}
        parts += [safe(console, text) for text in (*mapping.unknown, *sorted(doubts))]
        ends_of: dict[str, list[str]] = {}
        for end, rule in zip(mapping.unused, mapping.rules, strict=False):
            ends_of.setdefault(rule, []).append(end)
        for rule, ends in ends_of.items():
            parts.append(safe(console, f"no node is measured at {some(ends)}; add to network.mapping: {rule}"))
        parts += [safe(console, f"and {mapping.left_out.unused} more")] if mapping.left_out.unused else []
    return Group(*parts)


def link_table(console: Console, link: LinkInFull) -> RenderableType:
    """A line for each metric: both directions, their ages and sources, what counts of them, and its points."""
    rows: list[tuple[str, ...]] = []
    for name, part in link.metrics.items():
        limit, cells = part.no_better_than, [name]
        for reading in (part.there, part.back):
            cells.append(_amount(None if reading is None else reading.value, part.unit))
            cells += [NONE, NONE] if reading is None else [duration_text(reading.age_s), reading.origin or NONE]
        counts = _amount(part.counts, part.unit) if limit is None else f"at best {_amount(limit, part.unit)}"
        rows.append((*cells, counts, part.basis, f"{part.points:.2f}"))
    ends, more = (f"{link.source}→{link.target}", f"{link.target}→{link.source}"), ("OLD", "SOURCE")
    names = ("METRIC", ends[0], *more, ends[1], *more, "COUNTS", "BASIS", "POINTS")
    rows.append(("sum", *[NONE] * (len(names) - 2), f"{link.points:.2f}"))
    parts: list[RenderableType] = [columns(console, names, rows)]
    for name, part in link.metrics.items():
        path = " → ".join(end or "no endpoint" for end in part.endpoints)
        parts.append(safe(console, f"{name} is measured at {path}"))
    if (best := link.reference_bps) is not None:
        parts.append(Text(f"compared among {link.compared_with} nodes; full points for {_amount(best, 'bit/s')}"))
    if link.stale:
        parts.append(Text("some value is old: its points fade; too old, it only says what the link is worth at best"))
    return Group(*parts)


def _amount(value: float | None, unit: str) -> str:
    if value is None:
        return NONE
    amount, of = {"ratio": (value * 100.0, "%"), "bit/s": (value / 1e6, "Mbit/s")}.get(unit, (value, unit))
    return f"{amount:.4g} {of}"


def print_explanation(console: Console, explained: records.Explained) -> None:
    """Why a gang is where it is."""
    where = f" in zone {explained.zone}" if explained.zone else ""
    where += "" if explained.score is None else f", network score {explained.score:.1f}"
    _say(console, f"{explained.gang}: {explained.state}{where}", style=_STATES.get(explained.state, ""))
    if (cause := explained.cause) is not None:
        _say(console, f"{cause.reason}: {' '.join(filter(None, (cause.message, cause.suggestion)))}")
    if explained.reason:
        _say(console, f"{explained.reason}{f' ({explained.detail})' if explained.detail else ''}")
    if explained.expected_start is not None:
        _say(console, explained.expected_start.text)
    shown = ("on_nodes", "held", "planned", "waiting", "ended", "missing")
    parts = [f"{explained.counts[name]} {name.replace('_', ' ')}" for name in shown if explained.counts.get(name)]
    exist, needed = explained.counts.get("exist", 0), explained.counts.get("needed", 0)
    _say(console, f"members: {exist} exist, {needed} needed; {', '.join(parts)}")
    if explained.network is not None:
        bad = explained.network.worst is not None and explained.network.worst.bad
        _say(console, network_line(explained.network), style="red" if bad else "")
    for line in _turn(explained.turn):
        _say(console, line)
    if explained.admission_lapses_in_s is not None:
        _say(console, f"it is admitted, and has {duration_text(explained.admission_lapses_in_s)} to come to bind")
    if explained.admission_refused is not None:
        _say(console, f"the API server refused to admit it: {explained.admission_refused}", style="red")
    members = explained.members[:_MEMBERS]
    rows = [(member.pod, member.role, member.state, member.node or NONE, member.why) for member in members]
    print_lines(console, _whole(console, ("POD", "ROLE", "STATE", "NODE", "WHY"), rows))
    if len(explained.members) > _MEMBERS:
        _say(console, f"{len(explained.members) - _MEMBERS} more members; see --json")
    _zones(console, explained.zones)
    for note in explained.notes:
        _say(console, f"note: {note}")
    for problem in explained.problems:
        _say(console, f"note: {problem}", style="yellow")
    for decision in explained.decisions[:_DECISIONS]:
        what = " · ".join(part for part in (decision.what, decision.reason or "yes", decision.detail) if part)
        _say(console, f"{datetime.fromtimestamp(decision.at_s, UTC):%Y-%m-%d %H:%M:%S}Z {what}")


def print_supposed(console: Console, supposed: records.Supposed) -> None:
    """What would differ."""
    _say(console, f"Supposed: {supposed.said}")
    for gang in (*supposed.admitted, *supposed.other):
        if gang.before.state == "absent":
            _say(console, f"{gang.gang}: {_submitted(gang.after)}", style=_STATES.get(gang.after.state, ""))
    rows = [
        *(_turned(gang, gang.after.state) for gang in (*supposed.admitted, *supposed.refused)),
        *(_turned(gang, "moved") for gang in supposed.moved),
        *(_turned(gang, _GONE.get(gang.after.state, gang.after.state)) for gang in supposed.other),
    ]
    for note in supposed.notes:
        _say(console, f"note: {note}", style="yellow")
    print_lines(console, _whole(console, ("GANG", "NOW", "THEN", "ZONE", "WHERE OR WHY"), rows))
    if not rows:
        _say(console, "nothing would be different for any gang")
    admitted, waiting = supposed.gangs.get("admitted", 0), supposed.gangs.get("waiting", 0)
    _say(console, f"then {counted(admitted, 'gang')} admitted, {waiting} waiting")


def network_line(network: records.GangNetwork) -> str:
    """Zones, nodes, score, and the worst link, on which people can act, with its loss, one-way delay and throughput."""
    named = [zone for zone in network.zones if zone]
    zones = f"{'zone' if len(named) == 1 else 'zones'} {some(named)}" if named else "no zone"
    nodes = counted(network.of_nodes, "node")
    if network.score is None:
        return f"network: {zones}, {nodes}; no two members exchange data over a link that is scored"
    parts = [f"{zones}, {nodes}, score {network.score:.1f}"]
    if (worst := network.worst) is not None:
        values = zip(METRICS, (worst.loss_ratio, worst.delay_ms, worst.throughput_bps), strict=True)
        texts = (f"{metric} {'not known' if value is None else value_text(metric, value)}" for metric, value in values)
        what = f"{'bad' if worst.bad else 'worst'} link {worst.source} → {worst.target}"
        parts.insert(0, f"{what}: {worst.points:.0f} points, {', '.join(texts)}")
    return f"network: {'; '.join(parts)}"


def _turn(turn: records.PlaceInQueue) -> list[str]:
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
    if (room := turn.reservation) is not None:
        what = f"nodes {some(room.held_nodes)}" if room.held_nodes else f"{len(room.nodes)} places"
        until = f" until {datetime.fromtimestamp(room.until_s, UTC):%H:%M:%S}Z" if room.until_s is not None else ""
        lines.append(f"{room.kind} for it: {what}{f' in zone {room.zone}' if room.zone else ''}{until}")
    return lines


def _zones(console: Console, zones: Sequence[records.ZoneVerdict]) -> None:
    if not any(zone.wanted for zone in zones):
        return
    rows = [
        (
            zone.zone or "(none)",
            "yes" if zone.allowed else "no",
            str(zone.nodes),
            f"{min(zone.room, zone.wanted)} of {zone.wanted}",
            f"{min(zone.room_when_empty, zone.wanted)} of {zone.wanted}",
            NONE if zone.score is None else f"{zone.score:.1f}",
            NONE if zone.distance_ms is None else f"{zone.distance_ms:.3g} ms",
            "; ".join(f"{short.amount} {short.resource} on {some(short.nodes)}" for short in zone.short)
            + ("; " if zone.short and zone.homeless else "")
            + (f"nodes for {zone.homeless} members" if zone.homeless else ""),
        )
        for zone in sorted(zones, key=lambda zone: (not zone.allowed, -zone.room, zone.zone))
    ]
    names = ("ZONE", "ALLOWED", "NODES", "ROOM", "WHEN EMPTY", "NETWORK", "DISTANCE", "SHORT OF")
    print_lines(console, _whole(console, names, rows))


def _submitted(after: records.Fate) -> str:
    if after.state == "admitted":
        score = "" if after.score is None else f", network score {after.score:.1f}"
        return f"would start now in zone {after.zone or '(none)'}{score}"
    why = (after.reason or after.state).removeprefix("netgang: ") + (f" ({after.detail})" if after.detail else "")
    if after.rank is None:
        return f"cannot start: {why}"
    behind = f", behind {some(after.behind)}" if after.behind else ""
    return f"would wait, rank {after.rank}{behind}: {why}"


def _turned(gang: records.Turned, then: str) -> tuple[str, ...]:
    after = gang.after
    where = some([f"{pod} → {node}" for pod, node in after.members.items()])
    now = NONE if gang.before.state == "absent" else _GONE.get(gang.before.state, gang.before.state)
    return gang.gang, now, then, after.zone or NONE, where or (after.reason or "").removeprefix("netgang: ")


def _say(console: Console, text: str, *, style: str = "") -> None:
    console.print(safe(console, text), style=style, soft_wrap=True, highlight=False)
