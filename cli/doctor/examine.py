"""From what was seen to what is wrong: every check, on the facts it needs; facts that are not there are left out."""

from collections.abc import Iterable

from cli.doctor import cluster, running
from cli.doctor.facts import Facts
from cli.doctor.findings import Finding, error, in_order, note, some
from cli.doctor.policies import check_confinement, check_policies
from cli.doctor.scheduler import check_scheduler


def examine(seen: Facts) -> tuple[Finding, ...]:
    """All findings, the worst first; nothing for a system that is as it should be. Cost: O(pods + nodes).

    With settings that are refused, or not known, nothing is checked against them.
    """
    found: list[Finding] = []
    if seen.kubernetes is not None:
        own = seen.own_version
        found += running.check_versions(
            seen.running, kubernetes=seen.kubernetes, scheduler=seen.scheduler_version, own=own
        )
    if seen.skew_s is not None:
        found += running.check_clock(seen.skew_s)
    if seen.answered is not None:
        found += running.check_answered(seen.answered)
    found += [note("not-seen", what, "run the doctor with an administrator's kubeconfig") for what in seen.unseen]
    if seen.settings_problems:
        fix = "netgang check-config FILE says what is accepted"
        wrong = (f"settings of {seen.settings_from}: {problem}" for problem in seen.settings_problems)
        return in_order([*found, *(error("settings-invalid", what, fix) for what in wrong)])
    if not seen.settings_seen:
        what = "netgang's settings were not seen, and nothing was checked against them"
        return in_order([*found, note("settings-not-seen", what, "name their file: --config FILE")])
    return in_order([*found, *_configured(seen), *_objects(seen)])


def _configured(seen: Facts) -> Iterable[Finding]:
    settings = seen.settings
    if seen.scheduler is not None:
        yield from check_scheduler(seen.scheduler, settings, service=seen.service)
    elif seen.kubernetes is not None:
        what = "kube-scheduler's configuration was not seen, and not checked"
        yield note("scheduler-not-seen", what, "name its file: --scheduler-config FILE")
    if seen.policies is not None:
        yield from check_policies(seen.policies, settings)
    if seen.confined is not None:
        yield from check_confinement(seen.confined, account=seen.account)
    if seen.denied is not None:
        yield from running.check_rights(seen.denied, settings, account=seen.account)


def _objects(seen: Facts) -> Iterable[Finding]:
    settings = seen.settings
    if seen.running is not None:
        yield from running.check_running(seen.running, settings)
    if seen.nodes is not None:
        yield from cluster.check_zones(seen.nodes, settings)
        yield from cluster.check_foreign_pods(seen.foreign_pods, seen.nodes)
    if seen.sources is not None:
        yield from cluster.check_sources(seen.sources)
    if seen.endpoints is not None:
        yield from cluster.check_endpoints(seen.endpoints)
    if seen.pods is None:
        return
    yield from cluster.check_gangs(seen.pods, settings)
    if seen.pod_groups_served is not None:
        yield from cluster.check_pod_groups(seen.pods, served=seen.pod_groups_served, known=seen.pod_groups)
    if seen.budgets is not None:
        yield from cluster.check_budgets(seen.budgets, seen.pods)
    gated = [pod.key for pod in seen.pods if pod.gated and not pod.deleting]
    if gated and seen.running is not None and not running.acts(seen.running, settings):
        what = f"{len(gated)} pods wait at netgang's gate, and no netgang acts: {some(gated)}"
        fix = "bring netgang back; or netgang uninstall, which releases them (docs/start/install.md)"
        yield error("gates-stranded", what, fix)
