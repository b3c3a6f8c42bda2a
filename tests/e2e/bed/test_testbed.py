"""The control plane without netgang: what kube-scheduler does to a job, and what the tests rely on of the test bed."""

import pytest

from lab.testbed.api import Object
from lab.testbed.errors import PartDied
from lab.testbed.objects import node, training_job
from lab.testbed.processes.schedulers import PLAIN
from lab.testbed.processes.stages import HOLD, REJECT
from tests.e2e.objects import name_of
from tests.e2e.stage import Stage


def phase(found: Object) -> str:
    return str(found["status"]["phase"])


async def test_without_gangs_three_of_five_members_start(stage: Stage) -> None:
    """PAPERS.md G6, the control: one ps and four workers of 2 GPUs on 4 GPUs leave a job of three that hangs."""
    await stage.add_nodes(node("g1", gpu=2), node("g2", gpu=2))
    await stage.start_scheduler()
    await stage.api.create_all(training_job("tf", workers=4, worker_gpu=2, dialect=None, namespace=stage.namespace))
    await stage.until_refused(2)
    pods = await stage.pods()
    placed = [name_of(one) for one in pods if one["spec"].get("nodeName")]
    assert (len(placed), "tf-ps-0" in placed) == (3, True)


async def test_kubelet_can_be_slow_and_can_reject(stage: Stage) -> None:
    """A held stage leaves a deleted pod Terminating until the annotation goes; a rejected pod fails with its reason."""
    await stage.add_nodes(node("n1"))
    await stage.start_scheduler()
    await stage.create_pod("slow", annotations={HOLD: "pod-delete"})
    await stage.create_pod("rejected", annotations={REJECT: "OutOfcpu"})
    slow, rejected = "slow", "rejected"
    [failed] = await stage.until_pods(lambda found: phase(found[0]) == "Failed", rejected, begin=rejected)
    assert failed["status"]["reason"] == "OutOfcpu"
    await stage.until_pods(lambda found: phase(found[0]) == "Running", "slow runs", begin=slow)
    await stage.api.delete("Pod", slow, namespace=stage.namespace, grace_s=30)
    assert (await stage.pods(slow))[0]["metadata"]["deletionTimestamp"]
    await stage.annotate_pod(slow, **{HOLD: None})
    await stage.until_pods(lambda found: not found, "slow gone", begin=slow)


async def test_parts_survive_freeze_and_crash(stage: Stage) -> None:
    """A frozen or crashed scheduler binds nothing; unfrozen, or restarted, it goes on where it was."""
    await stage.add_nodes(node("n1"))
    part = await stage.start_scheduler()
    await stage.start_scheduler({**PLAIN, "profiles": [{"schedulerName": "witness"}]}, name="witness")
    part.freeze()
    await stage.create_pod("while-frozen")
    await stage.create_pod("witness-1", scheduler="witness")
    assert await stage.until_bound("", 1) == {"witness-1": "n1"}
    part.unfreeze()
    await stage.until_bound("while-frozen", 1)
    await part.kill()
    await stage.create_pod("while-dead")
    await stage.create_pod("witness-2", scheduler="witness")
    assert "while-dead" not in await stage.until_bound("", 3)
    await stage.cluster.restart("kube-scheduler")
    await stage.until_bound("while-dead", 1)


async def test_a_part_that_cannot_start_says_why(stage: Stage) -> None:
    """A scheduler with a wrong configuration is an error with its own words, and leaves no part behind."""
    with pytest.raises(PartDied, match="schedulerName"):
        await stage.start_scheduler({**PLAIN, "profiles": [{"schedulerName": ""}]}, name="broken")
    assert "broken" not in stage.cluster.parts


async def test_kubectl_speaks_to_the_cluster(stage: Stage) -> None:
    """The kubeconfig that people get works with kubectl, and the server is of the version that was asked for."""
    manifest = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: c}\ndata: {k: v}\n"
    await stage.cluster.kubectl("apply", "-n", stage.namespace, "-f", "-", text=manifest)
    assert (await stage.api.get("ConfigMap", "c", namespace=stage.namespace))["data"] == {"k": "v"}
    assert f"Server Version: v{stage.cluster.version}" in await stage.cluster.kubectl("version")
