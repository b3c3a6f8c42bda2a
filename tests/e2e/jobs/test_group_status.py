"""Statuses of PodGroups on a real API server: every phase, one write per change, silence at rest."""

import asyncio
import re
from collections.abc import Callable
from functools import partial

import pytest

from lab.testbed.api import Api, Object
from lab.testbed.beside import beside
from lab.testbed.objects import GangDialect, pod_group
from lab.testbed.processes.stages import HOLD
from tests.e2e.objects import name_of
from tests.e2e.stage import Stage, say

REST_S = 10.0


class Writes:
    def __init__(self) -> None:
        self.statuses: list[Object] = []  # one for each write, the empty one of the creation first
        self.writers: set[str] = set()
        self._changed = asyncio.Event()

    @property
    def phases(self) -> list[str]:
        return [one.get("phase", "") for one in self.statuses]

    async def follow(self, api: Api, namespace: str) -> None:
        async for kind, group in api.watch("PodGroup", namespace=namespace):
            if kind != "DELETED":
                self.statuses.append(group.get("status", {}))
                managed = group["metadata"].get("managedFields", [])
                self.writers |= {one["manager"] for one in managed if one.get("subresource") == "status"}
                self._changed.set()

    async def until(self, phase: str, accept: Callable[[Object], bool] = lambda _: True) -> Object:
        async with asyncio.timeout(30.0):
            while not self.statuses or self.phases[-1] != phase or not accept(self.statuses[-1]):
                self._changed.clear()
                await self._changed.wait()
        return self.statuses[-1]


NOTED = [
    ("GangStarted", "3 pods have nodes in zone a after"),
    (
        "GangWaiting",
        "Too little room is free: zone a has room for 2 of 3 pods (cpu 1, memory 64Mi each), 500m more cpu would do.",
    ),
]


async def noted(stage: Stage) -> list[tuple[str, str]]:
    """Reason and note of the Events on PodGroups, sorted; times are left out, and so is the wait for the third pod."""
    found = await stage.api.list_all("Event", namespace=stage.namespace, api_version="events.k8s.io/v1")
    ours = [one for one in found if one["regarding"]["kind"] == "PodGroup" and "pods exist" not in one["note"]]
    assert {one["reportingController"] for one in ours} <= {"netgang.io/extender"}
    return sorted((one["reason"], re.sub(r" [\d]+ s of waiting\.$", "", one["note"])) for one in ours)


@pytest.mark.timeout(120)
async def test_a_life_from_waiting_to_finished(stage: Stage) -> None:
    members = partial(stage.gang, "g", dialect=GangDialect.POD_GROUP, annotations={HOLD: "pod-ready"})
    await stage.netgang(on={"a": 3})
    await stage.create_gang("x", 1)
    await stage.until_bound("x", 1)
    writes = Writes()
    async with beside(writes.follow(stage.api, stage.namespace)):
        await stage.api.create(pod_group("g", 3, namespace=stage.namespace))
        await stage.api.create_all(members(2))
        assert "scheduleStartTime" not in await writes.until("Pending")
        await stage.api.create_all(members(1, first=2))
        waiting = await writes.until("PreScheduling")
        assert waiting["occupiedBy"] == f"{stage.namespace}/g"
        assert waiting["scheduleStartTime"]

        before = len(writes.statuses)
        await asyncio.sleep(REST_S)
        assert len(writes.statuses) == before, "written at rest"

        await stage.end("x-worker-0")
        await stage.until_bound("g", 3)
        await writes.until("Scheduled")
        for one in await stage.pods():
            await stage.annotate_pod(name_of(one), **{HOLD: None})
        await writes.until("Running", lambda status: status["running"] == 3)
        for one in await stage.pods():
            await stage.patch_pod(name_of(one), status={"phase": "Succeeded"})
        assert await noted(stage) == NOTED
        finished = await writes.until("Finished", lambda status: status["succeeded"] == 3)
        assert finished["scheduleStartTime"] == waiting["scheduleStartTime"]
        await stage.end(*map(name_of, await stage.pods()))

        await asyncio.sleep(3.0)
        assert writes.phases[-1] == "Finished", "the end is forgotten with its pods"
        assert writes.writers == {"netgang"}
        # A look may fall between two pods of the same change: then it takes two writes, never more than pods.
        say(f"phases written: {writes.phases}")
        assert len(writes.statuses) <= 5 + 1 + 4
        assert list(dict.fromkeys(writes.phases)) in (
            ["", "Pending", "PreScheduling", "Scheduled", "Running", "Finished"],
            ["", "Pending", "PreScheduling", "Scheduling", "Scheduled", "Running", "Finished"],
        )
        assert all(one != other for one, other in zip(writes.statuses, writes.statuses[1:], strict=False))
