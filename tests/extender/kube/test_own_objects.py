"""The Lease and the ConfigMap over HTTP, on a small server that keeps an API server's promises about versions."""

import json
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from typing import Any, NamedTuple
from urllib.parse import parse_qs, urlsplit

import pytest
from aiohttp import web

from extender.errors import ApiError, ApiUnavailableError, ConflictError, NotFoundError
from extender.kube.http.transport import Transport
from extender.kube.own_objects import ENTRY, STARTED_GANGS, KubeLeases, KubeTextStore
from extender.leadership.lease import Lease, LeaseApi, LeaseSpec
from extender.ports import TextStore
from tests.extender.kube.conftest import serving
from tests.fakes.leases import FakeLeases, StoredLease
from tests.fakes.text_store import FakeTextStore

LEASES = "/apis/coordination.k8s.io/v1/namespaces/team/leases"
SPEC = LeaseSpec("me", 4, "2026-01-01T00:00:00.000001Z", "2026-01-01T00:00:00.000002Z", 3)


@dataclass
class Server:
    """Objects by path, as a Kubernetes API server keeps them."""

    objects: dict[str, dict[str, Any]] = field(default_factory=dict)
    version: int = 100
    fails: int = 0  # status of all answers, if it is one of failure
    bodies: list[Any] = field(default_factory=list)

    async def handle(self, request: web.Request) -> web.Response:
        path = request.path
        body = json.loads(await request.read() or b"null")
        self.bodies.append(body)
        if self.fails:
            return self._status(self.fails)
        if request.method == "GET" and path.endswith("/pods"):
            wanted = parse_qs(urlsplit(request.path_qs).query)["labelSelector"][0].partition("=")
            found = [one for key, one in self.objects.items() if key.startswith(path)]
            return web.json_response(
                {"items": [one for one in found if one["metadata"].get("labels", {}).get(wanted[0]) == wanted[2]]}
            )
        if request.method == "POST":
            path = f"{path}/{body['metadata']['name']}"
            return self._status(409) if path in self.objects else self._stored(path, body)
        if path not in self.objects:
            return self._status(404)
        there = self.objects[path]
        if request.method == "PUT":
            changed = body["metadata"]["resourceVersion"] != there["metadata"]["resourceVersion"]
            return self._status(409) if changed else self._stored(path, body)
        if request.method == "PATCH":
            labels = there["metadata"].setdefault("labels", {})
            for key, value in body["metadata"]["labels"].items():
                labels.pop(key, None)
                labels |= {key: value} if value is not None else {}
        return web.json_response(there)

    def _stored(self, path: str, body: dict[str, Any]) -> web.Response:
        self.version += 1
        self.objects[path] = {**body, "metadata": {**body["metadata"], "resourceVersion": str(self.version)}}
        return web.json_response(self.objects[path])

    def _status(self, code: int) -> web.Response:
        return web.json_response({"kind": "Status", "code": code, "message": "no"}, status=code)


class World(NamedTuple):
    api: KubeLeases
    server: Server


@pytest.fixture
async def world() -> AsyncIterator[World]:
    server = Server()
    async with serving(server.handle) as access, Transport(access) as transport:
        yield World(KubeLeases(transport, "team", "lead", pods_namespace="team", call_s=5.0), server)


@pytest.fixture(params=["fake", "HTTP"])
def port(request: pytest.FixtureRequest, world: World) -> LeaseApi:
    return FakeLeases(StoredLease()) if request.param == "fake" else world.api


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
    await world.api.write(SPEC, None)
    there = world.server.objects[f"{LEASES}/lead"]
    there["metadata"]["labels"] = {"team": "x"}
    there["spec"]["strategy"] = "Oldest"
    found = await world.api.read()
    assert found is not None
    await world.api.write(LeaseSpec("", 1, "a", "b", 4), found)
    now = world.server.objects[f"{LEASES}/lead"]
    assert (now["metadata"]["labels"], now["spec"]["strategy"]) == ({"team": "x"}, "Oldest")
    assert (now["spec"]["holderIdentity"], now["spec"]["leaseDurationSeconds"]) == ("", 1)
    assert [now["spec"][name] for name in ("acquireTime", "renewTime", "leaseTransitions")] == ["a", "b", 4]


