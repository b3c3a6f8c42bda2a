"""What `netgang what-if` supposes of pods: those of a manifest's Pods and Jobs, or so many that ask for so much.

Rule: what other controllers make is not guessed, because an answer about half a job would be wrong: a kind that may
have pods, and is neither Pod nor Job, is refused. Only plain YAML is read (no tags that make objects).
"""

import sys
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Final, TypeAlias

import msgspec
import yaml

from extender.convert.pod import MIN_AVAILABLE_LABEL, NAME_LABEL
from extender.errors import ConfigError

Object: TypeAlias = Mapping[str, Any]
MOST_BYTES: Final = 1 << 20
_NAME: Final = "what-if"  # Of a gang that no manifest names
_NO_PODS: Final = frozenset(
    (
        *("Namespace", "Service", "ConfigMap", "Secret", "ServiceAccount", "Role", "RoleBinding", "NetworkPolicy"),
        *("PersistentVolume", "PersistentVolumeClaim", "PodDisruptionBudget", "ResourceQuota", "Workload"),
    )
)


def submitted(objects: Iterable[Object], *, namespace: str, priority: int | None) -> tuple[dict[str, Any], list[str]]:
    """Fields `pods` and `pod_groups` of what is supposed, and notes on what is not known.

    `namespace` is that of objects that name none; `priority` that of pods whose class is not in the manifest. Errors:
    ConfigError names the object.
    """
    listed = [{**one, "metadata": {"namespace": namespace, **(one.get("metadata") or {})}} for one in objects]
    classes = {one["metadata"].get("name"): one.get("value", 0) for one in listed if one["kind"] == "PriorityClass"}
    pods: list[dict[str, Any]] = []
    groups: list[Object] = []
    unknown: set[str] = set()
    for one in listed:
        try:
            if one["kind"] == "PodGroup":
                groups.append({key: value for key, value in one.items() if key != "status"})
            elif one["kind"] not in _NO_PODS | {"PriorityClass"}:
                pods.append(_pods(one))
        except (KeyError, TypeError, AttributeError, ValueError) as error:
            raise ConfigError(f"{_called(one)}: not as its kind is written: {error}") from error
    for spec in (one["pod"]["spec"] for one in pods):
        named = str(spec.pop("priorityClassName", None) or "")
        if "priority" not in spec and (named or priority is not None):
            spec["priority"] = classes.get(named, priority) or 0
            unknown |= {named} if named not in classes and priority is None else set()
    if not pods:
        raise ConfigError("the manifest has no Pod and no Job")
    notes = [
        f"the value of PriorityClass {name} is not known here and counts as 0; give --priority" for name in unknown
    ]
    return {"pods": pods, "pod_groups": groups}, sorted(notes)


def alike(count: int, requests: str, *, least: int | None, namespace: str, priority: int | None) -> dict[str, Any]:
    """Field `pods` of a gang of pods that ask for `requests`, such as cpu=4,nvidia.com/gpu=1. Errors: ConfigError."""
    amounts = dict(part.partition("=")[::2] for part in requests.split(","))
    if not all(name and amount for name, amount in amounts.items()):
        raise ConfigError(f"--request {requests}: write NAME=AMOUNT,NAME=AMOUNT, such as cpu=4,nvidia.com/gpu=1")
    labels = {NAME_LABEL: _NAME, MIN_AVAILABLE_LABEL: str(least or count)}
    container = {"name": "main", "resources": {"requests": amounts}}
    spec = {"schedulerName": "netgang", "priority": priority or 0, "containers": [container]}
    pod = {"metadata": {"name": _NAME, "namespace": namespace, "labels": labels}, "spec": spec}
    return {"pods": [{"pod": pod, "count": count}]}


def read_manifest(path: Path) -> list[Object]:
    """The objects of a file (`-`: standard input), Lists taken apart. Errors: ConfigError names the file."""
    try:
        with sys.stdin.buffer if str(path) == "-" else path.open("rb") as file:
            body = file.read(MOST_BYTES + 1)
        if len(body) > MOST_BYTES:
            raise ConfigError(f"{path}: larger than {MOST_BYTES} bytes")
        documents = [one for one in yaml.safe_load_all(body) if one is not None]
    except OSError as error:
        raise ConfigError(f"{path}: {error.strerror or error}") from error
    except (yaml.YAMLError, RecursionError, ValueError) as error:
        raise ConfigError(f"{path}: not YAML: {str(error).partition(chr(10))[0] or 'nested too deeply'}") from error
    found: list[Object] = []
    for one in documents:
        several = isinstance(one, dict) and str(one.get("kind")).endswith("List") and isinstance(one.get("items"), list)
        found += one["items"] if several else [one]
    for one in found:
        if not isinstance(one, dict) or not isinstance(one.get("kind"), str):
            raise ConfigError(f"{path}: no Kubernetes object: it has no kind")
        if not isinstance(one.get("metadata") or {}, dict):
            raise ConfigError(f"{path}: {one['kind']}: metadata is no mapping")
    if not found:
        raise ConfigError(f"{path}: holds no object")
    return found


def _pods(one: Object) -> dict[str, Any]:
    name, version = one["metadata"].get("name") or "", one.get("apiVersion", "")
    if one["kind"] == "Pod":
        made, count, metadata = one, 1, {**one["metadata"]}
    elif one["kind"] == "Job" and version in ("", "batch/v1"):
        made = one["spec"]["template"]
        most = int(one["spec"].get("parallelism", 1))
        count = min(most, int(one["spec"].get("completions") or most))
        owner = {"apiVersion": "batch/v1", "kind": "Job", "name": name, "uid": _NAME, "controller": True}
        metadata = {**(made.get("metadata") or {}), "name": name, "namespace": one["metadata"]["namespace"]}
        metadata["ownerReferences"] = [owner]
    else:
        instead = "give its pods as Pods, or as --pods N --request cpu=4,nvidia.com/gpu=1"
        raise ConfigError(f"{_called(one)}: of the kinds that have pods Pod and Job are read: {instead}")
    if count < 1:
        raise ConfigError(f"{_called(one)}: it makes no pods")
    pod = {"metadata": metadata, "spec": {**made["spec"]}}
    msgspec.json.encode(pod)  # TypeError: YAML has values, such as dates, that JSON has not
    return {"pod": pod, "count": count}


def _called(one: Object) -> str:
    return f"{one['kind']} {one['metadata'].get('name') or ''}"
