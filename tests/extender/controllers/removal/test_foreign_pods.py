"""Pods of other schedulers are never touched, and a gang that mixes schedulers is refused (docs/safety.md S1)."""

from typing import Any

import pytest

from extender.controllers.removal.removals import QUIET_S
from scoring.model.reasons import Reason
from tests.extender.beside import playing
from tests.extender.controllers.elastic.cluster import site
from tests.extender.controllers.operator import Operator
from tests.extender.controllers.restart.test_controller import RESTART_S, reasons, started
from tests.extender.scheduling.world import PARTIAL_S, node_json, pod_json, running

pytestmark = pytest.mark.looptime

NODES = [node_json(f"n{i}") for i in range(4)]
LONG_S = QUIET_S + 2 * PARTIAL_S + 10.0  # until a gang of ours found in part at the start is evicted


MIXED: dict[str, tuple[str, dict[str, Any]]] = {  # case: (whose three run, settings)
    "another scheduler's": ("default-scheduler", {}),
    "two of our own schedulers": ("netgang-big", {"scheduler_names": ["netgang", "netgang-big"]}),
}


@pytest.mark.parametrize(("scheduler", "settings"), MIXED.values(), ids=MIXED)
async def test_a_mixed_gang_is_refused_and_none_of_it_is_removed(scheduler: str, settings: dict[str, Any]) -> None:
    """Its pods run on, and one pod of either kind is told."""
    async with running(*NODES, **settings) as world:
        for i in range(3):
            world.pod(f"g-{i}", gang="g", size=4, scheduler=scheduler, nodeName=f"n{i}", phase="Running")
        for name in ("g-3", "g-4"):
            world.pod(name, gang="g", size=4)
        await world.settle(LONG_S)
        assert world.api.calls["evict"] + world.api.calls["patch_object"] == 0
        assert world.refusal("g-3") is Reason.MIXED_SCHEDULERS
        assert world.state("g") is None
        assert world.told_to("GangInvalid").keys() == {"g-0", "g-3"}


async def test_a_gang_that_becomes_mixed_while_it_is_in_part_is_spared() -> None:
    async with running(*NODES) as world:
        world.pod("g-0", gang="g", size=3, cpu="3", nodeName="n0")
        world.pod("g-1", gang="g", size=3, cpu="30")
        await world.settle(PARTIAL_S / 2)
        world.pod("g-2", gang="g", size=3, scheduler="default-scheduler", nodeName="n1")
        await world.settle(LONG_S)
        assert world.api.calls["evict"] == 0


def stranger_of(operator: Operator) -> None:
    """A pod of the same owner under another scheduler, in no gang: a role whose template names another one."""
    pod = pod_json("job-ps", scheduler="default-scheduler", nodeName="n5")
    pod["metadata"]["labels"] = {"batch.kubernetes.io/job-name": operator.name}
    member = operator.world.api.pod(operator.members()[0])
    pod["metadata"]["ownerReferences"] = member["metadata"]["ownerReferences"]
    operator.world.api.add(pod)


@pytest.mark.parametrize("kind", ["Job", "TFJob"])
async def test_an_owner_that_has_pods_of_another_scheduler_is_not_suspended(kind: str) -> None:
    """A suspended owner removes all its pods: those of another scheduler too, so it is not done, and is told."""
    nodes = [node_json(f"n{i}", cpu="1500m") for i in range(6)]
    async with running(*nodes) as world, started(world, kind=kind) as operator:
        stranger_of(operator)
        world.delete("job-1")
        await world.settle(RESTART_S)
        assert world.api.calls["patch_object"] == 0
        assert "job-ps" in operator.members()
        [note] = set(world.told("DisruptionFailed"))
        assert "pod job-ps of its owner is not netgang's" in note


async def test_a_pod_that_the_cache_does_not_know_yet_counts() -> None:
    """What the owner's pods are is read from the API server: the watch may be behind (docs/safety.md S11)."""
    nodes = [node_json(f"n{i}", cpu="1500m") for i in range(6)]
    async with running(*nodes) as world:
        operator = Operator(world)
        async with playing(operator.keep()):
            await world.settle(QUIET_S + 3.0)
            for name in operator.members():
                world.bind_offered(name) if not world.api.pod(name)["spec"].get("schedulingGates") else None
            await world.settle(3.0)
            world.delete("job-1")
            await world.settle(3.0)
            world.api.store.silence()
            stranger_of(operator)
            await world.settle(RESTART_S)
            world.api.store.speak()
            assert world.api.calls["patch_object"] == 0
            assert "GangRestarted" not in reasons(world)


async def test_a_job_with_leaving_pods_of_another_scheduler_is_not_shrunk() -> None:
    async with site() as here:
        await here.runs("low", 6, least=2)
        await here.until_quiet_is_over()
        here.asleep.add("low")
        evaluator = pod_json("low-evaluator", scheduler="default-scheduler", cpu="0")
        evaluator["metadata"]["labels"] = {
            "batch.kubernetes.io/job-name": "low",
            "batch.kubernetes.io/job-completion-index": "5",
        }
        here.api.add(evaluator)
        here.create("heavy", 5, least=5)
        await here.world.settle(30.0)
        assert (here.workers("low"), here.api.calls["patch_object"]) == (6, 0)
