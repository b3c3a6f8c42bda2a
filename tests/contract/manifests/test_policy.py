"""The admission policies say what code and settings say; those that confine netgang's account, what the code writes."""

import re

import pytest

from extender.controllers.removal.suspensions import MARK
from extender.convert import NUDGE_ANNOTATION
from extender.convert import pod as groups
from extender.kube import calls
from extender.kube.own_objects import ROLE_LABEL
from extender.settings.settings import Settings
from extender.signed_notes import NoteKind
from lab.testbed.processes.schedulers import load_configuration
from scoring.model import GATE
from scoring.model.policy import KNOWN_OPTIONS
from scoring.network.node_links import DEGRADED_TAINT, NETWORK_DEGRADED
from scoring.queue.states import CONDITION
from tests.contract.manifests.rendered import MODES, ROOT, Object, gates, objects_of, of_kind

GATING: dict[str, Object] = {name: one["spec"] for name, one in of_kind(gates(), "MutatingAdmissionPolicy").items()}
SECOND = objects_of("second-scheduler")
CONFINING: dict[str, Object] = {
    name: of_kind(SECOND, "ValidatingAdmissionPolicy")[name]["spec"]
    for name in ("netgang-pods", "netgang-pod-status", "netgang-nodes", "netgang-jobs")
}


def conditions(spec: Object) -> dict[str, str]:
    return {one["name"]: one["expression"] for one in spec["matchConditions"]}


def quoted(*parts: str | Object) -> set[str]:
    expressions = [one if isinstance(one, str) else one["expression"] for one in parts]
    return {text for one in expressions for text in re.findall(r"'([^']+)'", one)}


@pytest.mark.parametrize("name", ["netgang-gate", "netgang-scheduler-name"])
def test_a_policy_knows_the_code_s_marks_and_looks_at_new_pods_of_tenants_alone(name: str) -> None:
    spec = GATING[name]
    in_labels, in_annotations = conditions(spec)["gang-member"].split("||")
    assert ("object.metadata.labels" in in_labels, "object.metadata.annotations" in in_annotations) == (True, True)
    listed = [value for name, value in vars(groups).items() if name.endswith(("_LABEL", "_ANNOTATIONS"))]
    known = {key for value in listed for key in ((value,) if isinstance(value, str) else value)}
    assert len(known) >= 7
    assert quoted(in_labels) == {key for key in known if groups.group_of("team", {key: "x"}, {}) is not None}
    assert quoted(in_annotations) == {key for key in known if groups.group_of("team", {}, {key: "x"}) is not None}
    (rule,) = spec["matchConstraints"]["resourceRules"]
    assert rule == {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["pods"]}
    (left_out,) = spec["matchConstraints"]["namespaceSelector"]["matchExpressions"]
    own = ["kube-system", "netgang-system"]
    assert left_out == {"key": "kubernetes.io/metadata.name", "operator": "NotIn", "values": own}


@pytest.mark.parametrize("mode", MODES)
def test_the_warnings_know_what_the_code_reads(mode: str) -> None:
    known, jobs = warnings("netgang-warnings", mode), warnings("netgang-job-warnings", mode)
    marks = {groups.POD_GROUP_LABEL, groups.NAME_LABEL, groups.MIN_AVAILABLE_LABEL}
    assert marks <= known["labels"] & known["elsewhere"]
    read = {f"netgang.io/{name}" for name in (*KNOWN_OPTIONS, "role", "index", "fixed")}
    assert read | {NUDGE_ANNOTATION, *NoteKind} <= known["annotations"]
    of_jobs = {f"netgang.io/{name}" for name in ("min-workers", "max-workers", "scaling", "fixed", "expected-duration")}
    named = {*groups.NAME_ANNOTATIONS, *groups.MIN_MEMBER_ANNOTATIONS}
    assert (jobs["marks"], jobs["options"]) == (marks, read - of_jobs - set(NoteKind) | named)
    ours = {"default-scheduler"} if mode == "native" else set(Settings().scheduler_names)
    assert known["ours"] == jobs["ours"] == ours


