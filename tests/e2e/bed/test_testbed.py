"""The control plane without netgang: what kube-scheduler does to a job."""

from lab.testbed.objects import node, training_job
from tests.e2e.objects import name_of
from tests.e2e.stage import Stage


async def test_without_gangs_three_of_five_members_start(stage: Stage) -> None:
    """PAPERS.md G6, the control: one ps and four workers of 2 GPUs on 4 GPUs leave a job of three that hangs."""
    await stage.add_nodes(node("g1", gpu=2), node("g2", gpu=2))
    await stage.start_scheduler()
    await stage.api.create_all(training_job("tf", workers=4, worker_gpu=2, dialect=None, namespace=stage.namespace))
    await stage.until_refused(2)
    pods = await stage.pods()
    placed = [name_of(one) for one in pods if one["spec"].get("nodeName")]
    assert (len(placed), "tf-ps-0" in placed) == (3, True)
