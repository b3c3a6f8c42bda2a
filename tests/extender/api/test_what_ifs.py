"""What is supposed of the running service: true, nothing changed, one question at a time, no request kept waiting."""

import asyncio
import random
import threading
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from typing import Any

import httpx
import msgspec
import pytest

from extender.api import what_if
from extender.api.routes import MOST_BYTES
from extender.api.what_if import MOST_WAITING, BusyError, policy_with
from extender.bootstrap import following
from extender.settings.settings import Settings
from scoring.explain.words import NETWORK_UNKNOWN
from scoring.model.policy import Order, Ratios
from scoring.what_if import WhatIf
from tests.extender.scheduling.world import node_json, pod_json, running
from tests.fakes.clock import LoopClock
from tests.fakes.cluster_api import FakeClusterApi
from tests.fakes.notes import notes_of_a_former_process
from tests.liveness import LIVENESS_S

pytestmark = pytest.mark.looptime

N1, N2 = node_json("n1"), node_json("n2", zone="b", cpu="2")
Object = dict[str, Any]


async def test_what_is_said_of_a_gang_and_what_would_be_without_the_one_ahead() -> None:
    async with running(N1, N2) as world, world.client() as client:
        await world.bind_and_settle(*await world.planned_gang("f", 1, cpu="4"))
        world.gang("g", 3)
        await world.settle()
        before, said = world.service.planner.current, (await client.get("/v1/explain/default/g")).json()
        supposed = (await client.post("/v1/what-if", json={"remove_jobs": ["default/f"]})).json()
        assert world.service.planner.current is before
        assert world.service.cache.snapshot().gangs.keys() == {"default/f", "default/g"}
    assert (said["turn"]["state"], said["turn"]["reservation"]["kind"]) == ("STARVING", "held")
    decisions = [(one["what"], one["reason"]) for one in said["decisions"]]
    assert decisions == [("plan", "netgang: no zone has room for the whole gang now")]
    assert [note.partition(" for it")[0] for note in said["notes"]] == [
        "a cluster autoscaler adds no nodes",
        NETWORK_UNKNOWN,
    ]
    assert supposed["if"] == "default/f gone"
    [turned] = supposed["admitted"]
    assert (turned["gang"], turned["before"]["code"], turned["after"]["zone"]) == ("default/g", "NO_ROOM", "a")


async def test_openapi_describes_question_and_answer() -> None:
    async with running() as world, world.client() as client:
        schema = (await client.get("/openapi.json")).json()
    post = schema["paths"]["/v1/what-if"]["post"]
    assert post["requestBody"]["content"]["application/json"]["schema"]["$ref"].endswith("/WhatIf")
    assert {"200", "400", "413", "429"} <= post["responses"].keys()
    assert {"WhatIf", "PodSet", "Supposed", "Turned"} <= schema["components"]["schemas"].keys()


async def test_pods_are_submitted_and_judged_as_real_ones() -> None:
    async with running(N1, N2) as world, world.client() as client:
        pods = [{"pod": pod_json("g", gang="g", size=3), "count": 3}]
        said = (await client.post("/v1/what-if", json={"pods": pods})).json()
        [turned] = said["admitted"]
        assert (turned["before"]["state"], turned["after"]["members"]) == ("absent", {f"g-{i}": "n1" for i in range(3)})
        again = await client.post("/v1/what-if", json={"pods": [*pods, *pods]})
        assert again.json()["detail"] == "pods: two have one name"


def pods(count: int = 1, **how: Any) -> Object:
    return {"pods": [{"count": count, "pod": pod_json("p", **how)}]}


