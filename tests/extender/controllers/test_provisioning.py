"""Nodes that are asked for: what is made and taken back on the API server, what is said, and what failures do."""

import asyncio
import json
import logging
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from typing import Any

import pytest

from extender.controllers.provisioning.controller import EVERY_S, UNSERVED_S, Provisioning
from extender.errors import ApiError, ApiUnavailableError
from extender.kube.calls import POD_TEMPLATES, PODS, PROVISIONING_REQUESTS
from scoring.provisioning.requests import AskingLimits
from tests.extender.controllers.contexts import context_over
from tests.extender.scheduling.world import Object, World, group_json, key, node_json, running
from tests.fakes.cluster_api import FakeClusterApi

pytestmark = pytest.mark.looptime

ON = {"mode": "provisioning-request", "after_s": 0.0}
ROUND_S = EVERY_S + 1.0
SMALL = node_json("n1", cpu="2")
BIG = node_json("n1", cpu="8")
GATE = [{"name": "netgang.io/gang"}]


@asynccontextmanager
async def asking(*objects: Object, served: bool = True, **more: Any) -> AsyncIterator[World]:
    """The service with requests switched on, and an API server that has the kind, or has not; in the end no pods."""
    api = FakeClusterApi()
    api.store.install(POD_TEMPLATES)
    if served:
        api.store.install(PROVISIONING_REQUESTS)
    async with running(*objects, api=api, autoscaling={**ON, **more}) as world:
        yield world
        world.delete(*(name for _, name in world.api.store.bodies(PODS)))


def there(world: World) -> list[Object]:
    return [json.loads(body) for _, body in sorted(world.api.store.bodies(PROVISIONING_REQUESTS).items())]


def the_one(world: World) -> Object:
    (found,) = there(world)
    return found


def templates(world: World) -> list[str]:
    return sorted(name for _, name in world.api.store.bodies(POD_TEMPLATES))


def answer(world: World, kind: str, status: str = "True", *, message: str = "") -> None:
    one = the_one(world)
    at = "2023-11-14T22:13:20Z"  # the clock's zero
    condition = {"type": kind, "status": status, "message": message, "lastTransitionTime": at}
    one.setdefault("status", {}).setdefault("conditions", []).append(condition)
    world.api.store.put(PROVISIONING_REQUESTS, one)


def said(world: World, name: str = "g") -> list[str]:
    return [note.text for note in world.explained(name).notes if note.about == "autoscaler"]


async def test_a_gang_that_does_not_fit_asks_for_all_its_pods_and_no_more_once_it_has_started() -> None:
    async with asking(SMALL) as world:
        pods = world.gang("g", 4, schedulingGates=GATE)
        await world.settle(ROUND_S)
        made = the_one(world)
        assert made["spec"]["podSets"] == [{"podTemplateRef": {"name": templates(world)[0]}, "count": 4}]
        assert made["spec"]["provisioningClassName"] == "best-effort-atomic-scale-up.autoscaling.x-k8s.io"
        assert made["metadata"]["ownerReferences"][0]["uid"] == world.uid("g-0")
        (text,) = said(world)
        assert text.startswith(
            f"nodes in zone a were asked for with ProvisioningRequest {made['metadata']['name']}; for"
        )
        answer(world, "Accepted")
        answer(world, "Provisioned")
        await world.settle(ROUND_S)
        assert "the autoscaler says that the room is there or on its way" in said(world)[0]
        world.node("n2", cpu="4")
        world.node("n3", cpu="4")
        await world.settle(1.0)
        world.bind_offered(*pods)
        await world.settle(ROUND_S)
        assert len(world.bound()) == 4
        assert (there(world), templates(world)) == ([], [])


async def test_nothing_is_read_while_nobody_waits() -> None:
    async with asking(BIG) as world:
        await world.settle(ROUND_S)
        lists = world.api.calls["list"]
        await world.settle(10 * ROUND_S)
        assert world.api.calls["list"] == lists


async def test_off_by_default() -> None:
    """Nodes cost money: without the setting nothing is asked, and the explanation says that no autoscaler sees it."""
    api = FakeClusterApi()
    api.store.install(PROVISIONING_REQUESTS)
    async with running(SMALL, api=api) as world:
        world.gang("g", 4)
        await world.settle(60.0)
        assert there(world) == []
        assert said(world)[0].startswith("a cluster autoscaler adds no nodes for it")


def by_group(world: World) -> Object:
    for number in range(4):
        world.pod(f"g-{number}", group="g")
    return world.api.add(group_json(least=4))


