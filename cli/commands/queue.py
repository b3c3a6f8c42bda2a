"""`netgang queue`: the order, how long each gang has waited, and behind which gangs."""

import asyncio
import json
import sys
from collections.abc import Callable
from contextlib import nullcontext
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, Any, Final, TypeAlias

import typer
from rich.console import Console

from cli.output import clear_errors, option, print_json
from cli.reach import Reach, busy, reaching, run

if TYPE_CHECKING:
    from client.connect.door import Door
    from extender.schemas.queue import Queue, QueuedGang

    _Wanted: TypeAlias = Callable[[QueuedGang], bool]

_AGAIN_S: Final = 2.0


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
    as_json: Annotated[
        bool, typer.Option("--json", help="Print the document of /v1/queue; with --watch one on each line.")
    ] = False,
) -> None:
    """Show the queue: rank, state, weight, members, time waited and until STARVING, and the gangs ahead.

    Gangs that wait come first, in the queue's order; ranks count all namespaces, also with -n.

    Exit code: 0 shown; 1 no answer; 2 wrong use.
    """
    states = {one.value.upper() for one in state or ()}

    def wanted(one: "QueuedGang") -> bool:
        return namespace in (None, one.gang.partition("/")[0]) and (not states or one.state in states)

    with clear_errors():
        door = reach.door()
        if watch:
            run(_again_and_again(door, wanted, limit, as_json=as_json))
            return
        with busy("asking netgang"):
            found, document = run(_look(door, wanted))
    if as_json:
        print_json(document)
        return
    from cli.rendering.queue import queue_table

    console = Console()
    console.print(queue_table(console, found, [*filter(wanted, found.gangs)], limit=limit))


async def _look(door: "Door", wanted: "_Wanted") -> "tuple[Queue, dict[str, Any]]":
    """The queue, and its document with only the gangs that were asked for."""
    from client import documents

    found, body = await documents.queue(door)
    gangs, document = {one.gang for one in found.gangs if wanted(one)}, json.loads(body)
    return found, {**document, "gangs": [one for one in document["gangs"] if one["gang"] in gangs]}


async def _again_and_again(door: "Door", wanted: "_Wanted", limit: int, *, as_json: bool) -> None:
    """Look every two seconds until stopped; on a terminal in one place."""
    from rich.live import Live

    from cli.rendering.queue import queue_table

    console = Console()
    live = Live(console=console, auto_refresh=False) if console.is_terminal and not as_json else None
    with live or nullcontext():
        while True:
            found, document = await _look(door, wanted)
            table = queue_table(console, found, [*filter(wanted, found.gangs)], limit=limit)
            if as_json:
                sys.stdout.write(json.dumps(document) + "\n")
                sys.stdout.flush()
            elif live is not None:
                live.update(table, refresh=True)
            else:
                console.print(table)
            await asyncio.sleep(_AGAIN_S)
