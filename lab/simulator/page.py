"""The tables of docs/research/simulator.md, written into that page: `python -m lab.simulator.page`, about ten minutes.

Why: a figure that is typed goes wrong and stays. Rule: what stands between the page's marks comes from here alone.
"""

import re
from collections.abc import Iterator, Sequence
from pathlib import Path

from lab.simulator.compare import Report, compare
from lab.simulator.installed import SHARES, run_installed
from lab.simulator.scenarios import load
from lab.simulator.summary import Row

PAGE = Path(__file__).parents[2] / "docs" / "research" / "simulator.md"
SEEDS = 20


def tables() -> Iterator[tuple[str, str]]:
    """Each table by its name."""
    kod2 = compare(load("kod2"), seeds=SEEDS)
    yield "kod2", cells(kod2)
    yield "kod2 over all", over_all(kod2.more["over_all_runs"], runs=20)
    yield "pollux", workloads(compare(load("pollux")).more["over_all_runs"])
    yield "installed", installed(run_installed())


def cells(report: Report) -> str:
    """Each cell of the KOD2 experiment: median completion time under each policy."""
    policies = list(dict.fromkeys(str(row["policy"]) for row in report.rows))
    times: dict[tuple[object, object], list[str]] = {}
    for row in report.rows:
        times.setdefault((row["model"], row["batch"]), []).append(f"{row['jct_median_s']:,.0f}")
    return _table(["model", "batch", *policies], ([str(m), str(b), *of] for (m, b), of in times.items()))


def over_all(rows: Sequence[Row], *, runs: int) -> str:
    """Means over all cells and seeds, beside plain gangs and KOD2."""
    lines = []
    for row in rows:
        beside = [
            f"{row[f'beside_{name}_ratio']:.2f}, slower in {row[f'slower_than_{name}']} of {runs}, at worst "
            f"{row[f'worst_beside_{name}_ratio']:.2f}"
            if f"beside_{name}_ratio" in row
            else "–"
            for name in ("gangs", "kod2")
        ]
        lines.append([f"`{row['policy']}`", _number(row, "jct_mean_s"), f"{row['cpu_utilisation_ratio']:.0%}", *beside])
    return _table(["policy", "JCT mean, s", "CPU that trains", "of `coscheduling`", "of `kod2-literal`"], lines)


def workloads(rows: Sequence[Row]) -> str:
    """Means over recorded workloads."""
    lines = [
        [
            f"`{row['policy']}`",
            *(_number(row, f"{name}_s") for name in ("jct_mean", "jct_p50", "jct_p99", "wait_p99_largest_tenth")),
            f"{row['resizes']:.0f}",
            f"{row['suspensions']:.0f}",
            f"{row['beside_gangs_ratio']:.2f}, at worst {row['worst_beside_gangs_ratio']:.2f}"
            if "beside_gangs_ratio" in row
            else "–",
        ]
        for row in rows
    ]
    heads = ["policy", "JCT mean", "p50", "p99", "waiting", "changes", "suspensions", "of `coscheduling`"]
    return _table(heads, lines)


def installed(report: Report) -> str:
    """Ratios to first come, first served: of the mean, and after a slash of the 99th percentile."""
    cells: dict[object, list[str]] = {}
    for row in report.rows:
        cells.setdefault(
            row["workload"], [_number(row, "fifo_s"), f"{row['srpt_of_fifo']} / {row['srpt_p99_of_fifo']}"]
        )
        worst = f", at worst {row['worst']}" if row["declare"] == "half" else ""
        cells[row["workload"]].append(f"{row['of_fifo']}{worst} / {row['p99_of_fifo']}")
    for row in report.more["over_all_workloads"]:
        cells.setdefault("ratio of the means", ["", f"{row['srpt_of_fifo']}"]).append(f"{row['of_fifo']}")
        ours = f"{row['mean_of_fifo']} / {row['mean_p99_of_fifo']}"
        cells.setdefault("mean of the ratios", ["", f"– / {row['mean_srpt_p99_of_fifo']}"]).append(ours)
    heads = ["workload", "FIFO, s", "`srpt`", *(f"{words} declare" for words in SHARES)]
    return _table(heads, [[str(name), *line] for name, line in cells.items()])


def _number(row: Row, column: str) -> str:
    value = row.get(column)
    return "–" if value is None else f"{float(value):,.0f}"


def _table(heads: Sequence[str], lines: Iterator[list[str]] | Sequence[list[str]]) -> str:
    return "\n".join(f"|{'|'.join(line)}|" for line in (heads, ["---"] * len(heads), *lines))


def written(text: str, name: str, table: str) -> str:
    """The page's text with this table between its marks. ValueError: there are none."""
    marks = re.compile(rf"(<!-- table: {re.escape(name)} -->\n\n).*?(\n\n<!-- end -->)", re.DOTALL)
    if not marks.search(text):
        raise ValueError(f"{PAGE.name} has no place for the table {name}")
    return marks.sub(lambda found: found[1] + table + found[2], text)


if __name__ == "__main__":
    for _name, _table_text in tables():
        PAGE.write_text(written(PAGE.read_text(), _name, _table_text))
        print(f"written: {_name}", flush=True)  # noqa: T201
