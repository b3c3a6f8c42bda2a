"""`netgang queue` and `netgang jobs`: which gangs wait, for how long and behind which; and how jobs may be resized."""

import json
from enum import StrEnum
from functools import partial
from typing import TYPE_CHECKING, Annotated, Final

import typer

from cli import completion
from cli.listing import Found, Listing, Scope, Watch, show
from cli.output import clear_errors, option
from cli.service_options import Reach, having, reaching

if TYPE_CHECKING:
    from client.connect.connection import Door

_NAMES: Final = "[NAMESPACE/]NAME..."


class State(StrEnum):
    """What a gang does."""

    WAITING = "waiting"
    STARVING = "starving"
    RUNNING = "running"
    COMPLETED = "completed"


@reaching
@having("listing", Listing)
@having("scope", Scope)
def queue(
    reach: Reach,
    listing: Listing,
    scope: Scope,
    names: Annotated[
        list[str] | None,
        typer.Argument(metavar=_NAMES, help="Only these gangs.", show_default="all", autocompletion=completion.gangs),
    ] = None,
    state: Annotated[
        list[State] | None,
        option("Only gangs in this state; may be repeated.", "all", "--state", "-s", case_sensitive=False),
    ] = None,
    limit: Annotated[int, typer.Option(min=1, help="Most gangs that are shown.")] = 100,
    watch: Watch = False,
) -> None:
    """Show the queue, one line a gang: rank, state, how many of the members that it needs run, time waited, and why.

    Gangs that wait come first, in the queue's order; ranks count all namespaces, also with -n. STARTS is the expected
    start (UTC), where any is known; with -o wide also the interval of 80 %. On a terminal the last
    column ends where the line does; -o wide shows all of it, and weight, time until STARVING and the gangs in the way.

    Exit code: 0 shown; 1 no answer; 2 wrong use; 130 Ctrl-C.
    """
    from client import documents

    states = {one.value.upper() for one in state or ()}

    with clear_errors():
        wanted = {reach.named(name, scope.only) for name in names or ()}

        async def look(door: "Door") -> Found:
            from cli.rendering.queue import queue_table

            found, body = await documents.queue(door)
            shown = [
                one
                for one in found.gangs
                if scope.has(one.gang) and (not states or one.state in states) and (not wanted or one.gang in wanted)
            ]
            listed, document = {one.gang for one in shown}, json.loads(body)
            document["gangs"] = [one for one in document["gangs"] if one["gang"] in listed]
            draw = partial(queue_table, found=found, wanted=shown, limit=limit, wide=listing.wide, heads=listing.heads)
            return Found(json.dumps(document).encode(), [one.gang for one in shown[:limit]], draw)

        show(reach, listing, look, watch=watch)


@reaching
@having("listing", Listing)
@having("scope", Scope)
def jobs(
    reach: Reach,
    listing: Listing,
    scope: Scope,
    job: Annotated[
        str | None,
        typer.Argument(
            metavar="[NAMESPACE/]NAME",
            help="One job, with the history of its changes.",
            show_default="all",
            autocompletion=completion.jobs,
        ),
    ] = None,
    kind: Annotated[str | None, option("Kind of the job, where several have one name.", "any")] = None,
    limit: Annotated[int, typer.Option(min=1, max=1000, help="Most jobs that are shown.")] = 200,
    watch: Watch = False,
) -> None:
    """Show jobs that may be resized, one line a job: state, workers (now, least, most), and what is asked of them.

    -o wide shows weight, nodes, zones, network score with the worst link, and last report, too.

    Exit code: 0 shown; 1 no answer; 2 wrong use, such as a job that is not known; 130 Ctrl-C.
    """
    from client import documents

    with clear_errors():
        name = reach.named(job, scope.only) if job is not None else None

        async def look(door: "Door") -> Found:
            from cli.rendering.jobs import job_in_full, jobs_table

            wide, heads = listing.wide, listing.heads
            if name is not None:
                one, body = await documents.job(door, name, kind=kind)
                return Found(body, [one.job], partial(job_in_full, job=one, wide=wide, heads=heads), indented=False)
            found, body = await documents.jobs(door, namespace=scope.only, limit=limit)
            names = [each.job for each in found.jobs]
            return Found(body, names, partial(jobs_table, found=found, wide=wide, heads=heads), indented=False)

        show(reach, listing, look, watch=watch)
