"""The admission policies say what code and settings say; those that confine netgang's account, what the code writes."""

import re
from collections.abc import Sequence

import pytest

from extender.controllers.removal.suspensions import MARK
from extender.convert import NUDGE_ANNOTATION
from extender.convert import labels as groups
from extender.kube import calls
from extender.kube.own_objects import ROLE_LABEL
from extender.notes import NoteKind
from extender.settings.settings import Settings
from lab.testbed.processes.schedulers import load_configuration
from scoring.model import GATE
from scoring.model.policy import KNOWN_OPTIONS
from scoring.queue.statuses import CONDITION
from tests.contract.manifests.rendered import ROOT, Object, gates, objects_of, of_kind

NAMES = ("netgang-gate", "netgang-scheduler-name")


def policy(name: str, objects: Sequence[Object] = ()) -> Object:
    return of_kind(objects or gates(), "MutatingAdmissionPolicy")[name]["spec"]


@pytest.fixture(params=NAMES)
def spec(request: pytest.FixtureRequest) -> Object:
    return policy(request.param)


def _conditions(spec: Object) -> dict[str, str]:
    return {one["name"]: one["expression"] for one in spec["matchConditions"]}


def _quoted(text: str) -> set[str]:
    return set(re.findall(r"'([^']+)'", text))


def test_a_policy_knows_the_marks_that_the_code_knows(spec: Object) -> None:
    in_labels, in_annotations = _conditions(spec)["gang-member"].split("||")
    assert "object.metadata.labels" in in_labels
    assert "object.metadata.annotations" in in_annotations
    listed = [value for name, value in vars(groups).items() if name.endswith(("_LABEL", "_ANNOTATIONS"))]
    known = {key for value in listed for key in ((value,) if isinstance(value, str) else value)}
    assert len(known) >= 7
    assert _quoted(in_labels) == {key for key in known if groups.group_of("team", {key: "x"}, {}) is not None}
    assert _quoted(in_annotations) == {key for key in known if groups.group_of("team", {}, {key: "x"}) is not None}


@pytest.mark.parametrize("mode", ["second-scheduler", "native"])
def test_the_warnings_know_what_the_code_reads(mode: str) -> None:
    """Whatever netgang reads or writes is no mistake, and what marks a gang is asked for; they are on as installed."""
    known = _warnings("netgang-warnings", mode)
    marks = {groups.POD_GROUP_LABEL, groups.NAME_LABEL, groups.MIN_AVAILABLE_LABEL}
    assert marks <= known["labels"]
    assert marks <= known["elsewhere"]
    read = {f"netgang.io/{name}" for name in (*KNOWN_OPTIONS, "role", "index", "fixed")}
    assert read | {NUDGE_ANNOTATION, *NoteKind} <= known["annotations"]
    jobs = _warnings("netgang-job-warnings", mode)
    assert jobs["marks"] == marks
    of_jobs = {f"netgang.io/{name}" for name in ("min-workers", "max-workers", "scaling", "fixed", "expected-duration")}
    assert jobs["options"] == read - of_jobs - set(NoteKind)
    ours = {"default-scheduler"} if mode == "native" else set(Settings().scheduler_names)
    assert known["ours"] == jobs["ours"] == ours


def _warnings(name: str, mode: str) -> dict[str, set[str]]:
    """Variable of a policy → the texts in it; it warns and does nothing else."""
    policy, binding = (
        of_kind(objects_of(mode), f"ValidatingAdmissionPolicy{end}")[name]["spec"] for end in ("", "Binding")
    )
    assert (policy["failurePolicy"], binding["validationActions"]) == ("Ignore", ["Warn"])
    return {one["name"]: _quoted(one["expression"]) for one in policy["variables"]}


def test_policies_look_at_new_pods_only_and_leave_the_control_plane_alone(spec: Object) -> None:
    (rule,) = spec["matchConstraints"]["resourceRules"]
    assert rule == {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["pods"]}
    (left_out,) = spec["matchConstraints"]["namespaceSelector"]["matchExpressions"]
    assert (left_out["key"], left_out["operator"]) == ("kubernetes.io/metadata.name", "NotIn")
    assert left_out["values"] == ["kube-system", "netgang-system"]


