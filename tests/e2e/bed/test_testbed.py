"""The control plane itself: kube-scheduler places pods on kwok's nodes, and without gang logic a job starts in part."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from testbed.api import Api
from testbed.cluster import NETGANG, NETGANG_SCHEDULER, Cluster
from testbed.errors import ApiRefused, PartDied
from testbed.objects import GangDialect, gang_pods, node, pod, pod_group, training_job
from testbed.objects import namespace as namespace_object
from testbed.processes.schedulers import PLAIN
from testbed.processes.stages import HOLD, REJECT
from testbed.programs.catalogue import KUBERNETES, Version
from tests.e2e import AddNodes, StartScheduler

core = pytest.mark.e2e_core


def phase(found: Mapping[str, Any]) -> str:
    """Phase of a pod."""
    return str(found["status"]["phase"])


def refused(found: Mapping[str, Any]) -> bool:
    """Whether kube-scheduler said that it has no node for the pod."""
    conditions = found["status"].get("conditions", [])
    return any(one["type"] == "PodScheduled" and one.get("reason") == "Unschedulable" for one in conditions)


@core
async def test_plain_pod_is_bound_and_runs(
    api: Api, namespace: str, add_nodes: AddNodes, start_scheduler: StartScheduler, scheduler_version: Version
) -> None:
    """kube-scheduler alone binds a plain pod to the node that fits, and kwok lets it run and go."""
    await add_nodes(node("small", cpu="1"), node("large", cpu="8", zone="a"))
    await start_scheduler(version=scheduler_version)
    await api.create(pod("p", namespace=namespace, cpu="4"))

    assert await api.until_bound(namespace, 1) == {"p": "large"}
    running = await api.until(
        lambda: api.get("Pod", "p", namespace=namespace), lambda found: phase(found) == "Running", what="p Running"
    )
    assert running["metadata"]["labels"]["topology.kubernetes.io/zone"] == "a"

    await api.delete("Pod", "p", namespace=namespace)
    await api.until(lambda: api.list_all("Pod", namespace=namespace), lambda found: not found, what="p gone")


@core
async def test_without_gangs_three_of_five_members_start(
    api: Api, namespace: str, add_nodes: AddNodes, start_scheduler: StartScheduler, scheduler_version: Version
) -> None:
    """PAPERS.md G6, the control: one ps and four workers of 2 GPUs on 4 GPUs leave a job of three that hangs."""
    await add_nodes(node("g1", gpu=2), node("g2", gpu=2))
    await start_scheduler(version=scheduler_version)
    await api.create_all(training_job("tf", workers=4, worker_gpu=2, dialect=None, namespace=namespace))

    pods = await api.until(
        lambda: api.list_all("Pod", namespace=namespace),
        lambda found: sum(map(refused, found)) == 2,
        what="two members refused",
    )
    placed = [one["metadata"]["name"] for one in pods if one["spec"].get("nodeName")]
    assert len(placed) == 3
    assert "tf-ps-0" in placed
    assert len(await api.bound(namespace)) == 3


@core
async def test_podgroup_objects_are_stored(api: Api, namespace: str) -> None:
    """The PodGroup definition is installed, and pods of both dialects name their gang."""
    await api.create(pod_group("g", 3, namespace=namespace))
    await api.create_all(
        gang_pods("g", 1, min_available=3, namespace=namespace, dialect=GangDialect.POD_GROUP)
        + gang_pods("h", 1, min_available=3, namespace=namespace)
    )

    stored = await api.get("PodGroup", "g", namespace=namespace)
    assert stored["spec"]["minMember"] == 3
    of_g = await api.list_all("Pod", namespace=namespace, labels="scheduling.x-k8s.io/pod-group=g")
    of_h = await api.list_all("Pod", namespace=namespace, labels="pod-group.scheduling.sigs.k8s.io/name=h")
    assert [one["metadata"]["name"] for one in of_g + of_h] == ["g-worker-0", "h-worker-0"]


@core
async def test_kubelet_can_be_slow_and_can_reject(
    api: Api, namespace: str, add_nodes: AddNodes, start_scheduler: StartScheduler
) -> None:
    """A held stage leaves a deleted pod Terminating until it is let go; a rejected pod fails with its reason."""
    await add_nodes(node("n1"))
    await start_scheduler()
    await api.create_all(
        [
            pod("slow", namespace=namespace, annotations={HOLD: "pod-delete"}),
            pod("rejected", namespace=namespace, annotations={REJECT: "OutOfcpu"}),
        ]
    )

    failed = await api.until(
        lambda: api.get("Pod", "rejected", namespace=namespace),
        lambda found: phase(found) == "Failed",
        what="rejected",
    )
    assert failed["status"]["reason"] == "OutOfcpu"

    await api.until(
        lambda: api.get("Pod", "slow", namespace=namespace), lambda found: phase(found) == "Running", what="slow runs"
    )
    await api.delete("Pod", "slow", namespace=namespace, grace_s=30)
    held = await api.get("Pod", "slow", namespace=namespace)
    assert held["metadata"]["deletionTimestamp"]
    await api.patch("Pod", "slow", {"metadata": {"annotations": {HOLD: None}}}, namespace=namespace)
    await api.until(
        lambda: api.list_all("Pod", namespace=namespace, fields="metadata.name=slow"),
        lambda found: not found,
        what="slow gone",
    )


@core
async def test_parts_survive_restart_freeze_and_crash(
    cluster: Cluster, api: Api, namespace: str, add_nodes: AddNodes, start_scheduler: StartScheduler
) -> None:
    """A frozen or crashed scheduler binds nothing; unfrozen, or restarted, it goes on where it was.

    That time passed for the frozen one is seen by a pod of a second scheduler, created later and bound.
    """
    await add_nodes(node("n1"))
    part = await start_scheduler()
    await start_scheduler({**PLAIN, "profiles": [{"schedulerName": "witness"}]}, name="witness")

    part.freeze()
    await api.create(pod("while-frozen", namespace=namespace))
    await api.create(pod("witness-1", namespace=namespace, scheduler="witness"))
    assert await api.until_bound(namespace, 1) == {"witness-1": "n1"}
    part.unfreeze()
    assert await api.until_bound(namespace, 2) == {"witness-1": "n1", "while-frozen": "n1"}

    await part.kill()
    await api.create(pod("while-dead", namespace=namespace))
    await api.create(pod("witness-2", namespace=namespace, scheduler="witness"))
    assert "while-dead" not in await api.until_bound(namespace, 3)
    await cluster.restart("kube-scheduler")
    assert await api.until_bound(namespace, 4) == dict.fromkeys(
        ("witness-1", "while-frozen", "witness-2", "while-dead"), "n1"
    )


@core
async def test_netgang_has_the_rights_of_its_manifests(cluster: Cluster, api: Api, namespace: str) -> None:
    """The service account of manifests/ may read pods and post Bindings, and may not create or delete pods."""
    await api.create(pod("p", namespace=namespace))
    async with cluster.api(NETGANG) as restricted:
        assert len(await restricted.list_all("Pod", namespace=namespace)) == 1
        with pytest.raises(ApiRefused, match="cannot delete resource") as refusal:
            await restricted.delete("Pod", "p", namespace=namespace)
        assert refusal.value.status == 403
        with pytest.raises(ApiRefused, match="cannot create resource"):
            await restricted.create(pod("q", namespace=namespace))


@core
async def test_the_second_scheduler_can_work_with_its_rights(
    api: Api, namespace: str, add_nodes: AddNodes, start_scheduler: StartScheduler, scheduler_version: Version
) -> None:
    """A kube-scheduler with the service account of the installed second scheduler starts, binds and writes events."""
    await add_nodes(node("n1"))
    await start_scheduler(account=NETGANG_SCHEDULER, version=scheduler_version)
    await api.create(pod("p", namespace=namespace))

    assert await api.until_bound(namespace, 1) == {"p": "n1"}
    events = await api.until(
        lambda: api.list_all("Event", namespace=namespace, fields="reason=Scheduled"), bool, what="event Scheduled"
    )
    assert events[0]["involvedObject"]["name"] == "p"


@core
async def test_a_part_that_cannot_start_says_why(cluster: Cluster, start_scheduler: StartScheduler) -> None:
    """A scheduler with a wrong configuration is an error with its own words, and leaves no part behind."""
    with pytest.raises(PartDied, match="schedulerName"):
        await start_scheduler({**PLAIN, "profiles": [{"schedulerName": ""}]}, name="broken")
    assert "broken" not in cluster.parts


@core
async def test_kubectl_speaks_to_the_cluster(cluster: Cluster, api: Api, namespace: str) -> None:
    """The kubeconfig that people get works with kubectl, and the server is of the version that was asked for."""
    manifest = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: c}\ndata: {k: v}\n"
    await cluster.kubectl("apply", "-n", namespace, "-f", "-", text=manifest)

    assert (await api.get("ConfigMap", "c", namespace=namespace))["data"] == {"k": "v"}
    assert f"Server Version: v{KUBERNETES}" in await cluster.kubectl("version")


async def test_controllers_run_jobs_and_collect_garbage(controlled_cluster: Cluster, controlled_api: Api) -> None:
    """With kube-controller-manager a Job's pods run on kwok's nodes, and vanish with the Job and its namespace."""
    await controlled_api.create(namespace_object("jobs"))
    await controlled_cluster.add_nodes([node("n1")])
    await controlled_cluster.start_scheduler()
    member = pod("unused")
    job = {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": "j", "namespace": "jobs"},
        "spec": {
            "parallelism": 2,
            "completions": 2,
            "completionMode": "Indexed",
            "template": {"metadata": {}, "spec": {**member["spec"], "restartPolicy": "Never"}},
        },
    }
    await controlled_api.create(job)

    assert len(await controlled_api.until_bound("jobs", 2)) == 2
    await controlled_api.until(
        lambda: controlled_api.get("Job", "j", namespace="jobs"),
        lambda found: found["status"].get("ready") == 2,
        what="two pods of the Job ready",
    )
    await controlled_api.delete("Job", "j", namespace="jobs")
    await controlled_api.until(
        lambda: controlled_api.list_all("Pod", namespace="jobs"), lambda found: not found, what="pods collected"
    )
    await controlled_api.delete("Namespace", "jobs")
    await controlled_api.until(
        lambda: controlled_api.list_all("Namespace", fields="metadata.name=jobs"),
        lambda found: not found,
        what="namespace gone",
    )
    await controlled_cluster.remove("kube-scheduler")
