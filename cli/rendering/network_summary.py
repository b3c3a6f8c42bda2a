"""All links in a few lines: how many are known, how the probe's agents do, the worst links, medians between zones."""

from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Final

from rich.console import Console, Group, RenderableType
from rich.text import Text

from cli.output import safe
from cli.rendering.columns import NONE, columns
from extender.schemas.network import AgentsAmiss, LinkQuality, LinksSeen, ProbeAgents

_ZONES: Final = 20  # Lines of pairs of zones, those of most loss first


def summary(console: Console, seen: LinksSeen | None, probe: ProbeAgents | None) -> RenderableType:
    """Lines for people; empty without both."""
    said = [safe(console, line) for line in _lines(seen, probe)]
    if seen is None:
        return Group(*said)
    zones = sorted(seen.zones, key=lambda one: (-(one.loss_ratio or 0.0), -(one.delay_ms or 0.0)))
    parts: list[RenderableType] = [*said]
    if seen.worst:
        parts += [Text("\nworst links", style="bold"), _table(console, seen.worst, "FROM", "TO")]
    if zones:
        title = "\nmedians between zones" + (f", the worst {_ZONES} of {len(zones)}" if len(zones) > _ZONES else "")
        parts += [Text(title, style="bold"), _table(console, zones[:_ZONES], "FROM ZONE", "TO ZONE")]
    return Group(*parts)


def _lines(seen: LinksSeen | None, probe: ProbeAgents | None) -> Iterator[str]:
    for metric, pairs in seen.pairs.items() if seen is not None else ():
        oldest = "" if pairs.oldest_age_s is None else f", the oldest {duration(pairs.oldest_age_s)} ago"
        yield f"{metric}: {pairs.measured} of {pairs.of} pairs measured, {pairs.estimated} estimated{oldest}"
    if probe is not None:
        of = probe.reporting + probe.silent.count + probe.unanswered.count
        yield f"probe: {probe.reporting} of {of} agents report and get answers"
        for amiss, words in (
            (probe.silent, "silent"),
            (probe.unanswered, "without any answer"),
            (probe.absent, "nodes without an agent"),
        ):
            if amiss.count:
                yield f"probe: {amiss.count} {words}{since(amiss)}: {amiss_text(amiss)}"
    yield from seen.degraded if seen is not None else ()


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


def _table(console: Console, links: tuple[LinkQuality, ...] | list[LinkQuality], *ends: str) -> RenderableType:
    rows = [
        (
            one.source or NONE,
            one.target or NONE,
            NONE if one.loss_ratio is None else f"{100.0 * one.loss_ratio:.3g} %",
            NONE if one.delay_ms is None else f"{one.delay_ms:.3g} ms",
        )
        for one in links
    ]
    return columns(console, (*ends, "LOSS", "DELAY"), rows)


def duration(seconds: float) -> str:
    """Rough, for people.

    >>> [duration(seconds) for seconds in (0.4, 59.0, 600.0, 90000.0)]
    ['0 s', '59 s', '10 min', '25 h']
    """
    if seconds < 120.0:
        return f"{seconds:.0f} s"
    return f"{seconds / 60.0:.0f} min" if seconds < 7200.0 else f"{seconds / 3600.0:.0f} h"
