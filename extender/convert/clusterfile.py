"""Read a cluster from a file: what `kubectl get nodes,pods,podgroups,jobs -A -o json` prints.

Rule: an object that cannot be read is an error that names it; kinds that do not decide anything are skipped.
"""

import sys
from pathlib import Path
from typing import Any

import msgspec

from extender.convert import daemon_set_from_json, node_from_json, pod_from_json, pod_group_from_json
from extender.errors import ConfigError
from extender.signed_notes import UncheckedNotes
from scoring.model import DaemonSet, Node, Pod, PodGroup

_LARGEST_BYTES = 1 << 30


class ClusterFile(msgspec.Struct, frozen=True):
    """The records of one file, in its order, and the JSON they came from."""

    nodes: list[Node] = []
    pods: list[Pod] = []
    pod_groups: list[PodGroup] = []
    native_groups: list[PodGroup] = []  # Kubernetes' own
    pods_json: dict[str, bytes] = {}  # namespace/name → the pod's JSON
    daemon_sets: list[DaemonSet] = []
    owners: list[dict[str, Any]] = []  # Jobs and sets of all kinds: what they say of gangs counts as in the service


class _TypeOf(msgspec.Struct):
    kind: str = ""
    apiVersion: str = ""


class _ObjectList(_TypeOf):
    items: list[msgspec.Raw] = []


_HEAD = msgspec.json.Decoder(_TypeOf)


def read_cluster(path: Path, *, zone_label: str) -> ClusterFile:
    """Read `path` (`-`: standard input), of at most 1 GiB. ConfigError names the file, the object and the field."""
    try:
        if str(path) == "-":
            body = sys.stdin.buffer.read(_LARGEST_BYTES)
        elif path.stat().st_size > _LARGEST_BYTES:
            raise ConfigError(f"{path}: larger than 1 GiB")
        else:
            body = path.read_bytes()
    except OSError as error:
        raise ConfigError(f"{path}: {error.strerror or error}") from error
    return parse_cluster(body, name=str(path), zone_label=zone_label)


def parse_cluster(body: bytes, *, name: str, zone_label: str) -> ClusterFile:
    """Read the JSON of a List (or of one object). Errors: ConfigError."""
    try:
        listed = msgspec.json.decode(body, type=_ObjectList)
    except (msgspec.DecodeError, RecursionError) as error:
        raise ConfigError(f"{name}: not a JSON List as `kubectl get nodes,pods -A -o json` prints: {error}") from error
    items = listed.items if listed.kind.endswith("List") else [msgspec.Raw(body)]
    cluster = ClusterFile()
    for number, item in enumerate(items):
        try:
            head = _HEAD.decode(item)
            match head.kind:
                case "Node":
                    cluster.nodes.append(node_from_json(item, zone_label=zone_label))
                case "Pod":
                    pod = pod_from_json(item, notes=UncheckedNotes())
                    cluster.pods.append(pod)
                    cluster.pods_json[pod.key] = bytes(item)
                case "PodGroup":
                    native = head.apiVersion.startswith("scheduling.k8s.io/")
                    (cluster.native_groups if native else cluster.pod_groups).append(pod_group_from_json(item))
                case "DaemonSet":
                    cluster.daemon_sets.append(daemon_set_from_json(item))
                case kind if kind.endswith(("Job", "Set")):
                    cluster.owners.append(msgspec.json.decode(item))
                case _:
                    pass
        except ValueError as error:
            raise ConfigError(f"{name}: items[{number}]: {error}") from error
    return cluster
