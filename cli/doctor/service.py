"""Check netgang's own pods: the leader, versions, rights, and what a running one says of itself."""

import re
from collections import defaultdict
from collections.abc import Iterator
from typing import Final

from cli.doctor.facts import Facts, Finding, Right, Running, error, some, warning
from extender.kube import calls
from extender.leadership.lease import LEADER
from extender.settings.leadership import LEASE_NAME, LeaderElection
from extender.settings.settings import Settings

_MINOR: Final = re.compile(r"^v?(\d+)\.(\d+)")
_VERSION: Final = re.compile(r":v?(\d+\.\d+\.\d+\S*)$")
_OLDEST: Final = (1, 35)


def minor(version: str) -> tuple[int, int] | None:
    """Major and minor of a version.

    >>> minor("v1.36.3-eks"), minor("latest")
    ((1, 36), None)
    """
    found = _MINOR.match(version)
    return (int(found[1]), int(found[2])) if found else None


def needed(settings: Settings) -> frozenset[Right]:
    """The rights that netgang needs, those in its own namespace among them."""
    leading = calls.LEADING if settings.leader_election is LeaderElection.ON else ()
    return calls.rules((*calls.CALLS, *calls.STARTED, *leading))


def check_rights(seen: Facts) -> Iterator[Finding]:
    """What netgang would be refused."""
    if lost := sorted(needed(seen.settings).intersection(seen.denied or ())):
        said = some(f"{verb} {resource}{'.' + group if group else ''}" for verb, group, resource in lost)
        fix = "helm upgrade, or apply the file of manifests/ again"
        yield error("rights-missing", f"{seen.account} may not: {said}", fix)


def check_running(seen: Facts) -> Iterator[Finding]:
    """Replicas and their leader."""
    found = seen.running
    if found is None:
        return
    if (found.wanted or found.replicas) and not any(one.ready for one in found.replicas):
        what = "no pod of netgang's is ready: gangs do not start, and gated pods stay where they are"
        fix = "kubectl -n NAMESPACE describe deployment netgang; kubectl logs deploy/netgang"
        yield error("not-running", what, fix)
    if seen.settings.leader_election is LeaderElection.ON:
        yield from _leader(found, LEASE_NAME)


def check_gated(seen: Facts) -> Iterator[Finding]:
    """Pods at the gate while no netgang is ready, or leads where one has to."""
    if not seen.gated or seen.running is None:
        return
    lease = seen.running.lease
    leads = lease is not None and lease.holder != "" and lease.renewed
    led = leads or seen.settings.leader_election is LeaderElection.OFF
    if not (led and any(one.ready for one in seen.running.replicas)):
        what = f"{len(seen.gated)} pods wait at netgang's gate, and no netgang acts: {some(seen.gated)}"
        fix = "bring netgang back; or netgang uninstall, which releases them (docs/start/install.md)"
        yield error("gates-stranded", what, fix)


def _leader(seen: Running, name: str) -> Iterator[Finding]:
    look = f"look at the logs of netgang's pods and at the Lease {name}"
    if seen.lease is None:
        yield error("leader-missing", f"there is no Lease {name}: no replica has ever led", look)
        return
    if not seen.lease.holder:
        yield error("leader-missing", f"no replica holds the Lease {name}", look)
    elif not seen.lease.renewed:
        what = f"{seen.lease.holder} holds the Lease {name} and does not renew it: no replica acts"
        yield error("leader-missing", what, look)
    labelled = [one.name for one in seen.replicas if one.role == LEADER]
    if seen.replicas and len(labelled) != 1:
        reached = "one that does not lead" if labelled else "none"
        what = f"{len(labelled)} pods have the label netgang.io/role=leader: kube-scheduler reaches {reached}"
        fix = f"it is set by the leader, which needs POD_NAME and the right to patch pods; {look}"
        yield error("leader-label", what, fix)


def check_versions(seen: Facts) -> Iterator[Finding]:
    """Kubernetes against what is supported, kube-scheduler against the API server, netgang against this program."""
    if seen.kubernetes is None:
        return
    kubernetes, scheduler, own = seen.kubernetes, seen.scheduler_version, seen.own_version
    server = minor(kubernetes)
    if server is not None and server < _OLDEST:
        what = f"Kubernetes {kubernetes} is older than 1.35, the oldest that netgang is tested with"
        yield warning("kubernetes-old", what, "update the cluster, or expect surprises")
    theirs = minor(scheduler or "")
    if server is not None and theirs is not None and theirs != server:
        what = f"the second kube-scheduler is {scheduler}, the API server {kubernetes}"
        fix = f"set its image to v{server[0]}.{server[1]}: it must not be newer, and filters as its own version does"
        yield (error if theirs > server else warning)("scheduler-version", what, fix)
    images: defaultdict[str, list[str]] = defaultdict(list)  # version of netgang → its pods
    for one in seen.running.replicas if seen.running is not None else ():
        if found := _VERSION.search(one.image):
            images[found[1]].append(one.name)
    if images and own and own not in images:
        what = f"netgang in the cluster is {next(iter(images))}, this program {own}: its checks are those of {own}"
        yield warning("version-skew", what, "use the doctor of the same version")


def check_answered(seen: Facts) -> Iterator[Finding]:
    """What a running netgang said when asked by its address."""
    found = seen.answered
    if found is not None and found.problem is not None:
        fix = "kubectl -n netgang-system port-forward deploy/netgang 8889, then --url http://127.0.0.1:8889"
        yield error("service-unreachable", found.problem, fix)
    elif found is not None and not found.ready:
        what = f"{found.url} is not ready: {'; '.join(found.reasons) or 'it does not say why'}"
        yield error("service-not-ready", what, "wait, or look at its log: it must read the whole cluster first")
    if found is not None and found.internal_errors:
        what = f"{found.url} caught {found.internal_errors} bugs of its own"
        yield warning("internal-errors", what, "report them with the log of the time")