def test_the_gate_is_decided_again_when_the_scheduler_changes() -> None:
    """The name is no matchCondition: the API server asks a policy again only if those held at first."""
    spec = policy("netgang-gate")
    assert (spec["failurePolicy"], spec["reinvocationPolicy"]) == ("Ignore", "IfNeeded")
    assert not [text for text in _conditions(spec).values() if "schedulerName" in text]
    (mutation,) = spec["mutations"]
    assert mutation["patchType"] == "ApplyConfiguration"
    assert _quoted(mutation["applyConfiguration"]["expression"]) == {GATE}
    assert _quoted(_conditions(spec)["not-gated-yet"]) == {GATE}


def test_the_policies_name_the_installed_scheduler() -> None:
    spec = policy("netgang-scheduler-name")
    assert spec["matchConstraints"]["namespaceSelector"]["matchLabels"] == {"netgang.io/schedule": "true"}
    (mutation,), (variable,) = spec["mutations"], policy("netgang-gate")["variables"]
    named = _quoted(mutation["applyConfiguration"]["expression"])
    assert named == _quoted(variable["expression"]) == set(Settings().scheduler_names)
    profiles = load_configuration(ROOT / "scheduler-config/second-scheduler.yaml")["profiles"]
    assert named <= {profile["schedulerName"] for profile in profiles}


def test_in_mode_native_pods_of_kubernetes_own_gangs_get_the_gate_and_no_others() -> None:
    native = dict(policy("netgang-gate", objects_of("native")))
    assert _conditions(native)["gang-member"] == "has(object.spec.schedulingGroup)"
    assert _conditions(native).keys() == _conditions(policy("netgang-gate")).keys() - {"not-in-a-native-group"}
    assert _quoted(native["variables"][0]["expression"]) == {"default-scheduler"}
    assert native["mutations"] == policy("netgang-gate")["mutations"]


OBJECTS = objects_of("second-scheduler")
CONFINING = ("netgang-pods", "netgang-pod-status", "netgang-jobs")
POLICIES: dict[str, Object] = {name: of_kind(OBJECTS, "ValidatingAdmissionPolicy")[name]["spec"] for name in CONFINING}


def quoted(policy: Object) -> set[str]:
    parts = [*policy["variables"], *policy["validations"]]
    return {text for part in parts for text in re.findall(r"'([^']*)'", part["expression"])}


@pytest.mark.parametrize("name", POLICIES)
def test_a_policy_is_for_the_account_of_the_roles(name: str) -> None:
    account = of_kind(OBJECTS, "ServiceAccount")["netgang"]["metadata"]
    username = f"system:serviceaccount:{account['namespace']}:{account['name']}"
    first = POLICIES[name]["matchConditions"][0]
    assert first == {"name": "netgang", "expression": f"request.userInfo.username == '{username}'"}


@pytest.mark.parametrize("name", POLICIES)
def test_a_policy_refuses_and_is_bound_everywhere(name: str) -> None:
    assert POLICIES[name]["failurePolicy"] == "Fail"
    bound = of_kind(OBJECTS, "ValidatingAdmissionPolicyBinding")[name]["spec"]
    assert bound == {"policyName": name, "validationActions": ["Deny"]}


def test_the_policies_know_the_names_that_the_code_writes() -> None:
    assert {GATE, ROLE_LABEL, "netgang.io/"} <= quoted(POLICIES["netgang-pods"])
    assert {MARK.partition("=")[0], "netgang.io/"} <= quoted(POLICIES["netgang-jobs"])
    assert CONDITION in quoted(POLICIES["netgang-pod-status"])
    ours = (*NoteKind, NUDGE_ANNOTATION)
    assert all(name.startswith("netgang.io/") for name in ours)
    assert all(text.startswith(("netgang.io/", "netgang-system")) for text in quoted(POLICIES["netgang-pods"])
               if "netgang" in text)  # fmt: skip


def test_every_group_whose_jobs_are_changed_has_its_rule() -> None:
    """Groups with a `patch` on a whole object; the rest of the kinds may change spec.replicas alone."""
    changed = {group for verb, group, resource in calls.CALLS if verb == "patch" and "/" not in resource} - {""}
    assert changed <= quoted(POLICIES["netgang-jobs"])
