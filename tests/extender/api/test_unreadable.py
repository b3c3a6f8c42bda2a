"""An object that cannot be read is left out, counted, and shown with its reason (docs/safety.md S21)."""

import asyncio
from typing import Any

import pytest

from extender.api.views import STALE_S
from extender.controllers.events.recorder import MOST_QUEUED
from extender.convert.labels import POD_GROUP_LABEL
from extender.kube.calls import POD_GROUPS
from tests.extender.scheduling.world import Object, World, node_json, pod_json, running, unfinished
from tests.fakes.cluster_api import FakeClusterApi

pytestmark = pytest.mark.looptime

NODES = [node_json(f"n{i}") for i in range(3)]
DIGITS = "1" * 2**20


def group(name: str, **least: Any) -> Object:
    return {"kind": "PodGroup", "metadata": {"name": name}, "spec": {"minMember": 2, "minResources": least}}


def member(world: World, name: str, of: str) -> None:
    pod = pod_json(name)
    pod["metadata"]["labels"] = {POD_GROUP_LABEL: of}
    world.api.add(pod)


def notes(world: World) -> list[str]:
    document = world.explained("bad")
    return [one for one in document.notes if "cannot be read and is left out" in one]


async def test_a_pod_group_stops_no_other() -> None:
    async with running(*NODES, group("first", cpu=DIGITS), group("good", cpu="1")) as world:
        assert world.service.views.readiness().ready
        world.api.add(group("second", cpu=DIGITS + "Ki", memory="1"))
        member(world, "a", "good")
        member(world, "b", "good")
        await world.settle(2.0)
        assert {world.offered("a"), world.offered("b")} <= {"n0", "n1", "n2"}
        sync = world.service.views.readiness().detail.sync["podgroups"]
        assert (sync.relists, sync.errors, sync.unreadable_now) == (1, 0, 2)


async def test_people_are_told_which_and_why() -> None:
    async with running(*NODES, group("bad", cpu=DIGITS)) as world:
        member(world, "a", "bad")
        member(world, "b", "bad")
        await world.settle(30.0)
        views = world.service.views
        [note] = world.told("Unreadable")
        [event] = [one for one in world.api.events if one["reason"] == "Unreadable"]
        assert note.startswith(
            "netgang cannot read it and leaves it out: PodGroup default/bad: spec.minResources: cpu: "
        )
        assert (event["regarding"]["kind"], event["regarding"]["name"], event["type"]) == ("PodGroup", "bad", "Warning")
        [said] = notes(world)
        assert said.startswith("PodGroup default/bad cannot be read and is left out: ")
        assert views.unreadable("default", "bad") == said
        assert views.unreadable("default", "good") is None
        assert world.counted("unreadable_objects", kind="podgroups") == 1.0
        world.api.add(group("bad", cpu="1"))
        await world.settle(10.0)
        assert notes(world) == []
        assert world.counted("unreadable_objects", kind="podgroups") == 0.0


async def test_a_thousand_bad_objects_keep_no_event_waiting() -> None:
    many = [group(f"bad-{number}", cpu=DIGITS[:100]) for number in range(MOST_QUEUED)]
    async with running(*NODES, *many) as world:
        await world.settle(20.0)
        assert 10 <= len(world.told("Unreadable")) <= 25
        world.gang("odd", 1, annotations={"netgang.io/selection": "best"})
        await world.settle(10.0)
        assert len(world.told("ProbableMistake")) == 1


class Deaf(FakeClusterApi):
    """Says nothing of PodGroups while it does not speak."""

    def __init__(self) -> None:
        super().__init__()
        self.speaks = asyncio.Event()
        self.speaks.set()

    async def list_page(self, path: str, **kwargs: Any) -> Any:
        await self._hear(path)
        return await super().list_page(path, **kwargs)

    async def watch(self, path: str, **kwargs: Any) -> Any:
        await self._hear(path)
        async for event in super().watch(path, **kwargs):
            await self._hear(path)
            yield event

    async def _hear(self, path: str) -> None:
        if path == POD_GROUPS.collection():
            await self.speaks.wait()


async def test_a_watch_that_is_out_of_step_is_not_ready() -> None:
    """Synced once is not enough: a kind of which nothing is heard for `STALE_S` makes the process not ready."""
    api = Deaf()
    async with unfinished(*NODES, api=api) as world:
        readiness = world.service.views.readiness
        await world.settle(3.0 * STALE_S)
        assert readiness().ready, "an idle cluster is in step: bookmarks come"
        api.speaks.clear()
        await world.settle(240.0)
        assert readiness().ready
        await world.settle(200.0)
        found = readiness()
        assert (found.ready, len(found.reasons)) == (False, 1)
        assert found.reasons[0].startswith("podgroups are out of step: nothing heard for ")
        assert world.counted("watch_contact_age_seconds", kind="podgroups") >= 300.0
        assert world.counted("watch_contact_age_seconds", kind="pods") < 120.0
        api.speaks.set()
        await world.settle(240.0)
        assert readiness().ready
