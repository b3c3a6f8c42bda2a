"""`netgang network`: what is measured and what is bad, every link as a line, and the score of one by metric."""

import re
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime

from rich.console import Console, Group, RenderableType
from rich.text import Text

from cli.output import NONE, columns, safe
from client.documents import NodeLink
from extender.schemas import AgentsAmiss, LinkInFull, LinkMetric, Network, ProbeAgents
from scoring.explain.words import value_text
from scoring.network.measurement import Metric


def health(console: Console, found: Network) -> RenderableType:
    """Lines for people."""
    lines = [
        f"{metric}: {one.known_pairs} pairs measured; {one.mapped_nodes} of {one.nodes} nodes have an endpoint"
        for metric, one in found.metrics.items()
    ]
    for bad in found.degraded:
        worst = f"{value_text(Metric(bad.metric), bad.worst)} ({bad.source} → {bad.target})"
        links = f"{bad.kind} {bad.name or '(none)'}: {bad.metric} of {bad.bad} of {bad.of} links is bad"
        lines.append(f"{links}, the worst {worst}")
    lines += agent_lines(found.probe) if found.probe else ()
    return Group(*[safe(console, line) for line in lines])


def agent_lines(probe: ProbeAgents) -> Iterator[str]:
    """How many agents report, and a line for each trouble that some have."""
    of = probe.reporting + probe.silent.count + probe.unanswered.count
    yield f"probe: {probe.reporting} of {of} agents report and get answers"
    for amiss, words in (
        (probe.silent, "silent"),
        (probe.unanswered, "without any answer"),
        (probe.absent, "nodes without an agent"),
    ):
        if amiss.count:
            yield f"probe: {amiss.count} {words}{since(amiss)}: {amiss_text(amiss)}"


def since(amiss: AgentsAmiss) -> str:
    """When that began, with a blank before it; empty: not known."""
    if amiss.since_s is None:
        return ""
    return f" since {datetime.fromtimestamp(amiss.since_s, UTC):%Y-%m-%d %H:%M:%S} UTC"


def amiss_text(amiss: AgentsAmiss) -> str:
    """The first nodes, how many more there are, and the zone if all are of one."""
    more = amiss.count - len(amiss.nodes)
    names = ", ".join(amiss.nodes) + (f" and {more} more" if more > 0 else "")
    return f"{names}; all in zone {amiss.zone}" if amiss.zone is not None else names


def duration(seconds: float) -> str:
    """Rough, for people.

    >>> [duration(seconds) for seconds in (0.4, 59.0, 600.0, 90000.0)]
    ['0 s', '59 s', '10 min', '25 h']
    """
    if seconds < 120.0:
        return f"{seconds:.0f} s"
    return f"{seconds / 60.0:.0f} min" if seconds < 7200.0 else f"{seconds / 3600.0:.0f} h"


def links_table(console: Console, links: Sequence[NodeLink]) -> RenderableType:
    """A line for each measured link."""
    rows = [
        (
            link.source,
            link.target,
            _amount(link.loss_ratio, "ratio"),
            _amount(link.delay_ms, "ms"),
            _amount(link.throughput_bps, "bit/s"),
            NONE if link.age_s is None else duration(link.age_s),
        )
        for link in sorted(links, key=lambda one: (natural_key(one.source), natural_key(one.target)))
    ]
    return columns(console, ("FROM", "TO", "LOSS", "DELAY", "THROUGHPUT", "AGE"), rows)


def link_table(console: Console, link: LinkInFull, *, wide: bool) -> RenderableType:
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
    if (best := link.reference_bps) is not None:
        parts.append(Text(f"compared among {link.compared_with} nodes; full points for {_amount(best, 'bit/s')}"))
    if link.same_endpoint:
        parts.append(Text("both nodes are one, or share their endpoint: the link is perfect by definition"))
    if link.stale:
        parts.append(Text("some value is old: its points fade; too old, it only says what the link is worth at best"))
    return Group(*parts)


def _metric(part: LinkMetric, *, wide: bool) -> tuple[str, ...]:
    best, cells = part.no_better_than, list[str]()
    for one in (part.there, part.back):
        cells.append(_amount(None if one is None else one.value, part.unit))
        if wide:
            cells += [NONE, NONE] if one is None else [duration(one.age_s), one.origin or NONE]
    counts = _amount(part.counts, part.unit) if best is None else f"at best {_amount(best, part.unit)}"
    return (*cells, counts, part.basis, f"{part.points:.2f}")


def _amount(value: float | None, unit: str) -> str:
    if value is None:
        return NONE
    amount, of = {"ratio": (value * 100.0, "%"), "bit/s": (value / 1e6, "Mbit/s")}.get(unit, (value, unit))
    return f"{amount:.4g} {of}"


def natural_key(name: str) -> tuple[tuple[str | int, ...], str]:
    """Sort key by which node2 comes before node10: the texts and the numbers between them, by turns.

    >>> sorted(["node10", "node2", "n", "10.0.0.9", "10.0.0.10"], key=natural_key)
    ['10.0.0.9', '10.0.0.10', 'n', 'node2', 'node10']
    """
    parts = re.split(r"([0-9]{1,18})", name)
    return tuple(int(part) if place % 2 else part for place, part in enumerate(parts)), name