def by_job(world: World) -> Object:
    owner = world.owner("train", spec={})
    world.gang("g", 4, owner=owner)
    return {"metadata": owner}


OWNERS = {  # case: (kind of the owner, how the gang's pods come to be)
    "its PodGroup": ("PodGroup", by_group),
    "its job": ("Job", by_job),
}


@pytest.mark.parametrize(("kind", "made"), OWNERS.values(), ids=OWNERS)
async def test_it_goes_with_what_the_gang_belongs_to(kind: str, made: Callable[[World], Object]) -> None:
    """The garbage collector deletes request and template when that is deleted, also without us."""
    async with asking(SMALL) as world:
        owner = made(world)
        await world.settle(ROUND_S)
        templates_made = world.api.store.bodies(POD_TEMPLATES).values()
        for one in (the_one(world), *map(json.loads, templates_made)):
            (reference,) = one["metadata"]["ownerReferences"]
            assert (reference["kind"], reference["uid"]) == (kind, owner["metadata"]["uid"])
            assert "blockOwnerDeletion" not in reference
        world.delete(*(f"g-{i}" for i in range(4)))
        await world.settle(ROUND_S)
        assert (there(world), templates(world)) == ([], [])


async def test_pods_that_an_autoscaler_sees_are_marked() -> None:
    """Else it would add nodes for each of them as well; gated ones it does not see."""
    async with asking(SMALL) as world:
        world.gang("g", 3)
        world.pod("g-3", gang="g", size=4, schedulingGates=GATE)
        for number in range(3):
            one = world.api.pod(f"g-{number}")
            one["metadata"]["labels"]["pod-group.scheduling.sigs.k8s.io/min-available"] = "4"
            world.api.add(one)
        await world.settle(ROUND_S)
        name = the_one(world)["metadata"]["name"]
        marks = [world.api.pod(f"g-{i}")["metadata"]["annotations"] for i in range(4)]
        of = "autoscaling.x-k8s.io/consume-provisioning-request"
        assert [mark.get(of) for mark in marks] == [name, name, name, None]


async def test_what_failed_is_asked_for_in_the_next_zone_after_a_while() -> None:
    async with asking(SMALL, node_json("n2", cpu="3", zone="b")) as world:
        world.gang("g", 4)
        await world.settle(ROUND_S)
        assert the_one(world)["metadata"]["annotations"]["netgang.io/zones"] == "b"
        answer(world, "Failed", message="out of machines.")
        await world.settle(ROUND_S)
        assert said(world)[0].split("; ")[1:] == [
            "the autoscaler has failed: out of machines",
            "attempt 2 follows in 48 s",
        ]
        await world.settle(60.0)
        second = the_one(world)["metadata"]
        assert (second["annotations"]["netgang.io/zones"], second["annotations"]["netgang.io/attempt"]) == ("a", "2")
        assert templates(world) == [f"{second['name']}-0"]


UNSERVED: dict[str, tuple[bool, ApiError | None, str]] = {  # case: (served, error, what is said)
    "not installed": (False, None, "the cluster serves no ProvisioningRequest of autoscaling.x-k8s.io/v1"),
    "no right": (True, ApiError(403, "forbidden"), "install manifests/components/provisioning"),
}


@pytest.mark.parametrize(("served", "error", "words"), UNSERVED.values(), ids=UNSERVED)
async def test_a_cluster_that_cannot_be_asked(
    served: bool, error: ApiError | None, words: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING)
    async with asking(SMALL, served=served) as world:
        if error is not None:
            world.api.fail_next("list", error, times=2)
        world.gang("g", 4)
        world.gang("small", 2)
        await world.settle(ROUND_S + UNSERVED_S)
        assert [words in record.message for record in caplog.records] == [True]
        assert words in said(world)[0]
        assert world.offered("small-0") == "n1"
        world.api.heal()
        world.api.store.install(PROVISIONING_REQUESTS)
        await world.settle(UNSERVED_S)
        assert len(there(world)) == 1


LOST = {  # case: (verb that is not answered, whether it took effect, seconds until there is one request)
    "an unreachable server is asked again soon": ("list", False, 2 * ROUND_S),
    "an answer that was lost: the name says what was asked": ("create_object", True, 90.0),
}


