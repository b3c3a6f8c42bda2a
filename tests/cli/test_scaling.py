"""`netgang plan --scaling`: what would become of elastic jobs in a file, as netgang does it and as it was published."""

import re
from pathlib import Path
from typing import Any

import pytest

from tests.cli.world import as_json, refused, run, written
from tests.extender.scheduling.world import Object, node_json, pod_json

ALL = {"NETGANG_ELASTIC__DECREMENT": "4", "NETGANG_ELASTIC__INCREMENT": "4"}
NODES = (node_json("n1", cpu="4"), node_json("n2", cpu="2"), node_json("n3", cpu="2"))
WORKERS_ON = ("n1", "n1", "n1", "n2", "n2", "n3")


def tf_job(**more: Any) -> Object:
    """A TFJob of a ps and six workers that may come and go; one worker suffices, seven are the most."""
    replicas = {"PS": {"replicas": 1}, "Worker": {"replicas": 6, "restartPolicy": "OnFailure"}}
    annotations = {"netgang.io/min-workers": "1", "netgang.io/max-workers": "7"}
    return {
        "apiVersion": "kubeflow.org/v1",
        "kind": "TFJob",
        "metadata": {"name": "low", "namespace": "default", "uid": "u-low", "annotations": annotations},
        "spec": {"enableDynamicWorker": True, "tfReplicaSpecs": replicas, **more},
    }


def job_pod(role: str, index: int, node: str) -> Object:
    made = pod_json(f"low-{role}-{index}", gang="low", size=2, uid=f"u-{role}-{index}", nodeName=node)
    made["metadata"]["labels"] |= {
        "training.kubeflow.org/job-name": "low",
        "training.kubeflow.org/replica-type": role,
        "training.kubeflow.org/replica-index": str(index),
    }
    return {**made, "status": {"phase": "Running"}}


def full(*more: Object, job: Object | None = None) -> list[Object]:
    pods = [job_pod("ps", 0, "n1"), *(job_pod("worker", index, node) for index, node in enumerate(WORKERS_ON))]
    return [*NODES, job or tf_job(), *pods, *more]


def gang(size: int) -> list[Object]:
    return [pod_json(f"heavy-{number}", gang="heavy", size=size) for number in range(size)]


def planned(path: Path, method: str, env: dict[str, str] | None = None) -> Any:
    return as_json("plan", path, "--scaling", method, "--now", "1000", env=ALL | (env or {}))["scaling"]


def changes(document: Any, part: str = "scale_in") -> list[tuple[int, int, list[str], list[str]]]:
    return [(one["before"], one["after"], one["pods"], one["nodes"]) for one in document[part]["changes"]]


def test_ours_takes_the_fewest_from_the_top_over_the_zone(tmp_path: Path) -> None:
    document = planned(written(tmp_path, *full(*gang(3))), "ours")
    assert changes(document) == [(6, 4, ["low-worker-5", "low-worker-4"], ["n3", "n2"])]
    assert (document["scale_in"]["for"], document["scale_in"]["reason"]) == ("default/heavy", "")
    assert document["scale_out"] == {
        "changes": [],
        "reason": "the room is reserved, or about to be free, for a gang that waits",
    }


def test_literal_wants_one_node_for_the_whole_minimum(tmp_path: Path) -> None:
    """The same cluster: three CPUs on one node there will never be, so the published algorithm does nothing."""
    document = planned(written(tmp_path, *full(*gang(3))), "literal")
    assert (changes(document), document["scale_in"]["for"]) == ([], "default/heavy")
    said = document["scale_in"]
    assert said["reason"] == "no node has room for the whole minimum, whatever workers go"
    assert said["detail"] == "4 workers could go"


def test_literal_takes_workers_by_node(tmp_path: Path) -> None:
    path = written(tmp_path, *full(*gang(2)))
    assert changes(planned(path, "ours")) == [(6, 5, ["low-worker-5"], ["n3"])]
    document = planned(path, "literal")
    assert changes(document) == [(6, 4, ["low-worker-4", "low-worker-3"], ["n2", "n2"])]
    assert document["scale_in"]["detail"] == "its whole minimum fits on node n2 then"


@pytest.mark.parametrize("method", ["ours", "literal"])
def test_nobody_waits_and_the_job_grows(tmp_path: Path, method: str) -> None:
    document = planned(written(tmp_path, *full()), method)
    assert changes(document, "scale_out") == [(6, 7, [], ["n3"])]
    assert document["scale_in"]["reason"] == "no gang waits for room"


