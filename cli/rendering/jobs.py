"""`netgang jobs`: one line a job, and the history of one."""

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Final

from rich.console import Console, Group, RenderableType
from rich.text import Text

from cli.output import NONE, columns
from cli.rendering.network import duration
from cli.rendering.queue import COLOURS
from extender.schemas.jobs import Job, JobInFull, JobList, WorkerChange

_NAMES: Final = ("JOB", "KIND", "STATE", "WORKERS", "MIN", "MAX")
_WIDE: Final = ("NODES", "ZONES", "WEIGHT", "NETWORK", "STEP", "LOSS", "SAMPLES/S", "REPORTED")
_CHANGES: Final = ("DECIDED", "WORKERS", "BY", "STAGE", "TOOK", "LOST POD-SECONDS", "WHY")


def job_in_full(console: Console, job: JobInFull, *, wide: bool) -> RenderableType:
    """One job, with the history of its changes."""
    return Group(_lines(console, [job], wide=wide), "", _changes(console, job.changes))


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
        workers = one.workers
        counts = (workers.now, workers.min, workers.max)
        rows.append((one.job, one.kind, one.state, *map(str, counts), *(_more(one) if wide else ()), _demand(one)))
    names = (*_NAMES, *(_WIDE if wide else ()), "WHY")
    return columns(console, names, rows, styles=COLOURS)


def _more(one: Job) -> tuple[str, ...]:
    """Cells of the wide columns."""
    last = one.reported
    speed = None if last is None else last.samples_per_second
    return (
        str(len(one.placement.nodes)),
        ",".join(one.placement.zones) if one.placement.nodes else NONE,
        NONE if one.weight is None else f"{one.weight.omega:.4f}",
        NONE if one.network is None else f"{one.network:.1f}",
        NONE if last is None else str(last.step),
        NONE if last is None or last.loss is None else f"{last.loss:.4g}",
        NONE if speed is None else f"{speed:.4g}",
        NONE if last is None else f"{duration(last.age_s)} ago",
    )


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
    return "; ".join(said)


def _changes(console: Console, changes: Sequence[WorkerChange]) -> RenderableType:
    if not changes:
        return Text("its worker count has not been changed")
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
        for one in changes
    ]
    return columns(console, _CHANGES, rows)
