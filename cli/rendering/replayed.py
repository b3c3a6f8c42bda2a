"""`netgang replay`: what came out of a decision log that was run again, and how it is shown."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Final, NamedTuple

from rich.console import Console, Group, RenderableType
from rich.text import Text

from cli.rendering.columns import columns
from scoring.explain.words import counted

MOST_SHOWN: Final = 20
"""Gangs that other settings decide differently, and entries that came out differently, that are listed"""


class Example(NamedTuple):
    """A gang that other settings would have decided differently, at the first entry where they would."""

    entry: int
    at_s: float
    gang: str
    was: str
    would_be: str


@dataclass(slots=True)
class Replayed:
    """What came out, counted; `different`: the entries that did not come out as recorded."""

    runs: int = 0
    steps: int = 0
    missing: int = 0  # Entries that were not written when it was recorded
    different: list[int] = field(default_factory=list)
    would_differ: int = 0  # Planner runs that other settings would have decided differently
    examples: list[Example] = field(default_factory=list)


def replayed_table(
    console: Console, found: Replayed, *, compared: bool, wide: bool = False, heads: bool = True
) -> RenderableType:
    """One line a gang that other settings decide differently; below, unless not `heads`, what came out."""
    rows = [
        (str(one.entry), *([_moment(one.at_s)] if wide else ()), one.gang, one.was, one.would_be)
        for one in found.examples
    ]
    names = ("ENTRY", *(("AT",) if wide else ()), "GANG", "WAS", "WOULD BE")
    parts: list[RenderableType] = [columns(console, names, rows, heads=heads)] if rows else []
    return Group(*parts, *(_sums(found, compared=compared) if heads else ()))


def _sums(found: Replayed, *, compared: bool) -> Iterator[Text]:
    runs, steps = counted(found.runs, "planner run"), counted(found.steps, "step")
    yield Text(f"{runs} and {steps} of gangs at bind were run again")
    if found.missing:
        many = "1 entry had" if found.missing == 1 else f"{found.missing} entries had"
        yield Text(f"{many} not been written: the recorder did not keep up", style="yellow")
    if found.different:
        more = "" if len(found.different) <= MOST_SHOWN else ", …"
        shown = ", ".join(map(str, found.different[:MOST_SHOWN])) + more
        yield Text(f"{len(found.different)} came out differently (entries {shown})", style="red")
    else:
        yield Text("all came out as recorded", style="green")
    if compared:
        yield Text(f"{counted(found.would_differ, 'run')} would have been decided differently")


def _moment(at_s: float) -> str:
    return f"{datetime.fromtimestamp(at_s, UTC):%Y-%m-%dT%H:%M:%SZ}"
