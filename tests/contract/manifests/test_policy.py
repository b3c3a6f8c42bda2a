"""The admission policies and the flow schema of manifests/components say what the code and settings say."""

import math
import re
import subprocess
from collections.abc import Sequence
from pathlib import Path

import pytest
import yaml

from extender.convert import NUDGE_ANNOTATION
from extender.convert.pod import gang_labels as groups
from extender.kube.http.transport import TransportLimits
from extender.notes import NoteKind
from extender.settings.settings import Settings
from scoring.model import GATE
from scoring.model.policy import KNOWN_OPTIONS
from tests.contract.manifests.rendered_manifests import (
    MANIFESTS,
    ROOT,
    Object,
    kustomized,
    rendered,
    rendered_overlay,
    with_components,
)
from tests.liveness import LIVENESS_S

COMPONENTS = MANIFESTS / "components"
POLICIES = ("gate-policy", "scheduler-name-policy")
VARIANTS = {  # gate policy → the settings it must agree with
    "gate-policy": MANIFESTS / "base/settings.yaml",
    "gate-policy-native": MANIFESTS / "overlays/native/settings.yaml",
}
TOGETHER = ("gate-policy", "scheduler-name-policy", "flow-schema")


def only(objects: Sequence[Object], kind: str) -> Object:
    (found,) = (one for one in objects if one["kind"] == kind)
    return found


def _written(component: str) -> list[Object]:
    kustomization = yaml.safe_load((COMPONENTS / component / "kustomization.yaml").read_text())
    texts = [(COMPONENTS / component / name).read_text() for name in kustomization["resources"]]
    return [one for text in texts for one in yaml.safe_load_all(text) if one]


@pytest.fixture(params=POLICIES)
def spec(request: pytest.FixtureRequest) -> Object:
    return only(_written(request.param), "MutatingAdmissionPolicy")["spec"]


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


def test_the_warnings_know_what_the_code_reads() -> None:
    """Whatever netgang reads or writes is no mistake, and what marks a gang is asked for."""
    known = _warnings("netgang-warnings")
    marks = {groups.POD_GROUP_LABEL, groups.NAME_LABEL, groups.MIN_AVAILABLE_LABEL}
    assert marks <= known["labels"]
    assert marks <= known["elsewhere"]
    read = {f"netgang.io/{name}" for name in (*KNOWN_OPTIONS, "role", "index", "fixed")}
    assert read | {NUDGE_ANNOTATION, *NoteKind} <= known["annotations"]
    jobs = _warnings("netgang-job-warnings")
    assert jobs["marks"] == marks
    of_jobs = {f"netgang.io/{name}" for name in ("min-workers", "max-workers", "scaling", "fixed", "expected-duration")}
    assert jobs["options"] == read - of_jobs - set(NoteKind)
    assert known["ours"] == jobs["ours"] == set(Settings().scheduler_names)


def _warnings(name: str) -> dict[str, set[str]]:
    """variable of a policy of the component → the texts in it; it warns and does nothing else."""
    policy, binding = (one["spec"] for one in _written("warnings") if one["metadata"]["name"] == name)
    assert (policy["failurePolicy"], binding["validationActions"]) == ("Ignore", ["Warn"])
    return {one["name"]: _quoted(one["expression"]) for one in policy["variables"]}


def test_both_policies_mean_the_same_pods() -> None:
    gate, name = (_conditions(only(_written(one), "MutatingAdmissionPolicy")["spec"]) for one in POLICIES)
    same = {"gang-member", "not-in-a-native-group", "not-placed"}
    assert {key: gate[key] for key in same} == {key: name[key] for key in same}
    assert gate.keys() - same == {"not-gated-yet"}
    assert name.keys() - same == {"nobody-chose-a-scheduler"}


def test_policies_look_at_new_pods_only(spec: Object) -> None:
    (rule,) = spec["matchConstraints"]["resourceRules"]
    assert rule == {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["pods"]}


def test_policies_leave_the_control_plane_alone(spec: Object) -> None:
    own = yaml.safe_load((MANIFESTS / "base/namespace.yaml").read_text())["metadata"]["name"]
    (rule,) = spec["matchConstraints"]["namespaceSelector"]["matchExpressions"]
    assert (rule["key"], rule["operator"]) == ("kubernetes.io/metadata.name", "NotIn")
    assert sorted(rule["values"]) == sorted(["kube-system", own])


@pytest.mark.parametrize("component", POLICIES)
def test_bindings_are_of_their_policies(component: str) -> None:
    objects = _written(component)
    policy, binding = (only(objects, f"MutatingAdmissionPolicy{end}") for end in ("", "Binding"))
    assert binding["spec"] == {"policyName": policy["metadata"]["name"]}
    assert {one["apiVersion"] for one in objects} == {"admissionregistration.k8s.io/v1"}


def test_the_gate_is_decided_again_when_the_scheduler_changes() -> None:
    """The name is no matchCondition: the API server asks a policy again only if those held at first."""
    spec = only(_written("gate-policy"), "MutatingAdmissionPolicy")["spec"]
    assert (spec["failurePolicy"], spec["reinvocationPolicy"]) == ("Ignore", "IfNeeded")
    assert not [text for text in _conditions(spec).values() if "schedulerName" in text]
    (mutation,) = spec["mutations"]
    assert mutation["patchType"] == "ApplyConfiguration"
    assert _quoted(mutation["applyConfiguration"]["expression"]) == {GATE}
    assert _quoted(_conditions(spec)["not-gated-yet"]) == {GATE}


