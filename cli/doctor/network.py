"""Check what the network is known from: zones, endpoints, sources, and the agents of the probe."""

from collections.abc import Iterator

from cli.doctor.facts import Facts, Finding, error, note, some, warning
from cli.rendering.network_health import amiss_text, since
from scoring.ids import NO_ZONE


def check_zones(seen: Facts) -> Iterator[Finding]:
    """The label that says in which zone a node is; control-plane machines that take no pods do not count."""
    label, nodes = seen.settings.zone_label, seen.nodes or ()
    workers = [node for node in nodes if not any(taint.key.endswith("/control-plane") for taint in node.taints)]
    without = [node.name for node in workers if node.zone == NO_ZONE]
    fix = f"kubectl label node NODE {label}=ZONE, or name your own label in the setting zone_label"
    if workers and len(without) == len(workers):
        yield warning("zone-labels", f"no node has the label {label}: the whole cluster counts as one zone", fix)
    elif without:
        what = f"{len(without)} of {len(workers)} nodes have no label {label}: {some(without)}"
        yield warning("zone-labels", f"{what}; together they count as one more zone", fix)


def check_sources(seen: Facts) -> Iterator[Finding]:
    """Whether each source answers, and how old its last answer is."""
    if seen.sources == ():
        what = "no source of measurements is configured: every link is unknown, only zones and room decide"
        yield note("source-none", what, "add MaDDash or another source to network.sources (docs/reference/network.md)")
    for one in seen.sources or ():
        if one.error is not None:
            what = f"source {one.name} does not answer: {one.error}"
            fix = "check its url in network.sources, and that netgang's pods reach it (docs/reference/network.md)"
            yield error("source-unreachable", what, fix)
        elif one.age_s is not None and one.age_s > one.soft_ttl_s:
            ages = f"{one.age_s:.0f} s ago: they fade after {one.soft_ttl_s:.0f} s"
            what = f"source {one.name} gave its last values {ages}"
            yield warning("source-old", what, "check that tests still run there, or raise network.soft_ttl_s")


def check_probe(seen: Facts) -> Iterator[Finding]:
    """Agents whose reports do not come, and agents whose packets are not answered: different doors are closed."""
    probe = seen.answered.probe if seen.answered is not None else None
    if seen.answered is None or probe is None:
        return
    of = probe.reporting + probe.silent.count + probe.unanswered.count
    refused = ", ".join(f"{count} {why}" for why, count in sorted(seen.answered.probe_refused.items()))
    fix = "look at these pods of DaemonSet netgang-probe and their logs: an agent says why its reports are not taken"
    fix += f"; refused so far: {refused}" if refused else "; none was refused: does a NetworkPolicy block TCP 8891?"
    if probe.silent.count:
        what = f"{probe.silent.count} of {of} agents silent{since(probe.silent)}: {amiss_text(probe.silent)}"
        yield warning("probe-silent", f"{what}; no report of them reaches netgang", fix)
    if probe.absent.count:
        what = f"{probe.absent.count} nodes have no agent that has reported to this leader: {amiss_text(probe.absent)}"
        yield note("probe-absent", what, f"where agents are meant to run, {fix}")
    if probe.unanswered.count:
        what = f"{probe.unanswered.count} of {of} agents report, and no packet of theirs is answered"
        what += f"{since(probe.unanswered)}: {amiss_text(probe.unanswered)}"
        fix = "let UDP 8862 pass between the agents: NetworkPolicies of their namespace, the nodes' firewall"
        fix += " or one around that zone" if probe.unanswered.zone is not None else ""
        yield warning("probe-unanswered", what, f"{fix} (docs/how-to/no-perfsonar.md)")


def check_endpoints(seen: Facts) -> Iterator[Finding]:
    """Nodes that no measurement speaks for; of metrics that are measured here."""
    if seen.endpoints is None:
        return
    fix = "map them by network.mapping, network.rules or annotation netgang.io/endpoint (docs/reference/network.md)"
    used = {metric: counts for metric, counts in seen.endpoints.counts.items() if counts.get("mapped", 0)}
    for metric, counts in sorted((used or seen.endpoints.counts).items()):
        total = sum(counts.values())
        if without := total - counts.get("mapped", 0):
            names = f": {some(seen.endpoints.unmapped)}" if seen.endpoints.unmapped else ""
            several = f"; {counts['ambiguous']} of them could be several" if counts.get("ambiguous", 0) else ""
            what = f"{without} of {total} nodes have no endpoint for {metric}{names}{several}"
            yield warning("nodes-unmapped", what, fix)
