"""After any history the sink equals the server, and on the way it never shows a state that never was."""

import asyncio
from collections.abc import Callable
from typing import Any, TypeAlias

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from extender.errors import ApiError, ApiUnavailableError, GoneError
from extender.kube.calls import NODES, PODS
from tests.extender.beside import playing
from tests.extender.kube.watch.collection import UNREADABLE, UNWANTED, RecordingSink, State, reflector_of, state_of
from tests.fakes.cluster_api import FakeClusterApi

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


def test_the_order_check_can_fail() -> None:
    a, b = frozenset[Any]("a"), frozenset[Any]("b")
    assert appear_in_order([a, a, b], [a, b])
    assert not appear_in_order([b, a], [a, b])
    assert not appear_in_order([a | b], [a, b])
