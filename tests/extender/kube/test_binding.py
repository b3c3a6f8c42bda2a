"""A Binding is confirmed, or known to have failed, or said to be unknown: never guessed."""

import asyncio
from collections.abc import Sequence

import pytest

from extender.errors import ApiError, ApiUnavailableError, ConflictError, NetgangError, NotFoundError
from extender.kube.calls import PODS
from extender.kube.client import BindLimits, KubeClient
from extender.ports import Binding
from lab.testbed.apiserver.server import Fault, LoopbackApi
from scoring.ids import NodeName, PodUid
from tests.extender.kube.conftest import client_of

LOST_BEFORE = Fault()
LOST_AFTER = Fault(applied=True)
ERROR_BEFORE = Fault(status=500, body=b'{"message":"etcdserver: request timed out"}')
ERROR_AFTER = Fault(status=500, body=b'{"message":"etcdserver: request timed out"}', applied=True)
OVERLOADED = Fault(status=429, body=b'{"message":"too many requests"}')
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
    "twice": [LOST_BEFORE, ERROR_AFTER],
}


@pytest.mark.parametrize("faults", RECOVERED.values(), ids=RECOVERED)
async def test_success_is_the_pod_on_its_node(
    faults: Sequence[Fault], loopback: LoopbackApi, client: KubeClient
) -> None:
    binding = add_pod(loopback)
    for fault in faults:
        loopback.fail_next("bind", fault)
    await client.bind(binding)
    assert loopback.store.get(PODS, "default", "p")["spec"]["nodeName"] == "n1"
    assert loopback.store.bindings == [binding]


async def test_an_answer_that_comes_too_late(loopback: LoopbackApi) -> None:
    binding = add_pod(loopback)
    loopback.fail_next("bind", Fault(status=201, applied=True, delay_s=60.0))
    limits = BindLimits(deadline_s=20.0, attempt_s=0.2)
    async with client_of(loopback.url, limits=limits) as client:
        await client.bind(binding)
    assert loopback.store.bindings == [binding]


CONFLICTS = {  # case: (words of the message, fields of the pod's spec, uid in the Binding)
    "on another node": ("already on node n9", {"nodeName": "n9"}, None),
    "another pod of that name": ("replaced", {}, "old-uid"),
    "another pod of that name on that node": ("replaced", {"nodeName": "n1"}, "old-uid"),
    "gated": ("schedulingGates", {"schedulingGates": [{"name": "netgang.io/gang"}]}, None),
}


@pytest.mark.parametrize("fault", [LOST_BEFORE, OVERLOADED], ids=["answer lost", "overloaded"])
@pytest.mark.parametrize(("want", "spec", "uid"), CONFLICTS.values(), ids=CONFLICTS)
async def test_conflicts(
    want: str, spec: dict[str, object], uid: str | None, fault: Fault, loopback: LoopbackApi, client: KubeClient
) -> None:
    """A pod that cannot get this node is a ConflictError, also when the first answer was lost; nothing is bound."""
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


async def test_an_outcome_that_cannot_be_read_is_unknown(loopback: LoopbackApi) -> None:
    loopback.fail_next("bind", LOST_AFTER)
    loopback.fail_next("get", ERROR_BEFORE, times=1000)
    async with client_of(loopback.url, limits=BindLimits(deadline_s=0.5)) as client:
        with pytest.raises(ApiUnavailableError, match="outcome unknown"):
            await client.bind(add_pod(loopback))
    assert sum(seen.method == "POST" for seen in loopback.seen) == 1


async def test_the_deadline_holds(loopback: LoopbackApi) -> None:
    limits = BindLimits(deadline_s=0.3, attempt_s=60.0, attempts=100)
    loopback.fail_next("bind", Fault(delay_s=60.0), times=9)
    loopback.fail_next("get", Fault(delay_s=60.0), times=9)
    begun_s = asyncio.get_running_loop().time()
    async with client_of(loopback.url, limits=limits) as client:
        with pytest.raises(ApiUnavailableError):
            await client.bind(add_pod(loopback))
    assert asyncio.get_running_loop().time() - begun_s < 5.0


async def test_retry_after_beyond_the_deadline_is_not_waited_for(loopback: LoopbackApi, client: KubeClient) -> None:
    loopback.fail_next("bind", Fault(status=429, headers={"Retry-After": "3600"}))
    with pytest.raises(ApiError, match="429"):
        await client.bind(add_pod(loopback))
    assert sum(seen.method == "POST" for seen in loopback.seen) == 1
