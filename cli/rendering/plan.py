"""`netgang plan` and `netgang check-config --cluster` as tables."""

from collections.abc import Mapping
from typing import Any

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from cli.rendering.scaling import print_scaling
from extender.api.schemas.plan import AdmittedGang, PlanOfFiles, WaitingGang


def print_plan(console: Console, found: PlanOfFiles) -> None:
    """Admitted and waiting gangs, reserved nodes, and elastic jobs if they were asked for."""
    queue = ("rank", "gang", "state", "ω′", "ω")
    admitted = Table(*queue, "zone", "score", "members", title="admitted", title_justify="left")
    for one in found.admitted:
        where = ", ".join(f"{pod} → {node}" for pod, node in one.members.items())
        score = "–" if one.score is None else f"{one.score:.1f}"
        admitted.add_row(*_turn(one, "green"), escape(one.zone), score, escape(where))
    waiting = Table(*queue, "reason", "detail", title="waiting", title_justify="left")
    for each in found.waiting:
        waiting.add_row(*_turn(each, "yellow"), each.reason, escape(each.detail))
    for table in (admitted, waiting):
        console.print(table if table.row_count else f"{table.title}: none")
    for gang, nodes in found.held.items():
        console.print(f"held for {escape(gang)}: {escape(', '.join(nodes))}", soft_wrap=True, highlight=False)
    if found.scaling:
        print_scaling(console, found.scaling)


def _turn(one: AdmittedGang | WaitingGang, colour: str) -> tuple[str, str, str, str, str]:
    """Rank, name, state and weight of a gang; gangs that netgang does not rank have no weight."""
    name = f"[{colour}]{escape(one.gang)}[/{colour}]"
    if not one.weight:
        return str(one.rank), name, "–", "–", "–"
    shown = f"{one.weight.omega_prime:.4g}" + (" (given)" if one.weight.given else "")
    return str(one.rank), name, one.state or "–", shown, f"{one.weight.omega:.4f}"


def print_endpoints(console: Console, document: Mapping[str, Any]) -> None:
    """Which node is measured where, per metric, and what is in doubt."""
    table = Table("node", *document["counts"])
    for node, ends in document["nodes"].items():
        table.add_row(escape(node), *(escape(end) if end is not None else "–" for end in ends.values()))
    totals = (f"{count['mapped']} of {sum(count.values())}" for count in document["counts"].values())
    table.add_row("nodes with an endpoint", *totals)
    console.print(table)
    for problem in document["problems"]:
        console.print(escape(problem), soft_wrap=True, highlight=False)
    if document["unused"]:
        console.print(
            f"no node is measured at: {escape(', '.join(document['unused']))}", soft_wrap=True, highlight=False
        )
