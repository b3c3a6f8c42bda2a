"""The fence: what a replica may send depends on the lease, and the fence knows every call of the port."""

import asyncio

import pytest

from extender.errors import ApiUnavailableError, ConflictError
from extender.leadership.lease_loop import READS, FencedApi
from extender.ports import Binding, ClusterApi
from scoring.ids import NodeName, PodUid
from tests.extender.scheduling.world import pod_json
from tests.fakes.cluster_api import FakeClusterApi

pytestmark = pytest.mark.looptime


class Bench:
    """A fence around a cluster with one pod; `room_s` is what the lease has left."""

    def __init__(self, room_s: float) -> None:
        self.room_s = room_s
        self.api = FakeClusterApi(pod_json("p", uid="u"))
        self.fence = FencedApi(self.api, lambda: self.room_s)

    async def bind(self) -> None:
        await self.fence.bind(Binding("default", "p", PodUid("u"), NodeName("n1")))


def calls() -> list[str]:
    return sorted(name for name in vars(ClusterApi) if not name.startswith("_"))


@pytest.mark.parametrize("name", [name for name in calls() if name not in READS])
async def test_every_call_that_writes_needs_the_lease(name: str) -> None:
    bench = Bench(room_s=0.0)
    with pytest.raises(ApiUnavailableError, match="not sent, this replica does not hold the lease"):
        await getattr(bench.fence, name)()
    assert bench.api.calls.total() == 0


def test_what_only_reads_is_named_by_hand() -> None:
    assert sorted(READS) == ["get_object", "get_pod", "labelled_owners", "list_page", "watch"]


async def test_reading_is_free() -> None:
    bench = Bench(room_s=0.0)
    assert await bench.fence.get_pod("default", "p")
    assert len((await bench.fence.list_page("/api/v1/pods", limit=10)).items) == 1
    bench.api.add(pod_json("q"))
    stream = bench.fence.watch("/api/v1/pods", resource_version="1", timeout_s=5)
    assert (await anext(aiter(stream))).type == "ADDED"


async def test_a_write_with_room_goes_through() -> None:
    bench = Bench(room_s=1.0)
    await bench.bind()
    assert len(bench.api.bindings) == 1
    bench.api.fail_next("bind", ConflictError(409, "no"))
    with pytest.raises(ConflictError):
        await bench.bind()


async def test_a_write_ends_before_the_lease() -> None:
    bench = Bench(room_s=1.5)
    bench.api.hold("bind")
    began_s = asyncio.get_running_loop().time()
    with pytest.raises(ApiUnavailableError, match="outcome unknown"):
        await bench.bind()
    assert asyncio.get_running_loop().time() - began_s == pytest.approx(1.5)


async def test_a_limit_of_the_caller_stays_the_caller_s() -> None:
    """A shorter one ends the call as it would without the fence, and so does a time-out inside."""
    bench = Bench(room_s=9.0)
    bench.api.hold("bind")
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.5):
            await bench.bind()
    bench.api.hold("bind").set()
    bench.api.fail_next("bind", TimeoutError("inside"))
    with pytest.raises(TimeoutError, match="inside"):
        await bench.bind()


async def test_idle_waits_for_what_is_under_way() -> None:
    bench = Bench(room_s=9.0)
    async with asyncio.timeout(0.01):
        await bench.fence.idle()
    bench.api.latency_s["bind"] = 2.0
    task = asyncio.create_task(bench.bind())
    await asyncio.sleep(0.1)
    began_s = asyncio.get_running_loop().time()
    await bench.fence.idle()
    assert asyncio.get_running_loop().time() - began_s == pytest.approx(1.9)
    await task