def test_the_name_policy_opts_in_and_names_the_installed_scheduler() -> None:
    spec = only(_written("scheduler-name-policy"), "MutatingAdmissionPolicy")["spec"]
    assert spec["matchConstraints"]["namespaceSelector"]["matchLabels"] == {"netgang.io/schedule": "true"}
    (mutation,) = spec["mutations"]
    (name,) = Settings.load(VARIANTS["gate-policy"]).scheduler_names
    assert _quoted(mutation["applyConfiguration"]["expression"]) == {name}
    profiles = yaml.safe_load((ROOT / "scheduler-config/second-scheduler.yaml").read_text())["profiles"]
    assert name in {profile["schedulerName"] for profile in profiles}


@pytest.mark.parametrize("component", VARIANTS)
def test_a_gate_policy_means_the_pods_that_the_settings_mean(component: str) -> None:
    settings = Settings.load(VARIANTS[component])
    objects = _written(component) if component == "gate-policy" else rendered(COMPONENTS / component)
    spec = dict(only(objects, "MutatingAdmissionPolicy")["spec"])
    (variable,) = spec.pop("variables")
    assert variable["name"] == "ours"
    (name,) = settings.scheduler_names
    assert _quoted(variable["expression"]) == {name}
    plain = dict(only(_written("gate-policy"), "MutatingAdmissionPolicy")["spec"])
    plain.pop("variables")
    if not settings.extender:
        own = [one["expression"] for one in spec["matchConditions"] if one["name"] == "gang-member"]
        assert own == ["has(object.spec.schedulingGroup)"]
        for one in (spec, plain):
            marks = ("gang-member", "not-in-a-native-group")
            one["matchConditions"] = [kept for kept in one["matchConditions"] if kept["name"] not in marks]
        assert "matchResources" in only(objects, "MutatingAdmissionPolicyBinding")["spec"], "chosen namespaces only"
    assert spec == plain


def test_the_overlay_renders_with_and_without(tmp_path: Path) -> None:
    alone = rendered_overlay("second-scheduler")
    ours = {"MutatingAdmissionPolicy", "MutatingAdmissionPolicyBinding", "FlowSchema", "PriorityLevelConfiguration"}
    assert not [one for one in alone if one["kind"] in ours]

    together = rendered(with_components(tmp_path, "overlays/second-scheduler", TOGETHER))
    assert [one for one in together if one["kind"] not in ours] == list(alone)
    added = [one for one in together if one["kind"] in ours]
    assert len(added) == 2 * len(TOGETHER)
    assert not [one for one in added if "namespace" in one["metadata"]]


def test_the_line_for_older_clusters_renames_versions_only() -> None:
    text = (ROOT / "docs/how-to/gates.md").read_text()
    (script,) = set(
        re.findall(r"^kubectl kustomize manifests/components/gate-policy \| sed '([^']+)'", text, re.MULTILINE)
    )
    rendered = kustomized(COMPONENTS / "gate-policy")
    done = subprocess.run(
        ["sed", script], input=rendered, capture_output=True, text=True, timeout=LIVENESS_S, check=True
    )
    before, after = (list(yaml.safe_load_all(one)) for one in (rendered, done.stdout))
    assert [one.pop("apiVersion") for one in before] == ["admissionregistration.k8s.io/v1"] * 2
    assert [one.pop("apiVersion") for one in after] == ["admissionregistration.k8s.io/v1beta1"] * 2
    assert before == after


def test_the_flow_schema_is_for_accounts_that_exist() -> None:
    spec = only(_written("flow-schema"), "FlowSchema")["spec"]
    (rule,) = spec["rules"]
    files = (MANIFESTS / "base/rbac.yaml", MANIFESTS / "overlays/second-scheduler/scheduler-rbac.yaml")
    objects = [one for file in files for one in yaml.safe_load_all(file.read_text()) if one]
    accounts = [one["metadata"] for one in objects if one["kind"] == "ServiceAccount"]
    assert [subject["serviceAccount"] for subject in rule["subjects"]] == accounts
    assert spec["distinguisherMethod"] == {"type": "ByUser"}
    assert spec["matchingPrecedence"] < 9000  # service-accounts, which would match them otherwise
    (requests,) = rule["resourceRules"]
    assert all(requests[key] == ["*"] for key in ("apiGroups", "resources", "verbs", "namespaces"))
    assert requests["clusterScope"] is True


def test_the_level_has_room_for_netgang_and_an_end() -> None:
    """Of an API server with default limits: netgang's own limit fits when it is quiet, and is a small part of all."""
    objects = _written("flow-schema")
    level = only(objects, "PriorityLevelConfiguration")
    assert only(objects, "FlowSchema")["spec"]["priorityLevelConfiguration"] == {"name": level["metadata"]["name"]}
    limited = level["spec"]["limited"]
    in_flight, kubernetes_shares = 400 + 200, 245  # defaults of kube-apiserver 1.36
    shares = limited["nominalConcurrencyShares"]
    nominal = math.ceil(in_flight * shares / (kubernetes_shares + shares))
    most = nominal * (100 + limited["borrowingLimitPercent"]) // 100
    assert nominal == 35  # as the file says
    assert TransportLimits().concurrency <= most <= in_flight // 8
