"""The cache equals the API server's objects, whatever happens to lists and watches, soon after; time is virtual."""

import asyncio
import random
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any

import pytest

from extender.errors import ApiError, ApiUnavailableError, GoneError
from extender.kube.calls import NATIVE_GROUPS, NODES, POD_GROUPS, PODS, Resource
from extender.kube.reflector import Comeback, Reflector
from lab.testbed.apiserver.store import ApiStore
from tests.extender.beside import playing
from tests.extender.kube.watch.collection import Item, RecordingSink, reflector_of, state_of
from tests.fakes.cluster_api import FakeClusterApi

pytestmark = pytest.mark.looptime


def pod(name: str, **labels: str) -> dict[str, Any]:
    """A pod with labels; `as_` makes it unreadable or unwanted."""
    return {"metadata": {"name": name, "labels": {key.rstrip("_"): value for key, value in labels.items()}}}


async def settle(seconds: float = 1.0) -> None:
    await asyncio.sleep(seconds)


@asynccontextmanager
async def following(
    api: FakeClusterApi | None = None, sink: RecordingSink | None = None, **more: Any
) -> AsyncIterator[tuple[FakeClusterApi, RecordingSink, Reflector[Item]]]:
    api, sink = api or FakeClusterApi(pod("p0")), sink or RecordingSink()
    reflector = reflector_of(api, sink, **more)
    async with playing(reflector.run()):
        yield api, sink, reflector


async def test_first_the_whole_list_then_every_change() -> None:
    cluster = FakeClusterApi(*(pod(f"p{n}") for n in range(7)), bookmark_s=1000.0)
    async with following(cluster, page=3) as (api, sink, reflector):
        before = reflector.status()
        assert (before.synced, before.contact_age_s, before.relists) == (False, None, 0)
        await reflector.synced.wait()
        assert ([state_of(api.store)], 3, 7) == (sink.states, api.calls["list"], sink.steps)
        api.add(pod("p7"))
        api.add(pod("p0"))
        api.remove("p1")
        await settle(7.0)
        assert (state_of(api.store), sink.replaced, len(sink.states)) == (sink.state, 1, 4)
        now = reflector.status()
        assert (now.path, now.relists, now.watches, now.events, now.errors) == ("/api/v1/pods", 1, 1, 3, 0)
        assert now.contact_age_s == pytest.approx(7.0)


async def test_a_watch_is_ended_by_the_server_before_five_minutes() -> None:
    """And closed when the following is cancelled."""
    async with following() as (api, _sink, _):
        await settle(1800.0)
        assert (api.calls["list"], api.store.open_watches) == (1, 1)
        assert 1800 // 290 <= api.calls["watch"] <= 1800 // 240 + 1
    assert api.store.open_watches == 0


async def test_bookmarks_keep_the_version_young() -> None:
    async with following() as (api, _sink, _):
        await settle()
        api.store.put(NODES, {"metadata": {"name": "n1"}})
        api.store.put(NODES, {"metadata": {"name": "n2"}})
        await settle(61.0)
        api.store.compact()
        api.break_watches()
        await settle(10.0)
        assert api.calls["list"] == 1


async def test_a_relist_is_never_older_than_what_was_seen() -> None:
    """The list after a 410 asks for at least the last version seen (docs/safety.md S11)."""
    api, asked = FakeClusterApi(pod("p0")), list[str]()
    inner = api.list_page

    async def list_page(path: str, **fields: Any) -> Any:
        asked.append(fields["not_older_than"])
        return await inner(path, **fields)

    api.list_page = list_page  # type: ignore[method-assign]
    async with following(api):
        await settle()
        seen = api.add(pod("p1"))["metadata"]["resourceVersion"]
        await settle()
        api.fail_next("watch", GoneError(410, "too old"))
        api.break_watches()
        await settle()
    assert ["", seen] == asked


async def test_a_server_restored_from_a_backup_is_followed() -> None:
    async with following() as (api, sink, _):
        for _ in range(50):
            api.add(pod("p1"))
        await settle()
        before = api.store
        api.store = api.server.store = ApiStore()
        api.add(pod("p0"))
        before.hang_up()
        await settle(150.0)
        assert state_of(api.store) == sink.state


