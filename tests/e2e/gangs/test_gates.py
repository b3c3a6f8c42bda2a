"""Gangs that wait at a scheduling gate: no attempts while they wait, and whole when they are admitted."""

from collections.abc import Iterable
from time import monotonic
from typing import Any

from lab.testbed.objects import ZONE_LABEL
from lab.testbed.parts.service import Netgang
from lab.testbed.processes.pace import LIVENESS_S
from tests.e2e.invariants import invariants_hold, until_nothing_is_promised
from tests.e2e.objects import (
    GATE,
    gang_of,
    gates,
    listed_nodes,
    name_of,
    not_scheduled,
    planned_node,
    volume_in,
    with_claim,
)
from tests.e2e.stage import Stage, say

SLOW = {"writes_per_s": 4.0}  # so that something can happen between two patches


async def failed_attempts(stage: Stage) -> list[str]:
    by_metric = [f"{count:g} attempts {how}" for how, count in (await stage.attempts()).items() if how != "scheduled"]
    events = (await stage.events("FailedScheduling")).values()
    said = {name_of(one): str(not_scheduled(one)) for one in await stage.pods() if gates(one)}
    return [*by_metric, *events, *(f"{name}: {words}" for name, words in said.items() if "nodes" in words)]


async def until_some_admitted(stage: Stage, name: str) -> list[Any]:
    admitted = [one for one in await stage.until_admitted(name, 3) if not gates(one)]
    assert len(admitted) <= 5, "the test came too late"
    return admitted


async def starts_at_last(
    stage: Stage, netgang: Netgang, size: int, *, without: str = "", limit_s: float = LIVENESS_S
) -> Any:
    """Gang g is bound whole to nodes that are listed for it, none of which is `without`; then no room is reserved."""
    bound = await stage.until_bound("g", size, limit_s=limit_s)
    pods = await stage.pods("g")
    assert all(bound[name_of(one)] in listed_nodes(one) - {without} for one in pods)
    await until_nothing_is_promised(stage.api, netgang)
    return pods


async def test_thirty_gangs_wait_in_room_for_three(stage: Stage) -> None:
    netgang = await stage.netgang(on={"a": 18, "b": 10})
    async with invariants_hold(stage.api, netgang, stage.namespace):
        await stage.api.create_all([one for i in range(30) for one in stage.gang(f"g{i:02}", 8, gated=True)])
        first = await stage.until_bound("g", 24)
        await _three_whole(stage, first)
        began_s = monotonic()
        await stage.end(*(name for name in first if gang_of(name) == gang_of(min(first))))
        bound = await stage.until_bound("g", 24, limit_s=5.0)
        say(f"room for a gang of 8 freed → bound: {monotonic() - began_s:.2f} s, with the deletion")
        await _three_whole(stage, bound)
        await until_nothing_is_promised(stage.api, netgang)
    assert await failed_attempts(stage) == []
    assert await stage.attempts() == {"scheduled": 32.0}


async def _three_whole(stage: Stage, bound: Iterable[str]) -> None:
    pods = await stage.pods()
    there = [one for one in pods if one["spec"].get("nodeName")]
    assert sorted(map(name_of, there)) == sorted(bound)
    gangs = [gang_of(name_of(one)) for one in there]
    assert {gangs.count(gang) for gang in gangs} == {8}
    assert all(gates(one) == [GATE] for one in pods if one not in there)
    assert all({one["spec"]["nodeName"], planned_node(one)} <= listed_nodes(one) for one in there)


async def test_a_gang_with_a_volume_in_one_zone(stage: Stage) -> None:
    """One member's claim is bound to a volume of one zone, which only kube-scheduler knows: all start in that zone."""
    netgang = await stage.netgang(on={"a": 4, "b": 4})
    async with volume_in(stage.api, stage.namespace, "b"):
        first, *others = stage.gang("g", 3, gated=True)
        await stage.api.create_all([*with_claim([first]), *others])
        await stage.until_bound("g", 3)
        assert {one["metadata"]["labels"][ZONE_LABEL] for one in await stage.pods()} == {"b"}
        await until_nothing_is_promised(stage.api, netgang)
