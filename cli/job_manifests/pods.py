"""What every kind's pods have in common: from a template to pods as `/v1/what-if` takes them, and PodGroups.

Rule: only what decides where a pod may run is kept, so that a job of thousands is a small request.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

import msgspec

from cli.job_manifests.manifest import Object
from extender.convert.pod.gang_labels import NAME_ANNOTATIONS, NAME_LABEL, POD_GROUP_LABEL
from extender.errors import ConfigError

COSCHEDULING: Final = "scheduling.x-k8s.io/v1alpha1"
VOLCANO: Final = "scheduling.volcano.sh/v1beta1"
SCHEDULER: Final = "netgang"  # What the training operators run with: `--gang-scheduler-name`, `--gang-scheduling`
BATCH: Final = "batch.kubernetes.io/"
_MARKS: Final = frozenset({POD_GROUP_LABEL, NAME_LABEL, *NAME_ANNOTATIONS})
_POD_FIELDS: Final = (
    *("nodeSelector", "affinity", "tolerations", "topologySpreadConstraints", "schedulerName", "schedulingGates"),
    *("schedulingGroup", "priority", "preemptionPolicy", "overhead", "hostNetwork", "resources", "resourceClaims"),
    *("nodeName", "volumes", "priorityClassName"),
)
_CONTAINER_FIELDS: Final = ("name", "resources", "ports", "restartPolicy")
_READ_ANNOTATIONS: Final = ("netgang.io/", "scheduling.k8s.io/", "scheduling.volcano.sh/", "volcano.sh/")


@dataclass(frozen=True, slots=True)
class Made:
    """What a controller makes of one object; `notes`: sentences on what is not as it seems."""

    pods: tuple[Object, ...] = ()  # PodSets of /v1/what-if
    pod_groups: tuple[Object, ...] = ()
    notes: tuple[str, ...] = ()


def pod_set(owner: Object, template: Object, name: str, count: int, labels: Mapping[str, str]) -> Object:
    """`count` pods of one template: `name`, or NAME-0, NAME-1, … Errors: ConfigError for fewer than one pod."""
    if count < 1:
        raise ConfigError(f"{called(owner)}: it makes no pods: {count} replicas")
    given, spec = mapping(template, "metadata"), template["spec"]
    metadata = {
        "name": name,
        "namespace": owner["metadata"]["namespace"],
        "labels": {**(given.get("labels") or {}), **labels},
        "annotations": {
            key: value for key, value in (given.get("annotations") or {}).items() if key.startswith(_READ_ANNOTATIONS)
        },
    }
    if owner["kind"] != "Pod":
        reference = {"apiVersion": owner.get("apiVersion", ""), "kind": owner["kind"], "name": name_of(owner)}
        metadata["ownerReferences"] = [{**reference, "uid": "what-if", "controller": True}]
    kept: dict[str, Any] = {key: spec[key] for key in _POD_FIELDS if key in spec}
    for field in ("containers", "initContainers"):
        kept[field] = [{key: one[key] for key in _CONTAINER_FIELDS if key in one} for one in spec.get(field) or ()]
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": kept}
    msgspec.json.encode(pod)  # TypeError: YAML has values, such as dates, that JSON has not
    return {"pod": pod, "count": count}


def pod_group(owner: Object, least: int, api_version: str = COSCHEDULING) -> Object:
    """The PodGroup that a controller makes under its object's name."""
    metadata = {"name": name_of(owner), "namespace": owner["metadata"]["namespace"]}
    return {"kind": "PodGroup", "apiVersion": api_version, "metadata": metadata, "spec": {"minMember": least}}


def names_its_gang(templates: Iterable[Object]) -> bool:
    """Whether a template names the gang of its pods: then its operator need not know netgang."""
    marks = [mapping(template, "metadata") for template in templates]
    return any({*(one.get("labels") or ()), *(one.get("annotations") or ())} & _MARKS for one in marks)


def name_of(one: Object) -> str:
    """`metadata.name`; "": none."""
    return str(mapping(one, "metadata").get("name") or "")


def called(one: Object) -> str:
    """KIND NAME, for sentences."""
    return f"{one['kind']} {name_of(one)}"


def mapping(one: Object, *fields: str) -> Mapping[str, Any]:
    """What is in a field of a field; empty where there is none. Errors: ConfigError if it is something else.

    >>> mapping({"spec": {"runPolicy": {"suspend": True}}}, "spec", "runPolicy"), mapping({}, "spec", "runPolicy")
    ({'suspend': True}, {})
    """
    for field in fields:
        found = one.get(field)
        if found is not None and not isinstance(found, dict):
            raise ConfigError(f"{field} is no mapping")
        one = found or {}
    return one


def count_of(one: Object, field: str, usual: int) -> int:
    """A number of pods; `usual` where none is given."""
    given = one.get(field)
    return usual if given is None else int(given)
