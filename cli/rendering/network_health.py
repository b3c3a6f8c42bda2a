"""How much of the network is measured, which nodes and zones have bad links, and how the probe's agents do."""

from collections.abc import Iterator, Mapping
from datetime import UTC, datetime

from rich.console import Console, Group, RenderableType

from cli.output import safe
from extender.schemas.network import AgentsAmiss, DegradedLinks, KnownPairs, ProbeAgents
from scoring.explain.words import value_text
from scoring.network.measurement import Metric


def health(
    console: Console, metrics: Mapping[str, KnownPairs], degraded: tuple[DegradedLinks, ...], probe: ProbeAgents | None
) -> RenderableType:
    """Lines for people."""
    known = (
        f"{metric}: {one.known_pairs} pairs measured; {one.mapped_nodes} of {one.nodes} nodes have an endpoint"
        for metric, one in metrics.items()
    )
    agents = agent_lines(probe) if probe is not None else ()
    return Group(*[safe(console, line) for line in (*known, *map(_degraded, degraded), *agents)])


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


def _degraded(one: DegradedLinks) -> str:
    worst = f"{value_text(Metric(one.metric), one.worst)} ({one.source} → {one.target})"
    return f"{one.kind} {one.name or '(none)'}: {one.metric} of {one.bad} of {one.of} links is bad, the worst {worst}"
