"""Checks, plain functions from facts to findings, which name the field or object, and its fix.

Why: most of what can go wrong here goes wrong in silence: a Lease that is shared, a policy without its binding.
kube-scheduler itself checks little of an extender entry: with a wrong address, a timeout below the hold limit or an
ignorable binder it starts well, and gangs fail in silence. Policies that confine netgang's account must be for the
account that it really is: one that an operator renamed is confined by nothing, and all goes on working.
"""

import re
from collections.abc import Iterable, Iterator
from contextlib import suppress
from enum import StrEnum
from functools import partial
from typing import Final
from urllib.parse import urlsplit

import msgspec

from cli.doctor.facts import CONFINING, Facts, Json, ServiceAddress, needed
from extender.leadership.lease_loop import LEADER
from extender.settings.settings import COMMIT_TIMEOUT_S, LEASE_NAME, Settings, longest_bind_s
from scoring import NO_ZONE
from scoring.explain import words
from scoring.model.gang import duration_s

DEFAULT: Final = "default-scheduler"
_VERBS: Final = {"filterVerb": "filter", "prioritizeVerb": "prioritize", "bindVerb": "bind"}
_EXTENDER_TIMEOUT_S: Final = 5.0  # kube-scheduler's own default
_FILTER_MOST_S: Final = 5.0
_LOOPBACK: Final = ("127.0.0.1", "localhost", "::1")


class Severity(StrEnum):
    """How bad a finding is; in this order they are shown."""

    ERROR = "error"  # Gangs do not start, or start broken, or the control plane suffers
    WARNING = "warning"  # It works, worse than it could, or will not for long
    NOTE = "note"  # A choice that one should know of; nothing is wrong


class Finding(msgspec.Struct, frozen=True):
    """One thing that is wrong. `id` is constant, `what` says where and what, `fix` what to change."""

    id: str
    what: str
    fix: str
    severity: Severity


error = partial(Finding, severity=Severity.ERROR)
warning = partial(Finding, severity=Severity.WARNING)


def _some(names: Iterable[str]) -> str:
    return words.some(sorted(names), 5)


def _minor(version: str) -> tuple[int, int] | None:
    numbers = re.match(r"v?(\d+)\.(\d+)", version)
    return (int(numbers[1]), int(numbers[2])) if numbers else None


def _rights(seen: Facts) -> Iterator[Finding]:
    if lost := sorted(needed(seen.settings).intersection(seen.denied or ())):
        rights = _some(f"{verb} {resource}{'.' + group if group else ''}" for verb, group, resource in lost)
        fix = "helm upgrade, or apply the file of manifests/ again"
        yield error("rights-missing", f"{seen.account} may not: {rights}", fix)
    if seen.confined is not None and (absent := [name for name in CONFINING if name not in seen.confined]):
        what = f"{seen.account} is not confined by {' and '.join(absent)}: its token could change more of pods, jobs or"
        what += " nodes than netgang needs"
        fix = "helm upgrade, which confines the account netgang of its namespace (docs/reference/objects.md#rights)"
        yield warning("unconfined", what, fix)


def _running(seen: Facts) -> Iterator[Finding]:
    replicas, lease = seen.replicas, seen.lease
    if replicas is None:
        return
    leads = lease is not None and lease.holder != "" and lease.renewed
    led = leads or not seen.settings.leader_election
    if seen.gated and not (led and any(replica.ready for replica in replicas)):
        what = f"{len(seen.gated)} pods wait at netgang's gate, and no netgang acts: {_some(seen.gated)}"
        fix = "bring netgang back; or netgang uninstall, which releases them (docs/start/install.md)"
        yield error("gates-stranded", what, fix)
    if (seen.wanted or replicas) and not any(replica.ready for replica in replicas):
        what = "no pod of netgang's is ready: gangs do not start, and gated pods stay where they are"
        fix = "kubectl -n NAMESPACE describe deployment netgang; kubectl logs deploy/netgang"
        yield error("not-running", what, fix)
    if not seen.settings.leader_election:
        return
    look = f"look at the logs of netgang's pods and at the Lease {LEASE_NAME}"
    if lease is None:
        yield error("leader-missing", f"there is no Lease {LEASE_NAME}: no replica has ever led", look)
        return
    if not lease.holder:
        yield error("leader-missing", f"no replica holds the Lease {LEASE_NAME}", look)
    elif not lease.renewed:
        what = f"{lease.holder} holds the Lease {LEASE_NAME} and does not renew it: no replica acts"
        yield error("leader-missing", what, look)
    labelled = [replica.name for replica in replicas if replica.role == LEADER]
    if replicas and len(labelled) != 1:
        reached = "one that does not lead" if labelled else "none"
        what = f"{len(labelled)} pods have the label netgang.io/role=leader: kube-scheduler reaches {reached}"
        fix = f"it is set by the leader, which needs POD_NAME and the right to patch pods; {look}"
        yield error("leader-label", what, fix)


