"""Check nodes and measurements: zones, endpoints, sources and how old their values are."""

from collections.abc import Iterator, Sequence
from typing import Final

from cli.doctor.facts import Endpoints, SourceSeen
from cli.doctor.findings import Finding, error, note, some, warning
from extender.settings.settings import Settings
from scoring.ids import NO_ZONE
from scoring.model import Node

_ONLY: Final = "netgang.io/only"


def check_zones(nodes: Sequence[Node], settings: Settings) -> Iterator[Finding]:
    """The label that says in which zone a node is; control-plane machines that take no pods do not count."""
    workers = [node for node in nodes if not any(taint.key.endswith("/control-plane") for taint in node.taints)]
    without = [node.name for node in workers if node.zone == NO_ZONE]
    fix = f"kubectl label node NODE {settings.zone_label}=ZONE, or name your own label in the setting zone_label"
    if workers and len(without) == len(workers):
        what = f"no node has the label {settings.zone_label}: the whole cluster counts as one zone"
        yield warning("zone-labels", what, fix)
    elif without:
        what = f"{len(without)} of {len(workers)} nodes have no label {settings.zone_label}: {some(without)}"
        yield warning("zone-labels", f"{what}; together they count as one more zone", fix)


def check_strangers(count: int, nodes: Sequence[Node]) -> Iterator[Finding]:
    """Pods that netgang is not asked about, on nodes where it reserves room for gangs (docs/safety.md S13)."""
    if count and not any(taint.key == _ONLY for node in nodes for taint in node.taints):
        what = f"{count} pods of other schedulers run here: room that is held for a gang is not kept from them"
        fix = f"where that matters, taint nodes {_ONLY}=true:NoSchedule, which gang pods tolerate and others do not"
        yield note("room-shared", what, fix)


def check_sources(sources: Sequence[SourceSeen]) -> Iterator[Finding]:
    """Whether each source answers, and how old its last answer is."""
    if not sources:
        what = "no source of measurements is configured: every link is unknown, only zones and room decide"
        yield note("source-none", what, "add MaDDash or another source to network.sources (docs/reference/network.md)")
    for one in sources:
        if one.error is not None:
            what = f"source {one.name} does not answer: {one.error}"
            fix = "check its url in network.sources, and that netgang's pods reach it (docs/reference/network.md)"
            yield error("source-unreachable", what, fix)
        elif one.age_s is not None and one.age_s > one.soft_ttl_s:
            what = (
                f"source {one.name} gave its last values {one.age_s:.0f} s ago: they fade after {one.soft_ttl_s:.0f} s"
            )
            yield warning("source-old", what, "check that tests still run there, or raise network.soft_ttl_s")


def check_endpoints(seen: Endpoints) -> Iterator[Finding]:
    """Nodes that no measurement speaks for, and nodes that could be several endpoints.

    A metric that no node is measured by is not measured here, and left out; unless that is all of them.
    """
    fix = "map them by network.mapping, network.rules or annotation netgang.io/endpoint (docs/reference/network.md)"
    used = {metric: counts for metric, counts in seen.counts.items() if counts.get("mapped", 0)}
    for metric, counts in sorted((used or seen.counts).items()):
        total = sum(counts.values())
        if (unmapped := counts.get("unmapped", 0)) and total:
            names = f": {some(seen.unmapped)}" if seen.unmapped else ""
            what = f"{unmapped} of {total} nodes have no endpoint for {metric}{names}"
            yield warning("nodes-unmapped", what, fix)
        if ambiguous := counts.get("ambiguous", 0):
            what = f"{ambiguous} of {total} nodes could be several endpoints of {metric}, and count as none"
            yield warning("nodes-ambiguous", what, fix)
