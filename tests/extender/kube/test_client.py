"""What goes over the wire: paths, queries, content types, bodies; and answers that make no sense.

A Binding is confirmed, or known to have failed, or said to be unknown: never guessed.
"""

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import aclosing, suppress
from typing import Any

import pytest

from extender.errors import ApiError, ApiUnavailableError, ConflictError, NetgangError, NotFoundError
from extender.kube.calls import PODS
from extender.kube.client import KubeClient, KubeReviews, OperatorApi
from extender.ports import Binding, Identity
from lab.testbed.apiserver.server import Fault, LoopbackApi
from scoring import NodeName, PodUid
from tests.extender.kube.conftest import client_of, server_of

U1 = PodUid("u1")

MERGE_PATCH, JSON = "application/merge-patch+json", "application/json"
POD_P = "/api/v1/namespaces/team-a/pods/p"
EVICTION = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": "p", "namespace": "team-a"}}
BINDING = {
    "apiVersion": "v1",
    "kind": "Binding",
    "metadata": {"name": "p", "namespace": "team-a", "uid": "u1"},
    "target": {"apiVersion": "v1", "kind": "Node", "name": "n1"},
}
CALLS = {  # case: (call of pod u1, (method, path, content type), body)
    "a Binding, as kube-scheduler posts it": (
        lambda client: client.bind(Binding("team-a", "p", U1, NodeName("n1"))),
        ("POST", f"{POD_P}/binding", JSON),
        BINDING,
    ),
    "annotations and labels, with the uid as precondition": (
        lambda client: client.annotate_pod("team-a", "p", U1, {"a": "b"}, labels={"c": "d"}),
        ("PATCH", POD_P, MERGE_PATCH),
        {"metadata": {"uid": "u1", "annotations": {"a": "b"}, "labels": {"c": "d"}}},
    ),
    "an eviction of what was read, never just a deletion": (
        lambda client: client.evict("team-a", "p", U1, resource_version="42"),
        ("POST", f"{POD_P}/eviction", JSON),
        {**EVICTION, "deleteOptions": {"preconditions": {"uid": "u1", "resourceVersion": "42"}}},
    ),
    "a name with a slash stays one part": (
        lambda client: client.get_pod("team-a", "../../nodes/n1"),
        ("GET", "/api/v1/namespaces/team-a/pods/..%2F..%2Fnodes%2Fn1", None),
        None,
    ),
    "an owner, without a version that would allow an old answer": (
        lambda client: client.get_object("kubeflow.org/v2beta1", "MPIJob", "team-a", "horovod"),
        ("GET", "/apis/kubeflow.org/v2beta1/namespaces/team-a/mpijobs/horovod", None),
        None,
    ),
    "one condition of the very pod, under a field manager of our own": (
        lambda client: client.patch_pod_status("team-a", "p", U1, b'{"metadata":{"uid":"u1"}}'),
        ("PATCH", f"{POD_P}/status?fieldManager=netgang", "application/strategic-merge-patch+json"),
        {"metadata": {"uid": "u1"}},
    ),
    "a PodGroup's status, under a field manager of our own": (
        lambda client: client.patch_group_status("team-a", "../x", b'{"status":{"running":1}}'),
        (
            "PATCH",
            "/apis/scheduling.x-k8s.io/v1alpha1/namespaces/team-a/podgroups/..%2Fx/status?fieldManager=netgang",
            MERGE_PATCH,
        ),
        {"status": {"running": 1}},
    ),
}


@pytest.mark.parametrize(("call", "head", "body"), CALLS.values(), ids=CALLS)
async def test_calls_on_the_wire(
    call: Callable[[KubeClient], Awaitable[object]],
    head: tuple[str, str, str | None],
    body: Any,
    loopback: LoopbackApi,
    client: KubeClient,
) -> None:
    """One request each, whatever this API server answers: it has not all of these objects."""
    loopback.store.put(PODS, {"metadata": {"name": "p", "namespace": "team-a", "uid": U1}})
    with suppress(ApiError):
        await call(client)
    (seen,) = loopback.seen
    assert (seen.method, seen.path, seen.headers.get("Content-Type")) == head
    assert json.loads(seen.body or b"null") == body


