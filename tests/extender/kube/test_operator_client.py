"""An operator's calls on the wire: pages, what is not there, preconditions, and how far two clocks are apart."""

from collections.abc import Iterator

import pytest

from extender.errors import ApiError, ConflictError
from extender.kube.operator_client import OperatorApi
from tests.extender.kube.conftest import server_of
from tests.fakes.operator_api import FakeOperatorApi
from tests.fakes.operator_server import OperatorServer

PODS = "/api/v1/namespaces/team/pods"


@pytest.fixture
def server() -> Iterator[OperatorServer]:
    with OperatorServer(FakeOperatorApi(), page=2) as running:
        yield running


async def test_lists_are_read_to_their_end(server: OperatorServer) -> None:
    names = [f"p{number}" for number in range(5)]
    for name in names:
        server.api.add(f"{PODS}/{name}")
    async with OperatorApi.opened(server_of(server.url)) as api:
        assert [one["metadata"]["name"] for one in await api.listed("/api/v1/pods")] == names
        assert await api.listed("/api/v1/namespaces/none/pods", {"labelSelector": "a=b"}) == []
    assert [one.count("continue=") for one in server.asked] == [0, 1, 1, 0]


async def test_changes_are_of_the_very_object(server: OperatorServer) -> None:
    path = f"{PODS}/p"
    made = server.api.add(path, spec={"schedulingGates": [{"name": "a"}, {"name": "b"}]})["metadata"]
    change = {"spec": {"schedulingGates": [{"$patch": "delete", "name": "a"}]}}
    async with OperatorApi.opened(server_of(server.url)) as api:
        await api.patch(path, {"metadata": {"uid": made["uid"]}, **change})
        assert server.api.objects[path]["spec"]["schedulingGates"] == [{"name": "b"}]
        with pytest.raises(ConflictError):
            await api.patch(path, {"metadata": {"uid": "other"}, **change})
        with pytest.raises(ConflictError):
            await api.delete(path, resource_version="1000")
        assert await api.delete(path, resource_version=server.api.objects[path]["metadata"]["resourceVersion"])
        assert (await api.get(path), await api.delete(path)) == (None, False)
    assert server.api.objects == {}


async def test_no_right_is_an_error(server: OperatorServer) -> None:
    server.api.forbidden.add("/api/v1/nodes")
    async with OperatorApi.opened(server_of(server.url)) as api:
        with pytest.raises(ApiError, match="kubernetes-admin cannot list"):
            await api.listed("/api/v1/nodes")
