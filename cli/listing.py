"""What kubectl's users expect of every list: -o wide, json, yaml and name, --no-headers, -n and -A, --watch.

How: a command builds a `Found`, the answer in all these forms, and `show` prints the one that was asked for. Rules: a
terminal gets lines that fit it; a pipe, and -o wide, whole lines without the blanks that fill the last column. Without
-n a list shows all namespaces, as it always did: -A says so, and -n of kubectl's context counts for single names only.
"""

import asyncio
import json
import sys
from collections.abc import Callable, Coroutine, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, Any, Final, TypeAlias

import typer
from rich.console import Console

from cli.completion import namespaces
from cli.output import option, print_body, print_lines, safe
from cli.service_options import Reach, run

if TYPE_CHECKING:
    from rich.console import RenderableType

    from client.connect.connection import Door

    Look: TypeAlias = Callable[[Door], Coroutine[Any, Any, "Found"]]

AGAIN_S: Final = 2.0
"""Seconds between two looks of --watch, after the answer to the first"""
_ANY_WIDTH: Final = 10_000
Watch = Annotated[bool, typer.Option("--watch", "-w", help="Look again every two seconds, until Ctrl-C.")]


class Output(StrEnum):
    """How a list is shown."""

    WIDE = "wide"
    JSON = "json"
    YAML = "yaml"
    NAME = "name"


@dataclass(frozen=True, slots=True)
class Listing:
    """How the answer is to be shown."""

    output: Annotated[
        Output | None,
        option("More columns and whole lines; the document; or names alone.", "one line an item", "--output", "-o"),
    ] = None
    no_headers: Annotated[bool, typer.Option("--no-headers", help="Only the lines of items.")] = False
    as_json: Annotated[bool, typer.Option("--json", help="Print the document; as -o json.")] = False

    @property
    def form(self) -> Output | None:
        """The form that was asked for; `None`: lines for a person."""
        return Output.JSON if self.as_json else self.output

    @property
    def wide(self) -> bool:
        """Whether all that is known of an item is shown."""
        return self.form is Output.WIDE

    @property
    def heads(self) -> bool:
        """Whether the columns have names, and totals stand below them."""
        return not self.no_headers


@dataclass(frozen=True, slots=True)
class Scope:
    """The namespaces whose items are listed."""

    namespace: Annotated[
        str | None, option("Only this namespace.", "all", "--namespace", "-n", autocompletion=namespaces)
    ] = None
    all_namespaces: Annotated[
        bool, typer.Option("--all-namespaces", "-A", help="All namespaces, whatever -n says; lists do so without -n.")
    ] = False

    @property
    def only(self) -> str | None:
        """The one namespace; `None`: all."""
        return None if self.all_namespaces else self.namespace

    def has(self, name: str) -> bool:
        """Whether NAMESPACE/NAME is in it."""
        return self.only in (None, name.partition("/")[0])


@dataclass(frozen=True, slots=True)
class Found:
    """What one look found, in every form."""

    body: bytes  # The document, JSON
    names: Sequence[str]
    draw: Callable[[Console], "RenderableType"]
    indented: bool = True  # How --json prints the document; else as it came


def show(reach: Reach, listing: Listing, look: "Look", *, watch: bool = False, text: str = "asking netgang") -> None:
    """Ask and print; with `watch` until Ctrl-C, which leaves as KeyboardInterrupt. Errors: those of asking."""
    if not watch:
        show_found(listing, reach.ask(look, text))
        return
    door = reach.door()
    run(follow(lambda: look(door), listing))


def show_found(listing: Listing, found: Found) -> None:
    """Print what was found."""
    if listing.form is not Output.JSON:
        console = _console(listing.form)
        print_lines(console, _drawn(console, listing.form, found))
    elif found.indented:
        print_body(found.body)
    else:
        sys.stdout.write(found.body.decode() + "\n")


async def follow(look: Callable[[], Coroutine[Any, Any, Found]], listing: Listing, *, every_s: float = AGAIN_S) -> None:
    """Look again and again; on a terminal in one place, else one after the other: documents one a line."""
    from rich.live import Live

    terminal, form = Console(), listing.form
    live = Live(console=terminal, auto_refresh=False) if terminal.is_terminal and form is not Output.JSON else None
    console = terminal if live is not None else Console(width=_ANY_WIDTH)
    with live or nullcontext():
        while True:
            found = await look()
            if form is Output.JSON:
                sys.stdout.write(json.dumps(json.loads(found.body)) + "\n")
                sys.stdout.flush()
            elif live is not None:
                live.update(_drawn(console, form, found), refresh=True)
            else:
                print_lines(console, _drawn(console, form, found))
            await asyncio.sleep(every_s)


def _drawn(console: Console, form: Output | None, found: Found) -> "RenderableType":
    from rich.text import Text

    if form is Output.YAML:
        import yaml

        return safe(console, yaml.safe_dump(json.loads(found.body), sort_keys=False, allow_unicode=True).rstrip("\n"))
    if form is Output.NAME:
        return Text("\n").join(safe(console, name) for name in found.names)
    return found.draw(console)


def _console(form: Output | None) -> Console:
    """Lines are as long as they are where nothing shows their end: in a pipe, and where all is asked for."""
    console = Console()
    return console if console.is_terminal and form is None else Console(width=_ANY_WIDTH)
