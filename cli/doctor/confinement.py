"""Check the policies that confine netgang's account: there, bound, refusing, and for the account that it really is.

Why: an account that kustomize or an operator renamed is confined by nothing, and all goes on working.
"""

from collections.abc import Iterator, Mapping
from typing import Final

from cli.doctor.facts import Json
from cli.doctor.findings import Finding, warning

CONFINING: Final = ("netgang-jobs", "netgang-pods")
"""Names of the policies in manifests/base/confinement.yaml, and of their bindings"""


def confining(policies: Mapping[str, Json], bindings: Mapping[str, Json], *, account: str) -> frozenset[str]:
    """Which of the policies refuse what `account` may not; both by name, as they are in the cluster."""
    return frozenset(
        name
        for name in CONFINING
        if name in policies and name in bindings and _is_for(policies[name], account) and _refuses(bindings[name], name)
    )


def check_confinement(seen: frozenset[str], *, account: str) -> Iterator[Finding]:
    """One finding for all that is missing."""
    absent = [name for name in CONFINING if name not in seen]
    if absent:
        what = (
            f"{account} is not confined by {' and '.join(absent)}: its token could change any pod, and any job that "
            "netgang may resize or restart"
        )
        fix = "apply manifests/base/confinement.yaml, this account in its matchConditions (docs/reference/rights.md)"
        yield warning("unconfined", what, fix)


def _is_for(policy: Json, account: str) -> bool:
    conditions = (policy.get("spec") or {}).get("matchConditions") or ()
    return any(f"'{account}'" in str(one.get("expression")) for one in conditions)


def _refuses(binding: Json, name: str) -> bool:
    spec = binding.get("spec") or {}
    return spec.get("policyName") == name and "Deny" in (spec.get("validationActions") or ())
