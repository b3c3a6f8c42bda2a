"""An operator's calls on the wire: pages, what is not there, preconditions."""

from collections.abc import AsyncIterator

import pytest

from extender.errors import ApiError, ConflictError
from extender.kube.calls import PODS
from extender.kube.operator_client import OperatorApi
from lab.testbed.apiserver.server import LoopbackApi
from tests.extender.kube.conftest import server_of

P = "/api/v1/namespaces/team/pods/p"


@pytest.fixture
async def operator(loopback: LoopbackApi) -> AsyncIterator[OperatorApi]:
    async with OperatorApi.opened(server_of(loopback.url)) as api:
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
    assert (await operator.get(P), await operator.delete(P)) == (None, False)
    assert loopback.store.bodies(PODS) == {}


async def test_no_right_is_an_error(loopback: LoopbackApi, operator: OperatorApi) -> None:
    def denied(verb: str, path: str) -> None:
        raise ApiError(403, f"kubernetes-admin cannot {verb} {path}")

    loopback.before = denied
    with pytest.raises(ApiError, match="kubernetes-admin cannot list"):
        await operator.listed("/api/v1/nodes")
