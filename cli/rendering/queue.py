"""`netgang queue` and `netgang jobs` as tables."""

from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from typing import Final

from rich.console import Console, Group, RenderableType
from rich.table import Column, Table
from rich.text import Text

from cli.output import add_row, safe
from cli.rendering.links import duration
from extender.schemas.jobs import Job, JobInFull, Jobs, WorkerChange
from extender.schemas.queue import Queue, QueuedGang
from scoring.explain.words import duration_text

_COLOURS: Final = {"WAITING": "yellow", "STARVING": "hot_pink", "RUNNING": "green", "COMPLETED": "bright_black"}


def queue_table(console: Console, found: Queue, wanted: Sequence[QueuedGang], *, limit: int) -> RenderableType:
    """The queue as a table, with a line of totals."""
    parts: list[RenderableType] = []
    if wanted:
        heads = ("rank", "gang", "ω′", "members", "waited", "starves in", "what holds it")
        table = Table(*(Column(head, overflow="fold") for head in heads))
        before = _behind(found.gangs)
        for one in wanted[:limit]:
            cells = (
                "–" if one.rank is None else str(one.rank),
                one.gang,
                f"{one.weight.omega_prime:.4g}" + (" (given)" if one.weight.given else ""),
                _members(one),
                "–" if one.waited_s is None else duration_text(one.waited_s),
                "–" if one.starves_in_s is None else duration_text(one.starves_in_s) if one.starves_in_s else "now",
                _holds(one, before.get(one.gang)),
            )
            row = [safe(console, cell) for cell in cells]
            row[1].append(f"\n{safe(console, one.state)}", style=_COLOURS.get(one.state, ""))
            table.add_row(*row)
        parts.append(table)
    if len(wanted) > limit:
        parts.append(Text(f"{limit} of {len(wanted)} gangs; see --namespace, --state and --limit"))
    counts = ", ".join(f"{count} {name}" for name, count in sorted(found.counts.items()) if count)
    parts.append(safe(console, f"{counts or 'no gangs'}; order: {found.order}"))
    for share in found.shares:
        said = f"namespace {share.namespace}: {max(share.cpu, share.memory):.0%} of the cluster"
        parts.append(safe(console, f"{said}, of at most {share.cap:.0%}"))
    return Group(*parts)


def _behind(gangs: Sequence[QueuedGang]) -> dict[str, str]:
    """Gang that waits without a place → the gangs before it that wait too: the nearest, and how many more."""
    waits = (one for one in gangs if one.queue == "WQ" and not one.admitted and one.rank is not None)
    waiting = sorted(waits, key=lambda one: one.rank or 0)
    said: dict[str, str] = {}
    for number, one in enumerate(waiting[1:], start=1):
        more = f" and {number - 1} more" if number > 1 else ""
        said[one.gang] = f"{waiting[number - 1].gang}{more}"
    return said


def _members(one: QueuedGang) -> str:
    """How many run of those needed, and how many more there are: at a gate, at bind, or without a node."""
    many = one.members
    ended = many.succeeded + many.failed
    parts = [f"{many.running} of {many.min_available} run", f"{many.pending} wait" if many.pending else ""]
    parts.append(f"{ended} ended" if ended else "")
    return "\n".join(filter(None, parts))


def _holds(one: QueuedGang, before: str | None) -> str:
    """Its place, or why it has none and the gangs ahead; what is reserved for it, and which gangs leave."""
    lines = []
    if one.queue == "WQ" and one.admitted:
        lines.append(f"is admitted{f' to zone {one.zone}' if one.zone else ''}")
    elif one.queue == "WQ":
        lines += [one.reason or "", one.detail, f"behind {before}" if before else ""]
    if one.held_nodes:
        count = len(one.held_nodes)
        kept = "1 node is" if count == 1 else f"{count} nodes are"
        lines.append(f"{kept} held for it{f' in zone {one.zone}' if one.zone else ''}")
    if one.makes_room:
        lines.append(f"makes room: {', '.join(one.makes_room)}")
    if one.leaves_for:
        lines.append(f"leaves for {one.leaves_for}")
    return "\n".join(line.removeprefix("netgang: ") for line in lines if line) or "–"


def print_job(console: Console, job: JobInFull) -> None:
    """One job, with the history of its changes."""
    _rows(console, [job])
    _changes(console, job.changes)


def print_jobs(console: Console, found: Jobs) -> None:
    """A row for each job."""
    if not found.jobs:
        console.print("no jobs of kinds that netgang resizes")
        return
    _rows(console, found.jobs)
    if len(found.jobs) < found.of:
        console.print(f"{len(found.jobs)} of {found.of} jobs; see --namespace and --limit")


def _rows(console: Console, listed: Iterable[Job]) -> None:
    table = Table("job", "state", "ω", "workers", "nodes", "network", "report", "wish")
    for one in listed:
        workers = f"{one.workers.min} ≤ {one.workers.now} ≤ {one.workers.max}"
        nodes = f"{len(one.placement.nodes)}" + (f" in {', '.join(one.placement.zones)}" if one.placement.nodes else "")
        cells = (
            f"{one.job}\n{one.kind}",
            one.state,
            "–" if one.weight is None else f"{one.weight.omega:.4f}",
            workers,
            nodes,
            "–" if one.network is None else f"{one.network:.1f}",
            _report(one),
            _demand(one),
        )
        row = [safe(console, cell) for cell in cells]
        row[1].stylize(_COLOURS.get(one.state, ""))
        table.add_row(*row)
    console.print(table)


def _report(one: Job) -> str:
    last = one.reported
    if last is None:
        return "–"
    speed = "" if last.samples_per_second is None else f"\n{last.samples_per_second:.4g} samples/s"
    return f"step {last.step}, loss {last.loss:.4g}{speed}\n{duration(last.age_s)} ago"


def _demand(one: Job) -> str:
    """Why it is left alone, else what its metrics and the queue say; an empty text has nothing to add."""
    if one.refusal is not None:
        return f"left alone: {one.refusal}"
    said = []
    if one.metrics is not None and one.metrics.reason:
        by = f"{one.metrics.workers} by {one.metrics.policy}: " if isinstance(one.metrics.workers, int) else ""
        said.append(f"{by}{one.metrics.reason}")
    if one.wish:
        said.append(one.wish)
    return "\n".join(said)


def _changes(console: Console, changes: Sequence[WorkerChange]) -> None:
    if not changes:
        console.print("its worker count has not been changed")
        return
    heads = ("decided", "workers", "by", "why", "stage", "took", "lost pod·s")
    table = Table(*heads, title="changes", title_justify="left")
    for one in changes:
        add_row(
            table,
            console,
            f"{datetime.fromtimestamp(one.decided_s, UTC):%Y-%m-%d %H:%M:%S}Z",
            f"{one.before} → {one.after}",
            one.who,
            one.why,
            one.stage,
            "–" if one.took_s is None else f"{one.took_s:.1f} s",
            "–" if one.lost_pod_s is None else f"{one.lost_pod_s:.0f}",
        )
    console.print(table)
