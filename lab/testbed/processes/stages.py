"""What kwok makes of pods and nodes: its fast stages, with a handle to hold each one back.

Why: fault tests need a kubelet that is slow to delete, a pod that never becomes ready, a node that stays NotReady,
or a kubelet that rejects a pod after it was bound.
Rule: the stages are kwok's own files; to each selector one condition is added, so that an object annotated
`testbed.netgang.io/hold: STAGE` is left alone by that stage until the annotation goes. One stage is ours: a bound pod
annotated `testbed.netgang.io/reject: REASON` fails with that reason, as a kubelet without room does. A deleted pod
annotated `testbed.netgang.io/delete-after: 2s` is gone after that time, as one that ends its work first.
"""

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import yaml

HOLD = "testbed.netgang.io/hold"
"""Annotation whose value is the name of the stage to hold back, such as `pod-delete`."""

REJECT = "testbed.netgang.io/reject"
"""Annotation whose value is the reason with which the kubelet rejects the pod, such as `OutOfcpu`."""

DELETE_AFTER = "testbed.netgang.io/delete-after"
"""Annotation whose value is how long the pod takes to end once it is deleted, such as `1500ms`; without it no time."""

FAST = ("pod-ready", "pod-delete", "node-initialize", "node-heartbeat")
"""Pods run once bound and vanish once deleted, nodes are and stay Ready."""

_REJECTION: dict[str, Any] = {
    "apiVersion": "kwok.x-k8s.io/v1alpha1",
    "kind": "Stage",
    "metadata": {"name": "pod-reject"},
    "spec": {
        "resourceRef": {"apiGroup": "v1", "kind": "Pod"},
        "selector": {
            "matchExpressions": [
                {"key": ".metadata.deletionTimestamp", "operator": "DoesNotExist"},
                {"key": ".status.phase", "operator": "In", "values": ["Pending"]},
                {"key": f'.metadata.annotations["{REJECT}"]', "operator": "Exists"},
            ]
        },
        "next": {
            "statusTemplate": f'phase: Failed\nreason: {{{{ index .metadata.annotations "{REJECT}" | Quote }}}}\n'
        },
    },
}


def with_handle(stage: dict[str, Any]) -> dict[str, Any]:
    """The stage with its hold condition; `pod-ready` also leaves pods alone that are to be rejected.

    `pod-delete` takes as long as the pod's annotation says.
    """
    name = stage["metadata"]["name"]
    conditions = [
        *stage["spec"]["selector"]["matchExpressions"],
        {"key": f'.metadata.annotations["{HOLD}"]', "operator": "NotIn", "values": [name]},
    ]
    if name == "pod-ready":
        conditions.append({"key": f'.metadata.annotations["{REJECT}"]', "operator": "DoesNotExist"})
    spec = {**stage["spec"], "selector": {"matchExpressions": conditions}}
    if name == "pod-delete":
        after = {"expressionFrom": f'.metadata.annotations["{DELETE_AFTER}"]'}
        spec["delay"] = {"durationMilliseconds": 0, "durationFrom": after}
    return {**stage, "spec": spec}


def write_stages(source: Path, target: Path, names: Iterable[str]) -> tuple[Path, ...]:
    """Write the stages `names` of kwok's directory `source`, and ours, to `target`; returns the files."""
    target.mkdir(parents=True, exist_ok=True)
    stages = [with_handle(yaml.safe_load((source / f"{name}.yaml").read_text())) for name in names]
    written = []
    for stage in (*stages, _REJECTION):
        path = target / f"{stage['metadata']['name']}.yaml"
        path.write_text(yaml.safe_dump(stage, sort_keys=False))
        written.append(path)
    return tuple(written)
