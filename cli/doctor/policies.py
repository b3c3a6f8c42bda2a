"""Check the admission policies: there, bound, of this version, and meaning the pods that the settings mean.

Those that confine netgang's account must be for the account that it really is: one that kustomize or an operator
renamed is confined by nothing, and all goes on working.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from cli.doctor.facts import Facts, Finding, Json, error, note, some, spec_of, warning
from extender.convert.pod import gang_labels as groups
from extender.settings.settings import Settings
from scoring.model import GATE

GATE_POLICY: Final = "netgang-gate"
NAME_POLICY: Final = "netgang-scheduler-name"
_APPLY: Final = "kubectl apply -k manifests/components/{}"
_MARKS: Final = (groups.POD_GROUP_LABEL, groups.NAME_LABEL, groups.MIN_AVAILABLE_LABEL, *groups.NAME_ANNOTATIONS)
CONFINING: Final = ("netgang-jobs", "netgang-pod-status", "netgang-pods")
"""Policies in manifests/base/confinement.yaml, and their bindings."""
_QUOTED: Final = re.compile(r"'([^']*)'")


def check_policies(seen: Facts) -> Iterator[Finding]:
    """Everything of both policies."""
    found, settings = seen.policies, seen.settings
    if found is None:
        return
    if not found.served:
        what = "the API server has no MutatingAdmissionPolicies: gangs cannot wait at a gate, and wait in the scheduler"
        fix = "Kubernetes 1.36, or 1.35 with the beta API on (docs/how-to/gates.md); or write the gate in templates"
        yield note("gates-unavailable", what, fix)
        return
    yield from _gate(found.policies.get(GATE_POLICY), found.bindings.get(GATE_POLICY), settings)
    yield from _name(found.policies.get(NAME_POLICY), found.bindings.get(NAME_POLICY), settings)


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
    spec = spec_of(policy)
    if spec.get("failurePolicy") != "Ignore":
        said = spec.get("failurePolicy", "Fail")
        what = f"failurePolicy of {GATE_POLICY} is {said}: if it cannot be evaluated, no pod is created"
        yield error("gate-policy-closed", what, "set spec.failurePolicy: Ignore")
    yield from _meant(spec, settings, fix=apply)
    yield from _current(spec, marks=_MARKS if settings.extender else (), fix=apply)


def _meant(spec: Json, settings: Settings, *, fix: str) -> Iterator[Finding]:
    ours = [one for one in spec.get("variables") or () if one.get("name") == "ours"]
    said = set(_QUOTED.findall(str(ours[0].get("expression")) if ours else ""))
    wanted = set(settings.scheduler_names)
    if said != wanted:
        what = f"{GATE_POLICY} gates pods of {some(said) or 'no scheduler'}, the settings mean {some(wanted)}"
        yield error("gate-policy-scheduler", what, f"name the same schedulers in the policy's variable `ours`; {fix}")


def _current(spec: Json, *, marks: Sequence[str], fix: str) -> Iterator[Finding]:
    conditions = " ".join(str(one.get("expression")) for one in spec.get("matchConditions") or ())
    absent = [mark for mark in (*marks, GATE) if f"'{mark}'" not in conditions]
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
    spec = spec_of(policy)
    given = set(_QUOTED.findall(str(spec.get("mutations"))))
    given |= set(re.findall(r"schedulerName: '([^']*)'", str(spec.get("mutations"))))
    if not given & set(settings.scheduler_names):
        what = f"{NAME_POLICY} gives pods to another scheduler than {', '.join(settings.scheduler_names)}"
        yield error("name-policy-scheduler", what, "name one of scheduler_names in its mutation")


def _bound(binding: Json | None, policy: str, id_: str, *, fix: str) -> Iterator[Finding]:
    if spec_of(binding).get("policyName") != policy:
        yield error(id_, f"the policy {policy} has no binding of its name: it does nothing", fix)


def _component(settings: Settings) -> str:
    return "gate-policy" if settings.extender else "gate-policy-native"


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
        fix = "apply manifests/base/confinement.yaml, this account in its matchConditions (docs/reference/rights.md)"
        yield warning("unconfined", what, fix)
