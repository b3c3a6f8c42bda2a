"""Suppositions about the running service: true ways in, nothing changed, one at a time, no request kept waiting."""

import asyncio
import json
import random
import threading
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import httpx
import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from extender.api.routes import MOST_BYTES
from extender.api.what_if import runner
from extender.api.what_if.question import policy_with, read_changes
from extender.api.what_if.runner import KEPT_S, MOST_WAITING, BusyError, WhatIfs
from extender.bootstrap import following
from extender.schemas.explain import Explained
from extender.settings.settings import Settings
from scoring.explain.unblock import unblock
from scoring.ids import GangKey, Namespace
from scoring.model.policy import Order, Ratios
from scoring.network.measurement import Metric
from scoring.plan import PlannerCache, plan
from scoring.what_if.changes import (
    AddPods,
    Change,
    ForgetRefusals,
    JobEnds,
    JobGrows,
    RemoveNodes,
    RemovePods,
    SetLink,
    Tolerate,
    UncordonNodes,
    WhatIf,
)
from scoring.what_if.draft import Situation
from scoring.what_if.suppose import apply, supposed_in_steps
from tests.builders import mesh
from tests.example_counts import FEW
from tests.extender.api.asking import asking
from tests.extender.scheduling.world import node_json, running
from tests.fakes.clock import LoopClock
from tests.fakes.cluster_api import FakeClusterApi
from tests.fakes.notes import notes_of_a_former_process
from tests.liveness import LIVENESS_S
from tests.scoring.plan.planned import crowded

pytestmark = pytest.mark.looptime

N1, N2 = node_json("n1"), node_json("n2", zone="b", cpu="2")
Object = dict[str, Any]


async def explained(client: httpx.AsyncClient, name: str) -> Object:
    reply = await client.get(f"/v1/explain/default/{name}")
    assert reply.status_code == 200
    return reply.json()


async def test_what_is_said_of_a_gang_and_its_first_suggestion_is_true() -> None:
    """A suggestion, sent to /v1/what-if as it is, admits the gang, and changes nothing."""
    async with running(N1, N2) as world, asking(world) as client:
        world.occupy("n1")
        world.gang("g", 3)
        await world.settle()
        before, said = world.service.planner.current, await explained(client, "g")
        first = said["would_help"]["suggestions"][0]
        supposed = (await client.post("/v1/what-if", json={"changes": first["changes"]})).json()
        assert world.service.planner.current is before
        assert world.service.cache.snapshot().table.names == ("n1", "n2")
    assert {what: count for what, count in said["counts"].items() if count} == {"exist": 3, "needed": 3, "waiting": 3}
    turn = said["turn"]
    assert (turn["rank"], turn["state"], turn["reservation"]["kind"]) == (1, "STARVING", "held")
    short = {zone["zone"]: [(one["resource"], one["amount"]) for one in zone["short"]] for zone in said["zones"]}
    assert short == {"a": [("cpu", "3")], "b": [("cpu", "1")]}
    decisions = [(one["what"], one["reason"]) for one in said["decisions"]]
    assert decisions == [("plan", "netgang: no zone has room for the whole gang now")]
    assert [note["about"] for note in said["notes"]] == ["autoscaler"]
    assert first["text"] == supposed["if"] == "1 more cpu in zone b (on n2)"
    [turned] = supposed["admitted"]
    assert (turned["gang"], turned["before"]["code"], turned["after"]["zone"]) == ("default/g", "NO_ROOM", "b")


async def test_the_document_is_what_openapi_says() -> None:
    async with running(N1, N2) as world, asking(world) as client:
        world.gang("g", 2)
        world.gang("h", 9)
        await world.settle()
        for name in ("g", "h", "g-0"):
            found = await explained(client, name)
            assert json.loads(msgspec.json.encode(msgspec.convert(found, Explained))) == found
        starts = await explained(client, "g")
        schema = (await client.get("/openapi.json")).json()
    assert starts["would_help"] == {"text": "", "impossible": False, "trials": 0, "suggestions": []}
    kept = starts["turn"]["reservation"]
    assert (kept["kind"], kept["nodes"]) == ("planned", {"g-0": "n2", "g-1": "n2"})
    answers = schema["paths"]["/v1/explain/{namespace}/{name}"]["get"]["responses"]
    assert answers["200"]["content"]["application/json"]["schema"]["$ref"].endswith("/Explained")
    post = schema["paths"]["/v1/what-if"]["post"]
    assert post["requestBody"]["content"]["application/json"]["schema"]["$ref"].endswith("/WhatIf")
    assert {"200", "400", "413", "429"} <= post["responses"].keys()
    assert {"WhatIf", "AddNodes", "JobShrinks", "Supposed", "Turned"} <= schema["components"]["schemas"].keys()