async def test_a_silent_watch_is_given_up_and_resumed() -> None:
    async with following() as (api, sink, reflector):
        await settle(61.0)
        api.store.silence()
        await settle(118.0)
        assert (api.calls["watch"], reflector.status().errors) == (1, 0)
        await settle(5.0)
        assert (api.calls["watch"], api.calls["list"], reflector.status().errors) == (2, 1, 1)
        assert "silent for 120 s" in reflector.status().last_error
        api.store.speak()
        api.add(pod("p1"))
        await settle()
        assert state_of(api.store) == sink.state


async def test_failures_are_waited_out_longer_and_longer() -> None:
    async with following() as (api, sink, reflector):
        await settle(10.0)
        api.fail_next("watch", ApiUnavailableError("connection refused"), times=1000)
        api.fail_next("list", ApiUnavailableError("connection refused"), times=1000)
        api.break_watches(ApiUnavailableError("connection reset"))
        api.add(pod("p1"))
        before = api.calls.total()
        await settle(600.0)
        assert 20 <= api.calls.total() - before <= 60
        assert state_of(api.store) != sink.state
        assert "refused" in reflector.status().last_error
        api.heal()
        await settle(31.0)
        assert state_of(api.store) == sink.state


async def test_a_watch_that_ends_at_once_is_not_a_storm() -> None:
    """A server that closes every watch in silence is asked ever less often (a client once made 6,700 calls/s)."""
    async with following() as (api, _, _):
        api.fail_next("watch", GoneError(410, "too old"), times=10_000)
        await settle(600.0)
    assert 10 <= api.calls["list"] <= 50
    async with following() as (api, _, _):
        await settle()
        for _ in range(600):
            api.break_watches()
            await settle()
    assert api.calls["watch"] < 200


@pytest.mark.parametrize("verb", ["list", "watch"])
async def test_retry_after_is_honoured(verb: str) -> None:
    async with following() as (api, _, reflector):
        api.fail_next(verb, ApiError(429, "too many requests", retry_after_s=60.0))
        await settle(59.0)
        assert api.calls[verb] == 1
        await settle(10.0)
        assert (api.calls[verb], reflector.synced.is_set(), reflector.status().relists) == (2, True, 1)


async def test_a_kind_that_appears_and_disappears() -> None:
    async with following(FakeClusterApi(), path=POD_GROUPS.collection()) as (api, sink, reflector):
        api.store.uninstall(POD_GROUPS)
        await settle(300.0)
        assert (True, True, frozenset()) == (reflector.status().synced, reflector.status().absent, sink.state)
        assert (8 <= api.calls["list"] <= 12, reflector.status().errors) == (True, 0)
        api.store.install(POD_GROUPS)
        api.add({"kind": "PodGroup", "metadata": {"name": "g"}})
        await settle(35.0)
        assert (list(sink.items), reflector.status().absent) == (["default/g"], False)
        api.store.uninstall(POD_GROUPS)
        await settle(1.0)
        assert (list(sink.items), reflector.status().absent) == ([], True)


async def test_the_version_that_is_served_is_followed() -> None:
    """Also after the API server was upgraded, and serves the newer one only."""
    newer, older = NATIVE_GROUPS
    api = FakeClusterApi()
    api.store.uninstall(newer)

    def serve(one: Resource, name: str) -> None:
        api.store.install(one)
        api.store.put(one, {"metadata": {"name": name, "namespace": "default"}})

    async with following(api, path=newer.collection(), other_versions=[older.collection()]) as (_, sink, reflector):
        await settle()
        assert (reflector.status().absent, api.calls["list"]) == (True, 2)
        serve(older, "old")
        await settle(35.0)
        assert (list(sink.items), reflector.status().path) == (["default/old"], older.collection())
        api.store.uninstall(older)
        serve(newer, "new")
        await settle(1.0)
        assert (list(sink.items), reflector.status().path) == (["default/new"], newer.collection())
        api.store.put(newer, {"metadata": {"name": "more", "namespace": "default"}})
        await settle(1.0)
        assert (sorted(sink.items), reflector.status().absent) == (["default/more", "default/new"], False)