BAD: dict[str, tuple[str, Object | bytes]] = {  # case: (part of the detail, the body)
    "not JSON": ("body: not JSON", b"{"),
    "a field that is not there": ("body: Object contains unknown field `drain`", {"drain": ["n1"]}),
    "no key of a job": ("remove_jobs.0: Expected `str` matching regex", {"remove_jobs": ["a"]}),
    "too many": ("cordon: Expected `array` of length <= 1000", {"cordon": ["n1"] * 1001}),
    "back in time": ("advance_s: Expected `float` >= 0", {"advance_s": -1}),
    "a count below 1": ("pods.0.count: Expected `int` >= 1", pods(0, gang="p")),
    "too many pods": ("pods: more than 10000", {"pods": pods(6000, gang="p")["pods"] * 2}),
    "no pod": ("pods.0.pod: ", {"pods": [{"pod": 5}]}),
    "no gang": ("pods.0.pod: default/p is in no gang", pods()),
    "another scheduler": ("its schedulerName is default-scheduler", pods(gang="p", scheduler="default-scheduler")),
    "a pod that runs": ("default/p is on a node already", pods(gang="p", nodeName="n1")),
    "a setting that decides nothing": ("settings.port: decides nothing", {"settings": {"port": 1}}),
    "a bad setting": ("settings.queue.order = 'x': must be 'weight' or", {"settings": {"queue": {"order": "x"}}}),
    "another bad setting": ("settings.spill_wait_s = -1: ", {"settings": {"spill_wait_s": -1}}),
    "a node that is not there": ("cordon: there is no node n9", {"advance_s": 1, "cordon": ["n9"]}),
}


@pytest.mark.parametrize(("detail", "body"), BAD.values(), ids=BAD)
async def test_mistakes_name_their_field(detail: str, body: Object | bytes) -> None:
    async with running(N1) as world, world.client() as client:
        content = body if isinstance(body, bytes) else msgspec.json.encode(body)
        reply = await client.post("/v1/what-if", content=content, headers={"content-type": "application/json"})
        assert (reply.status_code, reply.headers["content-type"]) == (400, "application/problem+json")
        assert detail in reply.json()["detail"]


async def too_much() -> AsyncIterator[bytes]:
    yield b" " * (MOST_BYTES + 1)


async def half() -> AsyncIterator[bytes]:
    yield b"{"
    await asyncio.sleep(60.0)


BODIES = {"declared": (413, lambda: b" " * (MOST_BYTES + 1)), "in pieces": (413, too_much), "late": (408, half)}


@pytest.mark.parametrize(("status", "body"), BODIES.values(), ids=BODIES)
async def test_a_body_that_is_too_large_or_does_not_come(status: int, body: Any) -> None:
    async with running(N1) as world, world.client() as client:
        reply = await client.post("/v1/what-if", content=body(), headers={"content-type": "application/json"})
        assert reply.status_code == status


@contextmanager
def slow(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    go_on, answer = threading.Event(), what_if.supposed

    def late(*what: Any, **more: Any) -> Any:
        assert go_on.wait(LIVENESS_S)
        return answer(*what, **more)

    monkeypatch.setattr(what_if, "supposed", late)
    try:
        yield
    finally:
        go_on.set()


async def test_who_comes_when_many_wait_is_told_to_come_again_until_one_hangs_up(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with running(N1) as world, world.client() as client:

        def ask() -> "asyncio.Task[httpx.Response]":
            return asyncio.create_task(client.post("/v1/what-if", json={"cordon": ["n1"]}))

        with slow(monkeypatch):
            waiting = [ask() for _ in range(MOST_WAITING + 1)]
            await asyncio.sleep(0.1)
            refused = await ask()
            assert (refused.status_code, refused.headers["retry-after"]) == (429, "2")
            waiting.pop().cancel()
            await asyncio.sleep(0.1)
            waiting.append(ask())
            await asyncio.sleep(0.1)
        assert [reply.status_code for reply in await asyncio.gather(*waiting)] == [200] * (MOST_WAITING + 1)


async def test_before_the_first_plan_nothing_is_supposed() -> None:
    service = following(Settings(), FakeClusterApi(N1), LoopClock(), random.Random(0), notes_of_a_former_process())
    with pytest.raises(BusyError, match="first plan"):
        await service.views.what_ifs.suppose(WhatIf())


def test_settings_that_are_supposed() -> None:
    here = Settings().changed({"queue": {"starve_limit_s": 60.0}})
    made = policy_with(here, {"queue": {"order": "fifo"}, "score": {"ratios": "1:2:3"}, "spill_wait_s": 5})
    assert (made.queue.order, made.queue.starve_limit_s) == (Order.FIFO, 60.0)
    assert (made.score.ratios, made.spill_wait_s) == (Ratios(1.0, 2.0, 3.0), 5.0)
    assert made.selection is here.selection
    assert policy_with(here, {"score": {"loss_weight": 5}}).score.loss_weight == 5.0, "beside ratios that stay"
