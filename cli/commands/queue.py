"""`netgang queue`: the order, how long each gang has waited, and behind which gangs."""

import asyncio
import json
import sys
from collections.abc import Sequence
from contextlib import nullcontext
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer
from rich.console import Console

from cli.errors import clear_errors
from cli.output import print_json
from cli.reach import Reach, busy, reaching, run

if TYPE_CHECKING:
    from extender.api.schemas.queue import Queue, QueuedGang

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
    namespace: Annotated[
        str | None, typer.Option("--namespace", "-n", help="Only gangs of this namespace.", show_default="all")
    ] = None,
    state: Annotated[
        list[State] | None,
        typer.Option(
            "--state", "-s", case_sensitive=False, help="Only gangs in this state; may be repeated.", show_default="all"
        ),
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
    with clear_errors():
        seen = _Looks(reach, namespace, frozenset(one.value.upper() for one in state or ()), limit)
        if watch:
            run(seen.again_and_again(Console(), as_json=as_json))
            return
        with busy("asking netgang"):
            found, document = run(seen.once())
    if as_json:
        print_json(document)
        return
    from cli.rendering.queue import queue_table

    console = Console()
    console.print(queue_table(console, found, seen.wanted(found.gangs), limit=limit))


class _Looks:
    """One look at the queue after the other."""

    def __init__(self, reach: Reach, namespace: str | None, states: frozenset[str], limit: int) -> None:
        self._door = reach.door()
        self._namespace = namespace
        self._states = states
        self._limit = limit

    async def once(self) -> "tuple[Queue, dict[str, Any]]":
        """The queue, and its document with only the gangs that were asked for."""
        from client import documents

        found, body = await documents.queue(self._door)
        gangs, document = {one.gang for one in self.wanted(found.gangs)}, json.loads(body)
        return found, {**document, "gangs": [one for one in document["gangs"] if one["gang"] in gangs]}

    def wanted(self, gangs: "Sequence[QueuedGang]") -> "list[QueuedGang]":
        """Those of the namespace and states that were asked for."""
        return [
            one
            for one in gangs
            if (self._namespace is None or one.gang.partition("/")[0] == self._namespace)
            and (not self._states or one.state in self._states)
        ]

    async def again_and_again(self, console: Console, *, as_json: bool) -> None:
        """Look every two seconds until stopped; on a terminal in one place."""
        from rich.live import Live

        from cli.rendering.queue import queue_table

        live = Live(console=console, auto_refresh=False) if console.is_terminal and not as_json else None
        with live or nullcontext():
            while True:
                found, document = await self.once()
                if as_json:
                    sys.stdout.write(json.dumps(document) + "\n")
                    sys.stdout.flush()
                else:
                    table = queue_table(console, found, self.wanted(found.gangs), limit=self._limit)
                    if live is not None:
                        live.update(table, refresh=True)
                    else:
                        console.print(table)
                await asyncio.sleep(_AGAIN_S)