async def test_a_list_and_a_watch_on_the_wire(loopback: LoopbackApi, client: KubeClient) -> None:
    """`not_older_than` belongs to the first page only; the API server refuses it beside a continue token."""
    for number in range(3):
        loopback.store.put(PODS, {"metadata": {"name": f"p{number}"}})
    first = await client.list_page(PODS.collection(), limit=2, not_older_than="2")
    await client.list_page(PODS.collection(), limit=2, not_older_than="2", continue_token=first.continue_token)
    path = PODS.collection("default") + "?labelSelector=a%3Db"
    async with aclosing(client.watch(path, resource_version="1", timeout_s=250)) as events:
        await anext(events)
    query = "watch=true&resourceVersion=1&allowWatchBookmarks=true&timeoutSeconds=250"
    assert [seen.path for seen in loopback.seen] == [
        "/api/v1/pods?limit=2&resourceVersion=2&resourceVersionMatch=NotOlderThan",
        f"/api/v1/pods?limit=2&continue={first.continue_token}",
        f"/api/v1/namespaces/default/pods?labelSelector=a%3Db&{query}",
    ]


async def test_items_are_passed_on_as_they_are(loopback: LoopbackApi, client: KubeClient) -> None:
    odd = b'{"metadata":{"name":"p",  "namespace":"default"}, "spec":{"x":1e400}}'
    loopback.store.load(PODS, {("default", "p"): odd})
    assert (await client.list_page(PODS.collection(), limit=1)).items == [odd]
    assert await client.get_pod("default", "p") == odd


NO_LISTS = {
    "not JSON": b"<html>",
    "nothing": b"",
    "an empty object": b"{}",
    "no version": b'{"metadata":{},"items":[]}',
    "no items": b'{"metadata":{"resourceVersion":"1"}}',
    "cut off": b'{"metadata":{"resourceVersion":"1"},"items":[{"metadata":',
    "items is no list": b'{"metadata":{"resourceVersion":"1"},"items":{}}',
}


@pytest.mark.parametrize("body", NO_LISTS.values(), ids=NO_LISTS)
async def test_nonsense_is_no_list_and_no_event(body: bytes, loopback: LoopbackApi, client: KubeClient) -> None:
    """An answer 200 that is no list is an outage: taken for an empty one it would wipe the cache."""
    loopback.fail_next("list", Fault(status=200, body=body))
    with pytest.raises(ApiUnavailableError):
        await client.list_page(PODS.collection(), limit=500)
    as_go_writes = b'{"metadata":{"resourceVersion":"7"},"items":null}'
    loopback.fail_next("list", Fault(status=200, body=as_go_writes))
    page = await client.list_page(PODS.collection(), limit=500)
    assert (page.items, page.resource_version, page.continue_token) == ([], "7", "")
    loopback.fail_next("watch", Fault(status=200, body=b'{"type":"ADDED"}\n'))
    with pytest.raises(ApiUnavailableError):
        async with aclosing(client.watch(PODS.collection(), resource_version="1", timeout_s=9)) as events:
            await anext(events)


async def test_an_annotation_that_is_invalid_is_not_a_conflict(loopback: LoopbackApi, client: KubeClient) -> None:
    """422 with the pod still there means that the patch itself is wrong."""
    uid = loopback.store.put(PODS, {"metadata": {"name": "p"}})["metadata"]["uid"]
    loopback.fail_next("patch", Fault(status=422, body=b'{"message":"bad key"}'))
    with pytest.raises(ApiError, match="bad key") as caught:
        await client.annotate_pod("default", "p", PodUid(uid), {"a b": "c"})
    assert type(caught.value) is ApiError


TOKENS = "/apis/authentication.k8s.io/v1/tokenreviews"
ANN = Identity("ann", (("key", ("a", "b")),))
ANN_JSON = {"username": "ann", "uid": "u1", "groups": ["devs", "system:authenticated"], "extra": {"key": ["a", "b"]}}


@pytest.fixture
async def reviews(loopback: LoopbackApi) -> AsyncIterator[KubeReviews]:
    async with KubeReviews(server_of(loopback.url)) as made:
        yield made


def says(api: LoopbackApi, answer: object) -> None:
    """The next answer, a value or a text that need not be JSON."""
    text = answer if isinstance(answer, str) else json.dumps(answer)
    api.fail_next("create", Fault(status=201, body=text.encode()))


@pytest.mark.parametrize(
    ("for_whom", "known"),
    [(["netgang"], True), (["vault", "netgang"], True), (["vault"], False), ([], False), (None, False)],
)
async def test_a_token_may_have_to_be_for_us(
    for_whom: list[str] | None, known: bool, loopback: LoopbackApi, reviews: KubeReviews
) -> None:
    """What it is for is asked and compared: an authenticator that knows no audiences says yes and names none."""
    status = {"authenticated": True, "user": ANN_JSON, **({} if for_whom is None else {"audiences": for_whom})}
    says(loopback, {"status": status})
    assert await reviews.identity("secret", audiences=("netgang", "other")) == (ANN if known else None)
    assert json.loads(loopback.seen[0].body)["spec"] == {"token": "secret", "audiences": ["netgang", "other"]}


