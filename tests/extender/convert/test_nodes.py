"""Nodes from the API become our records."""

import json
from typing import Any

import pytest

from extender.convert import node_from_json
from scoring import NO_ZONE
from scoring.model import Node, Taint
from scoring.model.pod import Resources


def read(metadata: dict[str, Any] | None = None, spec: dict[str, Any] | None = None, **status: Any) -> Node:
    raw = {"metadata": {"name": "n1"} | (metadata or {}), "spec": spec or {}, "status": status}
    return node_from_json(json.dumps(raw).encode())


def test_every_field() -> None:
    node = read(
        {
            "creationTimestamp": "1970-01-01T00:01:00Z",
            "labels": {"topology.kubernetes.io/zone": "D", "gpu": "h100"},
            "annotations": {"netgang.io/endpoint": "e", "netgang.io/endpoint-loss": "l", "note": "x"},
        },
        {"unschedulable": True, "taints": [{"key": "gpu", "value": "yes", "effect": "NoSchedule", "timeAdded": None}]},
        allocatable={"cpu": "3900m", "memory": "8Gi", "pods": "110", "nvidia.com/gpu": "8"},
        capacity={"cpu": "4"},
        addresses=[{"type": "InternalIP", "address": "10.0.0.1"}, {"type": "Hostname", "address": "n1"}] * 2,
        conditions=[{"type": "Ready", "status": "True"}],
    )
    assert (node.name, node.zone, node.created_s) == ("n1", "D", 60.0)
    assert Resources.parse({"cpu": "3.9", "memory": "8Gi", "pods": 110, "nvidia.com/gpu": 8}) == node.allocatable
    assert node.labels == (("gpu", "h100"), ("topology.kubernetes.io/zone", "D"))
    assert (Taint("gpu", "yes", "NoSchedule"),) == node.taints
    assert (node.unschedulable, node.ready, node.leaving, node.addresses) == (True, True, False, ("10.0.0.1", "n1"))
    assert node.annotations == (("netgang.io/endpoint", "e"), ("netgang.io/endpoint-loss", "l"))


READY: dict[str, tuple[bool, list[dict[str, str]] | None]] = {  # case: (ready, conditions)
    "ready": (True, [{"type": "DiskPressure", "status": "False"}, {"type": "Ready", "status": "True"}]),
    "not ready": (False, [{"type": "Ready", "status": "False"}]),
    "unknown": (False, [{"type": "Ready", "status": "Unknown"}]),
    "no Ready condition": (True, [{"type": "DiskPressure", "status": "False"}]),
    "no conditions": (True, None),
}


@pytest.mark.parametrize(("ready", "conditions"), READY.values(), ids=READY)
def test_ready(ready: bool, conditions: list[dict[str, str]] | None) -> None:
    """A node is not ready when its Ready condition says so; test beds without the condition are ready."""
    node = read(conditions=conditions)
    beats = [one | {"lastHeartbeatTime": "2026-11-20T10:05:00Z"} for one in conditions or ()]
    assert (ready, node) == (node.ready, read({"resourceVersion": "2"}, conditions=beats, images=[{"names": ["i"]}]))


LEAVING: dict[str, tuple[bool, dict[str, Any], list[str]]] = {  # case: (leaving, metadata, keys of taints)
    "stays": (False, {}, ["node.kubernetes.io/not-ready"]),
    "out of service": (True, {}, ["node.kubernetes.io/out-of-service"]),
    "cluster autoscaler": (True, {}, ["other", "ToBeDeletedByClusterAutoscaler"]),
    "karpenter": (True, {}, ["karpenter.sh/disrupted"]),
    "only a candidate": (False, {}, ["DeletionCandidateOfClusterAutoscaler"]),
    "being deleted": (True, {"deletionTimestamp": "2026-11-20T10:00:00Z"}, []),
}


@pytest.mark.parametrize(("leaving", "metadata", "taints"), LEAVING.values(), ids=LEAVING)
def test_leaving(leaving: bool, metadata: dict[str, Any], taints: list[str]) -> None:
    listed = [{"key": key, "effect": "NoSchedule"} for key in taints]
    assert leaving == read(metadata, {"taints": listed}).leaving


def test_what_stands_in() -> None:
    """Without allocatable the capacity counts (API server default); the zone is the value of the configured label."""
    assert Resources.parse({"cpu": 4}) == read(capacity={"cpu": "4"}).allocatable
    assert (read().allocatable, read().zone) == (Resources(), NO_ZONE)
    raw = json.dumps({"metadata": {"name": "n1", "labels": {"site": "geneva"}}}).encode()
    assert node_from_json(raw, zone_label="site").zone == "geneva"


def test_wrong_quantities_are_named() -> None:
    for words, status in {
        "allocatable: cpu: 'x' is not": {"allocatable": {"cpu": "x"}},
        "capacity: cpu: is negative": {"capacity": {"cpu": "-1"}},
    }.items():
        with pytest.raises(ValueError, match=rf"^Node n1: status\.{words}"):
            read(**status)
