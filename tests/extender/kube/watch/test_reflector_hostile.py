"""No object stops a reflector (docs/safety.md S21), and after any history its sink equals the server."""

import asyncio
import json
import logging
from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing
from typing import Any, TypeAlias

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from extender.cache.state import MOST_UNREADABLE as MOST
from extender.cache.state import UnreadableKind
from extender.errors import ApiError, ApiUnavailableError, GoneError, TooLongError
from extender.kube.calls import NODES, POD_GROUPS, PODS
from extender.kube.client import KubeClient
from extender.ports import Page, WatchEvent
from lab.testbed.apiserver.server import LoopbackApi
from tests.extender.beside import playing
from tests.extender.kube.conftest import client_of
from tests.extender.kube.scripted import Talk, answering, scripted
from tests.extender.kube.watch.collection import (
    UNREADABLE,
    UNWANTED,
    Item,
    RecordingSink,
    State,
    reduce,
    reflector_of,
    state_of,
)
from tests.extender.kube.watch.test_reflector import following, pod, settle
from tests.fakes.cluster_api import FakeClusterApi

RAISED: dict[str, Callable[[], Exception]] = {
    "overflow": lambda: OverflowError("decimal"),
    "nesting": lambda: RecursionError("maximum recursion depth exceeded"),
    "memory": MemoryError,
    "a missing field": lambda: KeyError("spec"),
    "another type": lambda: TypeError("unhashable type: 'list'"),
    "not this text": lambda: UnicodeDecodeError("utf-8", b"\xff", 0, 1, "invalid start byte"),
}


def refusing(name: str, error: Callable[[], Exception]) -> Callable[[bytes], Item | None]:
    def reduced(raw: bytes) -> Item | None:
        if f'"{name}"'.encode() in raw:
            raise error()
        return reduce(raw)

    return reduced


class Refusing(RecordingSink):
    """A sink that cannot take over the pod `bad`, and stumbles over what it did of it when it is to forget it."""

    def put(self, item: Item) -> None:
        super().put(item)
        self._stumble(item.key)

    def remove(self, key: str) -> None:
        super().remove(key)
        self._stumble(key)

    def _stumble(self, key: str) -> None:
        if key == "default/bad":
            raise OverflowError("int too large to convert to C long")


@pytest.mark.looptime
@pytest.mark.parametrize("error", RAISED.values(), ids=RAISED)
async def test_whatever_reading_raises_concerns_that_object_alone(error: Callable[[], Exception]) -> None:
    cluster = FakeClusterApi(pod("p0"), pod("bad"))
    async with following(cluster, reduced=refusing("bad", error)) as (api, sink, reflector):
        await settle()
        for number in range(20):
            api.add(pod("bad", again=str(number)))
        api.add(pod("p1"))
        await settle(120.0)
        status = reflector.status()
        assert sorted(sink.items) == ["default/p0", "default/p1"]
        assert (status.relists, status.errors, status.unreadable, status.unreadable_now) == (1, 0, 21, 1)
        assert reflector.synced.is_set()


@pytest.mark.looptime
async def test_what_a_sink_cannot_take_over_is_left_out() -> None:
    async with following(FakeClusterApi(pod("p0"), pod("bad"), pod("p1")), Refusing()) as (api, sink, reflector):
        await settle()
        assert sorted(sink.items) == ["default/p0", "default/p1"]
        api.add(pod("bad", again="1"))
        api.remove("p1")
        api.add(pod("p2"))
        await settle(120.0)
        assert sorted(sink.items) == ["default/p0", "default/p2"]
        assert (reflector.status().relists, reflector.status().errors) == (1, 0)


@pytest.mark.looptime
async def test_an_object_that_can_be_read_again_is_not_called_unreadable() -> None:
    book = UnreadableKind("v1", "Pod")
    async with following(unreadable=book) as (api, _, _):
        await settle()
        for name in ("mended", "deleted", "unwanted", "stays", "gone"):
            api.add(pod(name, as_="unreadable"))
        await settle()
        assert len(book.now) == 5
        api.add(pod("mended"))
        api.remove("deleted")
        api.add(pod("unwanted", as_="unwanted"))
        await settle()
        assert sorted(book.now) == ["default/gone", "default/stays"]
        api.store.silence()
        api.remove("gone")
        api.store.compact()
        api.break_watches()
        api.store.speak()
        await settle(60.0)
        assert [(one.kind, one.namespace, one.name, one.why) for one in book.now.values()] == [
            ("Pod", "default", "stays", "requests.cpu is not a quantity")
        ]