def _versions(seen: Facts) -> Iterator[Finding]:
    server, theirs = _minor(seen.kubernetes or ""), _minor(seen.scheduler_version or "")
    if server is not None and theirs is not None and theirs != server:
        what = f"the second kube-scheduler is {seen.scheduler_version}, the API server {seen.kubernetes}"
        fix = f"set its image to v{server[0]}.{server[1]}: it must not be newer, and filters as its own version does"
        yield (error if theirs > server else warning)("scheduler-version", what, fix)


def _answered(seen: Facts) -> Iterator[Finding]:
    answer = seen.answered
    if answer is not None and answer.problem is not None:
        fix = "kubectl -n netgang-system port-forward deploy/netgang 8889, then --url http://127.0.0.1:8889"
        yield error("service-unreachable", answer.problem, fix)
    elif answer is not None and not answer.ready:
        what = f"{answer.url} is not ready: {'; '.join(answer.reasons) or 'it does not say why'}"
        yield error("service-not-ready", what, "wait, or look at its log: it must read the whole cluster first")


def _zones(seen: Facts) -> Iterator[Finding]:
    """The label that says in which zone a node is; control-plane machines that take no pods do not count."""
    label, nodes = seen.settings.zone_label, seen.nodes or ()
    workers = [node for node in nodes if not any(taint.key.endswith("/control-plane") for taint in node.taints)]
    without = [node.name for node in workers if node.zone == NO_ZONE]
    fix = f"kubectl label node NODE {label}=ZONE, or name your own label in the setting zone_label"
    if workers and len(without) == len(workers):
        yield warning("zone-labels", f"no node has the label {label}: the whole cluster counts as one zone", fix)
    elif without:
        what = f"{len(without)} of {len(workers)} nodes have no label {label}: {_some(without)}"
        yield warning("zone-labels", f"{what}; together they count as one more zone", fix)


def _probe(seen: Facts) -> Iterator[Finding]:
    probe = seen.answered.probe if seen.answered is not None else None
    if probe is None:
        return
    pods = "look at the logs of these pods of DaemonSet netgang-probe: an agent says why its reports are not taken"
    passes = "let UDP 8862 pass between the agents: NetworkPolicies of their namespace, the nodes' firewall"
    for id_, amiss, trouble, fix in (
        ("probe-silent", probe.silent, "are silent", f"{pods}; does a NetworkPolicy block TCP 8891?"),
        ("probe-unanswered", probe.unanswered, "report, and no packet of theirs is answered", passes),
    ):
        if amiss.count:
            what = f"{amiss.count} of {probe.known} agents {trouble}{amiss.where}"
            yield warning(id_, what, f"{fix} (docs/how-to/measurements.md#the-probe)")


def _network(seen: Facts) -> Iterator[Finding]:
    if not seen.settings.network.sources and not seen.settings.probe.enabled:
        yield Finding("network-unknown", words.NETWORK_UNKNOWN, "set probe.enabled, or name a source", Severity.NOTE)
    for name, problem in (seen.sources or {}).items():
        if problem is not None:
            fix = "check its url in network.sources, and that netgang's pods reach it (docs/reference/network.md)"
            yield error("source-unreachable", f"source {name} does not answer: {problem}", fix)
    if seen.endpoints is None or not seen.settings.network.sources:  # the probe measures nodes at their own names
        return
    fix = "`netgang network map` shows them and the rule to add to network.mapping (docs/reference/network.md)"
    used = {metric: counts for metric, counts in seen.endpoints.items() if counts.get("mapped", 0)}
    for metric, counts in sorted((used or seen.endpoints).items()):
        total = sum(counts.values())
        if without := total - counts.get("mapped", 0):
            several = f"; {counts['ambiguous']} of them could be several" if counts.get("ambiguous", 0) else ""
            what = f"{without} of {total} nodes have no endpoint for {metric}{several}"
            yield warning("nodes-unmapped", what, fix)


