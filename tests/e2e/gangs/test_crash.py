"""A crash changes nothing in the queue: what netgang says of waiting gangs follows from what the cluster shows."""

import asyncio
from functools import partial
from typing import Any

import pytest

from lab.testbed.api import Object
from lab.testbed.objects import node, priority_class
from lab.testbed.parts.service import Netgang
from tests.e2e.objects import gang_of
from tests.e2e.stage import Stage

SIZE = 3


def _waiting(stage: Stage, name: str, **fields: Any) -> list[Object]:
    """ω′ = 3 / (cpu + mem): of gangs that differ in nothing else, the one that asks for least memory is heaviest."""
    return stage.gang(name, SIZE, gated=True, memory=f"{64 + int(name[1:])}Mi", **fields)


@pytest.mark.timeout(120)
async def test_a_crash_keeps_order_and_clocks(stage: Stage) -> None:
    await stage.add_nodes(*(node(f"t{number}", cpu="1100m", zone="a") for number in range(SIZE)))
    await stage.api.apply([priority_class("hasty", 7)])
    netgang = await stage.netgang({"queue": {"starve_limit_s": 20.0}})
    for number in range(SIZE):
        await stage.create_pod(f"x{number}", scheduler="another", on=f"t{number}")
    hasty = [f"g{number:03}" for number in (40, 10, 30)]
    for name in hasty:
        await stage.api.create_all(_waiting(stage, name, priority_class="hasty"))
        await asyncio.sleep(1.1)  # creation times are whole seconds
    stands = partial(_stands, stage, netgang)
    await stage.api.until(stands, lambda said: [one["state"] for one in said] == ["STARVING"] * 3, what="three starve")
    patient = [f"g{number:03}" for number in (299, 2, 150, 77)]
    await stage.api.create_all([one for name in patient for one in _waiting(stage, name)])

    def all_known(said: list[dict[str, Any]]) -> bool:
        states = [one["state"] for one in said]
        return states == ["STARVING"] * 3 + ["WAITING"] * 4 and None not in [one["waiting_since_s"] for one in said]

    before = await stage.api.until(stands, all_known, what="three starve and four wait, each with all its pods")
    assert list(await stage.waiting(netgang)) == [*hasty, *sorted(patient)]
    await stage.cluster.restart(netgang.part.name, crash=True)
    assert await stands() == before
    await stage.end(*(f"x{number}" for number in range(SIZE)))
    assert {gang_of(name) for name in await stage.until_bound("g", SIZE)} == {hasty[0]}


async def _stands(stage: Stage, netgang: Netgang) -> list[dict[str, Any]]:
    """What does not depend on the moment, of each gang that waits, in the order of the queue."""
    kept = ("gang", "rank", "state", "priority", "weight", "created_s", "waiting_since_s")
    return [{name: one[name] for name in kept} for one in (await stage.waiting(netgang)).values()]
