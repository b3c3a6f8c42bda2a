"""`netgang queue` as one line a gang, as kubectl prints lists; `netgang jobs` as a table."""

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


def queue_table(
    console: Console, found: Queue, wanted: Sequence[QueuedGang], *, limit: int, wide: bool = False, heads: bool = True
) -> RenderableType:
    """The queue, one line a gang, and the totals; `wide`: all that is known of each; `heads`: and names of columns."""
    parts: list[RenderableType] = []
    before = _behind(found.gangs) if wide else {}
    rows: list[list[Text]] = []
    for one in wanted[:limit]:
        cells = (
            "–" if one.rank is None else str(one.rank),
            one.gang,
            one.state,
            f"{one.members.running}/{one.members.min_available}",
            "–" if one.waited_s is None else duration_text(one.waited_s),
            *(_more(one) if wide else ()),
            "; ".join(_why(one, before.get(one.gang)) if wide else _why(one, None)[:1]) or "–",
        )
        rows.append([safe(console, cell.replace("\n", " ")) for cell in cells])
        rows[-1][2].stylize(_COLOURS.get(one.state, ""))
    if rows:
        names = ("RANK", "GANG", "STATE", "RUN", "WAITED", *(_WIDE if wide else ()))
        widths = [max(len(name), *(row[at].cell_len for row in rows)) for at, name in enumerate(names)]
        room = max(console.width - sum(widths) - 2 * len(widths), _LEAST_WHY)  # rich would cut names as well
        for row in rows:
            row[-1].truncate(room, overflow="ellipsis")
        widths.append(max(row[-1].cell_len for row in rows))
        heads_of = zip((*names, "WHY"), widths, strict=True)
        table = Table(
            *(Column(name, no_wrap=True, width=width) for name, width in heads_of),
            width=sum(widths) + 2 * len(names),
            box=None,
            pad_edge=False,
            padding=(0, 2, 0, 0),
            show_header=heads,
            header_style="",
        )
        for row in rows:
            table.add_row(*row)
        parts.append(table)
    if len(wanted) > limit:
        parts.append(Text(f"{limit} of {len(wanted)} gangs; see --namespace, --state and --limit"))
    if not heads:
        return Group(*parts)
    counts = ", ".join(f"{count} {name}" for name, count in sorted(found.counts.items()) if count)
    parts.append(safe(console, f"{counts or 'no gangs'}; order: {found.order}"))
    for share in found.shares:
        said = f"namespace {share.namespace}: {max(share.cpu, share.memory):.0%} of the cluster"
        parts.append(safe(console, f"{said}, of at most {share.cap:.0%}"))
    return Group(*parts)


_LEAST_WHY: Final = 12
_WIDE: Final = ("STARVES IN", "WEIGHT", "WAIT", "ENDED")


def _more(one: QueuedGang) -> tuple[str, ...]:
    """Cells of the wide columns."""
    starves = "–" if one.starves_in_s is None else duration_text(one.starves_in_s) if one.starves_in_s else "now"
    weight = f"{one.weight.omega_prime:.4g}" + (" (given)" if one.weight.given else "")
    return starves, weight, str(one.members.pending), str(one.members.succeeded + one.members.failed)


def _behind(gangs: Sequence[QueuedGang]) -> dict[str, str]:
    """Gang that waits without a place → the gangs before it that wait too: the nearest, and how many more."""
    waits = (one for one in gangs if one.queue == "WQ" and not one.admitted and one.rank is not None)
    waiting = sorted(waits, key=lambda one: one.rank or 0)
    said: dict[str, str] = {}
    for number, one in enumerate(waiting[1:], start=1):
        more = f" and {number - 1} more" if number > 1 else ""
        said[one.gang] = f"{waiting[number - 1].gang}{more}"
    return said


def _why(one: QueuedGang, before: str | None) -> list[str]:
    """Which gangs leave, what is reserved; its place, or why it has none, numbers first; and the gangs ahead."""
    said = [f"leaves for {one.leaves_for}" if one.leaves_for else ""]
    said.append(f"makes room: {', '.join(one.makes_room)}" if one.makes_room else "")
    if one.held_nodes:
        count = len(one.held_nodes)
        kept = "1 node is" if count == 1 else f"{count} nodes are"
        said.append(f"{kept} held for it{f' in zone {one.zone}' if one.zone else ''}")
    if one.queue == "WQ" and one.admitted:
        said.append(f"is admitted{f' to zone {one.zone}' if one.zone else ''}")
    elif one.queue == "WQ":
        said += [one.detail, (one.reason or "").removeprefix("netgang: "), f"behind {before}" if before else ""]
    return [one for one in said if one]


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