@pytest.mark.looptime
async def test_the_book_and_the_log_are_bounded(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.WARNING)
    names = [f"bad-{number}" for number in range(MOST + 50)]
    api, book = FakeClusterApi(*(pod(name) for name in names)), UnreadableKind("v1", "Pod")

    def reduced(_: bytes) -> Item | None:
        raise ValueError("cpu: '" + "1\n" * 500_000)

    async with following(api, reduced=reduced, unreadable=book):
        await settle()
    assert (len(book.now), len(caplog.records), book.readings) == (MOST, MOST, MOST + 50)
    assert max(len(record.getMessage()) for record in caplog.records) < 400
    assert max(len(one.why) for one in book.now.values()) <= 300


@pytest.mark.looptime
async def test_an_event_without_readable_metadata_is_passed_over(caplog: pytest.LogCaptureFixture) -> None:
    """It is unknown what it is about, and no list would say it better: it is counted, and the watch goes on."""
    caplog.set_level(logging.WARNING)

    class Api(FakeClusterApi):
        async def watch(self, *args: Any, **kwargs: Any) -> AsyncGenerator[WatchEvent, None]:
            yield WatchEvent("MODIFIED", b'{"metadata": {"name": 7, "resourceVersion": "5"}}')
            yield WatchEvent("DELETED", b"[]")
            async for event in super().watch(*args, **kwargs):
                yield event

    async with following(Api(pod("p0"))) as (api, sink, reflector):
        await settle()
        api.add(pod("p1"))
        await settle(600.0)
        assert (state_of(api.store), reflector.status().relists, reflector.status().errors) == (sink.state, 1, 0)
        assert reflector.status().unreadable >= 2
    assert [record.getMessage() for record in caplog.records] == [
        "/api/v1/pods: an object without readable metadata cannot be read and is left out: its metadata cannot be read"
    ]


LEVELS = 9_000  # the API server takes 10,000
DEEP = b'{"metadata":{"managedFields":%s,"name":"deep","namespace":"a","resourceVersion":"3"},"spec":%s}' % (
    b"[" * LEVELS + b"]" * LEVELS,
    b'{"x":' * LEVELS + b"1" + b"}" * LEVELS,
)


async def test_a_deep_object_spoils_no_watch() -> None:
    line = b'{"type":"MODIFIED","object":' + DEEP + b"}\n"
    head, chunk = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n", b"%x\r\n%s\r\n" % (len(line), line)
    async with scripted(answering(head, chunk, then=Talk.hung_up)) as server, client_of(server.url) as api:
        events = api.watch(POD_GROUPS.collection(), resource_version="2", timeout_s=30)
        async with aclosing(events), asyncio.timeout(30.0):
            event = await anext(events)
    assert (event.type, json.loads(event.object)["metadata"]["name"]) == ("MODIFIED", "deep")


async def test_a_reflector_syncs_beside_a_deep_object(loopback: LoopbackApi, client: KubeClient) -> None:
    """One list suffices: its own name can be read, which stands behind what is deep, and so can its neighbours."""
    good = b'{"metadata":{"name":"good","namespace":"a","resourceVersion":"2"}}'
    loopback.store.load(POD_GROUPS, {("a", "deep"): DEEP, ("a", "good"): good})
    sink = RecordingSink()
    reflector = reflector_of(client, sink, path=POD_GROUPS.collection())
    async with playing(reflector.run()), asyncio.timeout(30.0):
        await reflector.synced.wait()
        assert sorted(sink.items) == ["a/deep", "a/good"]
        assert (reflector.status().relists, reflector.status().errors) == (1, 0)


NAMES = ("a", "b", "c")
FAULTS: tuple[Exception, ...] = (
    ApiUnavailableError("connection reset"),
    ApiError(500, "etcd is not there"),
    ApiError(429, "too many requests", retry_after_s=5.0),
    ApiError(504, "Too large resource version", retry_after_s=1.0),
    GoneError(410, "too old"),
)
Step: TypeAlias = tuple[str, Any, float]  # what happens, its argument, and how much time passes then


