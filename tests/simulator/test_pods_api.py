"""The simulated API server keeps the promises that the service relies on."""

import asyncio

import msgspec
import pytest

from extender.errors import ApiError, ConflictError, GoneError, NotFoundError
from extender.kube.calls import NODES, PODS
from extender.ports import Binding, WatchEvent
from scoring.ids import NodeName, PodName, PodUid
from simulator.pods import store as store_module
from simulator.pods.latency import Latencies, Latency
from simulator.pods.loop import NothingLeftError, run_virtual
from simulator.pods.server import ApiServer
from simulator.pods.store import Changed
from tests.simulator.pods_world import pod, with_api

PATH = "/api/v1/pods"
GATED = [{"name": "netgang.io/gang"}, {"name": "other"}]
ADMIT = (
    b'{"metadata":{"uid":"uid-00000001","annotations":{"a":"b"}},"spec":{"schedulingGates":'
    b'[{"$patch":"delete","name":"netgang.io/gang"}],"affinity":{"nodeAffinity":{"x":1}}}}'
)


def binding(name: str, node: str, uid: str = "uid-00000001") -> Binding:
    """To a node, of the first object that was created unless `uid` says otherwise."""
    return Binding("default", PodName(name), PodUid(uid), NodeName(node))


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


REFUSED = {  # what the pod has been through → what binding it to n1 answers
    "another uid": ({}, "uid-9", ConflictError),
    "on another node": ({"nodeName": "n2"}, "uid-00000001", ConflictError),
    "gated": ({"schedulingGates": GATED}, "uid-00000001", ConflictError),
    "on that node": ({"nodeName": "n1"}, "uid-00000001", None),
    "free": ({}, "uid-00000001", None),
}


@pytest.mark.parametrize(("spec", "uid", "error"), REFUSED.values(), ids=REFUSED)
def test_binding(spec: dict[str, object], uid: str, error: type[ApiError] | None) -> None:
    """Only the very pod, free, ungated and alive, gets a node; one that is on that node counts as bound."""

    async def body(api: ApiServer) -> str | None:
        api.store.create(PODS, pod("p", **spec))
        await api.bind(binding("p", "n1", uid))
        found: str | None = api.store.get(PODS, "default", "p")["spec"].get("nodeName")
        return found

    if error is not None:
        with pytest.raises(error):
            with_api(body)
    else:
        assert with_api(body) == "n1"


def test_a_pod_that_is_going_is_not_bound() -> None:
    """A pod on a node is stopped; one without is gone at once, and then there is nothing to bind."""

    async def body(api: ApiServer) -> None:
        api.store.create(PODS, pod("on", nodeName="n1"))
        api.store.create(PODS, pod("off"))
        for name in ("on", "off"):
            api.delete_pod("default", name)
        assert "deletionTimestamp" in api.store.get(PODS, "default", "on")["metadata"]
        with pytest.raises(NotFoundError):
            await api.bind(binding("off", "n1", "uid-00000002"))

    with_api(body)


def test_admission_removes_our_gate_once() -> None:
    """Gate and affinity change together; repeating the patch changes nothing; another pod of the name is safe."""

    async def body(api: ApiServer) -> None:
        api.store.create(PODS, pod("p", schedulingGates=GATED))
        await api.admit_pod("default", "p", PodUid("uid-00000001"), ADMIT)
        once = api.store.get(PODS, "default", "p")
        await api.admit_pod("default", "p", PodUid("uid-00000001"), ADMIT)
        assert api.store.get(PODS, "default", "p") is once
        assert once["spec"]["schedulingGates"] == [{"name": "other"}]
        assert once["spec"]["affinity"] == {"nodeAffinity": {"x": 1}}
        assert once["metadata"]["annotations"] == {"a": "b"}
        with pytest.raises(ConflictError):
            await api.admit_pod("default", "p", PodUid("uid-7"), ADMIT)

    with_api(body)


