"""Documents of the whole service for people of one namespace: its own gangs in full, and no name of others."""

from typing import Any

import httpx
import pytest

from extender.api.namespaces import OTHERS, OfNamespace
from tests.extender.scheduling.world import World, node_json, pod_json, running

pytestmark = pytest.mark.looptime


def of(namespace: str, name: str, **fields: Any) -> dict[str, Any]:
    made = pod_json(f"{name}-0", gang=name, cpu="3", **fields)
    made["metadata"] |= {"namespace": namespace, "uid": f"{namespace}-{name}"}
    return made


async def asked(world: World, path: str, *, confined: bool) -> httpx.Response:
    app = world.service.debug_app
    door = OfNamespace(app, "team", lambda: frozenset({"team", "rivals"})) if confined else app
    async with httpx.AsyncClient(transport=httpx.ASGITransport(door), base_url="http://netgang") as client:
        return await client.get(path)


@pytest.mark.parametrize("path", ["/v1/explain/team/mine", "/v1/queue?namespace=team", "/v1/explain/team/none"])
async def test_others_are_not_named(path: str) -> None:
    """One gang of another namespace has the room; each document but for its names is what operators see."""
    async with running(node_json("n1"), of("rivals", "theirs"), of("team", "mine")) as world:
        await world.settle(2.0)
        whole = await asked(world, path, confined=False)
        own = await asked(world, path, confined=True)
        assert own.status_code == whole.status_code
        assert "rivals" not in own.text
        assert own.json().keys() == whole.json().keys()
        assert (OTHERS in own.text) == ("rivals/" in whole.text)


async def test_the_queue_of_a_namespace_has_its_gangs_alone() -> None:
    async with running(node_json("n1"), of("rivals", "theirs"), of("team", "mine")) as world:
        await world.settle(2.0)
        found = (await asked(world, "/v1/queue?namespace=team", confined=False)).json()
        assert [one["gang"] for one in found["gangs"]] == ["team/mine"]
        assert sum(found["counts"].values()) == 2


async def test_what_is_no_json_is_not_given() -> None:
    async with running(node_json("n1")) as world:
        assert (await asked(world, "/metrics", confined=True)).status_code == 403
