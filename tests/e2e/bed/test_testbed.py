"""The control plane without netgang: what kube-scheduler does to a job, and what the tests rely on of the test bed."""

from lab.testbed.api import Object
from lab.testbed.objects import node, training_job
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


async def test_kubectl_speaks_to_the_cluster(stage: Stage) -> None:
    """The kubeconfig that people get works with kubectl, and the server is of the version that was asked for."""
    manifest = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: c}\ndata: {k: v}\n"
    await stage.cluster.kubectl("apply", "-n", stage.namespace, "-f", "-", text=manifest)
    assert (await stage.api.get("ConfigMap", "c", namespace=stage.namespace))["data"] == {"k": "v"}
    assert f"Server Version: v{stage.cluster.version}" in await stage.cluster.kubectl("version")
