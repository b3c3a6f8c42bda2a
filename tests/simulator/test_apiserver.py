"""The API server in memory: what tests/contract/test_cluster_api.py cannot see, and its time in a simulation."""

import asyncio
import random

import msgspec
import pytest

from extender.errors import ApiError, ConflictError, GoneError, NotFoundError
from extender.kube.calls import EVENTS, NODES, PODS
from extender.ports import Binding, WatchEvent
from lab.simulator.apiserver import store as store_module
from lab.simulator.apiserver.store import ApiStore, Change
from lab.simulator.pods.cluster import simulated_api
from lab.simulator.pods.virtual_time import Latencies, Latency, NothingLeftError, run_virtual
from scoring.ids import NodeName, PodName, PodUid
from tests.simulator.pods_world import pod

pytestmark = pytest.mark.looptime

PATH = "/api/v1/pods"


def test_time_jumps_and_ends() -> None:
    """A day passes at once, in order; when everybody waits for everybody, that is an error and no hang."""
    seen: list[str] = []

    async def sleeper(name: str, seconds: float) -> None:
        await asyncio.sleep(seconds)
        seen.append(name)

    async def day() -> float:
        await asyncio.gather(sleeper("noon", 43_200.0), sleeper("morning", 21_600.0), sleeper("night", 86_400.0))
        return asyncio.get_running_loop().time()

    assert run_virtual(day()) == 86_400.0
    assert seen == ["morning", "noon", "night"]

    async def never() -> None:
        await asyncio.Event().wait()

    with pytest.raises(NothingLeftError):
        run_virtual(never())


async def test_a_pod_that_is_going_is_not_bound() -> None:
    """With kubelets, a pod on a node is stopped; one without is gone at once, and then there is nothing to bind."""
    api = simulated_api(Latencies(), random.Random(0))
    api.store.create(PODS, pod("on", nodeName="n1"))
    gone = api.store.create(PODS, pod("off"))
    for name in ("on", "off"):
        api.store.delete_pod("default", name)
    assert "deletionTimestamp" in api.store.get(PODS, "default", "on")["metadata"]
    with pytest.raises(NotFoundError):
        await api.bind(Binding("default", PodName("off"), PodUid(gone["metadata"]["uid"]), NodeName("n1")))


async def test_what_a_patch_leaves_alone_is_shared() -> None:
    """Followers see by identity that a spec is untouched; a patch without effect is no change at all."""
    api = simulated_api(Latencies(), random.Random(0))
    store = api.store
    before = store.create(PODS, pod("p"))
    uid = before["metadata"]["uid"]
    await api.annotate_pod("default", "p", uid, {"x": "1"})
    after = store.find(PODS, "default", "p")
    assert after is not None
    assert after["spec"] is before["spec"]
    version = store.version
    await api.annotate_pod("default", "p", uid, {"x": "1"})
    assert store.version == version
    with pytest.raises(ConflictError):
        store.merge_patch(PODS, "default", "p", {"metadata": {"resourceVersion": "1"}, "spec": {"x": 1}})


async def test_a_watch_tells_each_change_once_late_and_in_order() -> None:
    """From a list's version on, `watch_s` after it happened, deletions with their own version, a bookmark a minute."""
    api = simulated_api(Latencies(page=Latency(0.0), watch_s=0.25), random.Random(0))
    api.store.create(PODS, pod("old"))
    page = await api.list_page(PATH, limit=10)
    api.store.create(PODS, pod("p"))  # between the list and the watch
    seen: list[tuple[float, WatchEvent]] = []

    async def follow() -> None:
        loop = asyncio.get_running_loop()
        async for event in api.watch(PATH, resource_version=page.resource_version, timeout_s=100):
            seen.append((loop.time(), event))

    task = asyncio.create_task(follow())
    await asyncio.sleep(1.0)
    api.store.create(NODES, {"metadata": {"name": "n"}})
    api.store.remove(PODS, "default", "p")
    await task

    times = [(at_s, str(event.type)) for at_s, event in seen]
    assert times == [(0.25, "ADDED"), (1.25, "DELETED"), (60.0, "BOOKMARK")]
    assert b'"resourceVersion":"5"' in seen[1][1].object


async def test_no_change_is_lost_between_two_watches() -> None:
    """A watch that ends while a change is on its way has not claimed to have told it: the next one does."""
    api = simulated_api(Latencies(watch_s=0.01), random.Random(0))
    version, seen = str(api.store.version), list[str]()
    loop = asyncio.get_running_loop()
    loop.call_later(0.985, api.store.create, PODS, pod("told"))
    loop.call_later(0.993, api.store.create, PODS, pod("on its way"))
    for _ in range(2):
        async for event in api.watch(PATH, resource_version=version, timeout_s=1):
            version = msgspec.json.decode(event.object)["metadata"]["resourceVersion"]
            seen.append(event.type)
    assert [kind for kind in seen if kind != "BOOKMARK"] == ["ADDED", "ADDED"]


def test_history_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """A follower from before what is kept is refused with 410, as after compaction."""
    monkeypatch.setattr(store_module, "HISTORY", 3)
    store = ApiStore()
    for number in range(6):
        store.create(PODS, pod(f"p{number}"))
    heard: list[Change] = []
    with pytest.raises(GoneError):
        store.follow(PODS, heard.append, since=1)
    store.follow(PODS, heard.append, since=4)
    assert [one.version for one in heard] == [5, 6, 7]


async def test_a_simulated_api_server_counts_events_and_drops_them() -> None:
    """No client of a simulated cluster reads them."""
    api = simulated_api(Latencies(), random.Random(0))
    await api.create_event("default", {"reason": "x"})
    assert (api.calls["create_event"], api.events) == (1, [])


def test_events_are_named_by_the_server() -> None:
    """As netgang posts them: with `generateName`, each under a name of its own."""
    store = ApiStore()
    names = [store.put(EVENTS, {"metadata": {"generateName": "p-"}})["metadata"]["name"] for _ in range(2)]
    assert len(set(names)) == 2
    assert all(name.startswith("p-") for name in names)
    assert len(store.bodies(EVENTS)) == 2


@pytest.mark.parametrize("metadata", [{}, {"name": ""}, {"generateName": ""}], ids=["none", "no name", "no stem"])
def test_nothing_is_stored_without_a_name(metadata: dict[str, str]) -> None:
    """422, as from the real one."""
    with pytest.raises(ApiError) as refused:
        ApiStore().put(PODS, {"metadata": metadata})
    assert refused.value.status == 422
