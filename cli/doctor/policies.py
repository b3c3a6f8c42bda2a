"""Check the admission policies: there, bound, of this version, and meaning the pods that the settings mean.

Those that confine netgang's account must be for the account that it really is: one that kustomize or an operator
renamed is confined by nothing, and all goes on working.
"""

import re
from collections.abc import Iterator, Mapping
from typing import Final

from cli.doctor.facts import Json, Policies
from cli.doctor.findings import Finding, error, note, some, warning
from extender.convert.pod import gang_labels as groups
from extender.settings.settings import Settings
from scoring.model import GATE

GATE_POLICY: Final = "netgang-gate"
NAME_POLICY: Final = "netgang-scheduler-name"
_APPLY: Final = "kubectl apply -k manifests/components/{}"
_MARKS: Final = (groups.POD_GROUP_LABEL, groups.NAME_LABEL, groups.MIN_AVAILABLE_LABEL, *groups.NAME_ANNOTATIONS)
CONFINING: Final = ("netgang-jobs", "netgang-pods")
"""Names of the policies in manifests/base/confinement.yaml, and of their bindings"""
_QUOTED: Final = re.compile(r"'([^']*)'")


def check_policies(seen: Policies, settings: Settings) -> Iterator[Finding]:
    """Everything of both policies."""
    policies, bindings = seen.policies or {}, seen.bindings or {}
    if not seen.served:
        what = "the API server has no MutatingAdmissionPolicies: gangs cannot wait at a gate, and wait in the scheduler"
        fix = "Kubernetes 1.36, or 1.34 with the beta API on (docs/how-to/gates.md); or write the gate in templates"
        yield note("gates-unavailable", what, fix)
        return
    yield from _gate(policies.get(GATE_POLICY), bindings.get(GATE_POLICY), settings)
    yield from _name(policies.get(NAME_POLICY), bindings.get(NAME_POLICY), settings)


def _gate(policy: Json | None, binding: Json | None, settings: Settings) -> Iterator[Finding]:
    apply = _APPLY.format(_component(settings))
    if policy is None and binding is None:
        what = f"there is no admission policy {GATE_POLICY}: waiting gangs are tried by kube-scheduler over and over"
        yield warning("gate-policy-missing", what, apply)
        return
    if policy is None:
        yield error("gate-policy-missing", f"the binding {GATE_POLICY} has no policy: nothing is gated", apply)
        return
    yield from _bound(binding, GATE_POLICY, "gate-binding-missing", fix=apply)
    spec = policy.get("spec") or {}
    if spec.get("failurePolicy") != "Ignore":
        said = spec.get("failurePolicy", "Fail")
        what = f"failurePolicy of {GATE_POLICY} is {said}: if it cannot be evaluated, no pod is created"
        yield error("gate-policy-closed", what, "set spec.failurePolicy: Ignore")
    yield from _meant(spec, settings, fix=apply)
    yield from _current(spec, fix=apply)


def _meant(spec: Json, settings: Settings, *, fix: str) -> Iterator[Finding]:
    ours = [one for one in spec.get("variables") or () if one.get("name") == "ours"]
    said = set(_QUOTED.findall(str(ours[0].get("expression")))) if ours else set()
    said -= {"0"}
    wanted = {*settings.scheduler_names, *([settings.managed_resource] if settings.managed_resource else [])}
    if said != wanted:
        what = f"{GATE_POLICY} gates pods of {some(said) or 'no scheduler'}, the settings mean {some(wanted)}"
        yield error("gate-policy-scheduler", what, f"name the same schedulers in the policy's variable `ours`; {fix}")


def _current(spec: Json, *, fix: str) -> Iterator[Finding]:
    conditions = " ".join(str(one.get("expression")) for one in spec.get("matchConditions") or ())
    absent = [mark for mark in (*_MARKS, GATE) if f"'{mark}'" not in conditions]
    mutations = str(spec.get("mutations"))
    if absent or f"'{GATE}'" not in mutations or "schedulingGroup" not in conditions:
        what = f"{GATE_POLICY} is of another version of netgang" + (f": it does not know {absent[0]}" if absent else "")
        yield warning("gate-policy-old", what, fix)
    elif spec.get("reinvocationPolicy") != "IfNeeded":
        what = f"reinvocationPolicy of {GATE_POLICY} is not IfNeeded: a pod whose scheduler is named later is not gated"
        yield warning("gate-policy-old", what, "set spec.reinvocationPolicy: IfNeeded")


def _name(policy: Json | None, binding: Json | None, settings: Settings) -> Iterator[Finding]:
    if policy is None:
        return
    yield from _bound(binding, NAME_POLICY, "name-binding-missing", fix=_APPLY.format("scheduler-name-policy"))
    spec = policy.get("spec") or {}
    given = set(_QUOTED.findall(str(spec.get("mutations"))))
    given |= set(re.findall(r"schedulerName: '([^']*)'", str(spec.get("mutations"))))
    if not given & set(settings.scheduler_names):
        what = f"{NAME_POLICY} gives pods to another scheduler than {', '.join(settings.scheduler_names)}"
        yield error("name-policy-scheduler", what, "name one of scheduler_names in its mutation")


def _bound(binding: Json | None, policy: str, id_: str, *, fix: str) -> Iterator[Finding]:
    if binding is None or (binding.get("spec") or {}).get("policyName") != policy:
        yield error(id_, f"the policy {policy} has no binding of its name: it does nothing", fix)


def _component(settings: Settings) -> str:
    if settings.managed_resource is not None:
        return "gate-policy-managed-resource"
    return "gate-policy" if "default-scheduler" not in settings.scheduler_names else "gate-policy-default-scheduler"


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