async def test_a_lease_that_says_nothing_can_be_read(world: World) -> None:
    world.server.objects[f"{LEASES}/lead"] = {"metadata": {"resourceVersion": "7"}}
    assert await world.api.read() == Lease(LeaseSpec("", 0, "", "", 0), "7", b'{"metadata": {"resourceVersion": "7"}}')


async def test_failures_keep_their_kind(world: World) -> None:
    first = await world.api.write(SPEC, None)
    world.server.objects.clear()
    with pytest.raises(NotFoundError):
        await world.api.write(SPEC, first)
    world.server.objects[f"{LEASES}/lead"] = {"metadata": {"resourceVersion": "7"}, "spec": {"leaseTransitions": "x"}}
    with pytest.raises(ApiUnavailableError):
        await world.api.read()
    world.server.fails = 403
    with pytest.raises(ApiError, match="403"):
        await world.api.read()


async def test_the_label_is_set_and_removed(world: World) -> None:
    pods = "/api/v1/namespaces/team/pods"
    for name in ("a", "b"):
        world.server.objects[f"{pods}/{name}"] = {"metadata": {"name": name, "labels": {"app": "netgang"}}}
    await world.api.label("a", "leader")
    assert await world.api.labelled("leader") == ["a"]
    assert world.server.objects[f"{pods}/a"]["metadata"]["labels"] == {"app": "netgang", "netgang.io/role": "leader"}
    await world.api.label("a", None)
    assert await world.api.labelled("leader") == []
    assert world.server.objects[f"{pods}/a"]["metadata"]["labels"] == {"app": "netgang"}
    with pytest.raises(NotFoundError):
        await world.api.label("c", "leader")


PATH = f"/api/v1/namespaces/team/configmaps/{STARTED_GANGS}"
Made = tuple[TextStore, Server]


@pytest.fixture
async def made() -> AsyncIterator[Made]:
    server = Server()
    head = {"name": STARTED_GANGS, "uid": "u", "resourceVersion": "7", "labels": {"a": "b"}, "annotations": {"c": "d"}}
    server.objects[PATH] = {"kind": "ConfigMap", "metadata": head}
    async with serving(server.handle) as access, Transport(access) as transport:
        yield KubeTextStore(transport, "team"), server


async def test_a_text_comes_back_as_it_was_written_and_nothing_else_changes(made: Made) -> None:
    store, server = made
    empty = await store.read()
    assert empty is not None
    assert (store.place, empty.text) == (f"team/{STARTED_GANGS}", "")
    written = await store.write("[1]", empty)
    read = await store.read()
    assert read is not None
    assert written.text == read.text == "[1]"
    head = server.objects[PATH]["metadata"]
    assert server.objects[PATH]["data"] == {ENTRY: "[1]"}
    assert (head["labels"], head["annotations"]) == ({"a": "b"}, {"c": "d"})


@pytest.mark.parametrize("fake", [False, True], ids=["over HTTP", "fake"])
async def test_what_has_changed_is_not_written_over(made: Made, fake: bool) -> None:
    store: TextStore = FakeTextStore() if fake else made[0]
    first = await store.read()
    assert first is not None
    await store.write("one", first)
    with pytest.raises(ConflictError):
        await store.write("two", first)
    again = await store.read()
    assert again is not None
    assert again.text == "one"


async def test_no_config_map_is_a_value_and_a_refusal_an_error(made: Made) -> None:
    store, server = made
    server.fails = 403
    with pytest.raises(ApiError, match="no"):
        await store.read()
    server.fails = 0
    del server.objects[PATH]
    assert await store.read() is None


async def test_a_config_map_that_is_none_is_an_answer_that_cannot_be_used(made: Made) -> None:
    store, server = made
    server.objects[PATH]["data"] = [7]
    with pytest.raises(ApiUnavailableError):
        await store.read()
