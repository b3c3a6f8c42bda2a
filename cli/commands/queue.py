"""`netgang queue`: the order, how long each gang has waited, and behind which gangs.

Rule: as `netgang network`: results on standard output, everything else on standard error; exit code 0 when the queue
was shown, 1 without an answer, 2 for wrong use; never a traceback. What a server says is only text.
"""

import asyncio
import json
import sys
from collections.abc import Sequence
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer
from rich.console import Console, Group, RenderableType
from rich.table import Column, Table
from rich.text import Text

from cli.errors import clear_errors, safe
from cli.output import print_json
from cli.reach import Reach, busy, reaching, run

if TYPE_CHECKING:
    from extender.api.schemas.queue import Queue, QueuedGang

_AGAIN_S: Final = 2.0
_COLOURS: Final = {"WAITING": "yellow", "STARVING": "hot_pink", "RUNNING": "green", "COMPLETED": "bright_black"}


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
    errors = Console(stderr=True)
    with clear_errors(errors):
        seen = _Looks(reach, namespace, frozenset(one.value.upper() for one in state or ()), limit)
        if watch:
            run(seen.again_and_again(Console(), as_json=as_json))
            return
        with busy(errors, "asking netgang"):
            found, document = run(seen.once())
    if as_json:
        print_json(document)
        return
    console = Console()
    console.print(shown(console, found, seen.wanted(found.gangs), limit=limit))


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

        live = Live(console=console, auto_refresh=False) if console.is_terminal and not as_json else None
        if live is not None:
            live.start()
        try:
            while True:
                found, document = await self.once()
                if as_json:
                    sys.stdout.write(json.dumps(document) + "\n")
                    sys.stdout.flush()
                else:
                    table = shown(console, found, self.wanted(found.gangs), limit=self._limit)
                    if live is not None:
                        live.update(table, refresh=True)
                    else:
                        console.print(table)
                await asyncio.sleep(_AGAIN_S)
        finally:
            if live is not None:
                live.stop()


def shown(console: Console, found: "Queue", wanted: "Sequence[QueuedGang]", *, limit: int) -> RenderableType:
    """The queue as a table, with a line of totals."""
    parts: list[RenderableType] = []
    if wanted:
        heads = ("rank", "gang", "ω′", "members", "waited", "starves in", "what holds it")
        table = Table(*(Column(head, overflow="fold") for head in heads))
        before = behind(found.gangs)
        for one in wanted[:limit]:
            cells = (
                "–" if one.rank is None else str(one.rank),
                one.gang,
                f"{one.weight.omega_prime:.4g}" + (" (given)" if one.weight.given else ""),
                _members(one),
                "–" if one.waited_s is None else _time(one.waited_s),
                _starves(one),
                _holds(one, before.get(one.gang)),
            )
            row = [safe(console, cell) for cell in cells]
            row[1].append(f"\n{safe(console, one.state)}", style=_COLOURS.get(one.state, ""))
            table.add_row(*row)
        parts.append(table)
    if len(wanted) > limit:
        parts.append(Text(f"{limit} of {len(wanted)} gangs; see --namespace, --state and --limit"))
    counts = ", ".join(f"{count} {name}" for name, count in sorted(found.counts.items()) if count)
    parts.append(safe(console, f"{counts or 'no gangs'}; order: {found.order}"))
    parts += [
        safe(
            console,
            f"namespace {one.namespace}: {max(one.cpu, one.memory):.0%} of the cluster, of at most {one.cap:.0%}",
        )
        for one in found.shares
    ]
    return Group(*parts)


def behind(gangs: "Sequence[QueuedGang]") -> dict[str, str]:
    """Gang that waits without a place → the gangs before it that wait too: the nearest, and how many more."""
    waiting = sorted((one for one in gangs if _waits(one)), key=lambda one: one.rank or 0)
    said: dict[str, str] = {}
    for number, one in enumerate(waiting[1:], start=1):
        more = f" and {number - 1} more" if number > 1 else ""
        said[one.gang] = f"{waiting[number - 1].gang}{more}"
    return said


def _waits(one: "QueuedGang") -> bool:
    return one.queue == "WQ" and not one.admitted and one.rank is not None


def _members(one: "QueuedGang") -> str:
    """How many run of those needed, and how many more there are: at a gate, at bind, or without a node."""
    many = one.members
    ended = many.succeeded + many.failed
    parts = [f"{many.running} of {many.min_available} run", f"{many.pending} wait" if many.pending else ""]
    parts.append(f"{ended} ended" if ended else "")
    return "\n".join(filter(None, parts))


def _starves(one: "QueuedGang") -> str:
    if one.starves_in_s is None:
        return "–"
    return _time(one.starves_in_s) if one.starves_in_s else "now"


def _holds(one: "QueuedGang", before: str | None) -> str:
    """Its place, or why it has none and the gangs ahead; what is reserved for it, and which gangs leave."""
    lines = []
    if one.queue == "WQ" and one.admitted:
        lines.append(f"is admitted{f' to zone {one.zone}' if one.zone else ''}")
    elif one.queue == "WQ":
        lines += [one.reason or "", one.detail, f"behind {before}" if before else ""]
    if one.held_nodes:
        count = len(one.held_nodes)
        kept = "1 node is" if count == 1 else f"{count} nodes are"
        lines.append(f"{kept} held for it{f' in zone {one.zone}' if one.zone else ''}")
    if one.makes_room:
        lines.append(f"makes room: {', '.join(one.makes_room)}")
    if one.leaves_for:
        lines.append(f"leaves for {one.leaves_for}")
    return "\n".join(line.removeprefix("netgang: ") for line in lines if line) or "–"


def _time(seconds: float) -> str:
    from scoring.explain.words import duration_text

    return duration_text(seconds)
