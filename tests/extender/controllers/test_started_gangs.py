"""What the next netgang knows of gangs that have started, and what a damaged list proves (docs/safety.md S23)."""

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any, cast

import pytest
from msgspec.structs import replace

from extender.cache.cluster import ClusterCache
from extender.controllers.removals import QUIET_S
from extender.controllers.started_gangs import (
    CHARS,
    MOST_TEXT,
    NOTED,
    READ_EACH_S,
    WRITE_EACH_S,
    StartedGangsConfigMap,
    mark_of,
)
from extender.errors import ApiError, ApiUnavailableError
from scoring import PodUid
from scoring.model import Pod
from tests.builders import bound, gang, pod
from tests.extender.beside import finish
from tests.extender.controllers.contexts import context_over
from tests.extender.scheduling.world import PARTIAL_S, Object, World, key, node_json, pod_json, running
from tests.fakes.clock import LoopClock
from tests.fakes.cluster_api import FakeClusterApi
from tests.fakes.text_store import FakeTextStore

pytestmark = pytest.mark.looptime
N1 = node_json("n1", cpu="16")
WRITTEN_S = WRITE_EACH_S + 2.0  # From a start until it is in the ConfigMap
EVICTED_S = QUIET_S + PARTIAL_S + 30.0


def kept(api: FakeClusterApi) -> str:
    assert api.started.stored is not None
    return api.started.stored.text


def has(api: FakeClusterApi, *uids: str, gang: str = "g") -> list[bool]:
    return [mark_of(key(gang), PodUid(uid)) in kept(api) for uid in uids]


def placed(name: str, *, uid: str | None = None, size: int = 3, **fields: object) -> Object:
    return pod_json(name, gang="g", size=size, nodeName="n1", uid=uid, **fields)  # type: ignore[arg-type]


async def started(world: World, size: int = 3, **fields: Any) -> tuple[str, ...]:
    names = await world.planned_gang("g", size, **fields)
    await world.starts(*names)
    await world.settle(WRITTEN_S)
    return names


def has_started(world: World, name: str = "g") -> bool:
    return world.service.cache.snapshot().gangs[key(name)].started


async def after_a_start(size: int = 3, *, gone: int = 0) -> FakeClusterApi:
    """A cluster in which gang g, of pods uid-0 to uid-2, has started, netgang was killed, and the first went."""
    api = FakeClusterApi()
    async with running(N1, *(placed(f"g-{n}", uid=f"uid-{n}", size=size) for n in range(size)), api=api) as world:
        await world.settle(WRITTEN_S)
    assert any(has(api, *(f"uid-{number}" for number in range(size))))
    for number in range(gone):
        api.remove(f"g-{number}")
    return api


async def test_starts_of_the_same_seconds_are_one_write_and_no_patch() -> None:
    """What has not started is none."""
    async with running(N1) as world:
        names = await world.planned_gang("g", 3)
        world.bind_offered(*names[:2])
        await world.settle(WRITTEN_S)
        assert world.api.started.writes == 0
        world.delete(*names)
        await world.settle()
        others = [name for letter in "abcg" for name in world.gang(letter, 3)]
        await world.settle()
        before = world.api.calls["patch"]
        await world.bind_and_settle(*others)
        await world.settle(WRITTEN_S)
        assert has(world.api, *(world.uid(f"g-{number}") for number in range(3))) == [True] * 3
        await world.settle(3 * READ_EACH_S)
        assert (world.api.calls["patch"], world.api.started.writes) == (before, 1)


async def test_the_next_netgang_knows_a_gang_that_broke_meanwhile() -> None:
    async with running(api=await after_a_start(gone=2)) as world:
        assert has_started(world)
        await world.settle(EVICTED_S)
        assert world.api.evictions == []


async def test_a_gang_made_again_under_its_name_has_not_started() -> None:
    async with running(placed("g-0", uid="another"), api=await after_a_start(gone=3)) as world:
        await world.settle(EVICTED_S)
        assert world.api.evictions == ["another"]


async def test_members_that_follow_others_one_by_one_keep_it_known() -> None:
    api = await after_a_start(size=10)
    async with running(api=api) as world:
        for number in range(10):
            world.delete(f"g-{number}")
            await world.settle(WRITTEN_S)
            world.api.add(placed(f"again-{number}", uid=f"new-{number}", size=10))
            await world.settle(WRITTEN_S)
    assert 3 <= sum(has(api, *(f"new-{number}" for number in range(10)))) <= NOTED
    for number in range(3):
        api.remove(f"again-{number}")
    async with running(api=api) as world:
        assert has_started(world)


async def test_a_pod_that_is_labelled_into_another_gang_proves_nothing_there() -> None:
    moved = pod_json("g-0", gang="h", size=3, nodeName="n1", uid="uid-0")
    async with running(moved, api=await after_a_start(gone=3)) as world:
        assert not has_started(world, "h")


DAMAGE: dict[str, Callable[[str], str]] = {  # case: what another client makes of the text
    "emptied": lambda _: "",
    "moved": lambda text: f"A{text}",
    "too large": lambda text: text + " " * MOST_TEXT,
    "nested": lambda _: "[" * 100_000,
}


