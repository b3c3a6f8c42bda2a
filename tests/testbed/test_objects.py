"""Objects for tests: both dialects of a gang, Kubeflow's labels, nodes over zones."""

import pytest

from testbed.objects import GangDialect, gang_pods, node, pod, pod_group, training_job

MARKS = {  # dialect: labels that make a pod a member
    GangDialect.LABELS: {
        "pod-group.scheduling.sigs.k8s.io/name": "g",
        "pod-group.scheduling.sigs.k8s.io/min-available": "3",
    },
    GangDialect.POD_GROUP: {"scheduling.x-k8s.io/pod-group": "g"},
}


@pytest.mark.parametrize("dialect", MARKS)
def test_both_dialects(dialect: GangDialect) -> None:
    """The same call makes a gang in either dialect, and nothing of the other one."""
    members = gang_pods("g", 2, min_available=3, dialect=dialect)

    assert [one["metadata"]["name"] for one in members] == ["g-worker-0", "g-worker-1"]
    for one in members:
        labels = one["metadata"]["labels"]
        assert MARKS[dialect].items() <= labels.items()
        assert sum("scheduling" in key for key in labels) == len(MARKS[dialect])


def test_a_training_job_has_roles() -> None:
    ps, worker = training_job("tf", workers=1, worker_gpu=2)

    assert ps["metadata"]["labels"]["training.kubeflow.org/replica-type"] == "ps"
    assert "nvidia.com/gpu" not in ps["spec"]["containers"][0]["resources"]["requests"]
    assert worker["metadata"]["labels"]["training.kubeflow.org/job-name"] == "tf"
    assert worker["spec"]["containers"][0]["resources"]["limits"] == {"nvidia.com/gpu": "2"}
    assert worker["metadata"]["labels"]["pod-group.scheduling.sigs.k8s.io/min-available"] == "2"
    plain = training_job("tf", workers=4, worker_gpu=2, dialect=None)
    assert not [key for one in plain for key in one["metadata"]["labels"] if "scheduling" in key]


def test_nodes_are_ready_and_say_what_they_have() -> None:
    one = node("n", cpu="4", gpu=2, zone="a")

    assert one["status"]["allocatable"] == {"cpu": "4", "memory": "32Gi", "pods": "110", "nvidia.com/gpu": "2"}
    assert one["status"]["conditions"][0]["type"] == "Ready"
    assert one["metadata"]["labels"] == {"kubernetes.io/hostname": "n", "topology.kubernetes.io/zone": "a"}
    assert "topology.kubernetes.io/zone" not in node("n")["metadata"]["labels"]


def test_group_and_gates() -> None:
    assert pod_group("g", 3, timeout_s=60)["spec"] == {"minMember": 3, "scheduleTimeoutSeconds": 60}
    assert pod("p", gates=["netgang.io/gang"])["spec"]["schedulingGates"] == [{"name": "netgang.io/gang"}]
    assert "schedulingGates" not in pod("p")["spec"]
