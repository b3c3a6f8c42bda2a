"""What jobs and pod templates say of their length reaches the gang's record."""

import pytest

from scoring.ids import GangKey
from tests.extender.scheduling.world import World, node_json, running

pytestmark = pytest.mark.looptime

EXPECTED = "netgang.io/expected-duration"


def said(world: World, gang: str) -> float | None:
    found = world.service.cache.gang(GangKey(f"default/{gang}"))
    assert found is not None
    return found.length_s


async def test_an_annotation_of_the_template_is_the_length() -> None:
    async with running(node_json("n1")) as world:
        world.gang("g", 2, annotations={EXPECTED: "1h30m"})
        world.gang("h", 1)
        await world.settle(2.0)
        assert (said(world, "g"), said(world, "h")) == (5400.0, None)


async def test_the_jobs_own_annotation_and_deadline_count() -> None:
    async with running(node_json("n1")) as world:
        owner = world.owner("j", spec={"activeDeadlineSeconds": 7200})
        owner_2 = world.owner("k", kind="PyTorchJob", api_version="kubeflow.org/v1", spec={"runPolicy": {}})
        world.gang("g", 2, owner=owner, annotations={EXPECTED: "1h"})
        world.gang("h", 2, owner=owner)
        world.gang("i", 2, owner=owner_2)
        await world.settle(5.0)
        assert (said(world, "g"), said(world, "h"), said(world, "i")) == (3600.0, 7200.0, None)


async def test_a_jobs_annotation_is_read_once_its_gang_runs_too() -> None:
    """As after a restart: nothing of it waits, and the plan needs its end all the same."""
    async with running(node_json("n1")) as world:
        api = world.api
        stored = api.add(
            {
                "apiVersion": "batch/v1",
                "kind": "Job",
                "metadata": {"name": "j", "annotations": {EXPECTED: "600"}},
                "spec": {},
            }
        )
        owner = {"apiVersion": "batch/v1", "kind": "Job", "name": "j", "controller": True}
        world.pod("g-0", gang="g", owner=owner | {"uid": stored["metadata"]["uid"]}, nodeName="n1", phase="Running")
        await world.settle(5.0)
        assert said(world, "g") == 600.0


async def test_a_pods_deadline_is_a_limit() -> None:
    async with running(node_json("n1")) as world:
        world.gang("g", 2, activeDeadlineSeconds=60)
        await world.settle(2.0)
        assert said(world, "g") == 60.0


async def test_a_bad_value_gets_an_event_that_names_the_annotation() -> None:
    async with running(node_json("n1")) as world:
        world.gang("g", 1, annotations={EXPECTED: "a while"})
        await world.settle(10.0)
        assert said(world, "g") is None
        [told] = world.told_to("ProbableMistake").values()
        assert "netgang.io/expected-duration: 'a while' is not a duration" in told


async def test_a_bad_value_on_the_job_gets_the_event_too() -> None:
    async with running(node_json("n1")) as world:
        stored = world.api.add(
            {
                "apiVersion": "batch/v1",
                "kind": "Job",
                "metadata": {"name": "j", "annotations": {EXPECTED: "9" * 5000}},
                "spec": {},
            }
        )
        owner = {"apiVersion": "batch/v1", "kind": "Job", "name": "j", "controller": True}
        world.pod("g-0", gang="g", owner=owner | {"uid": stored["metadata"]["uid"]})
        await world.settle(20.0)
        assert said(world, "g") is None
        assert any("netgang.io/expected-duration" in text for text in world.told_to("ProbableMistake").values())