def _scheduler(seen: Facts) -> Iterator[Finding]:
    config, settings, service = seen.scheduler, seen.settings, seen.service
    if not settings.extender or config is None:
        return
    yield from _profiles(config, settings)
    if not (entries := [entry for entry in config.get("extenders") or () if any(entry.get(verb) for verb in _VERBS)]):
        fix = "copy `extenders` from scheduler-config/, which has an entry for each verb"
        yield error("extender-missing", "no extender is configured: netgang is never asked", fix)
        return
    if not (ours := [entry for entry in entries if _leads_to_us(entry, settings, service)]):
        prefixes = ", ".join(sorted({str(entry.get("urlPrefix")) for entry in entries}))
        where = f"{service.name}.{service.namespace}.svc:{service.port}" if service else f"127.0.0.1:{settings.port}"
        where = f"{'https' if settings.tls.cert_file is not None else 'http'}://{where}"
        yield error("extender-url", f"urlPrefix {prefixes} does not lead to netgang", f"set urlPrefix: {where}")
        ours = entries
    for verb, path in _VERBS.items():
        offered = [str(entry[verb]) for entry in ours if entry.get(verb)]
        if offered != [path]:
            state = f"is {', '.join(offered)}" if offered else "is missing"
            yield error("extender-verbs", f"{verb} {state}", f"set {verb}: {path} in exactly one entry of extenders")
    if any(entry.get("preemptVerb") for entry in ours):
        what = "preemptVerb is set: netgang does not answer it, and every preemption fails"
        yield error("extender-verbs", what, "remove preemptVerb")
    for entry in ours:
        yield from _entry(entry, settings)


def _profiles(config: Json, settings: Settings) -> Iterator[Finding]:
    profiles = config.get("profiles") or [{}]
    names = [str(profile.get("schedulerName") or DEFAULT) for profile in profiles]
    if absent := sorted(set(settings.scheduler_names) - set(names)):
        what = f"no profile is named {', '.join(absent)}, the profiles are {', '.join(names)}"
        fix = "write the same name in profiles[].schedulerName and in netgang's setting scheduler_names"
        yield error("profile-name", what, fix)
    for name, profile in zip(names, profiles, strict=True):
        plugins = profile.get("plugins") or {}
        disabled = (plugins.get("multiPoint") or {}).get("disabled") or ()
        off = any(plugin.get("name") in ("DefaultPreemption", "*") for plugin in disabled)
        if name in settings.scheduler_names and name != DEFAULT and not off:
            what = f"profile {name}: DefaultPreemption is on, and evicts members of lighter gangs one by one"
            fix = "set profiles[].plugins.multiPoint.disabled: [{name: DefaultPreemption}]"
            yield error("preemption-on", what, fix)
    shares = [section.get("percentageOfNodesToScore") for section in (config, *profiles)]
    if settings.sees_all_nodes and any(share != 100 for share in (shares[0], *filter(None, shares[1:]))):
        what = "percentageOfNodesToScore is not 100: planned nodes are sampled away, and that is taken for a refusal"
        yield error("nodes-sampled", what, "set percentageOfNodesToScore: 100")
    lease = config.get("leaderElection") or {}
    own = DEFAULT not in settings.scheduler_names
    if own and lease.get("leaderElect", True) and lease.get("resourceName", "kube-scheduler") == "kube-scheduler":
        what = "leaderElection.resourceName is the cluster's scheduler's: this one waits behind it permanently"
        fix = "set leaderElection.resourceName: netgang-scheduler and resourceNamespace: netgang-system"
        yield error("scheduler-lease", what, fix)


