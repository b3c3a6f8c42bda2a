"""Pods of Kubernetes' own groups: scored and kept together, and otherwise left to kube-scheduler."""

from typing import Any

import pytest

from scoring.model import GATE
from tests.extender.scheduling.world import node_json, running

pytestmark = pytest.mark.looptime

GROUP: dict[str, Any] = {"schedulingGroup": {"podGroupName": "native"}}
N1, N2 = node_json("n1"), node_json("n2", zone="b")


async def test_its_bind_is_posted_at_once() -> None:
    """One of three, without a hold: kube-scheduler has waited for the others already."""
    async with running(N1) as world:
        for name in ("a", "b", "c"):
            world.pod(name, **GROUP)
        await world.settle()
        world.filter("a")
        assert (await world.bind_answer("a", "n1"), world.bound()) == (None, {"a": "n1"})


async def test_it_is_scored() -> None:
    """Nodes that hold members already are better; nobody is refused for the sake of a plan."""
    async with running(N1, node_json("n3")) as world:
        world.pod("a", nodeName="n1", **GROUP)
        await world.planned_pod("b", **GROUP)
        scores = world.scores("b")
        assert scores["n1"] > scores["n3"]


async def test_labels_beside_it_do_not_count() -> None:
    """One manifest for clusters with and without the feature: where the field is kept, kube-scheduler gangs."""
    async with running(N1) as world:
        await world.planned_gang("both", 3, **GROUP)
        world.filter("both-0")
        assert await world.bind_answer("both-0", "n1") is None


async def test_our_gate_on_it_is_not_opened() -> None:
    """Never both gates: a pod with both waits, and nothing is patched."""
    async with running(N1) as world:
        world.pod("a", schedulingGates=[{"name": GATE}], **GROUP)
        await world.settle(120.0)
        assert (world.api.admitted, world.api.patches) == ([], [])


async def test_nothing_is_written_about_it() -> None:
    """No status on a PodGroup of that name, no Events, no place in the plan."""
    async with running(N1) as world:
        world.api.add({"kind": "PodGroup", "metadata": {"name": "native"}, "spec": {"minMember": 5}})
        for name in ("a", "b"):
            world.pod(name, cpu="99", **GROUP)
        await world.settle(120.0)
        assert (world.api.calls["group_status"], world.api.events) == (0, [])
        assert not world.service.planner.current.waiting
