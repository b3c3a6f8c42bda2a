"""`netgang doctor`: what is wrong with an installation, and what to change.

Why: most of what can go wrong here goes wrong in silence: a timeout that is too short, a Lease that is shared, a policy
without its binding. Rule: `cluster_facts` looks, and changes nothing; what it saw is `facts`; checks say
what follows from it, as plain functions from facts to findings; `examine` puts them together. A finding names the field
or object, and its fix. What could not be seen is no finding: it is left out, and said.
"""

from cli.doctor import installation as here
from cli.doctor.facts import Facts, Finding, Severity, error, note
from cli.doctor.scheduler import check_scheduler

__all__ = ["Facts", "Finding", "Severity", "examine"]

_CHECKS = (here.check_versions, here.check_answered, here.check_zones)
_CHECKS_AGAINST_SETTINGS = (
    *(check_scheduler, here.check_policies, here.check_confinement, here.check_rights, here.check_running),
    *(here.check_gated, here.check_sources, here.check_probe, here.check_endpoints),
)
_UNSEEN = "name the file (--config, --scheduler-config), or run the doctor with an administrator's kubeconfig"


def examine(seen: Facts) -> tuple[Finding, ...]:
    """All findings, the worst first; with settings that are refused or not known, little is checked."""
    found = {note("not-seen", what, _UNSEEN) for what in seen.unseen}
    for problem in seen.settings_problems:
        what = f"settings of {seen.settings_from}: {problem}"
        found.add(error("settings-invalid", what, "docs/reference/settings.md says what is accepted"))
    judged = seen.settings_seen and not seen.settings_problems
    for check in (*_CHECKS, *(_CHECKS_AGAINST_SETTINGS if judged else ())):
        found.update(check(seen))
    ranks = list(Severity)
    return tuple(sorted(found, key=lambda one: (ranks.index(one.severity), one.id, one.what)))
