"""The policies that confine netgang's account say what the code writes, of the account that the roles are for."""

import re

import pytest

from extender.controllers.restart.suspensions import MARK
from extender.convert import NUDGE_ANNOTATION
from extender.kube import calls
from extender.kube.own_objects import ROLE_LABEL
from extender.notes import NoteKind
from scoring.model import GATE
from scoring.queue.admitted_condition import CONDITION
from tests.contract.manifests.rendered import ROOT, Object, objects_of, of_kind

PAGE = ROOT / "docs/reference/rights.md"
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
    changed = {
        call.resource.group
        for call in calls.CALLS
        if call.verb == "patch" and not call.subresource and call.resource != calls.PODS
    }
    assert changed <= quoted(POLICIES["netgang-jobs"])


def test_the_page_names_every_write() -> None:
    page = PAGE.read_text()
    called = {f"{one}jobs": "Kubeflow's jobs" for one in ("tf", "pytorch", "mpi", "xgboost", "paddle", "jax")}
    parts = (calls.CALLS, calls.LEADING, calls.STARTED)
    writes = [call.rule for part in parts for call in part if call.verb not in ("get", "list", "watch")]
    assert len(writes) > 10
    assert [rule for rule in writes if called.get(rule[2], rule[2]) not in page] == []