REVIEWED: dict[str, tuple[Identity | None, dict[str, Any]]] = {  # case: (whose token it is, the API server's status)
    "a yes": (ANN, {"authenticated": True, "user": ANN_JSON}),
    "not authenticated": (None, {"authenticated": False}),
    "an error": (None, {"error": "token expired"}),
    "nothing said": (None, {}),
    "a name but no yes": (None, {"user": ANN_JSON}),
    "a yes but no name": (None, {"authenticated": True, "user": {"groups": ["system:masters"]}}),
}


@pytest.mark.parametrize(("owner", "status"), REVIEWED.values(), ids=REVIEWED)
async def test_only_a_plain_yes_with_a_name_counts(
    owner: Identity | None, status: dict[str, Any], loopback: LoopbackApi, reviews: KubeReviews
) -> None:
    says(loopback, {"status": status})
    assert await reviews.identity("secret") == owner
    want = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenReview", "spec": {"token": "secret"}}
    [seen] = loopback.seen
    assert (seen.method, seen.path, seen.headers["Authorization"]) == ("POST", TOKENS, "Bearer abc")
    assert json.loads(seen.body) == want


@pytest.mark.parametrize("body", ["", "{}", "null", '{"status": {"authenticated": "yes"}}'])
async def test_no_sense_is_an_error_and_never_a_yes(body: str, loopback: LoopbackApi, reviews: KubeReviews) -> None:
    says(loopback, body)
    with pytest.raises(ApiUnavailableError):
        await reviews.identity("x")


P = "/api/v1/namespaces/team/pods/p"


@pytest.fixture
async def operator(loopback: LoopbackApi) -> AsyncIterator[OperatorApi]:
    async with OperatorApi(server_of(loopback.url)) as api:
        yield api


async def test_lists_are_read_to_their_end(loopback: LoopbackApi, operator: OperatorApi) -> None:
    names = [f"p{number:04}" for number in range(1_001)]
    for name in names:
        loopback.store.put(PODS, {"metadata": {"name": name, "namespace": "team"}})
    assert [one["metadata"]["name"] for one in await operator.listed("/api/v1/pods")] == names
    assert await operator.listed("/api/v1/namespaces/none/pods", {"labelSelector": "a=b"}) == []
    assert ["continue=" in one.path for one in loopback.seen] == [False, True, True, False]


async def test_changes_are_of_the_very_object(loopback: LoopbackApi, operator: OperatorApi) -> None:
    spec = {"schedulingGates": [{"name": "a"}, {"name": "b"}]}
    made = loopback.store.put(PODS, {"metadata": {"name": "p", "namespace": "team"}, "spec": spec})["metadata"]
    change = {"spec": {"schedulingGates": [{"$patch": "delete", "name": "a"}]}}
    await operator.patch(P, {"metadata": {"uid": made["uid"]}, **change})
    now = loopback.store.get(PODS, "team", "p")
    assert now["spec"]["schedulingGates"] == [{"name": "b"}]
    with pytest.raises(ApiError, match="422"):
        await operator.patch(P, {"metadata": {"uid": "other"}, **change})
    with pytest.raises(ConflictError):
        await operator.delete(P, resource_version="1000")
    assert await operator.delete(P, resource_version=now["metadata"]["resourceVersion"])
    assert (await operator.get(P), await operator.delete(P), loopback.store.bodies(PODS)) == (None, False, {})


LOST_BEFORE = Fault()
LOST_AFTER = Fault(applied=True)
ERROR_BEFORE = Fault(status=500, body=b'{"message":"etcdserver: request timed out"}')
ERROR_AFTER = Fault(status=500, body=b'{"message":"etcdserver: request timed out"}', applied=True)
OVERLOADED = Fault(status=429, body=b'{"message":"too many requests"}')
TOO_LATE = Fault(status=201, applied=True, delay_s=60.0)
NONSENSE = Fault(status=502, body=b"<html>bad gateway</html>")


def add_pod(api: LoopbackApi, **fields: object) -> Binding:
    pod = api.store.put(PODS, {"metadata": {"name": "p"}, "spec": fields})
    return Binding("default", "p", PodUid(pod["metadata"]["uid"]), NodeName("n1"))


