"""`netgang jobs`: workers, places, reports and demands of the jobs of a running netgang.

Rule: as `netgang network`: results on standard output, everything else on standard error; exit code 0 when jobs were
shown, 1 without an answer, 2 for wrong use, such as a job that is not known; never a traceback.
"""

import sys
from collections.abc import Iterable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console
from rich.table import Table

from cli.errors import clear_errors, safe
from cli.reach import Reach, busy, reaching, run

if TYPE_CHECKING:
    from extender.api.schemas.jobs import Job, JobInFull, Jobs, WorkerChange

_COLOURS = {"RUNNING": "green", "WAITING": "yellow", "STARVING": "hot_pink"}


@reaching
def jobs(
    reach: Reach,
    job: Annotated[
        str | None,
        typer.Argument(
            metavar="[NAMESPACE/]NAME", help="One job, with the history of its changes.", show_default="all"
        ),
    ] = None,
    namespace: Annotated[
        str | None, typer.Option("--namespace", "-n", help="Only jobs of this namespace.", show_default="all")
    ] = None,
    kind: Annotated[
        str | None, typer.Option(help="Kind of the job, where several have one name.", show_default="any")
    ] = None,
    limit: Annotated[int, typer.Option(min=1, max=1000, help="Most jobs that are shown.")] = 200,
    as_json: Annotated[bool, typer.Option("--json", help="Print the document of /v1/jobs as it is.")] = False,
) -> None:
    """Show jobs that may be resized: state, weight, workers (least, now, most), nodes, network, report and demand.

    Exit code: 0 shown; 1 no answer; 2 wrong use, such as a job that is not known.
    """
    from client import documents

    console = Console()
    errors = Console(stderr=True)
    with clear_errors(errors):
        name = None if job is None else reach.named(job, namespace)
        door = reach.door()
        with busy(errors, "asking netgang"):
            if name is not None:
                one, body = run(documents.job(door, name, kind=kind))
                show = partial(_show_job, console, one)
            else:
                found, body = run(documents.jobs(door, namespace=namespace, limit=limit))
                show = partial(_show_jobs, console, found)
    if as_json:
        sys.stdout.write(body.decode() + "\n")
    else:
        show()


def _show_job(console: Console, job: "JobInFull") -> None:
    _print_jobs(console, [job])
    _print_changes(console, job.changes)


def _show_jobs(console: Console, found: "Jobs") -> None:
    if not found.jobs:
        console.print("no jobs of kinds that netgang resizes")
        return
    _print_jobs(console, found.jobs)
    if len(found.jobs) < found.of:
        console.print(f"{len(found.jobs)} of {found.of} jobs; see --namespace and --limit")


def _print_jobs(console: Console, listed: "Iterable[Job]") -> None:
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
            _wish(one),
        )
        row = [safe(console, cell) for cell in cells]
        row[1].stylize(_COLOURS.get(one.state, ""))
        table.add_row(*row)
    console.print(table)


def _report(one: "Job") -> str:
    from cli.rendering.heatmap import duration

    last = one.reported
    if last is None:
        return "–"
    speed = "" if last.samples_per_second is None else f"\n{last.samples_per_second:.4g} samples/s"
    return f"step {last.step}, loss {last.loss:.4g}{speed}\n{duration(last.age_s)} ago"


def _wish(one: "Job") -> str:
    """Why it is left alone, else what its metrics and the queue say; an empty text has nothing to add."""
    if one.refusal is not None:
        return f"left alone: {one.refusal}"
    said = []
    if one.metrics is not None and one.metrics.reason:
        wished = f"{one.metrics.workers} by {one.metrics.policy}: " if isinstance(one.metrics.workers, int) else ""
        said.append(f"{wished}{one.metrics.reason}")
    if one.wish:
        said.append(one.wish)
    return "\n".join(said)


def _print_changes(console: Console, changes: "Sequence[WorkerChange]") -> None:
    from datetime import UTC, datetime

    if not changes:
        console.print("its worker count has not been changed")
        return
    table = Table(
        "decided", "workers", "by", "why", "stage", "took", "lost pod·s", title="changes", title_justify="left"
    )
    for one in changes:
        cells = (
            f"{datetime.fromtimestamp(one.decided_s, UTC):%Y-%m-%d %H:%M:%S}Z",
            f"{one.before} → {one.after}",
            one.who,
            one.why,
            one.stage,
            "–" if one.took_s is None else f"{one.took_s:.1f} s",
            "–" if one.lost_pod_s is None else f"{one.lost_pod_s:.0f}",
        )
        table.add_row(*(safe(console, cell) for cell in cells))
    console.print(table)