@pytest.mark.parametrize("method", ["ours", "literal"])
def test_what_the_plan_gives_away_is_nobodys_room(tmp_path: Path, method: str) -> None:
    document = planned(written(tmp_path, *full(*gang(1))), method)
    assert (changes(document), changes(document, "scale_out")) == ([], [])


AUTOSCALER = {
    "apiVersion": "autoscaling/v2",
    "kind": "HorizontalPodAutoscaler",
    "metadata": {"name": "mine", "namespace": "default"},
    "spec": {"scaleTargetRef": {"apiVersion": "kubeflow.org/v1", "kind": "TFJob", "name": "low"}},
}
LEFT_ALONE = {  # case: (further objects, the job, part of the reason)
    "an autoscaler has it": ([AUTOSCALER], tf_job(), "HorizontalPodAutoscaler"),
    "static workers": ([], tf_job(enableDynamicWorker=False), "enableDynamicWorker"),
}


@pytest.mark.parametrize("method", ["ours", "literal"])
@pytest.mark.parametrize(("more", "job", "said"), LEFT_ALONE.values(), ids=LEFT_ALONE)
def test_who_must_not_be_resized_is_not(
    tmp_path: Path, more: list[Object], job: Object, said: str, method: str
) -> None:
    document = planned(written(tmp_path, *full(*gang(2), *more, job=job)), method)
    assert (changes(document), changes(document, "scale_out")) == ([], [])
    [row] = document["jobs"]
    assert row["reason"] == "the job must not be resized"
    assert said in row["detail"]


@pytest.mark.parametrize("method", ["ours", "literal"])
def test_the_published_condition(tmp_path: Path, method: str) -> None:
    """`condition: heaviest`: a gang lighter than some job that runs moves no gang."""
    big = pod_json("big-0", gang="big", size=1, cpu="0.001", nodeName="n3")
    path = written(tmp_path, *full(*gang(2), big))
    document = planned(
        path, method, {"NETGANG_ELASTIC__CONDITION": "heaviest", "NETGANG_QUEUE__STARVE_LIMIT_S": "1800"}
    )
    assert (changes(document), document["scale_in"]["reason"]) == (
        [],
        "the gang is lighter than the heaviest job that runs",
    )


def test_for_people(tmp_path: Path) -> None:
    path = written(tmp_path, *full(*gang(2)))
    text = run("plan", path, "--scaling", "ours", "--now", "1000").stdout
    lines = [" ".join(line.split()) for line in text.splitlines()]
    assert "elastic jobs, as netgang does it" in lines
    assert any(re.fullmatch(r"default/low \S+ 6 1 7 5 low-worker-5 \(n3\)", line) for line in lines)
    assert lines[-1] == "for default/heavy: it starts when they are gone"


def test_without_the_jobs_there_is_nothing_to_say(tmp_path: Path) -> None:
    path = written(tmp_path, *NODES)
    assert run("plan", path, "--scaling", "literal").stdout.splitlines()[-1] == (
        "elastic jobs, as published, node by node: none"
    )
    assert "scaling" not in as_json("plan", path)


def test_a_version_that_is_not_known_is_told(tmp_path: Path) -> None:
    job = {**tf_job(), "apiVersion": "kubeflow.org/v1alpha9"}
    document = planned(written(tmp_path, *full(job=job)), "ours")
    assert document["problems"] == ["TFJob of kubeflow.org/v1alpha9 is not read: kubeflow.org/v1 is"]
    assert document["jobs"] == []


BROKEN = {
    "a job without numbers": {**tf_job(), "spec": {"tfReplicaSpecs": {"Worker": {"replicas": "six"}}}},
    "an autoscaler of nothing": {**AUTOSCALER, "spec": {}},
}


@pytest.mark.parametrize("broken", BROKEN.values(), ids=BROKEN)
def test_what_cannot_be_read_is_named(tmp_path: Path, broken: Object) -> None:
    path = written(tmp_path, node_json("n1"), broken)
    assert f"{path}: items[1]: not a" in refused("plan", path, "--scaling", "ours")
    assert run("plan", path).exit_code == 0


def test_another_method_is_refused(tmp_path: Path) -> None:
    said = refused("plan", written(tmp_path), "--scaling", "best")
    assert "'ours'" in said
    assert "'literal'" in said
