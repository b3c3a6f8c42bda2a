"""Lists that commands print: gangs of the queue and of plans, jobs and their history, and the network link by link."""

import re
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Final

from rich.console import Console, Group, RenderableType
from rich.text import Text

from cli.output import NONE, columns, safe
from client.documents import NodeLink
from extender.schemas import AgentsAmiss, Job, JobInFull, JobList, LinkInFull, LinkMetric, Network
from scoring.explain.queue_report import AdmittedGang, PlanOfFiles, Queue, QueuedGang, WaitingGang
from scoring.explain.words import counted, duration_text, moment_text, value_text
from scoring.network.measurement import Metric

COLOURS: Final = {"WAITING": "yellow", "STARVING": "hot_pink", "RUNNING": "green", "COMPLETED": "bright_black"}
_WIDE_OF_JOB: Final = ("NODES", "ZONES", "WEIGHT", "NETWORK", "STEP", "LOSS", "SAMPLES/S", "REPORTED")


def queue_table(console: Console, found: Queue, wanted: Sequence[QueuedGang], *, wide: bool) -> RenderableType:
    """The queue, one line a gang, and the totals; `wide`: all that is known of each."""
    rows, starts = [], any(one.expected_start is not None for one in wanted)
    for one in wanted:
        cells = [
            NONE if one.rank is None else str(one.rank),
            one.gang,
            one.state,
            f"{one.members.running}/{one.members.min_available}",
            NONE if one.waited_s is None else duration_text(one.waited_s),
        ]
        if starts:
            at_s = None if one.expected_start is None else one.expected_start.start_s
            cells.append(NONE if at_s is None else moment_text(at_s, now_s=found.at_s))
        if wide:
            left_s, ended = one.starves_in_s, one.members.succeeded + one.members.failed
            cells.append(NONE if left_s is None else duration_text(left_s) if left_s else "now")
            cells.append(f"{one.weight.omega_prime:.4g}" + (" (given)" if one.weight.given else ""))
            cells += [str(one.members.pending), str(ended)]
        said = _why(one, in_the_way(one, found.gangs) if wide else ())
        rows.append((*cells, "; ".join(said if wide else said[:1])))
    parts: list[RenderableType] = []
    if rows:
        names = ["RANK", "GANG", "STATE", "RUN", "WAITED", *(["STARTS"] if starts else [])]
        names += ["STARVES IN", "WEIGHT", "WAIT", "ENDED"] if wide else []
        parts.append(columns(console, [*names, "WHY"], rows, styles=COLOURS))
    counts = ", ".join(f"{count} {name}" for name, count in sorted(found.counts.items()) if count)
    parts.append(safe(console, f"{counts or 'no gangs'}; order: {found.order}"))
    for share in found.shares:
        said_of = f"namespace {share.namespace}: {max(share.cpu, share.memory):.0%} of the cluster"
        parts.append(safe(console, f"{said_of}, of at most {share.cap:.0%}"))
    return Group(*parts)


def in_the_way(one: QueuedGang, gangs: Sequence[QueuedGang]) -> tuple[str, ...]:
    """Gangs ahead of one that would fit without them: given room, or holding it; the first of the queue first.

    Reason BEHIND is the planner's word for that. With any other reason no gang of the queue is in the way: a gang ahead
    that waits without room delays none, because one behind it that fits is admitted. Cost: O(gangs).
    """
    if one.code != "BEHIND" or one.rank is None:
        return ()
    ahead = [each for each in gangs if each.rank is not None and each.rank < one.rank and each.queue == "WQ"]
    ahead.sort(key=lambda each: each.rank or 0)
    return tuple(each.gang for each in ahead if each.admitted or each.held_nodes or each.makes_room)


def _why(one: QueuedGang, ahead: Sequence[str]) -> list[str]:
    """Which gangs leave, what is reserved; its place, or why it has none, numbers first; and the gangs in the way."""
    said = [f"leaves for {one.leaves_for}" if one.leaves_for else ""]
    said.append(f"waits until {', '.join(one.makes_room)} left" if one.makes_room else "")
    if one.held_nodes:
        place = f" in zone {one.zone}" if one.zone else ""
        said.append(f"{counted(len(one.held_nodes), 'node')} held for it{place}")
    if one.queue == "WQ" and one.admitted:
        said.append(f"admitted{f' to zone {one.zone}' if one.zone else ''}, starting")
    elif one.queue == "WQ":
        more = f" and {len(ahead) - 1} more" if len(ahead) > 1 else ""
        behind = f"behind {ahead[0]}{more}" if ahead else ""
        said += [one.detail, (one.reason or "").removeprefix("netgang: "), behind]
    return [each for each in said if each]


