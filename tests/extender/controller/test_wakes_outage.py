"""Removing gates while the API server or the watch is behind: one retry per pod, and no gate is removed twice."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from extender.cache import ClusterCache
from extender.controller.wakes import Gates, Wakes
from extender.convert import NUDGE_ANNOTATION, admission_patch, pod_from_json
from extender.convert.pods import ADMITTED_ANNOTATION
from extender.errors import ApiUnavailableError
from extender.kube.calls import PODS
from extender.telemetry import Telemetry
from scoring.ids import NodeName, PodUid
from scoring.model import GATE
from tests.extender.service.world import pod_json
from tests.fakes.clock import LoopClock
from tests.fakes.cluster_api import FakeClusterApi

pytestmark = pytest.mark.looptime


class Desk:
    """Wakes at work over a cache that nothing brings up to date: a watch that is behind."""

    def __init__(self) -> None:
        self.api = FakeClusterApi()
        self.cache = ClusterCache()
        gates = Gates(lambda pod: admission_patch(pod, NodeName("n1"), ()), lambda _: None, lambda _pod, _why: None)
        self.wakes = Wakes(self.cache, self.api, LoopClock(), Telemetry(), gates)

    def gated_pod(self, name: str) -> PodUid:
        """A gated pod in cluster and cache."""
        self.api.add(pod_json(name, schedulingGates=[{"name": GATE}]))
        self.cache.pods.upsert(pod_from_json(self.api.store.body(PODS, "default", name)))
        return PodUid(self.api.pod(name)["metadata"]["uid"])


@asynccontextmanager
async def at_work() -> AsyncIterator[Desk]:
    """Wakes during the block."""
    desk = Desk()
    task = asyncio.create_task(desk.wakes.run())
    try:
        yield desk
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


async def test_plans_made_during_an_outage_add_no_retries() -> None:
    """Ten plans want the gate gone while the API server is away: afterwards it is removed once, and nobody nudged."""
    async with at_work() as desk:
        uid = desk.gated_pod("p")
        desk.api.fail_next("admit", ApiUnavailableError("connection refused"), times=10)
        for _ in range(10):
            desk.wakes.add([uid])
            await asyncio.sleep(0.05)
        await asyncio.sleep(120.0)
        assert desk.api.admitted == ["p"]
        assert desk.api.calls["admit"] == 11
        assert [list(fields) for _, fields in desk.api.patches] == [[ADMITTED_ANNOTATION]]


async def test_a_pod_that_was_let_in_a_moment_ago_is_nudged() -> None:
    """The cache still shows the gate: a second removal would be no update to kube-scheduler and would wake nobody."""
    async with at_work() as desk:
        uid = desk.gated_pod("p")
        for _ in range(2):
            desk.wakes.add([uid])
            await asyncio.sleep(1.0)
        assert desk.api.calls["admit"] == 1
        assert [list(fields) for _, fields in desk.api.patches] == [[ADMITTED_ANNOTATION], [NUDGE_ANNOTATION]]


async def test_a_gate_that_is_still_there_later_is_removed_again() -> None:
    """What the watch does not show after five seconds is believed to be lost."""
    async with at_work() as desk:
        uid = desk.gated_pod("p")
        for _ in range(2):
            desk.wakes.add([uid])
            await asyncio.sleep(6.0)
        assert desk.api.calls["admit"] == 2
