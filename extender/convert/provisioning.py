"""ProvisioningRequests and the PodTemplates that they name, as JSON and as records of `scoring.provisioning`.

Rules:
- A template has what decides where a pod may go and what it takes, and nothing else: commands, environment, mounts and
  accounts stay with the pods. Its zones are ANDed into its required node affinity.
- What we must remember of a request stands on it: its gang (of its own namespace), the attempt, the zones, and what was
  asked for. One that does not say so is not ours.
"""

import re
from collections.abc import Mapping, Sequence
from hashlib import sha256
from typing import Any, Final

import msgspec

from extender.convert.decode import Json, Metadata, decode, seconds
from extender.convert.pod.conditions import Condition
from scoring.ids import GangKey, ZoneName, gang_key
from scoring.model import Controller
from scoring.model.policy import LIST_CHARS
from scoring.provisioning.requests import Create, Outcome, Request

API_VERSION: Final = "autoscaling.x-k8s.io/v1"
KIND: Final = "ProvisioningRequest"
MANAGED_BY: Final = ("app.kubernetes.io/managed-by", "netgang")  # Label of all that we make
CONSUMES: Final = "autoscaling.x-k8s.io/consume-provisioning-request"
CONSUMES_CLASS: Final = "autoscaling.x-k8s.io/provisioning-class-name"
"""Annotations of pods for which an autoscaler is to add no nodes beside those of the request"""
_PREFIX: Final = "netgang-"
_GANG, _ATTEMPT, _ZONES, _FINGERPRINT = (f"netgang.io/{name}" for name in ("gang", "attempt", "zones", "fingerprint"))
_NOT_IN_NAMES: Final = re.compile(r"[^a-z0-9]+")
_POD_FIELDS: Final = (
    *("nodeSelector", "affinity", "tolerations", "topologySpreadConstraints", "priorityClassName", "runtimeClassName"),
    *("overhead", "resources", "resourceClaims", "restartPolicy", "os"),
)
_NAME_CHARS: Final = 253
_ATTEMPT_DIGITS: Final = 9
_MESSAGE_CHARS: Final = 1024
_CONTAINER_FIELDS: Final = ("name", "image", "resources", "restartPolicy")


class _Spec(Json):
    pod_sets: list[msgspec.Raw] | None = None


class _Status(Json):
    conditions: list[Condition] | None = None


class _Request(Json):
    metadata: Metadata
    spec: _Spec | None = None
    status: _Status | None = None


_request = msgspec.json.Decoder(_Request)
_SAID: Final = (  # (condition, its status) → what it means; the first that is there counts
    ("Failed", "True", Outcome.FAILED),
    ("CapacityRevoked", "True", Outcome.REVOKED),
    ("BookingExpired", "True", Outcome.EXPIRED),
    ("Provisioned", "True", Outcome.PROVISIONED),
    ("Provisioned", "False", Outcome.NOT_FOUND),
    ("Accepted", "True", Outcome.ACCEPTED),
)


def request_from_json(raw: bytes | msgspec.Raw) -> Request | None:
    """Read a ProvisioningRequest; `None`: it is not ours. ValueError names the field that cannot be read."""
    read = decode(_request, raw, what=KIND)
    metadata, notes = read.metadata, read.metadata.annotations or {}
    namespace, gang, attempt = metadata.namespace or "default", notes.get(_GANG), notes.get(_ATTEMPT, "")
    if gang is None or not attempt.isdecimal() or not metadata.name.startswith(_PREFIX):
        return None
    zones = notes.get(_ZONES, "")
    if len(gang) > _NAME_CHARS or len(attempt) > _ATTEMPT_DIGITS or len(zones) > LIST_CHARS:
        return None  # we write none so long
    outcome, since_s, message = _outcome((read.status or _Status()).conditions or ())
    return Request(
        name=metadata.name,
        gang=gang_key(namespace, gang),
        fingerprint=notes.get(_FINGERPRINT, "")[:_NAME_CHARS],
        attempt=max(int(attempt), 1),
        sets=len((read.spec or _Spec()).pod_sets or ()),
        zones=tuple(ZoneName(one) for one in zones.split(",") if one),
        outcome=outcome,
        since_s=since_s or seconds(metadata.creation_timestamp),
        message=message,
    )


def _outcome(conditions: Sequence[Condition]) -> tuple[Outcome, float, str]:
    there = {(one.type, one.status): one for one in conditions}
    for kind, status, outcome in _SAID:
        if found := there.get((kind, status)):
            return outcome, seconds(found.last_transition_time), (found.message or "")[:_MESSAGE_CHARS]
    return Outcome.ASKED, 0.0, ""


