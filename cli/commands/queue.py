"""`netgang queue` and `netgang jobs`: which gangs wait, for how long and behind which; and how jobs may be resized."""

import json
from enum import StrEnum
from functools import partial
from typing import Annotated

import typer

from cli.output import AsJson, Only, Wide, clear_errors, option, print_answer, print_json, print_list
from cli.service_options import Reach, having


class QueueState(StrEnum):
    """What a gang does."""

    WAITING = "waiting"
    STARVING = "starving"
    RUNNING = "running"
    COMPLETED = "completed"


@having(reach=Reach)
def queue(
    reach: Reach,
    names: Annotated[
        list[str] | None, typer.Argument(metavar="[NAMESPACE/]NAME...", help="Only these gangs.", show_default="all")
    ] = None,
    state: Annotated[
        list[QueueState] | None,
        option("Only gangs in this state; may be repeated.", "all", "--state", "-s", case_sensitive=False),
    ] = None,
    namespace: Only = None,
    output: Wide = None,
    as_json: AsJson = False,
) -> None:
    """Show the queue, one line a gang: rank, state, how many of the members that it needs run, time waited, and why.

    Gangs that wait come first, in the queue's order; ranks count all namespaces, also with -n. STARTS is the expected
    start (UTC), where any is known. On a terminal the last column ends where the line does; -o wide shows all of it,
    and weight, time until STARVING and the gangs in the way.

    Exit code: 0 shown; 1 no answer; 2 wrong use; 130 Ctrl-C.
    """
    from cli.rendering.queue import queue_table
    from client import documents

    states = {one.value.upper() for one in state or ()}
    with clear_errors():
        wanted = {reach.named(name, namespace) for name in names or ()}
        found, body = reach.ask(documents.queue)
    shown = [
        one
        for one in found.gangs
        if (namespace in (None, one.gang.partition("/")[0]))
        and (not states or one.state in states)
        and (not wanted or one.gang in wanted)
    ]
    if as_json:
        listed, document = {one.gang for one in shown}, json.loads(body)
        print_json(document | {"gangs": [one for one in document["gangs"] if one["gang"] in listed]})
        return
    print_list(partial(queue_table, found=found, wanted=shown, wide=output is not None), output)


@having(reach=Reach)
def jobs(
    reach: Reach,
    job: Annotated[
        str | None,
        typer.Argument(
            metavar="[NAMESPACE/]NAME", help="One job, with the history of its changes.", show_default="all"
        ),
    ] = None,
    namespace: Only = None,
    output: Wide = None,
    as_json: AsJson = False,
) -> None:
    """Show jobs that may be resized, one line a job: state, workers (now, least, most), and what is asked of them.

    -o wide shows weight, nodes, zones, network score with the worst link, and last report, too.

    Exit code: 0 shown; 1 no answer; 2 wrong use, such as a job that is not known; 130 Ctrl-C.
    """
    from cli.rendering.queue import job_in_full, jobs_table
    from client import documents

    wide = output is not None
    with clear_errors():
        if job is not None:
            one, body = reach.ask(partial(documents.job, name=reach.named(job, namespace)))
            draw = partial(job_in_full, job=one, wide=wide)
        else:
            found, body = reach.ask(partial(documents.jobs, namespace=namespace))
            draw = partial(jobs_table, found=found, wide=wide)
    print_answer(body, partial(print_list, draw, output), as_json=as_json)
