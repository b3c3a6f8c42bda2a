"""The training operator's jobs as tests write them, and pods that take their time to end."""

from typing import Any

from testbed.parts.operator import condition, pytorch_job, tf_job
from testbed.processes.stages import DELETE_AFTER, with_handle


def stage(name: str) -> dict[str, Any]:
    return {"metadata": {"name": name}, "spec": {"selector": {"matchExpressions": []}, "next": {}}}


def test_a_pod_says_how_long_it_takes_to_end() -> None:
    delay = with_handle(stage("pod-delete"))["spec"]["delay"]
    assert delay["durationMilliseconds"] == 0
    assert delay["durationFrom"] == {"expressionFrom": f'.metadata.annotations["{DELETE_AFTER}"]'}
    assert "delay" not in with_handle(stage("pod-ready"))["spec"]


def test_a_tf_job_leaves_the_scheduler_to_the_operator() -> None:
    job = tf_job("low", workers=4, ends_after="3s")
    assert job["spec"]["runPolicy"]["schedulingPolicy"] == {"minAvailable": 5}
    assert {role: one["replicas"] for role, one in job["spec"]["tfReplicaSpecs"].items()} == {"PS": 1, "Worker": 4}
    template = job["spec"]["tfReplicaSpecs"]["Worker"]["template"]
    assert "schedulerName" not in template["spec"]
    assert template["spec"]["containers"][0]["name"] == "tensorflow"
    assert template["metadata"]["annotations"] == {DELETE_AFTER: "3s"}


def test_a_pytorch_job_is_elastic() -> None:
    job = pytorch_job("low", workers=4, min_workers=2)
    policy = job["spec"]["elasticPolicy"]
    assert (policy["minReplicas"], policy["maxReplicas"]) == (2, 4)
    assert job["spec"]["runPolicy"]["schedulingPolicy"] == {"minAvailable": 2}


def test_conditions() -> None:
    """Only those that are True count."""
    job = {"status": {"conditions": [{"type": "Running", "status": "False"}, {"type": "Failed", "status": "True"}]}}
    assert [condition(job, kind) for kind in ("Running", "Failed", "Created")] == [False, True, False]
    assert not condition({}, "Running")