@pytest.mark.parametrize(("verb", "applied", "within_s"), LOST.values(), ids=LOST)
async def test_no_answer(verb: str, applied: bool, within_s: float) -> None:
    """One request in the end, not two."""
    async with asking(SMALL) as world:
        world.api.fail_next(verb, ApiUnavailableError("broke off"), applied=applied)
        world.gang("g", 4)
        await world.settle(within_s)
        assert len(there(world)) == len(templates(world)) == 1


async def test_a_request_that_is_refused_leaves_no_templates_and_lets_others_ask() -> None:
    async with asking(SMALL) as world:
        world.api.fail_next("create_object", ApiError(403, "exceeded quota"))
        world.gang("g", 4, priority=5)
        world.gang("h", 4)
        await world.settle(2 * ROUND_S)
        assert the_one(world)["metadata"]["annotations"]["netgang.io/gang"] == "h"
        assert "exceeded quota" in said(world, "g")[0]
        await world.settle(60.0)
        assert len(there(world)) == 2


async def test_templates_do_not_outlive_a_request_that_could_not_be_made() -> None:
    async with asking(SMALL) as world:
        refused = ApiError(422, "spec.podSets: Invalid value")

        async def create(api_version: str, kind: str, namespace: str, content: Mapping[str, Any]) -> None:
            if kind == "ProvisioningRequest":
                raise refused
            await made(api_version, kind, namespace, content)

        made, world.api.create_object = world.api.create_object, create  # type: ignore[method-assign]
        world.gang("g", 4)
        await world.settle(ROUND_S)
        assert world.api.calls["delete_object"] == 1
        assert (there(world), templates(world)) == ([], [])


async def test_what_cannot_be_taken_back_is_tried_again_later() -> None:
    async with asking(SMALL) as world:
        world.gang("g", 4)
        await world.settle(ROUND_S)
        world.api.fail_next("delete_object", ApiError(403, "not now"))
        world.delete(*(f"g-{i}" for i in range(4)))
        world.gang("h", 4)
        await world.settle(2 * ROUND_S)
        assert [one["metadata"]["annotations"]["netgang.io/gang"] for one in there(world)] == ["g", "h"]
        await world.settle(60.0)
        last = the_one(world)["metadata"]
        assert last["annotations"]["netgang.io/gang"] == "h"
        world.api.store.remove(PROVISIONING_REQUESTS, "default", last["name"])
        world.api.store.remove(POD_TEMPLATES, "default", templates(world)[0])
        world.delete(*(f"h-{i}" for i in range(4)))
        await world.settle(ROUND_S)
        assert world.api.calls["delete_object"] == 3


async def test_requests_of_others_are_left_alone(caplog: pytest.LogCaptureFixture) -> None:
    async with asking(SMALL) as world:
        ours = {"app.kubernetes.io/managed-by": "netgang"}
        world.api.store.put(PROVISIONING_REQUESTS, {"metadata": {"name": "mine", "labels": ours}})
        broken = {"metadata": {"name": "netgang-broken", "labels": ours}, "status": {"conditions": 3}}
        world.api.store.put(PROVISIONING_REQUESTS, broken)
        world.gang("g", 4)
        await world.settle(ROUND_S)
        assert len(there(world)) == 3
        assert any("a ProvisioningRequest is left alone" in record.message for record in caplog.records)
        world.delete(*(f"g-{i}" for i in range(4)))
        await world.settle(ROUND_S)
        assert [one["metadata"]["name"] for one in there(world)] == ["mine", "netgang-broken"]


async def test_a_replica_that_does_not_lead_asks_nothing() -> None:
    api, leads = FakeClusterApi(), [True]
    api.store.install(POD_TEMPLATES)
    api.store.install(PROVISIONING_REQUESTS)
    async with running(SMALL, api=api) as world:
        service = world.service
        context = context_over(
            api, service.cache, world.clock, plan=lambda: service.planner.current, acting=lambda: leads[0]
        )
        asks = Provisioning(context, service.planner.policy, AskingLimits(after_s=0.0), class_name="c")
        work = asyncio.create_task(asks.run())
        world.gang("g", 4)
        await world.settle(ROUND_S)
        assert asks.note(key("g")) is not None
        leads[0] = False
        world.gang("h", 4)
        world.delete(*(f"g-{i}" for i in range(4)))
        await world.settle(3 * ROUND_S)
        assert the_one(world)["metadata"]["annotations"]["netgang.io/gang"] == "g"
        assert asks.note(key("g")) is None
        leads[0] = True
        await world.settle(2 * ROUND_S)
        assert the_one(world)["metadata"]["annotations"]["netgang.io/gang"] == "h"
        work.cancel()
