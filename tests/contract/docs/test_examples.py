"""The examples are what they say: generated files are up to date, and everything in them is read as it is meant."""

import json
import runpy
from pathlib import Path

import pytest
import yaml

from extender.convert import wire
from extender.convert.nodes import node_from_json
from extender.convert.pod import pod_from_json
from extender.convert.podgroups import pod_group_from_json
from scoring.ids import ResourceName
from scoring.model import GangSource, Node, Pod, Role
from scoring.model.policy import Policy, gang_options

EXAMPLES = Path(__file__).parents[3] / "examples"
GPU = ResourceName("nvidia.com/gpu")


def _items(kind: str) -> list[bytes]:
    listed = json.loads((EXAMPLES / "snapshot/paper-testbed.json").read_text())
    assert (listed["apiVersion"], listed["kind"]) == ("v1", "List")
    return [json.dumps(item).encode() for item in listed["items"] if item["kind"] == kind]


def _nodes() -> list[Node]:
    return [node_from_json(raw) for raw in _items("Node")]


def _pods() -> list[Pod]:
    return [pod_from_json(raw) for raw in _items("Pod")]


def test_generated_files_are_up_to_date() -> None:
    files = runpy.run_path(str(EXAMPLES / "make_snapshot.py"))["files"]()
    assert {path: path.read_text() for path in files} == files
    assert {path for folder in ("snapshot", "requests") for path in (EXAMPLES / folder).iterdir()} == set(files)


def test_the_test_bed_is_the_papers() -> None:
    nodes = _nodes()
    zones = {zone: [node.name for node in nodes if node.zone == zone] for zone in "ABCD"}
    assert [len(names) for names in zones.values()] == [9, 9, 9, 9]
    assert zones["D"] == [f"node{number}" for number in range(28, 37)]
    assert {node.allocatable.get(ResourceName("cpu")) for node in nodes} == {16_000}
    assert sum(node.allocatable.get(GPU) for node in nodes) == 4


def test_case1_is_a_gang_of_six_that_need_a_node_each() -> None:
    pods = [pod for pod in _pods() if pod.group is not None and pod.group.key == "demo/case1"]
    assert [pod.name for pod in pods] == [f"case1-{index}" for index in range(6)]
    assert {(pod.group.source, pod.group.min_available, pod.group.problem) for pod in pods if pod.group} == {
        (GangSource.LABELS, 6, None)
    }
    assert {pod.requests.get(ResourceName("cpu")) for pod in pods} == {10_000}
    assert {(pod.scheduler_name, pod.node) for pod in pods} == {("netgang", None)}
    assert {gang_options(dict(pod.options), Policy()).near for pod in pods} == {"D"}
    assert not any(gang_options(dict(pod.options), Policy()).problems for pod in pods)


def test_tf_smoke_gpu_needs_twice_the_gpus_that_exist() -> None:
    pods = [pod for pod in _pods() if pod.group is not None and pod.group.key == "demo/tf-smoke-gpu"]
    assert [(pod.role, pod.index) for pod in pods] == [(Role.PS, 0), *((Role.WORKER, index) for index in range(4))]
    assert {pod.job for pod in pods} == {"demo/tf-smoke-gpu"}
    assert {pod.group.source for pod in pods if pod.group} == {GangSource.POD_GROUP}
    assert sum(pod.requests.get(GPU) for pod in pods) == 8
    (group,) = [pod_group_from_json(raw) for raw in _items("PodGroup")]
    assert (group.key, group.min_member) == ("demo/tf-smoke-gpu", 5)


def test_everything_else_is_load() -> None:
    load = [pod for pod in _pods() if pod.group is None]
    assert sorted(str(pod.node) for pod in load) == sorted(str(node.name) for node in _nodes())
    assert {pod.scheduler_name for pod in load} == {"default-scheduler"}


REQUESTS = {  # file → pod it asks about
    "filter-case1.json": "demo/case1-0",
    "prioritize-case1.json": "demo/case1-0",
    "filter-tf-smoke-gpu.json": "demo/tf-smoke-gpu-worker-0",
    "filter-tf-smoke-gpu-ps.json": "demo/tf-smoke-gpu-ps-0",
}


@pytest.mark.parametrize(("file", "key"), REQUESTS.items(), ids=REQUESTS)
def test_requests_ask_about_pods_of_the_snapshot(file: str, key: str) -> None:
    args = wire.decode_filter((EXAMPLES / "requests" / file).read_bytes())
    (known,) = [pod for pod in _pods() if pod.key == key]
    assert pod_from_json(args.pod_json) == known
    assert sorted(args.node_names) == sorted(node.name for node in _nodes())


def test_the_bind_request_is_for_a_pod_of_the_snapshot() -> None:
    args = wire.decode_bind((EXAMPLES / "requests/bind-case1.json").read_bytes())
    (known,) = [pod for pod in _pods() if pod.uid == args.uid]
    assert known.key == f"{args.namespace}/{args.name}"
    assert args.node in {node.name for node in _nodes() if node.zone == "D"}


def test_case1_in_a_real_cluster_is_case1_of_the_demonstration() -> None:
    documents = yaml.safe_load_all((EXAMPLES / "case1.yaml").read_text())
    real = [pod_from_json(json.dumps(one).encode()) for one in documents if one["kind"] == "Pod"]
    shown = [pod for pod in _pods() if pod.name.startswith("case1-")]
    assert [(p.name, p.member_class, p.group, p.options) for p in real] == [
        (p.name, p.member_class, p.group, p.options) for p in shown
    ]


def test_annotations_that_are_suggested_exist() -> None:
    text = (EXAMPLES / "gang-job.yaml").read_text()
    lines = [line.strip(" #").split(":", 1) for line in text.splitlines() if "#   netgang.io/" in line]
    suggested = {key.removeprefix("netgang.io/"): value.split("  ")[0].strip().strip('"') for key, value in lines}
    assert len(suggested) == 5
    assert gang_options(suggested, Policy()).problems == ()
