"""`netgang jobs`: workers, places, reports and demands of the jobs of a running netgang."""

import sys
from functools import partial
from typing import Annotated

import typer
from rich.console import Console

from cli.output import clear_errors, option
from cli.reach import Reach, reaching


@reaching
def jobs(
    reach: Reach,
    job: Annotated[
        str | None,
        typer.Argument(
            metavar="[NAMESPACE/]NAME", help="One job, with the history of its changes.", show_default="all"
        ),
    ] = None,
    namespace: Annotated[str | None, option("Only jobs of this namespace.", "all", "--namespace", "-n")] = None,
    kind: Annotated[str | None, option("Kind of the job, where several have one name.", "any")] = None,
    limit: Annotated[int, typer.Option(min=1, max=1000, help="Most jobs that are shown.")] = 200,
    as_json: Annotated[bool, typer.Option("--json", help="Print the document of /v1/jobs as it is.")] = False,
) -> None:
    """Show jobs that may be resized: state, weight, workers (least, now, most), nodes, network, report and demand.

    Exit code: 0 shown; 1 no answer; 2 wrong use, such as a job that is not known.
    """
    from cli.rendering.jobs import print_job, print_jobs
    from client import documents

    with clear_errors():
        if job is not None:
            name = reach.named(job, namespace)
            one, body = reach.ask(lambda door: documents.job(door, name, kind=kind))
            show = partial(print_job, Console(), one)
        else:
            found, body = reach.ask(lambda door: documents.jobs(door, namespace=namespace, limit=limit))
            show = partial(print_jobs, Console(), found)
    if as_json:
        sys.stdout.write(body.decode() + "\n")
    else:
        show()
