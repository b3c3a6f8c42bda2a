"""Reports as tables for people."""

from collections.abc import Sequence

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from lab.simulator.compare import Report
from lab.simulator.summary import Row

_LEFT_OUT = ("jobs", "stalled_s", "seeds")
_SHORT = {
    # column → what its head says
    "jct_mean_s": "JCT mean",
    "jct_p50_s": "p50",
    "jct_p99_s": "p99",
    "cpu_utilisation_ratio": "CPU",
    "wait_p99_largest_tenth_s": "wait p99, largest",
}


def show(report: Report, console: Console) -> None:
    """Print the rows; columns that no row has a value for are left out."""
    if report.about:
        console.print(escape(report.about), highlight=False)
    console.print(_table(f"{report.scenario}, seed {report.seed}; times in seconds", report.rows))
    for title, rows in report.more.items():
        console.print(_table(title.replace("_", " "), rows))


def _table(title: str, rows: Sequence[Row]) -> Table:
    columns: list[str] = []
    for row in rows:
        columns += [name for name, value in row.items() if value is not None and name not in columns]
    columns = [name for name in columns if name not in _LEFT_OUT]
    table = Table(title=title, title_justify="left")
    for name in columns:
        text = any(isinstance(row.get(name), str) for row in rows)
        table.add_column(_SHORT.get(name, name.replace("_", " ")), justify="left" if text else "right", no_wrap=text)
    for row in rows:
        table.add_row(*(_cell(row, name) for name in columns))
    return table


def _cell(row: Row, name: str) -> str:
    value = row.get(name)
    if value is None:
        return "–"
    if isinstance(value, float) and name.endswith("_ratio"):
        return f"{value:.0%}"
    if isinstance(value, float) and abs(value) >= 100.0:
        return f"{value:,.0f}"
    return escape(f"{value:,}" if isinstance(value, int) else str(value))
