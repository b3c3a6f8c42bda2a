"""The Lease and the ConfigMap over HTTP, on an API server in memory that keeps its promises about versions."""

from collections.abc import AsyncIterator

import msgspec
import pytest

from extender.errors import ApiError, ApiUnavailableError, ConflictError, NotFoundError
from extender.kube.calls import CONFIG_MAPS, LEASES, PODS
from extender.kube.own_objects import ENTRY, STARTED_GANGS, KubeLeases, KubeTextStore
from extender.kube.transport import Transport
from extender.leadership.election import Lease, LeaseApi, LeaseSpec
from extender.ports import TextStore
from lab.testbed.apiserver.server import Fault, LoopbackApi
from lab.testbed.apiserver.store import ApiStore
from tests.extender.kube.conftest import server_of
from tests.fakes.leases import FakeLeases, StoredLease
from tests.fakes.text_store import FakeTextStore

SPEC = LeaseSpec("me", 4, "2026-01-01T00:00:00.000001Z", "2026-01-01T00:00:00.000002Z", 3)


class World(msgspec.Struct, frozen=True):
    leases: KubeLeases
    texts: KubeTextStore
    store: ApiStore


@pytest.fixture
async def world(loopback: LoopbackApi) -> AsyncIterator[World]:
    loopback.store.install(LEASES, CONFIG_MAPS)
    async with Transport(server_of(loopback.url)) as transport:
        leases = KubeLeases(transport, "team", "lead", pods_namespace="team", call_s=5.0)
        yield World(leases, KubeTextStore(transport, "team"), loopback.store)


@pytest.fixture(params=["fake", "HTTP"])
def port(request: pytest.FixtureRequest, world: World) -> LeaseApi:
    return FakeLeases(StoredLease()) if request.param == "fake" else world.leases


async def test_a_lease_is_created_and_replaced(port: LeaseApi) -> None:
    assert await port.read() is None
    first = await port.write(SPEC, None)
    assert ((await port.read()), first.spec) == (first, SPEC)
    renewed = LeaseSpec("me", 4, SPEC.acquired, "2026-01-01T00:00:05.000000Z", 3)
    second = await port.write(renewed, first)
    assert second.spec == renewed
    assert second.version != first.version
    for over in (None, first):  # it exists, and has changed
        with pytest.raises(ConflictError):
            await port.write(SPEC, over)


async def test_what_others_wrote_on_the_lease_stays(world: World) -> None:
    await world.leases.write(SPEC, None)
    there = world.store.get(LEASES, "team", "lead")
    there["metadata"]["labels"] = {"team": "x"}
    there["spec"]["strategy"] = "Oldest"
    world.store.put(LEASES, there)
    found = await world.leases.read()
    assert found is not None
    await world.leases.write(LeaseSpec("", 1, "a", "b", 4), found)
    now = world.store.get(LEASES, "team", "lead")
    assert now["metadata"]["labels"] == {"team": "x"}
    times = {"acquireTime": "a", "renewTime": "b", "leaseTransitions": 4, "leaseDurationSeconds": 1}
    assert now["spec"] == {"holderIdentity": "", "strategy": "Oldest"} | times


async def test_a_lease_that_says_nothing_can_be_read(world: World) -> None:
    raw = b'{"metadata": {"resourceVersion": "7"}}'
    world.store.load(LEASES, {("team", "lead"): raw})
    assert await world.leases.read() == Lease(LeaseSpec("", 0, "", "", 0), "7", raw)


def config_map(world: World, **fields: object) -> None:
    head = {"name": STARTED_GANGS, "namespace": "team", "labels": {"a": "b"}, "annotations": {"c": "d"}}
    world.store.put(CONFIG_MAPS, {"metadata": head, **fields})


async def test_failures_keep_their_kind(world: World, loopback: LoopbackApi) -> None:
    first = await world.leases.write(SPEC, None)
    world.store.remove(LEASES, "team", "lead")
    with pytest.raises(NotFoundError):
        await world.leases.write(SPEC, first)
    wrong = b'{"metadata": {"resourceVersion": "7"}, "spec": {"leaseTransitions": "x"}}'
    world.store.load(LEASES, {("team", "lead"): wrong})
    config_map(world, data=[7])
    for read in (world.leases.read, world.texts.read):
        with pytest.raises(ApiUnavailableError):
            await read()
    loopback.fail_next("get", Fault(status=403), times=2)
    for read in (world.leases.read, world.texts.read):
        with pytest.raises(ApiError, match="403"):
            await read()


async def test_the_label_is_set_and_removed(world: World) -> None:
    for name in ("a", "b"):
        world.store.put(PODS, {"metadata": {"name": name, "namespace": "team", "labels": {"app": "netgang"}}})
    for role, labelled in (("leader", ["a"]), (None, [])):
        await world.leases.label("a", role)
        assert await world.leases.labelled("leader") == labelled
        labels = world.store.get(PODS, "team", "a")["metadata"]["labels"]
        assert labels == {"app": "netgang"} | ({"netgang.io/role": role} if role else {})
    with pytest.raises(NotFoundError):
        await world.leases.label("c", "leader")


async def test_a_text_comes_back_as_it_was_written_and_nothing_else_changes(world: World) -> None:
    assert await world.texts.read() is None
    config_map(world)
    empty = await world.texts.read()
    assert empty is not None
    assert (world.texts.place, empty.text) == (f"team/{STARTED_GANGS}", "")
    written = await world.texts.write("[1]", empty)
    assert (written.text, await world.texts.read()) == ("[1]", written)
    now = world.store.get(CONFIG_MAPS, "team", STARTED_GANGS)
    assert (now["data"], now["metadata"]["labels"], now["metadata"]["annotations"]) == (
        {ENTRY: "[1]"}, {"a": "b"}, {"c": "d"}
    )  # fmt: skip


@pytest.mark.parametrize("fake", [False, True], ids=["over HTTP", "fake"])
async def test_what_has_changed_is_not_written_over(world: World, fake: bool) -> None:
    config_map(world)
    store: TextStore = FakeTextStore() if fake else world.texts
    first = await store.read()
    assert first is not None
    await store.write("one", first)
    with pytest.raises(ConflictError):
        await store.write("two", first)
    again = await store.read()
    assert again is not None
    assert again.text == "one"
