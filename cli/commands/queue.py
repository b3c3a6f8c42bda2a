"""`netgang queue` and `netgang jobs`: which gangs wait, for how long and behind which; and how jobs may be resized."""

import asyncio
import json
import sys
from collections.abc import Callable
from contextlib import nullcontext
from enum import StrEnum
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any, Final, TypeAlias

import typer
from rich.console import Console

from cli.output import clear_errors, option, print_json
from cli.reach import Reach, busy, reaching, run

if TYPE_CHECKING:
    from rich.console import RenderableType

    from client.connect.door import Door
    from extender.schemas.queue import Queue, QueuedGang

    _Wanted: TypeAlias = Callable[[QueuedGang], bool]
    _Shown: TypeAlias = Callable[[Console, Queue, dict[str, Any]], RenderableType]

_AGAIN_S: Final = 2.0
_ANY_WIDTH: Final = 10_000


class Output(StrEnum):
    """How the queue is shown."""

    WIDE = "wide"
    JSON = "json"
    YAML = "yaml"
    NAME = "name"


class State(StrEnum):
    """What a gang does."""

    WAITING = "waiting"
    STARVING = "starving"
    RUNNING = "running"
    COMPLETED = "completed"


@reaching
def queue(
    reach: Reach,
    namespace: Annotated[str | None, option("Only gangs of this namespace.", "all", "--namespace", "-n")] = None,
    state: Annotated[
        list[State] | None,
        option("Only gangs in this state; may be repeated.", "all", "--state", "-s", case_sensitive=False),
    ] = None,
    limit: Annotated[int, typer.Option(min=1, help="Most gangs in the table.")] = 100,
    watch: Annotated[bool, typer.Option("--watch", "-w", help="Look again every two seconds, until Ctrl-C.")] = False,
    output: Annotated[
        Output | None,
        option("More columns, whole lines; the document of /v1/queue; or names.", "one line a gang", "--output", "-o"),
    ] = None,
    no_headers: Annotated[bool, typer.Option("--no-headers", help="Only the lines of gangs.")] = False,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print the document of /v1/queue; with --watch one on each line.")
    ] = False,
) -> None:
    """Show the queue, one line a gang: rank, state, how many of the members that it needs run, time waited, and why.

    Gangs that wait come first, in the queue's order; ranks count all namespaces, also with -n. On a terminal the last
    column ends where the line does; -o wide shows all of it, and weight, time until STARVING and the gangs ahead.

    Exit code: 0 shown; 1 no answer; 2 wrong use.
    """
    states = {one.value.upper() for one in state or ()}

    def wanted(one: "QueuedGang") -> bool:
        return namespace in (None, one.gang.partition("/")[0]) and (not states or one.state in states)

    with clear_errors():
        door, output = reach.door(), Output.JSON if as_json else output
        show = partial(_show, wanted=wanted, limit=limit, output=output, heads=not no_headers)
        if watch:
            run(_again_and_again(door, wanted, show, as_json=output is Output.JSON))
            return
        with busy("asking netgang"):
            found, document = run(_look(door, wanted))
    if output is Output.JSON:
        print_json(document)
    else:
        console = _console(output)
        _print(console, show(console, found, document))


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
    from cli.rendering.queue import print_job, print_jobs
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


async def _look(door: "Door", wanted: "_Wanted") -> "tuple[Queue, dict[str, Any]]":
    """The queue, and its document with only the gangs that were asked for."""
    from client import documents

    found, body = await documents.queue(door)
    gangs, document = {one.gang for one in found.gangs if wanted(one)}, json.loads(body)
    return found, {**document, "gangs": [one for one in document["gangs"] if one["gang"] in gangs]}


def _console(output: Output | None) -> Console:
    """Lines are as long as they are where nothing shows their end: in a pipe, and where all is asked for."""
    console = Console()
    return console if console.is_terminal and output is None else Console(width=_ANY_WIDTH)


def _print(console: Console, shown: "RenderableType") -> None:
    """Without the blanks that fill the last column, where programs read it."""
    if console.is_terminal:
        console.print(shown, crop=False)
        return
    with console.capture() as text:
        console.print(shown)
    sys.stdout.writelines(f"{line.rstrip()}\n" for line in text.get().splitlines())


def _show(
    console: Console,
    found: "Queue",
    document: "dict[str, Any]",
    *,
    wanted: "_Wanted",
    limit: int,
    output: Output | None,
    heads: bool,
) -> "RenderableType":
    """What a person sees of the queue."""
    from rich.text import Text

    from cli.output import safe
    from cli.rendering.queue import queue_table

    if output is Output.YAML:
        import yaml

        return safe(console, yaml.safe_dump(document, sort_keys=False, allow_unicode=True))
    gangs = [*filter(wanted, found.gangs)]
    if output is Output.NAME:
        return Text("\n").join(safe(console, one.gang) for one in gangs[:limit])
    return queue_table(console, found, gangs, limit=limit, wide=output is Output.WIDE, heads=heads)


async def _again_and_again(door: "Door", wanted: "_Wanted", show: "_Shown", *, as_json: bool) -> None:
    """Look every two seconds until stopped; on a terminal in one place."""
    from rich.live import Live

    terminal = Console()
    live = Live(console=terminal, auto_refresh=False) if terminal.is_terminal and not as_json else None
    console = terminal if live is not None else Console(width=_ANY_WIDTH)
    with live or nullcontext():
        while True:
            found, document = await _look(door, wanted)
            if as_json:
                sys.stdout.write(json.dumps(document) + "\n")
                sys.stdout.flush()
            elif live is not None:
                live.update(show(console, found, document), refresh=True)
            else:
                _print(console, show(console, found, document))
            await asyncio.sleep(_AGAIN_S)