async def test_a_core_kind_is_never_absent() -> None:
    """404 for pods is a broken proxy: the cache keeps what it has, and an unsynced one stays unsynced."""
    async with following() as (api, sink, reflector):
        await settle()
        api.store.uninstall(PODS)
        await settle(100.0)
        assert (len(sink.items), reflector.status().absent) == (1, False)
        api.store.install(PODS)
        api.add(pod("p1"))
        await settle(31.0)
        assert state_of(api.store) == sink.state


async def test_a_defect_does_not_end_the_following(caplog: pytest.LogCaptureFixture) -> None:
    async with following() as (api, sink, _reflector):
        await settle()
        api.fail_next("watch", KeyError("a defect"))
        api.break_watches()
        api.add(pod("p1"))
        await settle(5.0)
        assert (state_of(api.store), sink.replaced) == (sink.state, 2)
    assert "a defect" in caplog.text


async def test_the_loop_runs_between_slices_of_50_objects() -> None:
    api, sink = FakeClusterApi(*(pod(f"p{n}") for n in range(1000))), RecordingSink()

    async def turns(count: int) -> int:
        found = 0
        while len(sink.items) < count:
            found += 1
            await asyncio.sleep(0)
        return found

    async with following(api, sink):
        assert await turns(1000) >= 20
        await settle()
        for number in range(1000, 2000):
            api.add(pod(f"p{number}"))
        assert await turns(2000) >= 20


AWAY = ApiUnavailableError("connection refused")


async def waited_s(comeback: Comeback, longest_s: float) -> float:
    began_s = asyncio.get_running_loop().time()
    await comeback.wait(longest_s, rng=random.Random(1))
    return asyncio.get_running_loop().time() - began_s


async def until(happened: Callable[[], bool]) -> None:
    async with asyncio.timeout(120.0):
        while not happened():  # noqa: ASYNC110 - a look at a fake is no event
            await asyncio.sleep(0.1)


async def test_the_first_one_waits_its_whole_backoff_and_wakes_the_others() -> None:
    """What was heard before the failure says nothing about now."""
    comeback = Comeback()
    comeback.heard()
    assert await waited_s(comeback, 16.0) == pytest.approx(16.0)
    waits = [asyncio.create_task(waited_s(comeback, longest_s)) for longest_s in (16.0, 30.0, 3.1)]
    await asyncio.sleep(3.0)
    comeback.heard()
    *others, short = await asyncio.gather(*waits)
    assert 3.0 <= min(others) <= max(others) <= 3.5
    assert 3.0 <= short <= 3.1001


async def test_all_kinds_follow_the_first_back() -> None:
    api, comeback = FakeClusterApi(pod("p0")), Comeback()
    sinks = [RecordingSink() for _ in range(10)]
    async with AsyncExitStack() as stack:
        for number, sink in enumerate(sinks):
            await stack.enter_async_context(playing(reflector_of(api, sink, seed=number, comeback=comeback).run()))
        await asyncio.sleep(10.0)
        api.fail_next("list", AWAY, times=1000)
        api.fail_next("watch", AWAY, times=1000)
        api.break_watches(AWAY)
        await asyncio.sleep(100.0)
        api.heal()
        api.add(pod("p1"))
        await until(lambda: any(len(sink.items) == 2 for sink in sinks))
        await asyncio.sleep(1.0)
        assert [len(sink.items) for sink in sinks] == [2] * 10


async def test_a_server_that_is_back_but_not_ready_is_asked_again_soon() -> None:
    """A new API server answers 429 until it has read its storage: the pause starts again, it is not sixteen seconds."""
    async with following() as (api, sink, _):
        await settle(10.0)
        api.fail_next("watch", AWAY, times=5)
        api.fail_next("list", AWAY, times=3)
        api.fail_next("list", ApiError(429, "storage is (re)initializing"), times=1)
        api.break_watches(AWAY)
        api.add(pod("p1"))
        listed = api.calls["list"]
        await until(lambda: api.calls["list"] >= listed + 4)
        await asyncio.sleep(1.0)
        assert len(sink.items) == 2
