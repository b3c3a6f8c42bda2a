"""Saved clusters of any size for the page: gangs of many states, on nodes as the demonstration has them."""

import json
import shutil
import time
from pathlib import Path

from extender.ports import SystemClock
from tests.browser.conftest import ROOT
from tests.extender.scheduling.world import node_json, pod_json

GPU = "nvidia.com/gpu"
WAITS = ({"gpu": 8, "size": 9}, {"gpu": 4, "size": 40}, {"gpu": 9, "size": 2}, {"gpu": 1, "size": 3, "made": 1})
"""Waiting gangs in turn: for room, too many, too large, and one that lacks pods; some have a bad label."""


def write(folder: Path, gangs: int) -> list[str]:
    """A cluster with at most half of its room in use; the options of `netgang` that serve it."""
    nodes = 36 if gangs < 100 else 200
    items = [node_json(f"node{i + 1}", zone="ABCD"[i * 4 // nodes], cpu="64", ready=i != 16) for i in range(nodes)]
    for node in items:
        node["metadata"]["uid"], node["status"]["allocatable"][GPU] = node["metadata"]["name"], "8"
    items[4]["spec"]["unschedulable"] = True
    for number in range(gangs):
        name, runs = f"{('bert', 'resnet', 'llama-70b')[number % 3]}-{number:04}", number % 2 == 0 and number < nodes
        of = {"gpu": 4, "size": 4} if runs else WAITS[number // 2 % 4]
        stamp = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(SystemClock().now_s() - 600.0 - 47.0 * number))
        for index in range(of.get("made", of["size"])):
            pod = pod_json(f"{name}-{index}", gang=name, size=of["size"], cpu="4", uid=f"{name}-{index}")
            pod["metadata"] |= {"namespace": f"team-{'abcde'[number % 5]}", "creationTimestamp": stamp}
            pod["metadata"]["annotations"] = {"netgang.io/expected-duration": "36h"}
            pod["spec"]["containers"][0]["resources"]["requests"][GPU] = str(of["gpu"])
            if runs:
                pod["spec"]["nodeName"] = f"node{(number + index * (9 if number % 4 else 1)) % nodes + 1}"
                bound = {"type": "PodScheduled", "status": "True", "lastTransitionTime": stamp}
                pod["status"] = {"phase": "Running", "conditions": [bound]}
            elif number % 9 == 5:
                pod["metadata"]["labels"]["pod-group.scheduling.sigs.k8s.io/min-available"] = "many"
            items.append(pod)
    (folder / "cluster.json").write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": items}))
    copied = shutil.copy(ROOT / "examples/mesh/paper-testbed.json", folder)  # old values make no link bad
    mesh = [{"kind": "file", "path": str(copied)}] if gangs else []
    (folder / "settings.json").write_text(json.dumps({"network": {"sources": mesh}}))
    return ["serve", "--config", str(folder / "settings.json"), "--snapshot", str(folder / "cluster.json")]
