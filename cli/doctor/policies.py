"""Check the admission policies: there, bound, and meaning the pods that the settings mean.

Those that confine netgang's account must be for the account that it really is: one that an operator renamed is confined
by nothing, and all goes on working.
"""

import re
from collections.abc import Iterator, Mapping
from typing import Final

from cli.doctor.facts import Facts, Finding, Json, error, note, some, spec_of, warning
from extender.settings.settings import Settings

GATE_POLICY: Final = "netgang-gate"
_GATES: Final = "helm upgrade with gates.enabled: true"
CONFINING: Final = ("netgang-jobs", "netgang-pod-status", "netgang-pods")
"""Policies of the chart, and their bindings."""
_QUOTED: Final = re.compile(r"'([^']*)'")


def check_policies(seen: Facts) -> Iterator[Finding]:
    """Everything of the policy that gates pods."""
    found, settings = seen.policies, seen.settings
    if found is None:
        return
    if not found.served:
        what = "the API server has no MutatingAdmissionPolicies: gangs cannot wait at a gate, and wait in the scheduler"
        fix = "Kubernetes 1.36, or 1.35 with the beta API on (docs/how-to/gates.md); or write the gate in templates"
        yield note("gates-unavailable", what, fix)
        return
    policy, binding = found.policies.get(GATE_POLICY), found.bindings.get(GATE_POLICY)
    if policy is None and binding is None:
        what = f"there is no admission policy {GATE_POLICY}: waiting gangs are tried by kube-scheduler over and over"
        yield warning("gate-policy-missing", what, _GATES)
        return
    if policy is None or spec_of(binding).get("policyName") != GATE_POLICY:
        what = f"of the policy {GATE_POLICY} and its binding one is missing: nothing is gated"
        yield error("gate-policy-missing", what, _GATES)
    if policy is not None:
        yield from _gate(spec_of(policy), settings, fix=_GATES)


def _gate(spec: Json, settings: Settings, *, fix: str) -> Iterator[Finding]:
    if spec.get("failurePolicy") != "Ignore":
        said = spec.get("failurePolicy", "Fail")
        what = f"failurePolicy of {GATE_POLICY} is {said}: if it cannot be evaluated, no pod is created"
        yield error("gate-policy-closed", what, "set spec.failurePolicy: Ignore")
    ours = [one for one in spec.get("variables") or () if one.get("name") == "ours"]
    said = set(_QUOTED.findall(str(ours[0].get("expression")) if ours else ""))
    if said != set(settings.scheduler_names):
        wanted = some(settings.scheduler_names)
        what = f"{GATE_POLICY} gates pods of {some(said) or 'no scheduler'}, the settings mean {wanted}"
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
