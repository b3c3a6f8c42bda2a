"""What a shell may offer at TAB: names of gangs, jobs, nodes, zones and namespaces, as the running netgang knows them.

Rule: a shell waits for the answer, so netgang has one second for it, credentials and port-forward included; whatever
goes wrong, nothing is offered and nothing is printed. A name that no Kubernetes object can have is left out, so that
what a server says never reaches a shell as anything but a name. Where a file takes netgang's place, nothing is asked.
"""

import asyncio
import re
from collections.abc import Callable, Coroutine, Iterable
from contextlib import suppress
from threading import Thread
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import typer

from cli.service_options import reach_of, run

if TYPE_CHECKING:
    from cli.service_options import Reach
    from client.connect.connection import Door

Offers: TypeAlias = list[tuple[str, str]]  # (what may be typed, what it is)
Completer: TypeAlias = Callable[[typer.Context, str], Offers]
_Look: TypeAlias = Callable[["Door"], Coroutine[Any, Any, Offers]]
LIMIT_S: Final = 1.0
_MOST: Final = 100  # Of names of one kind; nodes and jobs are asked for by what is typed already
_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,252}(/[A-Za-z0-9][A-Za-z0-9._-]{0,252})?")


def gangs(ctx: typer.Context, incomplete: str) -> Offers:
    """NAMESPACE/NAME of gangs with their states; with -n the names alone."""

    async def look(door: "Door") -> Offers:
        from client import documents

        found, _ = await documents.queue(door, namespace=_namespace(ctx, incomplete))
        return [(one.gang, one.state.lower()) for one in found.gangs]

    return _in_namespace(ctx, incomplete, look)


def jobs(ctx: typer.Context, incomplete: str) -> Offers:
    """NAMESPACE/NAME of jobs that may be resized, with their kinds; with -n the names alone."""

    async def look(door: "Door") -> Offers:
        from client import documents

        found, _ = await documents.jobs(door, namespace=_namespace(ctx, incomplete), limit=1000)
        return [(one.job, one.kind) for one in found.jobs]

    return _in_namespace(ctx, incomplete, look)


def nodes(ctx: typer.Context, incomplete: str) -> Offers:
    """Names of nodes."""

    async def look(door: "Door") -> Offers:
        from client import documents

        found, _ = await documents.network(door, prefix=incomplete, limit=_MOST)
        return [(name, "node") for name in found.pairs.nodes]

    return _offered(ctx, incomplete, look)


def zones(ctx: typer.Context, incomplete: str) -> Offers:
    """Zones, with how many nodes they have."""

    async def look(door: "Door") -> Offers:
        from client import documents

        found, _ = await documents.network(door, limit=1)
        return [(zone, "1 node" if count == 1 else f"{count} nodes") for zone, count in sorted(found.zones.items())]

    return _offered(ctx, incomplete, look)


def namespaces(ctx: typer.Context, incomplete: str) -> Offers:
    """Namespaces that have gangs."""

    async def look(door: "Door") -> Offers:
        from client import documents

        found, _ = await documents.queue(door)
        return [(name, "namespace") for name in sorted({one.gang.partition("/")[0] for one in found.gangs})]

    return _offered(ctx, incomplete, look)


def _in_namespace(ctx: typer.Context, incomplete: str, look: _Look) -> Offers:
    """Names of the namespace that -n gives, without it; else with theirs."""
    given = ctx.params.get("namespace")
    if not given or "/" in incomplete:
        return _offered(ctx, incomplete, look)
    inside = f"{given}/"
    return [(name.removeprefix(inside), about) for name, about in _offered(ctx, inside + incomplete, look)]


def _namespace(ctx: typer.Context, incomplete: str) -> str | None:
    """The namespace that was said already; `None`: any."""
    typed, slash, _ = incomplete.partition("/")
    return typed if slash else ctx.params.get("namespace") or None


def _offered(ctx: typer.Context, beginning: str, look: _Look) -> Offers:
    """What netgang names, begins so, and was not said yet; empty without an answer in time."""
    if "url" not in ctx.params or ctx.params.get("cluster") is not None:
        return []
    found: Offers = []
    thread = Thread(target=_ask, args=(reach_of(ctx), look, found), daemon=True)
    thread.start()
    thread.join(LIMIT_S)  # Reading credentials may run a program, which no time limit of the loop ends
    said = set(_words(ctx.params.values()))
    named = [one for one in found if one[0].startswith(beginning) and _NAME.fullmatch(one[0]) and one[0] not in said]
    return named[:_MOST]


def _ask(reach: "Reach", look: _Look, found: Offers) -> None:
    async def in_time(door: "Door") -> Offers:
        async with asyncio.timeout(LIMIT_S):
            return await look(door)

    with suppress(Exception):  # In the middle of a word nothing is printed
        found.extend(run(in_time(reach.door())))


def _words(values: Iterable[Any]) -> Iterable[str]:
    for value in values:
        if isinstance(value, str):
            yield value
        elif isinstance(value, (list, tuple)):
            yield from (one for one in value if isinstance(one, str))