def test_what_a_patch_leaves_alone_is_shared() -> None:
    """Followers see by identity that a spec is untouched; a patch without effect is no change at all."""

    async def body(api: ApiServer) -> None:
        store = api.store
        before = store.create(PODS, pod("p"))
        await api.annotate_pod("default", "p", PodUid("uid-00000001"), {"x": "1"})
        after = store.get(PODS, "default", "p")
        assert after["spec"] is before["spec"]
        version = store.version
        await api.annotate_pod("default", "p", PodUid("uid-00000001"), {"x": "1"})
        assert store.version == version
        with pytest.raises(ConflictError):
            store.merge(PODS, "default", "p", {"metadata": {"resourceVersion": "1"}, "spec": {"x": 1}})

    with_api(body)


def test_a_watch_tells_each_change_once_late_and_in_order() -> None:
    """From a list's version on, `watch_s` after it happened, deletions with their own version, bookmarks in silence."""

    async def body(api: ApiServer) -> list[tuple[float, WatchEvent]]:
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
        api.store.delete(PODS, "default", "p")
        await task
        return seen

    seen = with_api(body, Latencies(page=Latency(0.0), watch_s=0.25))
    times = [(at_s, str(event.type)) for at_s, event in seen]
    assert times == [(0.25, "ADDED"), (1.25, "DELETED"), (61.25, "BOOKMARK"), (100.0, "BOOKMARK")]
    assert b'"resourceVersion":"5"' in seen[1][1].object


def test_no_change_is_lost_between_two_watches() -> None:
    """A watch that ends while a change is on its way has not claimed to have told it: the next one does."""

    async def body(api: ApiServer) -> list[str]:
        version, seen = str(api.store.version), list[str]()
        loop = asyncio.get_running_loop()
        loop.call_later(0.985, api.store.create, PODS, pod("told"))
        loop.call_later(0.993, api.store.create, PODS, pod("on its way"))
        for _ in range(2):
            async for event in api.watch(PATH, resource_version=version, timeout_s=1):
                version = msgspec.json.decode(event.object)["metadata"]["resourceVersion"]
                seen.append(event.type)
        return seen

    told = with_api(body, Latencies(watch_s=0.01))
    assert [kind for kind in told if kind != "BOOKMARK"] == ["ADDED", "ADDED"]


def test_lists_come_in_pages_of_one_moment() -> None:
    """What is created between two pages is in none of them; labels select; a lost token means: again."""

    async def body(api: ApiServer) -> None:
        for number in range(3):
            made = pod(f"p{number}")
            made["metadata"]["labels"] = {"odd": str(number % 2)}
            api.store.create(PODS, made)
        first = await api.list_page(PATH, limit=2)
        api.store.create(PODS, pod("p9"))
        second = await api.list_page(PATH, limit=2, continue_token=first.continue_token)
        assert (len(first.items), len(second.items), second.continue_token) == (2, 1, "")
        assert len((await api.list_page(f"{PATH}?labelSelector=odd%3D1", limit=9)).items) == 1
        with pytest.raises(GoneError):
            await api.list_page(PATH, limit=2, continue_token=first.continue_token)
        with pytest.raises(NotFoundError):
            await api.list_page("/apis/batch/v1/jobs", limit=2)

    with_api(body)


def test_history_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """A watch from before what is kept is refused with 410, as after compaction."""
    monkeypatch.setattr(store_module, "HISTORY", 3)

    async def body(api: ApiServer) -> None:
        for number in range(5):
            api.store.create(PODS, pod(f"p{number}"))
        heard: list[Changed] = []
        with pytest.raises(GoneError):
            api.store.follow(PODS, heard.append, since=1)
        api.store.follow(PODS, heard.append, since=4)
        assert [one.version for one in heard] == [5, 6]

    with_api(body)


def test_evictions_name_the_version_that_was_seen() -> None:
    """A pod that changed since is not evicted; Events are counted and dropped."""

    async def body(api: ApiServer) -> None:
        made = api.store.create(PODS, pod("p", nodeName="n1"))
        with pytest.raises(ConflictError):
            await api.evict("default", "p", PodUid("uid-00000001"), resource_version="1")
        version = made["metadata"]["resourceVersion"]
        await api.evict("default", "p", PodUid("uid-00000001"), resource_version=version)
        assert "deletionTimestamp" in api.store.get(PODS, "default", "p")["metadata"]
        await api.create_event("default", {"reason": "x"})
        assert api.calls["event"] == 1

    with_api(body)
