"""Check nodes, pods and measurements: zones, gangs and their marks, gates, budgets, endpoints, sources."""

from collections import defaultdict
from collections.abc import Iterator
from typing import Final

from cli.doctor.facts import NEVER, Budget, Facts, Finding, error, note, some, warning
from cli.rendering.network_summary import amiss_text, since
from scoring.ids import NO_ZONE
from scoring.model import GangSource

_ONLY: Final = "netgang.io/only"


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


def check_foreign_pods(seen: Facts) -> Iterator[Finding]:
    """Pods that netgang is not asked about, on nodes where it reserves room for gangs (docs/safety.md S13)."""
    taints = {taint.key for node in seen.nodes or () for taint in node.taints}
    if seen.foreign_pods and seen.nodes is not None and _ONLY not in taints:
        count = seen.foreign_pods
        what = f"{count} pods of other schedulers run here: room that is held for a gang is not kept from them"
        fix = f"where that matters, taint nodes {_ONLY}=true:NoSchedule, which gang pods tolerate and others do not"
        yield note("room-shared", what, fix)


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
    """Nodes that no measurement speaks for, or that could be several endpoints; of metrics that are measured here."""
    if seen.endpoints is None:
        return
    fix = "map them by network.mapping, network.rules or annotation netgang.io/endpoint (docs/reference/network.md)"
    used = {metric: counts for metric, counts in seen.endpoints.counts.items() if counts.get("mapped", 0)}
    for metric, counts in sorted((used or seen.endpoints.counts).items()):
        total = sum(counts.values())
        if (unmapped := counts.get("unmapped", 0)) and total:
            names = f": {some(seen.endpoints.unmapped)}" if seen.endpoints.unmapped else ""
            what = f"{unmapped} of {total} nodes have no endpoint for {metric}{names}"
            yield warning("nodes-unmapped", what, fix)
        if ambiguous := counts.get("ambiguous", 0):
            what = f"{ambiguous} of {total} nodes could be several endpoints of {metric}, and count as none"
            yield warning("nodes-ambiguous", what, fix)


def check_gangs(seen: Facts) -> Iterator[Finding]:
    """Members of gangs and pods at our gate. Cost: O(pods)."""
    live = [pod for pod in seen.pods or () if not pod.terminal and not pod.deleting]
    names: defaultdict[str, set[str]] = defaultdict(set)  # gang → schedulers that its members name
    invalid: dict[str, str] = {}  # gang → what is wrong with its marks
    for pod in live:
        if pod.group is not None and pod.group.source is not GangSource.NATIVE:
            names[pod.group.key].add(pod.scheduler_name)
            if pod.group.problem:
                invalid.setdefault(pod.group.key or pod.key, pod.group.problem)
    ours = set(seen.settings.scheduler_names)
    if mixed := [f"{gang} ({some(found)})" for gang, found in names.items() if len(found) > 1 and found & ours]:
        what = f"members of one gang name different schedulers: {some(mixed)}"
        yield error("gang-mixed", what, f"set one spec.schedulerName in all templates of the job: {some(ours)}")
    if invalid:
        gang = min(invalid)
        what = f"{len(invalid)} gangs can never start as they are marked; {gang}: {invalid[gang]}"
        yield error("gang-invalid", what, "change the labels or annotations in the job's templates as it says")
    if lost := [pod.key for pod in live if pod.gated and pod.scheduler_name not in ours]:
        what = f"pods of schedulers that are not netgang's wait at its gate, which no controller opens: {some(lost)}"
        fix = f"set schedulerName to one of {some(ours)}, or remove the gate netgang.io/gang from the template"
        yield error("gate-foreign", what, fix)
    if "default-scheduler" in ours:
        members = (pod for pod in live if pod.group is not None and pod.scheduler_name in ours)
        if eager := [pod.key for pod in members if pod.node is None and not pod.never_preempts]:
            what = f"gang pods may pre-empt, and would evict members of lighter gangs one by one: {some(eager)}"
            fix = "use a PriorityClass with `preemptionPolicy: Never` for jobs, or set it in the pods' spec"
            yield warning("gang-preempts", what, fix)


def check_pod_groups(seen: Facts) -> Iterator[Finding]:
    """The definition of PodGroup, and the objects that pods name. Cost: O(pods)."""
    groups = (pod.group for pod in seen.pods or () if pod.group is not None and not pod.terminal)
    named = {str(one.key) for one in groups if one.source is GangSource.POD_GROUP and not one.problem}
    if named and seen.pod_groups_served is False:
        what = f"pods name PodGroups ({some(named)}), and the cluster has no PodGroup of scheduling.x-k8s.io/v1alpha1"
        fix = "install the CustomResourceDefinition podgroups.scheduling.x-k8s.io, or mark the pods with the two labels"
        yield error("podgroup-crd-missing", what, fix)
    elif seen.pod_groups_served and seen.pod_groups is not None and (absent := named - seen.pod_groups):
        what = f"pods name PodGroups that do not exist: {some(absent)}; they wait until these do"
        yield warning("podgroup-missing", what, "create the PodGroup with its minMember, in the pods' namespace")


def check_budgets(seen: Facts) -> Iterator[Finding]:
    """Budgets in namespaces with gangs, under which no member can ever be evicted. Cost: O(budgets + pods)."""
    places = {pod.namespace for pod in seen.pods or () if pod.group is not None and not pod.terminal}
    budgets = [one for one in seen.budgets or () if one.namespace in places]
    if blocking := [f"{one.namespace}/{one.name}" for one in budgets if _blocks(one)]:
        what = f"budgets allow no eviction at all: {some(blocking)}"
        what += "; a gang that never became complete is not taken away"
        fix = "give the PodDisruptionBudget a maxUnavailable of at least 1, or take it from training jobs"
        yield warning("budget-blocks-repair", what, fix)


def _blocks(budget: Budget) -> bool:
    if not budget.expected or budget.allowed:
        return False
    if budget.max_unavailable is not None:
        return budget.max_unavailable in NEVER
    return budget.min_available in ("100%", budget.expected)