def plan_table(console: Console, found: PlanOfFiles) -> RenderableType:
    """A line for each gang, in the order of the queue: its nodes, or why it waits; then reserved nodes."""
    rows, gangs = [], list[AdmittedGang | WaitingGang]((*found.admitted, *found.waiting))
    for one in sorted(gangs, key=lambda one: (one.rank, one.gang)):
        if isinstance(one, AdmittedGang):
            nodes = ", ".join(f"{pod} → {node}" for pod, node in one.members.items())
            score = NONE if one.score is None else f"{one.score:.1f}"
            rows.append((str(one.rank), one.gang, "admitted", one.zone, score, nodes))
        else:
            why = f"{one.reason.removeprefix('netgang: ')}{f' ({one.detail})' if one.detail else ''}"
            rows.append((str(one.rank), one.gang, "waiting", NONE, NONE, why))
    parts: list[RenderableType] = []
    if rows:
        names = ("RANK", "GANG", "PLAN", "ZONE", "SCORE", "NODES OR WHY")
        parts.append(columns(console, names, rows, styles={"admitted": "green", "waiting": "yellow"}))
    counts = f"{counted(len(found.admitted), 'gang')} admitted, {len(found.waiting)} waiting; order: {found.order}"
    parts.append(Text(counts))
    parts += [safe(console, f"held for {gang}: {', '.join(nodes)}") for gang, nodes in found.held.items()]
    return Group(*parts)


def job_in_full(console: Console, job: JobInFull, *, wide: bool) -> RenderableType:
    """One job, with the history of its changes."""
    rows = [
        (
            f"{datetime.fromtimestamp(one.decided_s, UTC):%Y-%m-%dT%H:%M:%SZ}",
            f"{one.before} → {one.after}",
            one.who,
            one.stage,
            NONE if one.took_s is None else f"{one.took_s:.1f} s",
            NONE if one.lost_pod_s is None else f"{one.lost_pod_s:.0f}",
            one.why,
        )
        for one in job.changes
    ]
    names = ("DECIDED", "WORKERS", "BY", "STAGE", "TOOK", "LOST POD-SECONDS", "WHY")
    history = columns(console, names, rows) if rows else Text("its worker count has not been changed")
    return Group(_lines(console, [job], wide=wide), "", history)


def jobs_table(console: Console, found: JobList, *, wide: bool) -> RenderableType:
    """A line for each job."""
    if not found.jobs:
        return Text("no jobs of kinds that netgang resizes")
    parts = [_lines(console, found.jobs, wide=wide)]
    if len(found.jobs) < found.of:
        parts.append(Text(f"{len(found.jobs)} of {found.of} jobs; see --namespace"))
    return Group(*parts)


def _lines(console: Console, listed: Sequence[Job], *, wide: bool) -> RenderableType:
    rows = []
    for one in listed:
        cells = [one.job, one.kind, one.state, *map(str, (one.workers.now, one.workers.min, one.workers.max))]
        if wide:
            last = one.reported
            loss, speed = (None, None) if last is None else (last.loss, last.samples_per_second)
            cells += [
                str(len(one.placement.nodes)),
                ",".join(one.placement.zones) if one.placement.nodes else NONE,
                NONE if one.weight is None else f"{one.weight.omega:.4f}",
                NONE if one.network is None else f"{one.network:.1f}",
                NONE if last is None else str(last.step),
                NONE if loss is None else f"{loss:.4g}",
                NONE if speed is None else f"{speed:.4g}",
                NONE if last is None else f"{duration(last.age_s)} ago",
            ]
        rows.append((*cells, _demand(one)))
    names = ("JOB", "KIND", "STATE", "WORKERS", "MIN", "MAX", *(_WIDE_OF_JOB if wide else ()), "WHY")
    return columns(console, names, rows, styles=COLOURS)


def _demand(one: Job) -> str:
    """Why it is left alone, else what its metrics and the queue say; an empty text has nothing to add."""
    if one.refusal is not None:
        return f"left alone: {one.refusal}"
    asked = ""
    if (metrics := one.metrics) is not None and metrics.reason:
        by = f"{metrics.workers} by {metrics.policy}: " if isinstance(metrics.workers, int) else ""
        asked = f"{by}{metrics.reason}"
    return "; ".join(filter(None, (asked, one.wish)))


def health(console: Console, found: Network) -> RenderableType:
    """Lines for people."""
    lines = [
        f"{metric}: {one.known_pairs} pairs measured; {one.mapped_nodes} of {one.nodes} nodes have an endpoint"
        for metric, one in found.metrics.items()
    ]
    for bad in found.degraded:
        worst = f"{value_text(Metric(bad.metric), bad.worst)} ({bad.source} → {bad.target})"
        links = f"{bad.kind} {bad.name or '(none)'}: {bad.metric} of {bad.bad} of {bad.of} links is bad"
        lines.append(f"{links}, the worst {worst}")
    if probe := found.probe:
        of = probe.reporting + probe.silent.count + probe.unanswered.count
        lines.append(f"probe: {probe.reporting} of {of} agents report and get answers")
        troubles = ((probe.silent, "silent"), (probe.unanswered, "without any answer"))
        for amiss, words in (*troubles, (probe.absent, "nodes without an agent")):
            lines += [f"probe: {amiss.count} {words}{amiss_text(amiss)}"] if amiss.count else []
    return Group(*[safe(console, line) for line in lines])


