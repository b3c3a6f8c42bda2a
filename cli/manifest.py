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
    listed = [{**item, "metadata": {"namespace": namespace, **(item.get("metadata") or {})}} for item in objects]
    classes = {item["metadata"].get("name"): item.get("value", 0) for item in listed if item["kind"] == "PriorityClass"}
    pods: list[dict[str, Any]] = []
    groups: list[Object] = []
    absent: set[str] = set()
    for item in listed:
        try:
            if item["kind"] == "PodGroup":
                groups.append({key: value for key, value in item.items() if key != "status"})
            elif item["kind"] not in _NO_PODS | {"PriorityClass"}:
                pods.append(_pods(item))
        except (KeyError, TypeError, AttributeError, ValueError) as error:
            raise ConfigError(f"{_called(item)}: not as its kind is written: {error}") from error
    for spec in (entry["pod"]["spec"] for entry in pods):
        named = str(spec.pop("priorityClassName", None) or "")
        if "priority" not in spec and (named or priority is not None):
            spec["priority"] = classes.get(named, priority) or 0
            absent |= {named} if named not in classes and priority is None else set()
    if not pods:
        raise ConfigError("the manifest has no Pod and no Job")
    notes = [f"the value of PriorityClass {name} is not known here and counts as 0; give --priority" for name in absent]
    return {"pods": pods, "pod_groups": groups}, sorted(notes)


def alike(count: int, requests: str, *, least: int | None, namespace: str, priority: int | None) -> dict[str, Any]:
    """Field `pods` of a gang of pods that ask for `requests`, such as cpu=4,nvidia.com/gpu=1. Errors: ConfigError."""
    amounts = dict(part.partition("=")[::2] for part in requests.split(","))
    if not all(name and amount for name, amount in amounts.items()):
        raise ConfigError(f"--request {requests}: write NAME=AMOUNT,NAME=AMOUNT, such as cpu=4,nvidia.com/gpu=1")
    labels = {NAME_LABEL: _NAME, MIN_AVAILABLE_LABEL: str(count if least is None else least)}
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
        documents = [document for document in yaml.safe_load_all(body) if document is not None]
    except OSError as error:
        raise ConfigError(f"{path}: {error.strerror or error}") from error
    except (yaml.YAMLError, RecursionError, ValueError) as error:
        raise ConfigError(f"{path}: not YAML: {str(error).partition(chr(10))[0] or 'nested too deeply'}") from error
    objects: list[Object] = []
    for document in documents:
        listed = document.get("items") if isinstance(document, dict) else None
        objects += listed if isinstance(listed, list) and str(document.get("kind")).endswith("List") else [document]
    for item in objects:
        if not isinstance(item, dict) or not isinstance(item.get("kind"), str):
            raise ConfigError(f"{path}: no Kubernetes object: it has no kind")
        if not isinstance(item.get("metadata") or {}, dict):
            raise ConfigError(f"{path}: {item['kind']}: metadata is no mapping")
    if not objects:
        raise ConfigError(f"{path}: holds no object")
    return objects


def _pods(item: Object) -> dict[str, Any]:
    name, version = item["metadata"].get("name") or "", item.get("apiVersion", "")
    if item["kind"] == "Pod":
        template, count, metadata = item, 1, {**item["metadata"]}
    elif item["kind"] == "Job" and version in ("", "batch/v1"):
        template = item["spec"]["template"]
        most = int(item["spec"].get("parallelism", 1))
        count = min(most, int(item["spec"].get("completions") or most))
        owner = {"apiVersion": "batch/v1", "kind": "Job", "name": name, "uid": _NAME, "controller": True}
        metadata = {**(template.get("metadata") or {}), "name": name, "namespace": item["metadata"]["namespace"]}
        metadata["ownerReferences"] = [owner]
    else:
        instead = "give its pods as Pods, or as --pods N --request cpu=4,nvidia.com/gpu=1"
        raise ConfigError(f"{_called(item)}: of the kinds that have pods Pod and Job are read: {instead}")
    if count < 1:
        raise ConfigError(f"{_called(item)}: it makes no pods")
    pod = {"metadata": metadata, "spec": {**template["spec"]}}
    msgspec.json.encode(pod)  # TypeError: YAML has values, such as dates, that JSON has not
    return {"pod": pod, "count": count}


def _called(item: Object) -> str:
    return f"{item['kind']} {item['metadata'].get('name') or ''}"
