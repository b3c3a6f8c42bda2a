"""The examples are what they say: generated files are up to date, and what they ask is what the demonstration shows."""

import json
import runpy
from pathlib import Path

import pytest
import yaml

from extender.convert import wire
from extender.convert.pod import pod_from_json
from scoring.model import Pod
from scoring.model.policy import Policy, gang_options

EXAMPLES = Path(__file__).parents[3] / "examples"


def _items(kind: str) -> list[bytes]:
    listed = json.loads((EXAMPLES / "snapshot/paper-testbed.json").read_text())
    return [json.dumps(item).encode() for item in listed["items"] if item["kind"] == kind]


def _pods() -> list[Pod]:
    return [pod_from_json(raw) for raw in _items("Pod")]


def test_generated_files_are_up_to_date() -> None:
    files = runpy.run_path(str(EXAMPLES / "make_snapshot.py"))["files"]()
    assert {path: path.read_text() for path in files} == files
    assert {path for folder in ("snapshot", "requests") for path in (EXAMPLES / folder).iterdir()} == set(files)


@pytest.mark.parametrize("file", sorted(path.name for path in (EXAMPLES / "requests").iterdir()))
def test_requests_ask_about_pods_of_the_snapshot(file: str) -> None:
    body = (EXAMPLES / "requests" / file).read_bytes()
    if file.startswith("bind"):
        args = wire.decode_bind(body)
        assert [pod.key for pod in _pods() if pod.uid == args.uid] == [f"{args.namespace}/{args.name}"]
    else:
        asked = wire.decode_filter(body)
        assert pod_from_json(asked.pod_json) in _pods()
        assert len({*asked.node_names}) == len(_items("Node")) == 36


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
