"""Gangs on a real kube-scheduler: whole, in one zone, as soon as there is room; plain pods beside them (S13)."""

from lab.testbed.objects import node, training_job, zone_nodes
from scoring.model.reasons import Reason
from tests.e2e.objects import OURS, not_scheduled
from tests.e2e.stage import Stage


async def test_g6_without_gangs_three_of_five_members_start(stage: Stage) -> None:
    """PAPERS.md G6, the control without netgang: 4 GPUs leave a job that hangs half started."""
    await stage.add_nodes(node("g1", gpu=2), node("g2", gpu=2))
    await stage.cluster.start_scheduler()
    await stage.api.create_all(training_job("tf", workers=4, worker_gpu=2, namespace=stage.namespace))
    await stage.until_refused(2)
    bound = await stage.bound()
    assert (len(bound), "tf-ps-0" in bound) == (3, True)


async def test_g6_starts_when_the_missing_gpus_appear(stage: Stage) -> None:
    """PAPERS.md G6: ps and four workers of 2 GPUs wait on 4 GPUs, all of them, and start when four more are there."""
    await stage.add_nodes(node("g1", gpu=2, zone="a"), node("g2", gpu=2, zone="a"))
    await stage.netgang()
    await stage.api.create_all(training_job("tf", workers=4, worker_gpu=2, namespace=stage.namespace, scheduler=OURS))
    await stage.until_refused(5)
    assert await stage.bound() == {}
    assert all("0/2 nodes are available: 2 netgang: the" in (not_scheduled(one) or "") for one in await stage.pods())
    await stage.add_nodes(node("g3", gpu=2, zone="a"), node("g4", gpu=2, zone="a"))
    await stage.until_bound("tf", 5, limit_s=3.0)


DEFAULT = "default-scheduler"
SYSTEM = "system-cluster-critical"


async def test_a_plain_pod_does_not_take_what_is_reserved_for_a_starving_gang(stage: Stage) -> None:
    await stage.add_nodes(*zone_nodes({"a": 2}, cpu="4100m"))
    netgang = await stage.default_scheduler(queue={"starve_limit_s": 3.0, "reserve_after_s": 0.0})
    await stage.create_pod("busy", cpu="3")
    await stage.until_bound("busy", 1)
    await stage.create_gang("g", 2, scheduler=DEFAULT, cpu="3", gated=True)

    def reserved(queue: dict[str, list[dict[str, list[str]]]]) -> bool:
        return sum(len(one["held_nodes"]) for one in queue["gangs"]) == 2

    await stage.until_document(netgang, "/v1/queue", reserved, "two nodes reserved", limit_s=20.0)
    await stage.create_pod("plain", cpu="1")
    await stage.until_refused(1, reason=Reason.RESERVED, begin="plain")
    await stage.create_pod("system", cpu="1", priority_class=SYSTEM)
    await stage.until_bound("system", 1, limit_s=10.0)
    assert set(await stage.bound()) == {"busy", "system"}
    await stage.end("busy")
    await stage.until_bound("g", 2)
    await stage.until_bound("plain", 1)
