"""The ClusterApi port: the fake and the client over HTTP keep the same promises."""

import json
import random
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack
from typing import Any

import msgspec
import pytest
from msgspec.structs import replace

from extender.convert.patches import admission_patch, condition_patch, narrowed_terms
from extender.errors import ApiError, ConflictError, GoneError, NotFoundError
from extender.kube.calls import EVENTS, NODES, OWNERS, POD_GROUPS, PODS
from extender.kube.client import KubeClient
from extender.kube.credentials import ApiServer, Authorization, Token
from extender.kube.transport import Transport
from extender.ports import Binding, ClusterApi, SystemClock, WatchEvent
from extender.signed_notes import Bearer, NoteKind
from lab.testbed.apiserver.server import LoopbackApi, serve
from lab.testbed.apiserver.store import ApiStore
from scoring import NodeName, PodUid, ZoneName
from scoring.model import GATE
from scoring.queue.states import AdmittedCondition
from scoring.verbs.places import Listing
from tests.builders import pod
from tests.fakes.cluster_api import FakeClusterApi
from tests.fakes.notes import notes_of_a_former_process

ALL_PODS = PODS.collection()
JOBS, TF_JOBS = OWNERS["batch", "Job"], OWNERS["kubeflow.org", "TFJob"]


class World(msgspec.Struct, frozen=True):
    api: ClusterApi
    store: ApiStore

    def pod(self, name: str = "p", **fields: Any) -> PodUid:
        return PodUid(self.store.put(PODS, {"metadata": {"name": name}, **fields})["metadata"]["uid"])

    async def read(self) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(await self.api.get_pod("default", "p"))
        return found

    def watch(self) -> AsyncIterator[WatchEvent]:
        return self.api.watch(ALL_PODS, resource_version=str(self.store.version), timeout_s=60)


@pytest.fixture(params=["fake", "http"])
async def world(request: pytest.FixtureRequest) -> AsyncIterator[World]:
    store = ApiStore()
    async with AsyncExitStack() as stack:
        if request.param == "fake":
            yield World(FakeClusterApi(store=store, bookmark_s=0.05), store)
            return
        loopback = await stack.enter_async_context(serve(LoopbackApi(store, bookmark_s=0.05)))
        clock = SystemClock()
        server = ApiServer(url=loopback.url, authorization=Authorization(lambda: Token(""), clock=clock))
        yield World(KubeClient(await stack.enter_async_context(Transport(server)), clock, random.Random(0)), store)


async def first_events(stream: AsyncIterator[WatchEvent], count: int) -> list[WatchEvent]:
    """The first events of a watch, bookmarks left out; then hang up."""
    found: list[WatchEvent] = []
    try:
        while len(found) < count:
            event = await anext(stream)
            if event.type != "BOOKMARK":
                found.append(event)
    finally:
        assert isinstance(stream, AsyncGenerator)
        await stream.aclose()
    return found


def names(items: Any) -> list[str]:
    return [json.loads(item)["metadata"]["name"] for item in items]


async def test_a_list_comes_in_pages_of_one_state(world: World) -> None:
    for number in range(5):
        world.pod(f"p{number}")
    first = await world.api.list_page(ALL_PODS, limit=2)
    world.store.remove(PODS, "default", "p4")
    world.pod("p9")
    found, token = list(first.items), first.continue_token
    while token:
        page = await world.api.list_page(ALL_PODS, limit=2, continue_token=token)
        assert first.resource_version == page.resource_version
        found.extend(page.items)
        token = page.continue_token
    assert names(found) == ["p0", "p1", "p2", "p3", "p4"]


async def test_one_namespace_and_a_selector(world: World) -> None:
    for name, namespace, gang in (("a", "x", "1"), ("b", "x", "2"), ("c", "y", "1")):
        world.store.put(PODS, {"metadata": {"name": name, "namespace": namespace, "labels": {"g": gang}}})
    assert names((await world.api.list_page(PODS.collection("x"), limit=9)).items) == ["a", "b"]
    assert names((await world.api.list_page(PODS.collection("x") + "?labelSelector=g%3D1", limit=9)).items) == ["a"]


async def test_what_was_compacted_is_gone(world: World) -> None:
    for number in range(3):
        world.pod(f"p{number}")
    first = await world.api.list_page(ALL_PODS, limit=1)
    world.store.compact()
    with pytest.raises(GoneError):
        await world.api.list_page(ALL_PODS, limit=1, continue_token=first.continue_token)
    with pytest.raises(GoneError):
        await anext(world.api.watch(ALL_PODS, resource_version="1", timeout_s=60))


async def test_not_older_than(world: World) -> None:
    world.pod()
    now = (await world.api.list_page(ALL_PODS, limit=9)).resource_version
    assert names((await world.api.list_page(ALL_PODS, limit=9, not_older_than=now)).items) == ["p"]
    with pytest.raises(ApiError, match=r"504.*Too large resource version"):
        await world.api.list_page(ALL_PODS, limit=9, not_older_than="99999")