def request_name(step: Create, owner_uid: str) -> str:
    """The name of a step's request: the same for the same, another one for each attempt and each owner.

    >>> step = Create(gang_key("team", "My_Gang"), (), "f1", 1, ())
    >>> request_name(step, "u"), request_name(step, "v") == request_name(step, "u")
    ('netgang-my-gang-9f6cb447a1', False)
    """
    clean = _NOT_IN_NAMES.sub("-", _name_of(step.gang).lower())[:40].strip("-")
    parts = (step.gang, owner_uid, step.fingerprint, str(step.attempt), ",".join(step.zones))
    return f"{_PREFIX}{clean or 'gang'}-{sha256('/'.join(parts).encode()).hexdigest()[:10]}"


def template_names(request: str, sets: int) -> tuple[str, ...]:
    """The names of a request's templates."""
    return tuple(f"{request}-{number}" for number in range(sets))


def request_json(step: Create, *, name: str, class_name: str, owner: Controller) -> dict[str, Any]:
    """The ProvisioningRequest of a step; its templates must be there before."""
    notes = {_GANG: _name_of(step.gang), _ATTEMPT: str(step.attempt), _FINGERPRINT: step.fingerprint}
    if step.zones:
        notes[_ZONES] = ",".join(step.zones)
    names = template_names(name, len(step.sets))
    return {
        "apiVersion": API_VERSION,
        "kind": KIND,
        "metadata": _metadata(name, owner) | {"annotations": notes},
        "spec": {
            "provisioningClassName": class_name,
            "podSets": [
                {"podTemplateRef": {"name": one}, "count": len(pods)}
                for one, pods in zip(names, step.sets, strict=True)
            ],
        },
    }


def template_json(
    pod: bytes, *, name: str, owner: Controller, zones: Sequence[ZoneName], zone_label: str
) -> dict[str, Any]:
    """The PodTemplate that stands for this pod (raw JSON) and all like it. ValueError: it cannot be read."""
    try:
        content = msgspec.json.decode(pod)
        spec = _template_spec(content["spec"], zones, zone_label)
        labels = content["metadata"].get("labels") or {}
    except (msgspec.DecodeError, UnicodeError, RecursionError, KeyError, TypeError, AttributeError) as error:
        raise ValueError(f"Pod: {error!r}") from error
    return {
        "apiVersion": "v1",
        "kind": "PodTemplate",
        "metadata": _metadata(name, owner),
        "template": {"metadata": {"labels": labels}, "spec": spec},
    }


def _template_spec(given: Mapping[str, Any], zones: Sequence[ZoneName], zone_label: str) -> dict[str, Any]:
    spec: dict[str, Any] = {key: given[key] for key in _POD_FIELDS if given.get(key)}
    for key in ("initContainers", "containers"):
        if given.get(key):
            spec[key] = [_container(one) for one in given[key]]
    if claims := [one for one in given.get("volumes") or () if "persistentVolumeClaim" in one]:
        spec["volumes"] = claims
    if zones:
        line = {"key": zone_label, "operator": "In", "values": list(zones)}
        spec["affinity"] = _in_zones(spec.get("affinity") or {}, line)
    return spec


def _name_of(gang: GangKey) -> str:
    return gang.partition("/")[2]


def _metadata(name: str, owner: Controller) -> dict[str, Any]:
    reference = {"apiVersion": owner.api_version, "kind": owner.kind, "name": owner.name, "uid": owner.uid}
    return {"name": name, "labels": dict([MANAGED_BY]), "ownerReferences": [reference]}


def _container(given: Mapping[str, Any]) -> dict[str, Any]:
    """What of a container matters to a scheduler: requests and the node's own ports."""
    ports = [one for one in given.get("ports") or () if one.get("hostPort")]
    return {key: given[key] for key in _CONTAINER_FIELDS if given.get(key)} | ({"ports": ports} if ports else {})


def _in_zones(affinity: Mapping[str, Any], line: Mapping[str, Any]) -> dict[str, Any]:
    required = "requiredDuringSchedulingIgnoredDuringExecution"
    nodes = affinity.get("nodeAffinity") or {}
    terms = (nodes.get(required) or {}).get("nodeSelectorTerms")
    if terms is None:
        narrowed = [{"matchExpressions": [line]}]
    else:  # an empty term matches no node, and must not begin to match some
        narrowed = [
            {**one, "matchExpressions": [*(one.get("matchExpressions") or ()), line]} if one else one for one in terms
        ]
    return {**affinity, "nodeAffinity": {**nodes, required: {"nodeSelectorTerms": narrowed}}}
