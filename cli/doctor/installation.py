"""Check netgang's own pods and what is around them: leader, versions, rights, policies, zones, and its network.

Policies that confine netgang's account must be for the account that it really is: one that an operator renamed is
confined by nothing, and all goes on working.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from cli.doctor.facts import Facts, Finding, Json, LeaseSeen, Replica, error, some, spec_of, warning
from cli.rendering.network import amiss_text, since
from extender.kube import calls
from extender.leadership.lease_loop import LEADER
from extender.settings.settings import LEASE_NAME, LeaderElection, Settings
from scoring.ids import NO_ZONE

_MINOR: Final = re.compile(r"^v?(\d+)\.(\d+)")
_OLDEST: Final = (1, 35)
GATE_POLICY: Final = "netgang-gate"
CONFINING: Final = ("netgang-jobs", "netgang-pod-status", "netgang-pods")
"""Policies of the chart, and their bindings."""
_QUOTED: Final = re.compile(r"'([^']*)'")


def minor(version: str) -> tuple[int, int] | None:
    """Major and minor of a version.

    >>> minor("v1.36.3-eks"), minor("latest")
    ((1, 36), None)
    """
    found = _MINOR.match(version)
    return (int(found[1]), int(found[2])) if found else None


def needed(settings: Settings) -> frozenset[calls.Right]:
    """The rights that netgang needs, those in its own namespace among them."""
    leading = calls.LEADING if settings.leader_election is LeaderElection.ON else frozenset()
    return calls.CALLS | calls.STARTED | leading


def check_rights(seen: Facts) -> Iterator[Finding]:
    """What netgang would be refused."""
    if lost := sorted(needed(seen.settings).intersection(seen.denied or ())):
        said = some(f"{verb} {resource}{'.' + group if group else ''}" for verb, group, resource in lost)
        fix = "helm upgrade, or apply the file of manifests/ again"
        yield error("rights-missing", f"{seen.account} may not: {said}", fix)


def check_running(seen: Facts) -> Iterator[Finding]:
    """Replicas and their leader."""
    if seen.replicas is None:
        return
    if (seen.wanted or seen.replicas) and not any(one.ready for one in seen.replicas):
        what = "no pod of netgang's is ready: gangs do not start, and gated pods stay where they are"
        fix = "kubectl -n NAMESPACE describe deployment netgang; kubectl logs deploy/netgang"
        yield error("not-running", what, fix)
    if seen.settings.leader_election is LeaderElection.ON:
        yield from _leader(seen.replicas, seen.lease)


def check_gated(seen: Facts) -> Iterator[Finding]:
    """Pods at the gate while no netgang is ready, or leads where one has to."""
    if not seen.gated or seen.replicas is None:
        return
    lease = seen.lease
    leads = lease is not None and lease.holder != "" and lease.renewed
    led = leads or seen.settings.leader_election is LeaderElection.OFF
    if not (led and any(one.ready for one in seen.replicas)):
        what = f"{len(seen.gated)} pods wait at netgang's gate, and no netgang acts: {some(seen.gated)}"
        fix = "bring netgang back; or netgang uninstall, which releases them (docs/start/install.md)"
        yield error("gates-stranded", what, fix)


def _leader(replicas: Sequence[Replica], lease: LeaseSeen | None) -> Iterator[Finding]:
    look = f"look at the logs of netgang's pods and at the Lease {LEASE_NAME}"
    if lease is None:
        yield error("leader-missing", f"there is no Lease {LEASE_NAME}: no replica has ever led", look)
        return
    if not lease.holder:
        yield error("leader-missing", f"no replica holds the Lease {LEASE_NAME}", look)
    elif not lease.renewed:
        what = f"{lease.holder} holds the Lease {LEASE_NAME} and does not renew it: no replica acts"
        yield error("leader-missing", what, look)
    labelled = [one.name for one in replicas if one.role == LEADER]
    if replicas and len(labelled) != 1:
        reached = "one that does not lead" if labelled else "none"
        what = f"{len(labelled)} pods have the label netgang.io/role=leader: kube-scheduler reaches {reached}"
        fix = f"it is set by the leader, which needs POD_NAME and the right to patch pods; {look}"
        yield error("leader-label", what, fix)


def check_versions(seen: Facts) -> Iterator[Finding]:
    """Kubernetes against what is supported, kube-scheduler against the API server."""
    if seen.kubernetes is None:
        return
    kubernetes, scheduler = seen.kubernetes, seen.scheduler_version
    server = minor(kubernetes)
    if server is not None and server < _OLDEST:
        what = f"Kubernetes {kubernetes} is older than 1.35, the oldest that netgang is tested with"
        yield warning("kubernetes-old", what, "update the cluster, or expect surprises")
    theirs = minor(scheduler or "")
    if server is not None and theirs is not None and theirs != server:
        what = f"the second kube-scheduler is {scheduler}, the API server {kubernetes}"
        fix = f"set its image to v{server[0]}.{server[1]}: it must not be newer, and filters as its own version does"
        yield (error if theirs > server else warning)("scheduler-version", what, fix)


def check_answered(seen: Facts) -> Iterator[Finding]:
    """What a running netgang said when asked by its address."""
    found = seen.answered
    if found is not None and found.problem is not None:
        fix = "kubectl -n netgang-system port-forward deploy/netgang 8889, then --url http://127.0.0.1:8889"
        yield error("service-unreachable", found.problem, fix)
    elif found is not None and not found.ready:
        what = f"{found.url} is not ready: {'; '.join(found.reasons) or 'it does not say why'}"
        yield error("service-not-ready", what, "wait, or look at its log: it must read the whole cluster first")


def check_policies(seen: Facts) -> Iterator[Finding]:
    """The policy that gates pods, where there is one: bound, and meaning the pods that the settings mean."""
    found, settings = seen.policies, seen.settings
    policy, binding = (of.get(GATE_POLICY) for of in (found.policies, found.bindings)) if found else (None, None)
    fix = "helm upgrade with gates.enabled: true"
    if (policy or binding) and (policy is None or spec_of(binding).get("policyName") != GATE_POLICY):
        what = f"of the policy {GATE_POLICY} and its binding one is missing: nothing is gated"
        yield error("gate-policy-missing", what, fix)
    if policy is None:
        return
    spec = spec_of(policy)
    if (failing := spec.get("failurePolicy", "Fail")) != "Ignore":
        what = f"failurePolicy of {GATE_POLICY} is {failing}: if it cannot be evaluated, no pod is created"
        yield error("gate-policy-closed", what, "set spec.failurePolicy: Ignore")
    ours = [str(one.get("expression")) for one in spec.get("variables") or () if one.get("name") == "ours"]
    meant = set(_QUOTED.findall("".join(ours[:1])))
    if meant != set(settings.scheduler_names):
        wanted = some(settings.scheduler_names)
        what = f"{GATE_POLICY} gates pods of {some(meant) or 'no scheduler'}, the settings mean {wanted}"
        yield error("gate-policy-scheduler", what, f"name the same schedulers in the policy's variable `ours`; {fix}")


def confining(policies: Mapping[str, Json], bindings: Mapping[str, Json], *, account: str) -> frozenset[str]:
    """Which of the policies refuse what `account` may not; both by name, as they are in the cluster."""

    def confines(name: str) -> bool:
        conditions, binding = spec_of(policies.get(name)).get("matchConditions") or (), spec_of(bindings.get(name))
        refuses = binding.get("policyName") == name and "Deny" in (binding.get("validationActions") or ())
        return refuses and any(f"'{account}'" in str(one.get("expression")) for one in conditions)

    return frozenset(filter(confines, CONFINING))


def check_confinement(seen: Facts) -> Iterator[Finding]:
    """One finding for all that is missing."""
    absent = [] if seen.confined is None else [name for name in CONFINING if name not in seen.confined]
    if absent:
        what = f"{seen.account} is not confined by {' and '.join(absent)}: its token could change any pod, and any job"
        what += " that netgang may resize or restart"
        fix = "helm upgrade, which confines the account netgang of its namespace (docs/reference/rights.md)"
        yield warning("unconfined", what, fix)


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
    """Whether each source answers."""
    for name, problem in (seen.sources or {}).items():
        if problem is not None:
            fix = "check its url in network.sources, and that netgang's pods reach it (docs/reference/network.md)"
            yield error("source-unreachable", f"source {name} does not answer: {problem}", fix)


def check_probe(seen: Facts) -> Iterator[Finding]:
    """Agents whose reports do not come, and agents whose packets are not answered: different doors are closed."""
    probe = seen.answered.probe if seen.answered is not None else None
    if probe is None:
        return
    of = probe.reporting + probe.silent.count + probe.unanswered.count
    pods = "look at the logs of these pods of DaemonSet netgang-probe: an agent says why its reports are not taken"
    passes = "let UDP 8862 pass between the agents: NetworkPolicies of their namespace, the nodes' firewall"
    for id_, amiss, trouble, fix in (
        ("probe-silent", probe.silent, "are silent", f"{pods}; does a NetworkPolicy block TCP 8891?"),
        ("probe-unanswered", probe.unanswered, "report, and no packet of theirs is answered", passes),
    ):
        if amiss.count:
            what = f"{amiss.count} of {of} agents {trouble}{since(amiss)}: {amiss_text(amiss)}"
            yield warning(id_, what, f"{fix} (docs/how-to/no-perfsonar.md)")


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
