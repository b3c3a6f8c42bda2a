"""`netgang scores` as a table."""

from rich.console import Console
from rich.table import Column, Table

from cli.output import add_row, safe
from cli.rendering.heatmap import duration
from extender.schemas.link import Link, Measured


def print_link(console: Console, link: Link) -> None:
    """Each metric in both directions, what counts of it, and its points."""
    heads = (f"{link.source} → {link.target}", f"{link.target} → {link.source}")
    table = Table("", *(Column(safe(console, head)) for head in heads), "counts", "from", "points")
    for name, part in link.metrics.items():
        known = "–" if part.counts is None else _amount(part.counts, part.unit)
        if part.no_better_than is not None:
            known += f"\nas {_amount(part.no_better_than, part.unit)} at best"
        there, back = (_direction(one, part.unit) for one in (part.there, part.back))
        add_row(table, console, name, there, back, known, part.basis, f"{part.points:.2f}")
    table.add_row("sum", "", "", "", "", f"{link.points:.2f}")
    console.print(table)
    for name, part in link.metrics.items():
        ends = " → ".join(end or "no endpoint" for end in part.endpoints)
        console.print(safe(console, f"{name} is measured at {ends}"), soft_wrap=True)
    if link.reference_bps is not None:
        best = _amount(link.reference_bps, "bit/s")
        console.print(f"compared among {link.compared_with} nodes; full points for {best}", highlight=False)
    if link.same_endpoint:
        console.print("both nodes are one, or share their endpoint: the link is perfect by definition")
    if link.stale:
        console.print("some value is old: its points fade; too old, it only says what the link is worth at best")


def _direction(value: Measured | None, unit: str) -> str:
    if value is None:
        return "–"
    source = f", {value.origin}" if value.origin else ""
    return f"{_amount(value.value, unit)}\n{duration(value.age_s)} old{source}"


def _amount(value: float, unit: str) -> str:
    """A value for people: loss in percent, throughput in Mbit/s."""
    match unit:
        case "ratio":
            return f"{value * 100.0:.4g} %"
        case "bit/s":
            return f"{value / 1e6:.4g} Mbit/s"
        case _:
            return f"{value:.4g} {unit}"