def _entry(entry: Json, settings: Settings) -> Iterator[Finding]:
    verbs = "+".join(path for verb, path in _VERBS.items() if entry.get(verb))
    timeout_s = _EXTENDER_TIMEOUT_S
    if isinstance(given := entry.get("httpTimeout"), str) and given[-1:].isalpha():  # without a unit it is none
        with suppress(ValueError):
            timeout_s = duration_s(given)
    bind_s = longest_bind_s(hold_s=settings.hold_limit_s)
    if entry.get("bindVerb") and timeout_s <= bind_s:
        what = (
            f"httpTimeout of the entry with bindVerb is {timeout_s:g} s, and a bind may take {bind_s:g} s "
            f"(hold_limit_s + {COMMIT_TIMEOUT_S:g} + slowest Binding): kube-scheduler gives up before the gang is bound"
        )
        fix = f"set httpTimeout: {settings.http_timeout_s:g}s there, or lower hold_limit_s"
        yield error("bind-timeout", what, fix)
    if (entry.get("filterVerb") or entry.get("prioritizeVerb")) and timeout_s > _FILTER_MOST_S:
        what = f"entry {verbs}: httpTimeout is {timeout_s:g} s, for which one unanswered call stops the whole scheduler"
        fix = "give filter and prioritize an entry of their own with httpTimeout: 2s, apart from bind"
        yield warning("filter-timeout", what, fix)
    if not entry.get("nodeCacheCapable"):
        what = f"entry {verbs}: without nodeCacheCapable whole Node objects are sent with every call"
        yield error("node-objects", what, "set nodeCacheCapable: true")
    if entry.get("ignorable"):
        what = f"entry {verbs}: ignorable lets a refused member pass, and start alone"
        yield error("extender-ignorable", what, "set ignorable: false")
    scheme, tls = urlsplit(str(entry.get("urlPrefix"))).scheme, entry.get("tlsConfig") or {}
    wanted = "https" if settings.tls.cert_file is not None else "http"
    if scheme != wanted or bool(entry.get("enableHTTPS")) != (wanted == "https"):
        what = f"the entry speaks {scheme}, netgang {wanted}"
        fix = f"write {wanted}:// in urlPrefix, enableHTTPS: {str(wanted == 'https').lower()} (docs/how-to/operate.md)"
        yield error("extender-scheme", what, fix)
    elif wanted == "https" and not (tls.get("caFile") or tls.get("caData")):
        what = "tlsConfig has no caFile: kube-scheduler then checks no certificate at all"
        fix = "name the authority of netgang's certificate in tlsConfig.caFile (docs/how-to/operate.md#tls)"
        yield error("extender-authority", what, fix)


def _leads_to_us(entry: Json, settings: Settings, service: ServiceAddress | None) -> bool:
    parts = urlsplit(str(entry.get("urlPrefix")))
    try:
        port = parts.port
    except ValueError:
        return False
    host = parts.hostname or ""
    if service is None:
        return port == settings.port and (host in _LOOPBACK or settings.host not in _LOOPBACK)
    inside = f"{service.name}.{service.namespace}"
    named = host in (inside, service.cluster_ip) or host == f"{inside}.svc" or host.startswith(f"{inside}.svc.")
    return named and port == service.port and parts.path in ("", "/")


_ALWAYS = (_versions, _answered, _zones)
_BY_SETTINGS = (_scheduler, _rights, _running, _probe, _network)


def examine(seen: Facts) -> tuple[Finding, ...]:
    """All findings, the worst first; with settings that are refused or not known, little is checked."""
    fix = "name the file (--config, --scheduler-config), or run the doctor with an administrator's kubeconfig"
    findings = {Finding("not-seen", what, fix, Severity.NOTE) for what in seen.unseen}
    for problem in seen.settings_problems:
        what = f"settings of {seen.settings_from}: {problem}"
        findings.add(error("settings-invalid", what, "docs/reference/settings.md says what is accepted"))
    judged = seen.settings_seen and not seen.settings_problems
    for check in (*_ALWAYS, *(_BY_SETTINGS if judged else ())):
        findings.update(check(seen))
    ranks = list(Severity)
    return tuple(sorted(findings, key=lambda finding: (ranks.index(finding.severity), finding.id, finding.what)))