def warnings(name: str, mode: str) -> dict[str, set[str]]:
    """Variable of a policy → the texts in it; it warns and does nothing else."""
    kinds = ("ValidatingAdmissionPolicy", "ValidatingAdmissionPolicyBinding")
    policy, binding = (of_kind(objects_of(mode), kind)[name]["spec"] for kind in kinds)
    assert (policy["failurePolicy"], binding["validationActions"]) == ("Ignore", ["Warn"])
    return {one["name"]: quoted(one) for one in policy["variables"]}


def test_the_gate_is_decided_again_when_the_scheduler_changes() -> None:
    """The name is no matchCondition: the API server asks a policy again only if those held at first."""
    spec = GATING["netgang-gate"]
    assert (spec["failurePolicy"], spec["reinvocationPolicy"]) == ("Ignore", "IfNeeded")
    assert not [text for text in conditions(spec).values() if "schedulerName" in text]
    (mutation,) = spec["mutations"]
    assert mutation["patchType"] == "ApplyConfiguration"
    assert quoted(mutation["applyConfiguration"]) == quoted(conditions(spec)["not-gated-yet"]) == {GATE}


def test_the_policies_name_the_installed_scheduler() -> None:
    spec = GATING["netgang-scheduler-name"]
    assert spec["matchConstraints"]["namespaceSelector"]["matchLabels"] == {"netgang.io/schedule": "true"}
    (mutation,), (variable,) = spec["mutations"], GATING["netgang-gate"]["variables"]
    named = quoted(mutation["applyConfiguration"])
    assert named == quoted(variable) == set(Settings().scheduler_names)
    profiles = load_configuration(ROOT / "scheduler-config/second-scheduler.yaml")["profiles"]
    assert named <= {profile["schedulerName"] for profile in profiles}


def test_in_mode_native_pods_of_kubernetes_own_gangs_get_the_gate_and_no_others() -> None:
    own = GATING["netgang-gate"]
    native = of_kind(objects_of("native"), "MutatingAdmissionPolicy")["netgang-gate"]["spec"]
    assert conditions(native)["gang-member"] == "has(object.spec.schedulingGroup)"
    assert conditions(native).keys() == conditions(own).keys() - {"not-in-a-native-group"}
    assert quoted(native["variables"][0]) == {"default-scheduler"}
    assert native["mutations"] == own["mutations"]


@pytest.mark.parametrize("name", CONFINING)
def test_a_policy_refuses_what_the_account_of_the_roles_asks_and_is_bound_everywhere(name: str) -> None:
    account = of_kind(SECOND, "ServiceAccount")["netgang"]["metadata"]
    username = f"system:serviceaccount:{account['namespace']}:{account['name']}"
    allowed = " && ".join(f"({rule['expression']})" for rule in CONFINING[name]["validations"])
    more = f" && !({allowed})" if name == "netgang-pods" else ""  # what is allowed is no match
    first = {"name": "netgang", "expression": f"request.userInfo.username == '{username}'{more}"}
    assert (CONFINING[name]["matchConditions"][0], CONFINING[name]["failurePolicy"]) == (first, "Fail")
    bound = of_kind(SECOND, "ValidatingAdmissionPolicyBinding")[name]["spec"]
    assert bound == {"policyName": name, "validationActions": ["Deny"]}


def test_the_policies_know_the_names_that_the_code_writes() -> None:
    """And every group with a `patch` on a whole object; the rest of the kinds may change spec.replicas alone."""
    pods, status, nodes, jobs = (quoted(*one.get("variables", ()), *one["validations"]) for one in CONFINING.values())
    assert {GATE, ROLE_LABEL, "netgang.io/"} <= pods
    assert all(text.startswith(("netgang.io/", "netgang-system")) for text in pods if "netgang" in text)
    assert {MARK.partition("=")[0], "netgang.io/"} <= jobs
    assert (CONDITION in status, {NETWORK_DEGRADED, DEGRADED_TAINT} <= nodes) == (True, True)
    assert all(name.startswith("netgang.io/") for name in (*NoteKind, NUDGE_ANNOTATION))
    patched = {group for verb, group, resource in calls.CALLS if verb == "patch" and "/" not in resource}
    assert patched - {""} <= jobs
