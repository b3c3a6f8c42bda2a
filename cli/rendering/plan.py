"""`netgang plan` and `netgang check-config --cluster` as lists."""

from collections.abc import Mapping, Sequence
from typing import Any, Final

from rich.console import Console, Group, RenderableType
from rich.text import Text

from cli.output import safe
from cli.rendering.columns import NONE, columns
from extender.schemas.plan import AdmittedGang, PlanOfFiles, WaitingGang
from scoring.explain.words import counted

_COLOURS: Final = {"admitted": "green", "waiting": "yellow"}
_NAMES: Final = ("RANK", "GANG", "PLAN", "ZONE", "SCORE")
_WIDE: Final = ("STATE", "WEIGHT", "OMEGA")


def plan_table(
    console: Console, found: PlanOfFiles, gangs: Sequence[AdmittedGang | WaitingGang], *, wide: bool, heads: bool
) -> RenderableType:
    """A line for each of `gangs`: its nodes, or why it waits; then reserved nodes."""
    rows = []
    for one in gangs:
        more = _turn(one) if wide else ()
        if isinstance(one, AdmittedGang):
            nodes = ", ".join(f"{pod} → {node}" for pod, node in one.members.items())
            score = NONE if one.score is None else f"{one.score:.1f}"
            rows.append((str(one.rank), one.gang, "admitted", one.zone, score, *more, nodes))
        else:
            why = f"{one.reason.removeprefix('netgang: ')}{f' ({one.detail})' if wide and one.detail else ''}"
            rows.append((str(one.rank), one.gang, "waiting", NONE, NONE, *more, why))
    parts: list[RenderableType] = []
    if rows:
        names = (*_NAMES, *(_WIDE if wide else ()), "NODES OR WHY")
        parts.append(columns(console, names, rows, heads=heads, styles=_COLOURS))
    if not heads:
        return Group(*parts)
    counts = f"{counted(len(found.admitted), 'gang')} admitted, {len(found.waiting)} waiting; order: {found.order}"
    parts.append(Text(counts))
    parts += [safe(console, f"held for {gang}: {', '.join(nodes)}") for gang, nodes in found.held.items()]
    return Group(*parts)


def _turn(one: AdmittedGang | WaitingGang) -> tuple[str, str, str]:
    if not one.weight:
        return NONE, NONE, NONE
    shown = f"{one.weight.omega_prime:.4g}" + (" (given)" if one.weight.given else "")
    return one.state or NONE, shown, f"{one.weight.omega:.4f}"


def endpoints_table(console: Console, document: Mapping[str, Any], *, heads: bool) -> RenderableType:
    """A line for each node: where it is measured, by metric; and what is in doubt."""
    rows = [
        (node, *(end if end is not None else NONE for end in ends.values())) for node, ends in document["nodes"].items()
    ]
    names = ("NODE", *(metric.upper() for metric in document["counts"]))
    parts = [columns(console, names, rows, heads=heads)] if rows else []
    if not heads:
        return Group(*parts)
    totals = (f"{metric} {count['mapped']} of {sum(count.values())}" for metric, count in document["counts"].items())
    lines = [f"nodes with an endpoint: {', '.join(totals)}", *document["problems"]]
    if unused := ", ".join(document["unused"]):
        lines.append(f"no node is measured at: {unused}")
    return Group(*parts, *(safe(console, line) for line in lines))
