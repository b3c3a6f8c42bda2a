"""Letting pods go: one small patch for the very pod, never for anybody else's, and none twice without need."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import msgspec
import pytest

from extender.cache.cluster import ClusterCache
from extender.controllers.ungate_queue import UngateQueue
from extender.convert import NUDGE_ANNOTATION, pod_from_json
from extender.convert.patches import admission_patch
from extender.errors import ApiUnavailableError
from extender.signed_notes import NoteKind
from scoring import NodeName, PodUid
from scoring.model import GATE, Pod
from tests.extender.beside import playing
from tests.extender.controllers.contexts import context_over
from tests.extender.scheduling.world import Object, pod_json
from tests.fakes.clock import LoopClock
from tests.fakes.cluster_api import FakeClusterApi
from tests.fakes.notes import notes_of_a_former_process

pytestmark = pytest.mark.looptime

NOTES = notes_of_a_former_process()


class Desk:
    def __init__(self) -> None:
        self.api = FakeClusterApi()
        self.cache = ClusterCache()
        context = context_over(self.api, self.cache, LoopClock())
        self.telemetry = context.telemetry
        self.wakes = UngateQueue(context, self)

    def patch_for(self, pod: Pod) -> bytes:
        return admission_patch(pod, NodeName("n1"), (), notes=NOTES)

    def sent(self, pod: Pod) -> None:
        pass

    def refused(self, pod: Pod, why: str) -> None:
        pass

    def pod(self, name: str, **fields: object) -> PodUid:
        return self.take(pod_json(name, **fields))  # type: ignore[arg-type]

    def take(self, pod: Object) -> PodUid:
        made = pod_from_json(msgspec.json.encode(self.api.add(pod)))
        self.cache.pods.put(made)
        return made.uid

    async def add(self, uids: list[PodUid], *, for_s: float = 1.0) -> None:
        self.wakes.add(uids)
        await asyncio.sleep(for_s)

    def counted(self, outcome: str) -> float | None:
        labels = {"action": "nudge", "outcome": outcome}
        return self.telemetry.registry.get_sample_value("netgang_nudges_total", labels)


@asynccontextmanager
async def at_work() -> AsyncIterator[Desk]:
    desk = Desk()
    async with playing(desk.wakes.run()):
        yield desk


async def test_a_nudge_writes_a_new_value_each_time() -> None:
    """The time of the nudge: any new value is an update to kube-scheduler; a pod is in the queue once."""
    async with at_work() as desk:
        uid = desk.pod("p")
        for _ in range(2):
            for uids in ([uid, uid], []):
                desk.wakes.add(uids)
            await desk.add([uid])
        assert desk.api.patches == [
            (uid, {NUDGE_ANNOTATION: "1700000000.000"}),
            (uid, {NUDGE_ANNOTATION: "1700000001.000"}),
        ]
        assert desk.counted("done") == 2.0


async def test_patches_are_few_at_a_time() -> None:
    async with at_work() as desk:
        uids = [desk.pod(f"p{number}") for number in range(40)]
        desk.api.latency_s["patch"] = 1.0
        await desk.add(uids, for_s=0.5)
        assert desk.api.calls["patch"] == 16
        await asyncio.sleep(3.0)
        assert {uid for uid, _ in desk.api.patches} == set(uids)


async def test_plain_pods_take_one_turn_together() -> None:
    async with at_work() as desk:
        plain = [desk.pod(f"p{number:03}") for number in range(100)]
        members = [desk.pod(f"g{number}", gang="g", size=2) for number in range(2)]
        await desk.add([*plain, *members], for_s=5.0)
        order = [uid for uid, _ in desk.api.patches]
        assert sorted(order) == sorted([*plain, *members])
        assert max(order.index(uid) for uid in members) < 40


async def test_a_successor_of_the_same_name_is_not_touched() -> None:
    async with at_work() as desk:
        uid = desk.pod("p")
        desk.api.remove("p")
        desk.api.add(pod_json("p", uid="another"))
        await desk.add([uid])
        assert (desk.api.patches, desk.api.calls["patch"], desk.counted("gone")) == ([], 1, 1.0)


async def test_an_error_is_counted_and_ends_nothing() -> None:
    async with at_work() as desk:
        first, second = desk.pod("p"), desk.pod("q")
        desk.api.fail_next("patch", ApiUnavailableError("connection refused"))
        await desk.add([first, second])
        assert [uid for uid, _ in desk.api.patches] == [second, first]
        assert (desk.counted("error"), desk.counted("done")) == (1.0, 2.0)


async def test_other_pods_are_left_alone() -> None:
    """Only own, waiting pods are patched (docs/safety.md S1)."""
    async with at_work() as desk:
        going = pod_json("going")
        going["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
        foreign, bound = desk.pod("p", scheduler="default-scheduler"), desk.pod("q", nodeName="n1")
        await desk.add([foreign, bound, desk.take(going), PodUid("unknown")])
        assert desk.api.calls["patch"] == 0


async def test_plans_made_during_an_outage_add_no_retries() -> None:
    async with at_work() as desk:
        uid = desk.pod("p", schedulingGates=[{"name": GATE}])
        desk.api.fail_next("admit", ApiUnavailableError("connection refused"), times=10)
        for _ in range(10):
            await desk.add([uid], for_s=0.05)
        await asyncio.sleep(120.0)
        assert desk.api.admitted == ["p"]
        assert desk.api.calls["admit"] == 11
        assert [list(fields) for _, fields in desk.api.patches] == [[NoteKind.ADMITTED]]


@pytest.mark.parametrize(("pause_s", "removals", "nudges"), [(1.0, 1, 1), (6.0, 2, 0)])
async def test_a_pod_that_was_admitted_before(pause_s: float, removals: int, nudges: int) -> None:
    """A moment ago: a nudge, as removing it twice is no update; longer than the watch takes: it is taken for lost."""
    async with at_work() as desk:
        uid = desk.pod("p", schedulingGates=[{"name": GATE}])
        for _ in range(2):
            await desk.add([uid], for_s=pause_s)
        assert desk.api.calls["admit"] == removals
        assert [list(fields) for _, fields in desk.api.patches].count([NUDGE_ANNOTATION]) == nudges


async def test_a_pod_that_is_gone_is_not_tried_again() -> None:
    async with at_work() as desk:
        uid = desk.pod("p")
        desk.api.fail_next("patch", ApiUnavailableError("connection refused"), times=3)
        await desk.add([uid], for_s=0.05)
        desk.cache.pods.remove("default/p")
        await asyncio.sleep(60.0)
        assert desk.api.calls["patch"] == 1
