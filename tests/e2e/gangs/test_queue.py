"""The queue on a real control plane: heavier gangs first, the lightest one once it starves (PAPERS K1–K3)."""

from __future__ import annotations

from datetime import datetime
from typing import Any

import pytest

from scoring.model import GATE
from testbed.api import Object
from testbed.objects import gang_pods, zone_nodes
from tests.e2e.invariants import invariants_hold, until_nothing_is_promised
from tests.e2e.stage import Stage, document

core = pytest.mark.e2e_core
SHAPES = ((1, "11500m"), (2, "5700m"), (3, "3800m"), (4, "2850m"), (6, "1900m"), (12, "900m"))
"""(members, CPU of each): each gang needs a node of 12 CPUs to itself, to the last pod; the lightest first."""
HEAVIEST_FIRST = ["w12", "w06", "w04", "w03", "w02", "w01"]


def gang(stage: Stage, name: str, size: int, cpu: str) -> list[Object]:
    """A gang at our gate that needs all its members."""
    fields: dict[str, Any] = {"min_available": size, "namespace": stage.namespace, "scheduler": "netgang"}
    return gang_pods(name, size, gates=(GATE,), cpu=cpu, **fields)


async def until_waiting(stage: Stage, netgang: Any, count: int) -> list[dict[str, Any]]:
    """Wait until that many gangs are in WQ; these, in the order of their turns."""

    async def waiting() -> list[dict[str, Any]]:
        return [one for one in (await document(netgang, "/v1/queue"))["gangs"] if one["queue"] == "WQ"]

    return await stage.api.until(waiting, lambda found: len(found) >= count, what=f"{count} gangs wait")


async def starts_one_by_one(stage: Stage, names: list[str]) -> list[str]:
    """End whoever runs, again and again: gangs in the order in which they were bound."""
    running = "full"
    order: list[str] = []
    for _ in names:
        await stage.end(*await stage.bound(running))
        bound = await stage.api.until(stage.bound, lambda found: bool(found), what="another gang bound", limit_s=30.0)
        running = min(bound).partition("-worker")[0]
        size = int(running[1:])
        whole = await stage.until_bound(running, size)
        assert len(await stage.bound()) == len(whole) == size
        order.append(running)
    return order


@core
async def test_heavier_gangs_first(stage: Stage) -> None:
    """Six gangs submitted in the worst order to a full cluster start in the order of ω′ as room appears."""
    await stage.add_nodes(*zone_nodes({"a": 1}, cpu="12"))
    netgang = await stage.netgang()
    await stage.api.create_all(gang(stage, "full", 12, "900m"))
    await stage.until_bound("full", 12)
    async with invariants_hold(stage.api, netgang, stage.namespace):
        for size, cpu in SHAPES:
            await stage.api.create_all(gang(stage, f"w{size:02}", size, cpu))
        waiting = await until_waiting(stage, netgang, 6)
        assert [one["gang"].partition("/")[2] for one in waiting] == HEAVIEST_FIRST
        weights = [one["weight"]["omega_prime"] for one in waiting]
        assert weights == sorted(weights, reverse=True)
        assert len(set(weights)) == 6
        assert await starts_one_by_one(stage, HEAVIEST_FIRST) == HEAVIEST_FIRST
        await until_nothing_is_promised(stage.api, netgang)


async def test_the_lightest_first_once_it_starves(stage: Stage) -> None:
    """With a STARVELIMIT of seconds the lightest gang, which came first, overtakes all heavier ones."""
    await stage.add_nodes(*zone_nodes({"a": 1}, cpu="12"))
    limit_s = 8.0
    settings = {"queue": {"starve_limit_s": limit_s}}
    netgang = await stage.netgang(settings)
    await stage.api.create_all(gang(stage, "full", 12, "900m"))
    await stage.until_bound("full", 12)
    await stage.api.create_all(gang(stage, "w01", *SHAPES[0]))
    [first] = await until_waiting(stage, netgang, 1)
    assert first["state"] == "WAITING"

    async def starving() -> bool:
        [one] = await until_waiting(stage, netgang, 1)
        return bool(one["state"] == "STARVING")

    await stage.api.until(starving, bool, what="w01 starves", limit_s=limit_s + 10.0)
    for size, cpu in SHAPES[1:]:
        await stage.api.create_all(gang(stage, f"w{size:02}", size, cpu))
    waiting = await until_waiting(stage, netgang, 6)
    assert [one["gang"].partition("/")[2] for one in waiting] == ["w01", *HEAVIEST_FIRST[:-1]]
    [pod] = [one for one in await stage.pods() if one["metadata"]["name"].startswith("w01")]
    created_s = datetime.fromisoformat(pod["metadata"]["creationTimestamp"]).timestamp()
    assert waiting[0]["waiting_since_s"] == created_s
    await stage.end(*await stage.bound("full"))
    await stage.until_bound("w01", 1)
    assert set(await stage.bound()) == {"w01-worker-0"}
