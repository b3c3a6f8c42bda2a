"""ProvisioningRequests and PodTemplates: what is written, what is read back, and what stays with the pods."""

import json
from dataclasses import replace
from typing import Any

import pytest

from extender.convert import provisioning as module
from extender.convert.provisioning import request_from_json, request_json, request_name, template_json
from scoring.ids import GangKey, ZoneName, gang_key
from scoring.model import Controller
from scoring.provisioning.requests import Create, Outcome, Request
from tests.builders import pod

OWNER = Controller("batch/v1", "Job", "train", "u-1")
STEP = Create(
    gang=gang_key("team", "train"),
    sets=((pod("w-0"), pod("w-1")), (pod("ps"),)),
    fingerprint="f00",
    attempt=2,
    zones=(ZoneName("a"),),
)


def stored(conditions: list[dict[str, str]] | None = None, **metadata: Any) -> bytes:
    made = request_json(STEP, name="netgang-train-1", class_name="c", owner=OWNER)
    made["metadata"] |= {"namespace": "team", "creationTimestamp": "1970-01-01T00:01:00Z", **metadata}
    return json.dumps(made | ({"status": {"conditions": conditions}} if conditions is not None else {})).encode()


def condition(kind: str, status: str = "True") -> dict[str, str]:
    return {"type": kind, "status": status, "message": "R", "lastTransitionTime": "1970-01-01T00:02:00Z"}


def test_what_was_asked_is_read_back() -> None:
    wanted = Request(
        name="netgang-train-1",
        gang=GangKey("team/train"),
        fingerprint="f00",
        attempt=2,
        sets=2,
        zones=(ZoneName("a"),),
        outcome=Outcome.ASKED,
        since_s=60.0,
    )
    assert request_from_json(stored()) == wanted
    elsewhere = replace(wanted, gang=GangKey("elsewhere/train"))
    assert request_from_json(stored(namespace="elsewhere")) == elsewhere


def test_a_request_names_its_templates_and_goes_with_its_owner() -> None:
    made = request_json(STEP, name="netgang-train-1", class_name="some.class", owner=OWNER)
    assert made["spec"] == {
        "provisioningClassName": "some.class",
        "podSets": [
            {"podTemplateRef": {"name": "netgang-train-1-0"}, "count": 2},
            {"podTemplateRef": {"name": "netgang-train-1-1"}, "count": 1},
        ],
    }
    assert made["metadata"]["labels"] == {"app.kubernetes.io/managed-by": "netgang"}
    owner = {"apiVersion": "batch/v1", "kind": "Job", "name": "train", "uid": "u-1"}
    assert made["metadata"]["ownerReferences"] == [owner]


NOT_OURS: dict[str, dict[str, Any]] = {  # case: metadata
    "no gang": {"annotations": {"netgang.io/attempt": "1"}},
    "no attempt": {"annotations": {"netgang.io/gang": "g"}},
    "an attempt that is no number": {"annotations": {"netgang.io/gang": "g", "netgang.io/attempt": "-1"}},
    "another name": {"name": "mine"},
    "nothing": {"annotations": None},
}


@pytest.mark.parametrize("metadata", NOT_OURS.values(), ids=NOT_OURS)
def test_what_is_not_ours_is_left_alone(metadata: dict[str, Any]) -> None:
    assert request_from_json(stored(**metadata)) is None


ANSWERS = {  # case: (outcome, conditions)
    "none": (Outcome.ASKED, []),
    "taken up": (Outcome.ACCEPTED, [condition("Accepted")]),
    "there": (Outcome.PROVISIONED, [condition("Accepted"), condition("Provisioned")]),
    "not there": (Outcome.NOT_FOUND, [condition("Accepted"), condition("Provisioned", "False")]),
    "lapsed": (Outcome.EXPIRED, [condition("Provisioned"), condition("BookingExpired")]),
    "revoked": (Outcome.REVOKED, [condition("Provisioned"), condition("CapacityRevoked")]),
    "failed": (Outcome.FAILED, [condition("Accepted"), condition("Failed"), condition("Provisioned", "False")]),
    "not failed": (Outcome.ACCEPTED, [condition("Accepted"), condition("Failed", "False")]),
    "one that we do not know": (Outcome.ASKED, [condition("Blue")]),
}


@pytest.mark.parametrize(("outcome", "conditions"), ANSWERS.values(), ids=ANSWERS)
def test_answers(outcome: Outcome, conditions: list[dict[str, str]]) -> None:
    """The worst that is true counts."""
    found = request_from_json(stored(conditions))
    assert found is not None
    assert found.outcome is outcome
    if conditions and outcome is not Outcome.ASKED:  # by the time the next attempt is timed
        assert (found.since_s, found.message) == (120.0, "R")