def amiss_text(amiss: AgentsAmiss) -> str:
    """Since when, if that is known, the first nodes, how many more there are, and the zone if all are of one."""
    began_s, more = amiss.since_s, amiss.count - len(amiss.nodes)
    since = "" if began_s is None else f" since {datetime.fromtimestamp(began_s, UTC):%Y-%m-%d %H:%M:%S} UTC"
    names = ", ".join(amiss.nodes) + (f" and {more} more" if more > 0 else "")
    return f"{since}: {names}{f'; all in zone {amiss.zone}' if amiss.zone is not None else ''}"


def duration(seconds: float) -> str:
    """Rough, for people.

    >>> [duration(seconds) for seconds in (0.4, 59.0, 600.0, 90000.0)]
    ['0 s', '59 s', '10 min', '25 h']
    """
    if seconds < 120.0:
        return f"{seconds:.0f} s"
    return f"{seconds / 60.0:.0f} min" if seconds < 7200.0 else f"{seconds / 3600.0:.0f} h"


def links_table(console: Console, links: Sequence[NodeLink]) -> RenderableType:
    """A line for each measured link."""
    rows = [
        (
            link.source,
            link.target,
            _amount(link.loss_ratio, "ratio"),
            _amount(link.delay_ms, "ms"),
            _amount(link.throughput_bps, "bit/s"),
            NONE if link.age_s is None else duration(link.age_s),
        )
        for link in sorted(links, key=lambda one: (natural_key(one.source), natural_key(one.target)))
    ]
    return columns(console, ("FROM", "TO", "LOSS", "DELAY", "THROUGHPUT", "AGE"), rows)


def link_table(console: Console, link: LinkInFull, *, wide: bool) -> RenderableType:
    """A line for each metric: both directions, what counts of them, and its points; `wide`: ages and sources, too."""
    rows = [(name, *_metric(part, wide=wide)) for name, part in link.metrics.items()]
    rows.append(("sum", *[NONE] * (len(rows[0]) - 2 if rows else 4), f"{link.points:.2f}"))
    ends = (f"{link.source}→{link.target}", f"{link.target}→{link.source}")
    more = ("OLD", "SOURCE") if wide else ()
    names = ("METRIC", ends[0], *more, ends[1], *more, "COUNTS", "BASIS", "POINTS")
    parts: list[RenderableType] = [columns(console, names, rows)]
    for name, part in link.metrics.items():
        path = " → ".join(end or "no endpoint" for end in part.endpoints)
        parts.append(safe(console, f"{name} is measured at {path}"))
    if (best := link.reference_bps) is not None:
        parts.append(Text(f"compared among {link.compared_with} nodes; full points for {_amount(best, 'bit/s')}"))
    if link.same_endpoint:
        parts.append(Text("both nodes are one, or share their endpoint: the link is perfect by definition"))
    if link.stale:
        parts.append(Text("some value is old: its points fade; too old, it only says what the link is worth at best"))
    return Group(*parts)


def _metric(part: LinkMetric, *, wide: bool) -> tuple[str, ...]:
    best, cells = part.no_better_than, list[str]()
    for one in (part.there, part.back):
        cells.append(_amount(None if one is None else one.value, part.unit))
        if wide:
            cells += [NONE, NONE] if one is None else [duration(one.age_s), one.origin or NONE]
    counts = _amount(part.counts, part.unit) if best is None else f"at best {_amount(best, part.unit)}"
    return (*cells, counts, part.basis, f"{part.points:.2f}")


def _amount(value: float | None, unit: str) -> str:
    if value is None:
        return NONE
    amount, of = {"ratio": (value * 100.0, "%"), "bit/s": (value / 1e6, "Mbit/s")}.get(unit, (value, unit))
    return f"{amount:.4g} {of}"


def natural_key(name: str) -> tuple[tuple[str | int, ...], str]:
    """Sort key by which node2 comes before node10: the texts and the numbers between them, by turns.

    >>> sorted(["node10", "node2", "n", "10.0.0.9", "10.0.0.10"], key=natural_key)
    ['10.0.0.9', '10.0.0.10', 'n', 'node2', 'node10']
    """
    parts = re.split(r"([0-9]{1,18})", name)
    return tuple(int(part) if place % 2 else part for place, part in enumerate(parts)), name
