"""What network a gang got is written on its owner or first pod, once, short, and is no option of the gang."""

import json
from typing import Any

import pytest

from extender.controllers.starts.network_annotation import network_text
from extender.convert.pod.pod import NETWORK_ANNOTATION
from extender.errors import ApiError
from extender.kube import calls
from scoring.explain.running_network import RunningNetwork, WorstLink
from scoring.ids import NodeName, ZoneName
from tests.builders import mesh
from tests.extender.scheduling.world import World, node_json, running

NAMES = ("n0", "n1")
NODES = tuple(node_json(name, cpu="1") for name in NAMES)


def annotation(world: World, pod: str) -> str | None:
    found: str | None = world.api.pod(pod)["metadata"]["annotations"].get(NETWORK_ANNOTATION)
    return found


@pytest.mark.looptime
async def test_written_once_on_the_first_pod() -> None:
    async with running(*NODES) as world:
        world.set_network(mesh(NAMES))
        await world.settle(2.5)
        first, second = await world.planned_gang("g", 2)
        await world.bind_and_settle(first, second)
        await world.settle(6.0)
        text = annotation(world, first)
        assert text is not None
        found = json.loads(text)
        assert (found["zones"], found["nodes"]) == (["a"], 2)
        assert (found["worst"]["source"], found["worst"]["delay_ms"]) == ("n0", 1.0)
        assert annotation(world, second) is None
        assert world.told("ProbableMistake") == []
        await world.settle(130.0)
        assert annotation(world, first) == text


@pytest.mark.looptime
async def test_not_for_a_gang_that_ran_before() -> None:
    async with running(*NODES) as world:
        for number, name in enumerate(NAMES):
            world.pod(f"g-{number}", gang="g", size=2, nodeName=name, phase="Running")
        await world.settle(6.0)
        assert [annotation(world, f"g-{number}") for number in range(2)] == [None, None]


@pytest.mark.looptime
async def test_no_pod_is_patched_where_no_link_is_measured() -> None:
    async with running(*NODES) as world:
        names = await world.planned_gang("g", 2)
        await world.bind_and_settle(*names)
        await world.settle(6.0)
        assert [annotation(world, name) for name in names] == [None, None]
        assert world.api.calls["patch"] == 0


OWNERS: dict[str, tuple[dict[str, Any], bool]] = {  # case: (settings, whether the Job has it)
    "no right to patch owners": ({}, False),
    "restarts give the right": ({"repair": {"policy": "restart"}}, True),
    "elastic jobs give the right": ({"elastic": {"enabled": True}}, True),
}


@pytest.mark.looptime
@pytest.mark.parametrize(("settings", "on_job"), OWNERS.values(), ids=OWNERS)
async def test_on_the_owner_where_it_may_be_patched(settings: dict[str, Any], on_job: bool) -> None:
    async with running(*NODES, **settings) as world:
        first = await _started(world, [world.owner("job")] * 2)
        assert (_on_job(world) is not None, annotation(world, first) is None) == (on_job, on_job)


@pytest.mark.looptime
async def test_on_the_pod_where_the_api_server_refuses_the_owner() -> None:
    async with running(*NODES, repair={"policy": "restart"}) as world:
        owner = world.owner("job")
        world.api.fail_next("patch_object", ApiError(403, "jobs.batch is forbidden"))
        assert annotation(world, await _started(world, [owner] * 2)) is not None
        assert _on_job(world) is None


@pytest.mark.looptime
async def test_on_the_pod_of_a_gang_with_several_owners() -> None:
    async with running(*NODES, repair={"policy": "restart"}) as world:
        first = await _started(
            world, [world.owner(name, spec={"completions": 1, "parallelism": 1}) for name in ("job", "other")]
        )
        assert (_on_job(world), annotation(world, first) is None) == (None, False)


async def _started(world: World, owners: list[Any]) -> str:
    """Start a gang of two, whose pods have these owners; the name of its first pod."""
    world.set_network(mesh(NAMES))
    await world.settle(2.5)
    names = [f"g-{number}" for number in range(2)]
    for name, owner in zip(names, owners, strict=True):
        world.pod(name, gang="g", size=2, owner=owner)
    await world.settle(3.0)
    await world.bind_and_settle(*names)
    await world.settle(6.0)
    return names[0]


def _on_job(world: World) -> str | None:
    metadata = world.api.store.get(calls.OWNERS["batch", "Job"], "default", "job")["metadata"]
    found: str | None = metadata.get("annotations", {}).get(NETWORK_ANNOTATION)
    return found


def test_the_text_is_short_whatever_the_names() -> None:
    node, zone = NodeName("n" * 253), ZoneName("z" * 63)
    worst = WorstLink(node, node, 1.234, 0.123456, 123.456, 123456789.123, 123456.7)
    text = network_text(RunningNetwork((zone,) * 99, (node,) * 64, 5000, 12.345, worst), 1.7e9)
    assert len(text) <= 1024
    assert json.loads(text)["nodes"] == 5000
