"""`netgang plan` as a list."""

from collections.abc import Sequence
from typing import Final

from rich.console import Console, Group, RenderableType
from rich.text import Text

from cli.output import safe
from cli.rendering.columns import NONE, columns
from extender.schemas.plan import AdmittedGang, PlanOfFiles, WaitingGang
from scoring.explain.words import counted

_COLOURS: Final = {"admitted": "green", "waiting": "yellow"}
_NAMES: Final = ("RANK", "GANG", "PLAN", "ZONE", "SCORE", "NODES OR WHY")


def plan_table(console: Console, found: PlanOfFiles, gangs: Sequence[AdmittedGang | WaitingGang]) -> RenderableType:
    """A line for each of `gangs`: its nodes, or why it waits; then reserved nodes."""
    rows = []
    for one in gangs:
        if isinstance(one, AdmittedGang):
            nodes = ", ".join(f"{pod} → {node}" for pod, node in one.members.items())
            score = NONE if one.score is None else f"{one.score:.1f}"
            rows.append((str(one.rank), one.gang, "admitted", one.zone, score, nodes))
        else:
            why = f"{one.reason.removeprefix('netgang: ')}{f' ({one.detail})' if one.detail else ''}"
            rows.append((str(one.rank), one.gang, "waiting", NONE, NONE, why))
    parts: list[RenderableType] = []
    if rows:
        parts.append(columns(console, _NAMES, rows, styles=_COLOURS))
    counts = f"{counted(len(found.admitted), 'gang')} admitted, {len(found.waiting)} waiting; order: {found.order}"
    parts.append(Text(counts))
    parts += [safe(console, f"held for {gang}: {', '.join(nodes)}") for gang, nodes in found.held.items()]
    return Group(*parts)