def steps() -> st.SearchStrategy[list[Step]]:
    """Histories: what people do to objects, mostly, and what goes wrong between the server and us."""
    put = st.tuples(st.just("put"), st.tuples(st.sampled_from(NAMES), st.sampled_from(["", "", UNREADABLE, UNWANTED])))
    remove = st.tuples(st.just("remove"), st.sampled_from(NAMES))
    trouble = st.one_of(
        st.tuples(st.sampled_from(["other kind", "compact", "end watches", "silence", "speak"]), st.none()),
        st.tuples(st.just("break watches"), st.sampled_from(FAULTS[:2])),
        st.tuples(st.sampled_from(["fail list", "fail watch"]), st.sampled_from(FAULTS)),
    )
    pause_s = st.sampled_from([0.0, 0.1, 1.0, 1.0, 20.0, 200.0])
    what = st.one_of(put, put, remove, trouble, trouble)
    return st.lists(st.tuples(what, pause_s).map(lambda both: (*both[0], both[1])), min_size=5, max_size=30)


class History:
    """The server, and the states that its pods were in, oldest first."""

    def __init__(self) -> None:
        self.api = FakeClusterApi(bookmark_s=10.0)
        self.api.latency_s["list"] = 0.2
        self.states: list[State] = [frozenset()]

    async def take(self, step: Step) -> None:
        kind, value, pause_s = step
        actions: dict[str, Callable[[], object]] = {
            "put": lambda: self._put(*value),
            "remove": lambda: self._remove(value),
            "other kind": lambda: self.api.store.put(NODES, {"metadata": {"name": "n1"}}),
            "compact": self.api.store.compact,
            "end watches": self.api.break_watches,
            "break watches": lambda: self.api.break_watches(value),
            "fail list": lambda: self.api.fail_next("list", value),
            "fail watch": lambda: self.api.fail_next("watch", value),
            "silence": self.api.store.silence,
            "speak": self.api.store.speak,
        }
        actions[kind]()
        await asyncio.sleep(pause_s)

    def _put(self, name: str, label: str) -> None:
        self.api.add({"metadata": {"name": name, "labels": {"as": label}}})
        self.states.append(state_of(self.api.store))

    def _remove(self, name: str) -> None:
        if ("default", name) in self.api.store.bodies(PODS):
            self.api.remove(name)
            self.states.append(state_of(self.api.store))


def appear_in_order(shown: list[State], real: list[State]) -> bool:
    """Whether every state shown was real, at a time not before that of the state shown earlier."""
    position = 0
    for state in shown:
        while position < len(real) and real[position] != state:
            position += 1
        if position == len(real):
            return False
    return True


@pytest.mark.looptime
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(history=steps(), page=st.integers(1, 4), seed=st.integers(0, 1000))
async def test_the_sink_equals_the_server_in_the_end(history: list[Step], page: int, seed: int) -> None:
    """Every state that the sink showed was one that the server had, in its order: no half lists, no going back."""
    world, sink = History(), RecordingSink()
    reflector = reflector_of(world.api, sink, seed=seed, page=page)
    async with playing(reflector.run()):
        for step in history:
            await world.take(step)
        world.api.store.speak()
        await asyncio.sleep(1000.0)
        assert state_of(world.api.store) == sink.state
        assert reflector.synced.is_set()
        assert appear_in_order(sink.states, world.states)
        assert reflector.status().contact_age_s is not None


@pytest.mark.looptime
async def test_pages_that_are_too_long_are_asked_for_in_parts() -> None:
    names = [f"p{number}" for number in range(40)]

    class Api(FakeClusterApi):
        async def list_page(self, path: str, **how: Any) -> Page:
            if how["limit"] > 3:
                raise TooLongError("longer than 16 MiB")
            return await super().list_page(path, **how)

    async with following(Api(*(pod(name) for name in names))) as (api, sink, reflector):
        async with asyncio.timeout(30.0):
            await reflector.synced.wait()
        assert state_of(api.store) == sink.state