RECOVERED: dict[str, Sequence[Fault]] = {
    "no trouble": [],
    "connection lost before it took effect": [LOST_BEFORE],
    "connection lost after it took effect": [LOST_AFTER],
    "500 before": [ERROR_BEFORE],
    "500 after": [ERROR_AFTER],
    "overloaded": [OVERLOADED],
    "a proxy's error page": [NONSENSE],
    "an answer that comes too late": [TOO_LATE],
    "twice": [LOST_BEFORE, ERROR_AFTER],
}


@pytest.mark.parametrize("faults", RECOVERED.values(), ids=RECOVERED)
async def test_success_is_the_pod_on_its_node(faults: Sequence[Fault], loopback: LoopbackApi) -> None:
    binding = add_pod(loopback)
    for fault in faults:
        loopback.fail_next("bind", fault)
    async with client_of(loopback.url, attempt_s=0.2 if TOO_LATE in faults else 10.0) as client:
        await client.bind(binding)
    assert loopback.store.get(PODS, "default", "p")["spec"]["nodeName"] == "n1"
    assert loopback.store.bindings == [binding]


CONFLICTS = {  # case: (words of the message, fields of the pod's spec, uid in the Binding)
    "on another node": ("already on node n9", {"nodeName": "n9"}, None),
    "another pod of that name on that node": ("replaced", {"nodeName": "n1"}, "old-uid"),
    "gated": ("schedulingGates", {"schedulingGates": [{"name": "netgang.io/gang"}]}, None),
}


@pytest.mark.parametrize("fault", [LOST_BEFORE, OVERLOADED], ids=["answer lost", "overloaded"])
@pytest.mark.parametrize(("want", "spec", "uid"), CONFLICTS.values(), ids=CONFLICTS)
async def test_conflicts(
    want: str, spec: dict[str, object], uid: str | None, fault: Fault, loopback: LoopbackApi, client: KubeClient
) -> None:
    binding = add_pod(loopback, **spec)
    if uid is not None:
        binding = Binding("default", "p", PodUid(uid), NodeName("n1"))
    loopback.fail_next("bind", fault)
    with pytest.raises(ConflictError, match=want):
        await client.bind(binding)
    assert loopback.store.bindings == []
    loopback.fail_next("bind", fault)
    with pytest.raises(NotFoundError):
        await client.bind(Binding("default", "gone", PodUid("u"), NodeName("n1")))


FINAL: dict[str, tuple[type[NetgangError], Fault, int]] = {  # case: (error, fault of each POST, POSTs)
    "forbidden is not tried again": (ApiError, Fault(status=403), 1),
    "bad request is not tried again": (ApiError, Fault(status=400), 1),
    "invalid is not tried again": (ApiError, Fault(status=422), 1),
    "overloaded to the last: known to have failed": (ApiError, OVERLOADED, 3),
    "a pause beyond the deadline is not waited for": (ApiError, Fault(status=429, headers={"Retry-After": "3600"}), 1),
    "errors to the last: unknown": (ApiUnavailableError, ERROR_BEFORE, 3),
    "lost to the last: unknown": (ApiUnavailableError, LOST_BEFORE, 3),
}


@pytest.mark.parametrize(("want", "fault", "posts"), FINAL.values(), ids=FINAL)
async def test_attempts_are_bounded(
    want: type[NetgangError], fault: Fault, posts: int, loopback: LoopbackApi, client: KubeClient
) -> None:
    loopback.fail_next("bind", fault, times=10)
    with pytest.raises(want) as caught:
        await client.bind(add_pod(loopback))
    assert type(caught.value) is want
    assert posts == sum(seen.method == "POST" for seen in loopback.seen)


SLOW = Fault(delay_s=60.0)


@pytest.mark.parametrize(("bind", "get"), [(LOST_AFTER, ERROR_BEFORE), (SLOW, SLOW)], ids=["unreadable", "slow"])
async def test_an_outcome_that_is_not_read_in_time_is_unknown(bind: Fault, get: Fault, loopback: LoopbackApi) -> None:
    loopback.fail_next("bind", bind)
    loopback.fail_next("get", get, times=1000)
    begun_s = asyncio.get_running_loop().time()
    async with client_of(loopback.url, deadline_s=0.5, attempt_s=60.0, attempts=100) as client:
        with pytest.raises(ApiUnavailableError, match="outcome unknown"):
            await client.bind(add_pod(loopback))
    assert asyncio.get_running_loop().time() - begun_s < 5.0
    assert sum(seen.method == "POST" for seen in loopback.seen) == 1