@pytest.mark.parametrize("damaged", DAMAGE.values(), ids=DAMAGE)
async def test_a_running_netgang_puts_back_what_was_damaged(damaged: Callable[[str], str]) -> None:
    async with running(N1) as world:
        names, api = await started(world), world.api
        api.started.put(damaged(kept(api)))
        await world.settle(READ_EACH_S + WRITTEN_S)
        assert has(api, *map(world.uid, names)) == [True] * 3


@pytest.mark.parametrize("damaged", DAMAGE.values(), ids=DAMAGE)
async def test_after_a_restart_what_was_damaged_proves_nothing(damaged: Callable[[str], str]) -> None:
    api = await after_a_start(gone=1)
    api.started.put(damaged(kept(api)))
    async with running(api=api) as world:
        assert not has_started(world)
        await world.starts(*await world.planned_gang("h", 2))


@pytest.mark.parametrize("error", [ApiError(403, "configmaps is forbidden"), ApiUnavailableError("timed out")])
async def test_what_cannot_be_read_is_said_and_gangs_start(error: Exception) -> None:
    api = FakeClusterApi()
    api.started.error = error
    async with running(N1, api=api) as world:
        names = await started(world)
        assert str(error) in (await world.get("/readyz")).json()["detail"]["started"]
        api.started.error = None
        await world.settle(2 * READ_EACH_S)
        assert has(api, *map(world.uid, names)) == [True] * 3
        assert "started" not in (await world.get("/readyz")).json()["detail"]


async def test_without_the_config_map_the_way_out_is_said() -> None:
    api = FakeClusterApi()
    api.started.stored = None
    async with running(N1, api=api) as world:
        await world.settle(WRITTEN_S)
        said = (await world.get("/readyz")).json()["detail"]["started"]
        assert said.endswith("there is no ConfigMap netgang-system/netgang-started-gangs: apply the manifests again")


async def test_after_a_conflict_it_is_read_first() -> None:
    """Another replica wrote gang h between our read and our write: both are in it, as we see h as well."""
    api = await after_a_start()
    async with running(api=api) as world:
        api.started.put(mark_of(key("g"), PodUid("uid-0")) + mark_of(key("h"), PodUid("uid-h")))
        api.add(pod_json("h-0", gang="h", size=2, nodeName="n1", uid="uid-h"))
        await world.bind_and_settle(*await world.planned_gang("i", 2))
        await world.settle(2 * WRITTEN_S)
        assert has(api, "uid-1") + has(api, "uid-h", gang="h") + has(api, world.uid("i-0"), gang="i") == [True] * 3
        world.delete("h-0")


@pytest.mark.parametrize(("gangs", "each", "left_out"), [(3, 8, 0), (6, 4, 0), (24, 1, 0), (30, 1, 6)])
async def test_where_all_would_be_too_many_fewer_are_noted(
    monkeypatch: pytest.MonkeyPatch, gangs: int, each: int, left_out: int
) -> None:
    """24 members fit here: eight of each of three gangs, one of each of 24; of 30 gangs the oldest are left out."""
    monkeypatch.setattr("extender.controllers.started_gangs.MOST_NOTED", 24)
    bare = [gang(f"g{n}", members=[bound(pod(f"g{n}-{one}"), "n1") for one in range(10)]) for n in range(gangs)]
    made = {one.key: replace(one, started=True, created_s=float(number)) for number, one in enumerate(bare)}
    cache = SimpleNamespace(snapshot=lambda: SimpleNamespace(gangs=made), pod_groups=None, is_own=None)
    book = StartedGangsConfigMap(
        context_over(FakeClusterApi(), cast("ClusterCache", cache), LoopClock()), FakeTextStore()
    )
    text = finish(book.to_write()) or ""
    assert (len(text) // CHARS, book.left_out) == ((gangs - left_out) * each, left_out)
    oldest = made[key("g0")]
    assert any(mark_of(oldest.key, one.uid) in text for one in oldest.members) is not bool(left_out)


def replica(store: FakeTextStore, *members: Pod, acts: bool) -> StartedGangsConfigMap:
    """One that sees these pods."""
    cache = ClusterCache()
    cache.pods.replace(list(members))
    context = context_over(FakeClusterApi(), cache, LoopClock())
    return StartedGangsConfigMap(replace(context, acting=lambda: acts), store)


async def test_a_standby_reads_again_when_its_term_begins() -> None:
    """And until then it writes nothing, whatever it knows."""
    store = FakeTextStore()
    members = [bound(pod(f"g-{number}", gang="g", min_available=3), "n1") for number in range(3)]
    leader, standby = replica(store, *members, acts=True), replica(store, members[0], acts=False)
    await standby.reconcile()
    await leader.reconcile()
    await standby.reconcile()
    assert (store.writes, standby.context.cache.gangs.partial()) == (1, {key("g")})
    standby.reset()
    await standby.reconcile()
    assert (store.writes, standby.context.cache.gangs.partial()) == (1, set())
