"""The comparison for people: one table per workload, one of the goals."""

from collections.abc import Mapping, Sequence
from typing import Any

from rich.table import Table

from lab.bench.peers.figures import Figures

NOTHING = "–"
"""What stands where a row has no figure."""
HEADS = (
    "pods/s", "of none (lowest–highest)", "create→bind p50/p90/p99 s", "whole gang p50/p99 s", "partial gangs",
    "filter calls", "netgang ms CPU/pod", "room→bind p50/p99 s",
)  # fmt: skip
"""Heads of what `cells` gives."""
_PROCESSES = ("etcd", "kube-apiserver", "kube-scheduler", "netgang-scheduler", "netgang", "echo")


def workload_table(rows: Sequence[Figures]) -> Table:
    """The rows of one workload side by side, without columns in which none has a figure. ValueError without rows."""
    if not rows:
        raise ValueError("no rows")
    table = Table(title=f"{rows[0]['workload']}: {rows[0]['load']}", title_justify="left")
    table.add_column("way")
    shown = [cells(row) for row in rows]
    kept = [number for number in range(len(HEADS)) if any(line[number] != NOTHING for line in shown)]
    for number in kept:
        table.add_column(HEADS[number], justify="right")
    for row, line in zip(rows, shown, strict=True):
        table.add_row(str(row["way"]), *(line[number] for number in kept))
    return table


def process_table(rows: Sequence[Figures]) -> Table:
    """CPU seconds and MiB of each process, a row for each way."""
    table = Table(title="CPU s / MiB of each process", title_justify="left")
    names = list(dict.fromkeys(name for row in rows for name in row["processes"]))
    for head in ("way", *names):
        table.add_column(head)
    for row in rows:
        found = row["processes"]
        shown = [
            f"{found[name]['cpu_s']:.1f} / {found[name]['rss_mib']:.0f}" if name in found else "" for name in names
        ]
        table.add_row(str(row["way"]), *shown)
    return table


def cells(row: Figures) -> list[str]:
    """What every table of results says of a row, but its processes; `NOTHING` for what it does not have."""
    return [
        _number(row, "pods_per_s", "{:.0f}") if row["pods_per_s"] else NOTHING,
        f"{row['ratio']:.2f} ({row['ratio_min']:.2f}–{row['ratio_max']:.2f})" if "ratio" in row else NOTHING,
        _several(row, "bind", ("p50", "p90", "p99")),
        _several(row, "gang", ("p50", "p99")),
        f"{row['partial_gangs']}" + (f", {row['unfinished']} pods unbound" if row["unfinished"] else ""),
        _number(row, "filter_calls", "{:,.0f}"),
        _number(row, "cpu_ms_per_pod", "{:.2f}"),
        _several(row, "room", ("p50", "p99")),
    ]


def goal_table(goals: Sequence[Figures]) -> Table:
    """Every goal that was judged."""
    table = Table(title="goals", title_justify="left")
    for head in ("load", "way", "figure", "goal", "found", "says"):
        table.add_column(head)
    for one in goals:
        table.add_row(*goal_cells(one))
    return table


def goal_cells(goal: Figures) -> list[str]:
    """A goal in words: load, way, figure, goal, found, verdict. Older records have goals that are stretch goals alone.

    >>> goal_cells({"workload": "w", "way": "a", "figure": "ratio", "reference": "none", "at_most": False, "bound": 0.5,
    ...     "stretch": 1.0, "value": 0.6, "lowest": 0.4, "highest": 0.7, "holds": True, "stretch_holds": False})
    ['w', 'a', 'pods/s, of none', '≥ 0.5 (stretch 1)', '0.6 (0.4–0.7)', 'holds in the median']
    """
    sign = "≤" if goal["at_most"] else "≥"
    figure = f"pods/s, of {goal['reference']}" if goal["reference"] else str(goal["figure"])
    stretch = "" if goal["stretch"] is None else f" (stretch {goal['stretch']:g})"
    spread = "" if goal["lowest"] is None else f" ({goal['lowest']:g}–{goal['highest']:g})"
    found = "not known" if goal["value"] is None else f"{goal['value']:g}{spread}"
    found += f", {goal['unbound']} pods unbound" if goal.get("unbound") else ""
    kind = "stretch " if goal.get("only_stretch") else ""
    return [
        str(goal["workload"]),
        str(goal["way"]),
        figure,
        f"{kind}{sign} {goal['bound']:g}{stretch}",
        found,
        verdict(goal),
    ]


def verdict(goal: Figures) -> str:
    """Holds, misses, or holds with the stretch goal too; a spread that crosses a goal is said."""
    if not goal["holds"]:
        return ("misses the stretch goal" if goal.get("only_stretch") else "**misses**") + _crossed(goal, goal["bound"])
    if goal["stretch_holds"]:
        return f"holds{_crossed(goal, goal['bound'])}, stretch too{_crossed(goal, goal['stretch'])}"
    return "holds" + _crossed(goal, goal["bound"])


def _crossed(goal: Figures, bound: float) -> str:
    spread = goal["lowest"] is not None and goal["lowest"] < bound < goal["highest"]
    return " in the median" if spread else ""


def _number(row: Mapping[str, Any], name: str, shape: str) -> str:
    return shape.format(row[name]) if name in row else NOTHING


def _several(row: Mapping[str, Any], name: str, shares: Sequence[str]) -> str:
    found = [row.get(f"{name}_{share}_s") for share in shares]
    return " / ".join(f"{value:.2f}" for value in found if value is not None) or NOTHING
