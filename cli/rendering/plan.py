"""`netgang plan`, its elastic jobs with --scaling, and `netgang check-config --cluster` as tables."""

from collections.abc import Mapping
from typing import Any

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from extender.schemas.plan import AdmittedGang, PlanOfFiles, WaitingGang

_METHODS = {"ours": "as netgang does it", "literal": "as published, node by node"}


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
    if unused := escape(", ".join(document["unused"])):
        console.print(f"no node is measured at: {unused}", soft_wrap=True, highlight=False)


def print_scaling(console: Console, document: Mapping[str, Any]) -> None:
    """One row for each elastic job: what would change, else why not; and for which gang it is."""
    given, grown = document["scale_in"], document["scale_out"]
    changes = {(one["job"], one["kind"]): one for one in (*given["changes"], *grown["changes"])}
    title = f"elastic jobs, {_METHODS[document['method']]}"
    table = Table("job", "workers", "becomes", "pods or nodes", title=title, title_justify="left")
    for one in document["jobs"]:
        workers = one["workers"]
        change = changes.get((one["job"], one["kind"]))
        becomes, where = one["reason"], one["detail"]
        if change is not None:
            pairs = zip(change["pods"], change["nodes"], strict=True) if change["after"] < change["before"] else ()
            becomes = f"{change['before']} → {change['after']}"
            where = ", ".join([f"{pod} ({node})" for pod, node in pairs] or change["nodes"])
        name = f"{one['job']}\n{one['kind']}"
        counts = f"{workers['min']} ≤ {workers['now']} ≤ {workers['max']}"
        table.add_row(*(escape(cell) for cell in (name, counts, becomes, where)))
    for one in document["left_alone"]:
        table.add_row(escape(f"{one['job']}\n{one['kind']}"), "–", escape(f"left alone: {one['reason']}"), "")
    console.print(table if table.row_count else f"{title}: none")
    lines = [] if given["for"] is None else [f"for {given['for']}: {given['reason'] or 'it starts when they are gone'}"]
    lines = [f"{line} ({given['detail']})" if given["detail"] else line for line in lines]
    for line in (*lines, *document["problems"]):
        console.print(escape(line), soft_wrap=True, highlight=False)