async def test_kinds_that_are_not_served(world: World) -> None:
    world.store.uninstall(POD_GROUPS)
    for path, error in ((POD_GROUPS.collection(), NotFoundError), ("/api/v1/secrets", ValueError)):
        with pytest.raises(error, match=r"not found|secrets"):
            await world.api.list_page(path, limit=9)
        with pytest.raises(error, match=r"not found|secrets"):
            await anext(world.api.watch(path, resource_version="1", timeout_s=9))


async def test_a_watch_tells_what_happened_since(world: World) -> None:
    version = (await world.api.list_page(ALL_PODS, limit=9)).resource_version
    stream = world.watch()
    world.pod()
    world.pod(status={"phase": "Running"})
    world.store.remove(PODS, "default", "p")
    events = await first_events(stream, 3)
    assert [event.type for event in events] == ["ADDED", "MODIFIED", "DELETED"]
    last = json.loads(events[-1].object)
    assert (last["metadata"]["name"], last["status"]) == ("p", {"phase": "Running"})
    versions = [int(json.loads(event.object)["metadata"]["resourceVersion"]) for event in events]
    assert sorted({int(version), *versions}) == [int(version), *versions]


async def test_a_watch_of_one_kind_tells_nothing_of_others_but_the_newest_version(world: World) -> None:
    stream = world.watch()
    world.store.put(NODES, {"metadata": {"name": "n1"}})
    event = await anext(stream)
    assert event.type == "BOOKMARK"
    assert json.loads(event.object)["metadata"]["resourceVersion"] == str(world.store.version)
    world.pod()
    assert names(event.object for event in await first_events(stream, 1)) == ["p"]


async def test_a_watch_ends_by_itself(world: World) -> None:
    page = await world.api.list_page(ALL_PODS, limit=500)
    assert (list(page.items), page.continue_token) == ([], "")
    stream = world.api.watch(ALL_PODS, resource_version=page.resource_version, timeout_s=0)
    assert [event async for event in stream if event.type != "BOOKMARK"] == []


async def test_history_that_goes_while_watching(world: World) -> None:
    world.pod()
    stream = world.api.watch(ALL_PODS, resource_version="1", timeout_s=60)
    assert (await anext(stream)).type == "ADDED"
    world.store.touch()
    world.store.compact()
    (event,) = await first_events(stream, 1)
    assert (event.type, json.loads(event.object)["code"]) == ("ERROR", 410)


async def test_bind_puts_the_pod_on_the_node(world: World) -> None:
    binding = Binding("default", "p", world.pod(), NodeName("n1"))
    stream = world.watch()
    for _ in range(2):
        await world.api.bind(binding)
    assert ((await world.read())["spec"]["nodeName"], world.store.bindings) == ("n1", [binding])
    (event,) = await first_events(stream, 1)
    assert (event.type, json.loads(event.object)["spec"]["nodeName"]) == ("MODIFIED", "n1")


BIND_CONFLICTS: dict[str, dict[str, Any]] = {
    "on another node": {"spec": {"nodeName": "n9"}},
    "gated": {"spec": {"schedulingGates": [{"name": "g"}]}},
    "being deleted": {"metadata": {"name": "p", "deletionTimestamp": "2026-01-01T00:00:00Z"}},
}


@pytest.mark.parametrize("fields", BIND_CONFLICTS.values(), ids=BIND_CONFLICTS)
async def test_a_pod_that_cannot_be_bound(fields: dict[str, Any], world: World) -> None:
    uid = world.pod(**fields)
    before = world.store.version
    with pytest.raises(ConflictError):
        await world.api.bind(Binding("default", "p", uid, NodeName("n1")))
    assert before == world.store.version


async def test_another_pod_of_the_same_name(world: World) -> None:
    world.pod()
    before = world.store.version
    for call in calls_about(world.api, PodUid("old-uid")):
        with pytest.raises(ConflictError):
            await call()
    assert before == world.store.version


def calls_about(api: ClusterApi, uid: PodUid) -> list[Callable[[], Awaitable[object]]]:
    return [
        lambda: api.bind(Binding("default", "p", uid, NodeName("n1"))),
        lambda: api.annotate_pod("default", "p", uid, {"a": "b"}),
        lambda: api.admit_pod("default", "p", uid, admitting(uid, "n1")),
        lambda: api.patch_pod_status("default", "p", uid, told(uid)),
        lambda: api.evict("default", "p", uid),
    ]


async def test_a_pod_that_is_gone(world: World) -> None:
    for call in (*calls_about(world.api, PodUid("u")), world.read):
        with pytest.raises(NotFoundError):
            await call()


async def test_annotate_adds_to_what_is_there(world: World) -> None:
    uid = world.pod(metadata={"name": "p", "annotations": {"theirs": "1", "ours": "1"}})
    await world.api.annotate_pod("default", "p", uid, {"ours": "2"})
    assert (await world.read())["metadata"]["annotations"] == {"theirs": "1", "ours": "2"}