async def test_plain_pods_can_be_supposed_away() -> None:
    async with running(N1) as world, asking(world) as client:
        world.occupy("n1")
        world.gang("g", 2)
        await world.settle()
        gone = {"changes": [{"change": "remove-pods", "pods": ["default/stranger"]}]}
        said = (await client.post("/v1/what-if", json=gone)).json()
        assert [one["gang"] for one in said["admitted"]] == ["default/g"]


END = {"change": "end-job", "job": "a/b"}
CLOCK = {"change": "advance-clock", "by_s": 1}


def setting(**values: Any) -> list[Object]:
    return [{"change": "set-settings", "settings": values}]


BAD: dict[str, tuple[str, list[Object] | bytes]] = {  # case: (part of the detail, changes or the body)
    "not JSON": ("body: not JSON", b"{"),
    "no changes": ("changes: Expected `array` of length >= 1", []),
    "too many changes": ("changes: Expected `array` of length <= 100", [END] * 101),
    "no such change": ("changes.0.change", [{"change": "explode"}]),
    "a field that is not there": ("changes.0: Object contains unknown field `jobs`", [END | {"jobs": 1}]),
    "a count below 1": ("changes.0.count", [{"change": "add-nodes", "zone": "a", "count": 0}]),
    "a setting that decides nothing": ("changes.0.settings.port: decides nothing", setting(port=1)),
    "a bad setting": ("changes.0.settings.queue.order: Input should be", setting(queue={"order": "x"})),
    "another bad setting": ("changes.0.settings.spill_wait_s:", setting(spill_wait_s=-1)),
    "a node that is not there": (
        "changes.1.nodes: there is no node n9",
        [CLOCK, {"change": "remove-nodes", "nodes": ["n9"]}],
    ),
}


@pytest.mark.parametrize(("detail", "body"), BAD.values(), ids=BAD)
async def test_mistakes_name_their_field(detail: str, body: list[Object] | bytes) -> None:
    async with running(N1) as world, asking(world) as client:
        content = body if isinstance(body, bytes) else msgspec.json.encode({"changes": body})
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
    async with running(N1) as world, asking(world) as client:
        reply = await client.post("/v1/what-if", content=body(), headers={"content-type": "application/json"})
        assert reply.status_code == status


