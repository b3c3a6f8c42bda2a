"""Links as lines: every measured one, and the score of one by metric."""

import re
from collections.abc import Sequence

from rich.console import Console, Group, RenderableType
from rich.text import Text

from cli.output import safe
from cli.rendering.columns import NONE, columns
from cli.rendering.network_health import duration
from client.documents import Link
from extender.schemas import link as schema


def links_table(console: Console, links: Sequence[Link]) -> RenderableType:
    """A line for each measured link."""
    rows = [
        (
            link.source,
            link.target,
            NONE if link.loss_ratio is None else _amount(link.loss_ratio, "ratio"),
            NONE if link.delay_ms is None else _amount(link.delay_ms, "ms"),
            NONE if link.throughput_bps is None else _amount(link.throughput_bps, "bit/s"),
            NONE if link.age_s is None else duration(link.age_s),
        )
        for link in sorted(links, key=lambda one: (natural_key(one.source), natural_key(one.target)))
    ]
    return columns(console, ("FROM", "TO", "LOSS", "DELAY", "THROUGHPUT", "AGE"), rows)


def link_table(console: Console, link: schema.Link, *, wide: bool) -> RenderableType:
    """A line for each metric: both directions, what counts of them, and its points; `wide`: ages and sources, too."""
    rows = [(name, *_metric(part, wide=wide)) for name, part in link.metrics.items()]
    rows.append(("sum", *[NONE] * (len(rows[0]) - 2 if rows else 4), f"{link.points:.2f}"))
    ends = (f"{link.source}→{link.target}", f"{link.target}→{link.source}")
    more = ("OLD", "SOURCE") if wide else ()
    names = ("METRIC", ends[0], *more, ends[1], *more, "COUNTS", "BASIS", "POINTS")
    parts: list[RenderableType] = [columns(console, names, rows)]
    for name, part in link.metrics.items():
        path = " → ".join(end or "no endpoint" for end in part.endpoints)
        parts.append(safe(console, f"{name} is measured at {path}"))
    if link.reference_bps is not None:
        best = _amount(link.reference_bps, "bit/s")
        parts.append(Text(f"compared among {link.compared_with} nodes; full points for {best}"))
    if link.same_endpoint:
        parts.append(Text("both nodes are one, or share their endpoint: the link is perfect by definition"))
    if link.stale:
        parts.append(Text("some value is old: its points fade; too old, it only says what the link is worth at best"))
    return Group(*parts)


def _metric(part: schema.LinkMetric, *, wide: bool) -> tuple[str, ...]:
    known = NONE if part.counts is None else _amount(part.counts, part.unit)
    if part.no_better_than is not None:
        known = f"at best {_amount(part.no_better_than, part.unit)}"
    cells: list[str] = []
    for one in (part.there, part.back):
        cells.append(NONE if one is None else _amount(one.value, part.unit))
        if wide:
            cells += [NONE, NONE] if one is None else [duration(one.age_s), one.origin or NONE]
    return (*cells, known, part.basis, f"{part.points:.2f}")


def _amount(value: float, unit: str) -> str:
    match unit:
        case "ratio":
            return f"{value * 100.0:.4g} %"
        case "bit/s":
            return f"{value / 1e6:.4g} Mbit/s"
        case _:
            return f"{value:.4g} {unit}"


def natural_key(name: str) -> tuple[tuple[str | int, ...], str]:
    """Sort key by which node2 comes before node10: the texts and the numbers between them, by turns.

    >>> sorted(["node10", "node2", "n", "10.0.0.9", "10.0.0.10"], key=natural_key)
    ['10.0.0.9', '10.0.0.10', 'n', 'node2', 'node10']
    """
    parts = re.split(r"([0-9]{1,18})", name)
    return tuple(int(part) if place % 2 else part for place, part in enumerate(parts)), name
