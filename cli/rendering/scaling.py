"""What `netgang plan --scaling` prints for people: one row for each elastic job, and for which gang it is.

Rule: rows say what would change, else why not; the same document as `--json`.
"""

from collections.abc import Iterable, Mapping
from typing import Any

from rich.console import Console
from rich.markup import escape
from rich.table import Table

_METHODS = {"ours": "as netgang does it", "literal": "as published, node by node"}


def print_scaling(console: Console, document: Mapping[str, Any]) -> None:
    """Print the part `scaling` of the plan's document."""
    given, grown = document["scale_in"], document["scale_out"]
    changes = {(one["job"], one["kind"]): one for one in (*given["changes"], *grown["changes"])}
    title = f"elastic jobs, {_METHODS[document['method']]}"
    table = Table("job", "workers", "becomes", "pods or nodes", title=title, title_justify="left")
    for one in document["jobs"]:
        workers = one["workers"]
        change = changes.get((one["job"], one["kind"]))
        becomes, where = (one["reason"], one["detail"]) if change is None else _change(change)
        name = f"{one['job']}\n{one['kind']}"
        counts = f"{workers['min']} ≤ {workers['now']} ≤ {workers['max']}"
        table.add_row(*(escape(cell) for cell in (name, counts, becomes, where)))
    for one in document["left_alone"]:
        table.add_row(escape(f"{one['job']}\n{one['kind']}"), "–", escape(f"left alone: {one['reason']}"), "")
    console.print(table if table.row_count else f"{title}: none")
    for line in (*_about(given), *document["problems"]):
        console.print(escape(line), soft_wrap=True, highlight=False)


def _about(given: Mapping[str, Any]) -> Iterable[str]:
    """The gang that room is looked for, and the result."""
    if given["for"] is not None:
        reason = given["reason"] or "it starts when they are gone"
        yield f"for {given['for']}: {reason}" + (f" ({given['detail']})" if given["detail"] else "")


def _change(change: Mapping[str, Any]) -> tuple[str, str]:
    """The change, and the pods that leave or the nodes with room for more."""
    leaving = change["after"] < change["before"]
    pods = [f"{pod} ({node})" for pod, node in zip(change["pods"], change["nodes"], strict=True)] if leaving else []
    return f"{change['before']} → {change['after']}", ", ".join(pods or change["nodes"])
