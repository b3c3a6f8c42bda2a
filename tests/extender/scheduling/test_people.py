"""People who ask a service that follows a cluster: they get kube-scheduler's answers, and nothing follows.

docs/safety.md S2.

Why through the HTTP side: who is a person is decided there, and what must not follow happens behind it.
"""

import json
from collections.abc import Mapping

import httpx
import pytest

from scoring.model.reasons import Reason
from tests.extender.scheduling.world import World, node_json, running

N1, N2 = node_json("n1"), node_json("n2")
pytestmark = pytest.mark.looptime

KUBE_SCHEDULER = "Go-http-client/1.1"
PEOPLE: Mapping[str, tuple[str, str, str]] = {  # case: (port, User-Agent, query)
    "curl": ("port", "curl/8.5.0", ""),
    "marked": ("port", KUBE_SCHEDULER, "?debug"),
    "at the port for people": ("debug_port", KUBE_SCHEDULER, ""),
}


def client(world: World, port: str, agent: str) -> httpx.AsyncClient:
    """A client of one of the two ports."""
    app = world.service.debug_app if port == "debug_port" else world.service.app
    return httpx.AsyncClient(
        transport=httpx.ASGITransport(app), base_url="http://netgang", headers={"User-Agent": agent}
    )


async def filtered(world: World, pod: str, *, nodes: tuple[str, ...], port: str, agent: str, query: str) -> list[str]:
    """The nodes that /filter passes."""
    body = json.dumps({"Pod": world.api.pod(pod), "NodeNames": nodes})
    async with client(world, port, agent) as one:
        return list((await one.post(f"/filter{query}", content=body)).json()["NodeNames"])


@pytest.mark.parametrize(("port", "agent", "query"), PEOPLE.values(), ids=PEOPLE)
async def test_a_person_s_filter_opens_no_bind(port: str, agent: str, query: str) -> None:
    """Neither for a gang's member nor for a plain pod; kube-scheduler's own question then does."""
    async with running(N1, N2) as world:
        [member] = world.gang("g", 1)
        await world.planned_pod("plain")
        for pod, passed in ((member, 1), ("plain", 2)):
            nodes = await filtered(world, pod, nodes=("n1", "n2"), port=port, agent=agent, query=query)
            assert len(nodes) == passed
            assert (await world.bind_answer(pod, nodes[0]), world.bound().get(pod)) == (Reason.NEVER_OFFERED, None)
        for pod in (member, "plain"):
            nodes = await filtered(world, pod, nodes=("n1", "n2"), port="port", agent=KUBE_SCHEDULER, query="")
            assert (await world.bind_answer(pod, nodes[0]), world.bound()[pod]) == (None, nodes[0])


@pytest.mark.parametrize(("port", "agent", "query"), PEOPLE.values(), ids=PEOPLE)
async def test_a_person_s_filter_teaches_nothing(port: str, agent: str, query: str) -> None:
    """Three questions without the planned node leave no node out; three of kube-scheduler's do."""
    async with running(N1, node_json("n2", zone="b")) as world:
        [name] = await world.planned_gang("g", 1)
        [planned] = world.plan.node_of.values()
        other = ("n1" if planned == "n2" else "n2",)
        for _ in range(3):
            assert await filtered(world, name, nodes=other, port=port, agent=agent, query=query) == []
            await world.settle(1.5)
        assert world.service.cache.snapshot().exclusions == {}
        for _ in range(3):
            await filtered(world, name, nodes=other, port="port", agent=KUBE_SCHEDULER, query="")
            await world.settle(1.5)
        assert world.service.cache.snapshot().exclusions != {}
