"""The examples are what they say: generated files are up to date, and what they ask is what the demonstration shows."""

import json
import runpy
from pathlib import Path

import yaml

from extender.convert.pod import pod_from_json
from scoring.model.policy import Policy, gang_options

EXAMPLES = Path(__file__).parents[3] / "examples"


def test_generated_files_are_up_to_date() -> None:
    files = runpy.run_path(str(EXAMPLES / "make_snapshot.py"))["files"]()
    assert {path: path.read_text() for path in files} == files
    assert {path for folder in ("snapshot", "requests") for path in (EXAMPLES / folder).iterdir()} == set(files)


def test_case1_in_a_real_cluster_is_case1_of_the_demonstration() -> None:
    documents = yaml.safe_load_all((EXAMPLES / "case1.yaml").read_text())
    real = [pod_from_json(json.dumps(one).encode()) for one in documents if one["kind"] == "Pod"]
    saved = json.loads((EXAMPLES / "snapshot/paper-testbed.json").read_text())["items"]
    pods = [pod_from_json(json.dumps(one).encode()) for one in saved if one["kind"] == "Pod"]
    shown = [pod for pod in pods if pod.name.startswith("case1-")]
    assert [(p.name, p.member_class, p.group, p.options) for p in real] == [
        (p.name, p.member_class, p.group, p.options) for p in shown
    ]


def test_annotations_that_are_suggested_exist() -> None:
    text = (EXAMPLES / "gang-job.yaml").read_text()
    lines = [line.strip(" #").split(":", 1) for line in text.splitlines() if "#   netgang.io/" in line]
    suggested = {key.removeprefix("netgang.io/"): value.split("  ")[0].strip().strip('"') for key, value in lines}
    assert len(suggested) == 5
    assert gang_options(suggested, Policy()).problems == ()
