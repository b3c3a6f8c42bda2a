"""`netgang jobs` as tables."""

from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from typing import Final

from rich.console import Console
from rich.table import Table

from cli.output import add_row, safe
from cli.rendering.heatmap import duration
from extender.schemas.jobs import Job, JobInFull, Jobs, WorkerChange

_COLOURS: Final = {"RUNNING": "green", "WAITING": "yellow", "STARVING": "hot_pink"}


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