def test_what_cannot_be_read_is_an_error_with_the_fields_name() -> None:
    with pytest.raises(ValueError, match=r"Pod: "):
        template_json(b"{", name="t", owner=OWNER, zones=(), zone_label="zone")
    with pytest.raises(ValueError, match=r"ProvisioningRequest: .*conditions"):
        request_from_json(stored([]).replace(b'"conditions": []', b'"conditions": 3'))


VOLUMES = [
    {"name": "data", "persistentVolumeClaim": {"claimName": "data"}},
    {"name": "token", "secret": {"secretName": "password"}},
]
KEPT: dict[str, Any] = {
    "nodeSelector": {"disk": "ssd"},
    "tolerations": [{"key": "gpu", "operator": "Exists"}],
    "priorityClassName": "high",
    "restartPolicy": "Never",
    "overhead": {"cpu": "10m"},
}
INIT = {"name": "fetch", "image": "i", "resources": {"requests": {"cpu": "2"}}}
MAIN = {"name": "main", "image": "train:1", "resources": {"requests": {"cpu": "4"}, "limits": {"nvidia.com/gpu": "1"}}}
HIDDEN = {"env": [{"name": "PASSWORD", "value": "secret"}], "command": ["train"], "volumeMounts": [{"name": "token"}]}
PORT = {"containerPort": 80, "hostPort": 80}
POD: dict[str, Any] = {
    "metadata": {"name": "w-0", "labels": {"app": "train"}, "annotations": {"a": "b"}, "uid": "u"},
    "spec": KEPT
    | {"schedulerName": "netgang", "schedulingGates": [{"name": "netgang.io/gang"}], "serviceAccountName": "train"}
    | {"topologySpreadConstraints": [], "volumes": VOLUMES, "initContainers": [INIT | {"args": ["x"]}]}
    | {"containers": [MAIN | HIDDEN | {"ports": [PORT, {"containerPort": 9}]}]},
}


def template(spec: dict[str, Any] | None = None, *, zones: tuple[str, ...] = ()) -> dict[str, Any]:
    raw = json.dumps(POD | {"spec": POD["spec"] | (spec or {})}).encode()
    found = template_json(raw, name="t", owner=OWNER, zones=[ZoneName(z) for z in zones], zone_label="zone")
    return found["template"]


def test_a_template_has_what_a_scheduler_looks_at_and_nothing_else() -> None:
    containers = {"initContainers": [INIT], "containers": [MAIN | {"ports": [PORT]}]}
    want = {"metadata": {"labels": {"app": "train"}}, "spec": KEPT | containers | {"volumes": VOLUMES[:1]}}
    assert template() == want


REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
SSD, IN_A = {"key": "disk", "operator": "Exists"}, {"key": "zone", "operator": "In", "values": ["a", "b"]}
BY_NAME = {"key": "metadata.name", "operator": "In", "values": ["n1"]}
TERMS: dict[str, tuple[list[Any], list[Any] | None]] = {  # case: (terms after, terms before)
    "none before": ([{"matchExpressions": [IN_A]}], None),
    "one": ([{"matchExpressions": [SSD, IN_A]}], [{"matchExpressions": [SSD]}]),
    "by field": ([{"matchFields": [BY_NAME], "matchExpressions": [IN_A]}], [{"matchFields": [BY_NAME]}]),
    "one that matches nothing": ([{}], [{}]),
}


@pytest.mark.parametrize(("after", "before"), TERMS.values(), ids=TERMS)
def test_the_zone_is_one_more_requirement(after: list[Any], before: list[Any] | None) -> None:
    node = {"preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 1}]}
    node |= {REQUIRED: {"nodeSelectorTerms": before}} if before is not None else {}  # type: ignore[dict-item]
    found = template({"affinity": {"nodeAffinity": node, "podAffinity": {"x": 1}}}, zones=("a", "b"))["spec"][
        "affinity"
    ]
    assert found["podAffinity"] == {"x": 1}
    assert found["nodeAffinity"] == node | {REQUIRED: {"nodeSelectorTerms": after}}


NAMES = ["train", "UPPER_case.and.dots", "x" * 253, "---", "ünïcode"]


@pytest.mark.parametrize("gang", NAMES)
def test_names_are_names(gang: str) -> None:
    step = Create(gang_key("team", gang), STEP.sets, "f", 1, ())
    name = module.template_names(request_name(step, "u"), 32)[-1]
    assert len(name) <= 63
    assert all(c.isascii() and (c.isalnum() or c == "-") and c == c.lower() for c in name)
    assert name.startswith("netgang-")
