"""`netgang doctor`: what is wrong with an installation, and what to change.

Why: most of what can go wrong here goes wrong in silence: a timeout that is too short, a Lease that is shared, a policy
without its binding. Rule: `cluster_facts` and `probes` look, and change nothing; what they saw is `facts`; checks say
what follows from it, as plain functions from facts to findings; `examine` puts them together. A finding names the field
or object, and its fix. What could not be seen is no finding: it is left out, and said.
"""

from collections.abc import Iterator

from cli.doctor import network, service
from cli.doctor.facts import Facts, Finding, Severity, error, note
from cli.doctor.policies import check_confinement, check_policies
from cli.doctor.scheduler import check_scheduler

__all__ = ["Facts", "Finding", "Severity", "examine"]

_CHECKS = (service.check_versions, service.check_answered, network.check_zones)
_CHECKS_AGAINST_SETTINGS = (
    *(check_scheduler, check_policies, check_confinement, service.check_rights, service.check_running),
    *(service.check_gated, network.check_sources, network.check_probe, network.check_endpoints),
)


def examine(seen: Facts) -> tuple[Finding, ...]:
    """All findings, the worst first; with settings that are refused or not known, little is checked."""
    found = set(_settings(seen))
    found |= {note("not-seen", what, "run the doctor with an administrator's kubeconfig") for what in seen.unseen}
    judged = seen.settings_seen and not seen.settings_problems
    for check in (*_CHECKS, *(_CHECKS_AGAINST_SETTINGS if judged else ())):
        found.update(check(seen))
    ranks = list(Severity)
    return tuple(sorted(found, key=lambda one: (ranks.index(one.severity), one.id, one.what)))


def _settings(seen: Facts) -> Iterator[Finding]:
    for problem in seen.settings_problems:
        what = f"settings of {seen.settings_from}: {problem}"
        yield error("settings-invalid", what, "docs/reference/settings.md says what is accepted")
    if not seen.settings_seen:
        what = "netgang's settings were not seen, and nothing was checked against them"
        yield note("settings-not-seen", what, "name their file: --config FILE")