@contextmanager
def slow(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    go_on = threading.Event()

    def late(base: Situation, changes: Sequence[Change], **more: Any) -> Any:
        assert go_on.wait(LIVENESS_S)
        return apply(base, changes, **more)

    monkeypatch.setattr(runner, "apply", late)
    try:
        yield
    finally:
        go_on.set()


async def test_who_comes_when_many_wait_is_told_to_come_again(monkeypatch: pytest.MonkeyPatch) -> None:
    async with running(N1) as world, asking(world) as client:
        world.occupy("n1")
        world.gang("g", 2)
        await world.settle()
        body = {"changes": [{"change": "remove-nodes", "nodes": ["n1"]}]}
        with slow(monkeypatch):
            waiting = [asyncio.ensure_future(client.post("/v1/what-if", json=body)) for _ in range(MOST_WAITING + 1)]
            await asyncio.sleep(0.1)
            refused = await client.post("/v1/what-if", json=body)
            assert (refused.status_code, refused.headers["retry-after"]) == (429, "2")
            assert (await explained(client, "g"))["would_help"] is None
        assert [reply.status_code for reply in await asyncio.gather(*waiting)] == [200] * (MOST_WAITING + 1)
        assert (await explained(client, "g"))["would_help"] is not None


async def test_who_hangs_up_leaves_the_queue(monkeypatch: pytest.MonkeyPatch) -> None:
    async with running(N1) as world:
        what_ifs = WhatIfs(world.service.cache, world.service.planner, world.clock, most_waiting=1)
        with slow(monkeypatch):
            answered = asyncio.ensure_future(what_ifs.suppose([RemoveNodes(())]))
            gone = asyncio.ensure_future(what_ifs.suppose([RemoveNodes(())]))
            await asyncio.sleep(0.1)
            with pytest.raises(BusyError):
                await what_ifs.suppose([RemoveNodes(())])
            gone.cancel()
            await asyncio.sleep(0.1)
            instead = asyncio.ensure_future(what_ifs.suppose([RemoveNodes(())]))
            await asyncio.sleep(0.1)
        await asyncio.gather(answered, instead)


async def test_what_was_found_out_is_kept_for_a_minute(monkeypatch: pytest.MonkeyPatch) -> None:
    used: list[PlannerCache] = []

    def noted(*what: Any, cache: PlannerCache) -> Any:
        used.append(cache)
        return supposed_in_steps(*what, cache=cache)

    monkeypatch.setattr(runner, "supposed_in_steps", noted)
    async with running(N1) as world:
        what_ifs = WhatIfs(world.service.cache, world.service.planner, world.clock)
        for wait_s in (0.0, KEPT_S - 1.0, KEPT_S + 1.0):
            await asyncio.sleep(wait_s)
            await what_ifs.suppose([RemoveNodes(())])
    first, soon, later = used
    assert soon is first
    assert later is not first


async def test_before_the_first_plan_nothing_is_supposed() -> None:
    service = following(Settings(), FakeClusterApi(N1), LoopClock(), random.Random(0), notes_of_a_former_process())
    with pytest.raises(BusyError, match="first plan"):
        await WhatIfs(service.cache, service.planner, LoopClock()).suppose([])


async def test_large_clusters_are_scored_in_a_thread() -> None:
    nodes = [node_json(f"n{i:03}", cpu="1") for i in range(201)]
    async with running(*nodes) as world, asking(world) as client:
        world.set_network(mesh(["n000", "n001", "n002"]))
        world.gang("g", 2)
        await world.settle()
        body = {"changes": [{"change": "set-link", "source": "n000", "target": "n001", "metric": "loss", "value": 1}]}
        said = (await client.post("/v1/what-if", json=body)).json()
        assert said["gangs"] == {"admitted": 1, "waiting": 0}


CHANGES: dict[str, Change] = {
    "a gang of its own": AddPods(Namespace("a"), "p", 2, "g", 1, {"cpu": "1500m", "memory": "3Gi"}),
    "removed": RemovePods(("a/b",)),
    "grows": JobGrows("a/b", 3),
    "a link": SetLink("x", "y", Metric.LOSS, 0.25),
    "refusals": ForgetRefusals(GangKey("a/b")),
    "a cordon": UncordonNodes(("n1",)),  # type: ignore[arg-type]
    "a taint": Tolerate(GangKey("a/b"), "dedicated"),
    "nodes": RemoveNodes(("n1", "n2")),  # type: ignore[arg-type]
}


def read_back(changes: list[Change]) -> tuple[Change, ...]:
    return read_changes(msgspec.json.encode(WhatIf(tuple(changes))))


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
def test_changes_are_read_as_they_are_written(change: Change) -> None:
    assert read_back([change]) == (change,)
    assert msgspec.to_builtins(JobEnds("team/a")) == END | {"job": "team/a"}, "by name, for people who read JSON"


@settings(FEW, suppress_health_check=list(HealthCheck))
@given(crowded(), st.sampled_from([4.0, 5000.0]))
def test_suggestions_are_read_as_they_are_written(state: Any, now_s: float) -> None:
    policy = Settings().policy()
    made = plan(state, policy, now_s=now_s)
    for key in sorted(made.waiting)[:1]:
        for one in unblock(Situation(state, policy, now_s), made, state.gangs[key]).suggestions:
            assert read_back(list(one.changes)) == one.changes


def test_settings_that_are_supposed() -> None:
    here = Settings(queue={"starve_limit_s": 60.0})
    made = policy_with(here, {"queue": {"order": "fifo"}, "score": {"ratios": "1:2:3"}, "spill_wait_s": 5})
    assert (made.queue.order, made.queue.starve_limit_s) == (Order.FIFO, 60.0)
    assert (made.score.ratios, made.spill_wait_s) == (Ratios(1.0, 2.0, 3.0), 5.0)
    assert made.selection is here.selection