def told(uid: PodUid, reason: str = "NoRoom") -> bytes:
    return condition_patch(uid, AdmittedCondition("False", reason, "Wait."), at="")


async def test_a_condition_is_written_beside_others(world: World) -> None:
    theirs = {"type": "PodScheduled", "status": "False"}
    uid = world.pod(status={"phase": "Pending", "conditions": [theirs]})
    for reason in ("NoRoom", "Behind"):
        await world.api.patch_pod_status("default", "p", uid, told(uid, reason))
    found = (await world.read())["status"]
    ours = {"type": "netgang.io/Admitted", "status": "False", "reason": "Behind", "message": "Wait."}
    assert (found["phase"], found["conditions"]) == ("Pending", [theirs, ours])


def gated(*names: str) -> dict[str, Any]:
    return {"schedulingGates": [{"name": name} for name in names], "nodeSelector": {"disk": "ssd"}}


def admitting(uid: PodUid, node: str) -> bytes:
    terms = narrowed_terms(None, Listing((ZoneName("a"),), (NodeName(node),)), zone_label="zone")
    return admission_patch(replace(pod("p"), uid=uid), NodeName(node), terms, notes=notes_of_a_former_process())


async def test_an_admission_takes_our_gate_alone(world: World) -> None:
    uid = world.pod(spec=gated("example.com/theirs", GATE))
    await world.api.admit_pod("default", "p", uid, admitting(uid, "n1"))
    found = await world.read()
    assert [gate["name"] for gate in found["spec"]["schedulingGates"]] == ["example.com/theirs"]
    assert (found["spec"]["nodeSelector"], narrowed_to(found)) == ({"disk": "ssd"}, ["n1"])
    bearer = Bearer("v1", "Pod", "default", "p", uid)
    note = found["metadata"]["annotations"]["netgang.io/admitted"]
    assert notes_of_a_former_process().read(NoteKind.ADMITTED, bearer, note) == "n1"


async def test_an_admission_that_took_effect_is_not_an_error_again(world: World) -> None:
    """The answer was lost and the plan changed: the API server refuses another affinity, but the gate is gone."""
    uid = world.pod(spec=gated(GATE))
    for node in ("n1", "n1", "n2"):
        await world.api.admit_pod("default", "p", uid, admitting(uid, node))
    assert narrowed_to(await world.read()) == ["n1"]


def narrowed_to(pod: dict[str, Any]) -> list[str]:
    required = pod["spec"]["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]
    return required["nodeSelectorTerms"][0]["matchFields"][0]["values"]


async def test_evict_removes_the_pod(world: World) -> None:
    uid = world.pod()
    with pytest.raises(ConflictError):
        await world.api.evict("default", "p", uid, resource_version="1")
    await world.api.evict("default", "p", uid)
    assert world.store.evictions == [uid]
    with pytest.raises(NotFoundError):
        await world.api.get_pod("default", "p")


async def test_an_owner_that_can_be_suspended_is_patched_as_it_was_read(world: World) -> None:
    world.store.install(JOBS)
    made = world.store.put(JOBS, {"metadata": {"name": "j", "annotations": {"a": "1", "b": "2"}}, "spec": {"x": 1}})
    version = made["metadata"]["resourceVersion"]
    patch = {"metadata": {"resourceVersion": version, "annotations": {"a": None}}, "spec": {"suspend": True}}
    found = json.loads(await world.api.patch_object("batch/v1", "Job", "default", "j", json.dumps(patch).encode()))
    assert (found["spec"], found["metadata"]["annotations"]) == ({"x": 1, "suspend": True}, {"b": "2"})
    with pytest.raises(ConflictError):
        await world.api.patch_object("batch/v1", "Job", "default", "j", json.dumps(patch).encode())
    with pytest.raises(ValueError, match="not an owner"):
        await world.api.patch_object("apps/v1", "StatefulSet", "default", "s", b"{}")


async def test_owners_are_found_by_their_label(world: World) -> None:
    for resource in (JOBS, TF_JOBS):
        world.store.install(resource)
        for name, value in (("yes", "suspended"), ("no", "other")):
            labels = {"netgang.io/restart": value}
            world.store.put(resource, {"metadata": {"name": name, "namespace": "team", "labels": labels}})
    found = [one async for one in world.api.labelled_owners("netgang.io/restart=suspended")]
    assert [(version, kind) for version, kind, _ in found] == [("batch/v1", "Job"), ("kubeflow.org/v1", "TFJob")]
    assert {json.loads(raw)["metadata"]["name"] for _, _, raw in found} == {"yes"}


async def test_an_event_is_created(world: World) -> None:
    await world.api.create_event("team-a", {"metadata": {"name": "e"}, "reason": "Admitted"})
    event = world.store.get(EVENTS, "team-a", "e")
    assert (event["apiVersion"], event["kind"], event["reason"]) == ("events.k8s.io/v1", "Event", "Admitted")
