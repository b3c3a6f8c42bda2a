"""A long queue at the gate: under churn it costs no attempt and planning stays cheap, and a crash changes nothing."""

import asyncio
import os
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from time import monotonic
from typing import Any, Self

import pytest

from lab.testbed.api import Object
from lab.testbed.objects import HOST_LABEL, node, priority_class
from lab.testbed.parts.service import Netgang
from lab.testbed.processes.pace import slowness
from tests.e2e.invariants import invariants_hold, until_nothing_is_promised
from tests.e2e.objects import gang_of
from tests.e2e.stage import Stage, filter_calls, metric, say

OURS = "netgang"
GANGS = 300
SIZE = 3
ROOMS = 4  # places for a gang; each is full to begin with
PER_S = 20.0  # pods of others that are created, and as many that are deleted, each second
LIFE_S = 2.0
CHURN_S = 45.0
ROUNDS = 8
MOST_PLANNING = 0.25  # of one core, by the planner's own clock, on which others' CPU time counts too
MOST_CPU = 0.6  # of one core, the whole process: what it takes is said; a loaded machine must not fail the test


@dataclass(slots=True)
class Churn:
    stage: Stage
    webs: list[str]  # nodes over which they are spread
    created: int = 0
    behind_s: float = 0.0  # how late the last pod came at most; the rate was kept when this is small

    async def run(self) -> None:
        """Until cancelled; each pod is made by a task of its own, so that a slow answer delays no other."""
        began_s = monotonic()
        async with asyncio.TaskGroup() as tasks:
            for number in count():
                late_s = monotonic() - began_s - number / PER_S
                self.behind_s = max(self.behind_s, late_s)
                await asyncio.sleep(max(-late_s, 0.0))
                tasks.create_task(self._live(f"other-{number}", self.webs[number % len(self.webs)]))

    async def _live(self, name: str, web: str) -> None:
        await self.stage.create_pod(name, cpu="20m", node_selector={HOST_LABEL: web})
        self.created += 1
        await asyncio.sleep(LIFE_S)
        await self.stage.api.delete("Pod", name, namespace=self.stage.namespace, grace_s=0)


def _names() -> list[str]:
    """The gangs, lightest first; their numbers are their ranks."""
    return [f"g{rank:03}" for rank in range(GANGS - 1, -1, -1)]


def _waiting(stage: Stage, name: str, **fields: Any) -> list[Object]:
    """ω′ = 3 / (cpu + mem): of gangs that differ in nothing else, the one that asks for least memory is heaviest."""
    return stage.gang(name, SIZE, gated=True, memory=f"{64 + int(name[1:])}Mi", **fields)


async def fill(stage: Stage, nodes: int) -> None:
    for number in range(nodes):
        await stage.create_pod(f"x{number}", scheduler="another", on=f"t{number}")


def _cpu_s(netgang: Netgang) -> float:
    fields = Path(f"/proc/{netgang.part.pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True, slots=True)
class _Cost:
    at_s: float
    cpu_s: float
    planning_s: float
    plans: float

    @classmethod
    async def now(cls, netgang: Netgang) -> Self:
        planning_s = await metric(netgang, "netgang_plan_duration_seconds_sum")
        plans = await metric(netgang, "netgang_plan_duration_seconds_count")
        return cls(monotonic(), _cpu_s(netgang), planning_s, plans)


@pytest.mark.timeout(240)
async def test_three_hundred_gangs_wait_at_the_gate_under_churn(stage: Stage) -> None:
    """No attempt and no filter call for them, a quarter of a core at most for planning, then the heaviest go first."""
    trains = [node(f"t{number}", cpu="1100m", zone=f"a{number // SIZE}") for number in range(ROOMS * SIZE)]
    webs = [node(f"w{number}", cpu="900m", zone=f"a{number % ROOMS}") for number in range(40)]
    await stage.add_nodes(*trains, *webs)
    netgang = await stage.netgang()
    await stage.start_scheduler(name="plain")
    await fill(stage, ROOMS * SIZE)
    await stage.api.create_all([one for name in _names() for one in _waiting(stage, name)])
    await stage.api.until(lambda: stage.waiting(netgang), lambda found: len(found) == GANGS, what="all gangs wait")
    churn = Churn(stage, [one["metadata"]["name"] for one in webs])
    async with asyncio.TaskGroup() as tasks:
        coming = tasks.create_task(churn.run())
        await asyncio.sleep(LIFE_S + 1.0)
        before, first = await _Cost.now(netgang), churn.created
        await asyncio.sleep(CHURN_S)
        after, last = await _Cost.now(netgang), churn.created
        assert await stage.attempts() == {}
        assert await filter_calls(netgang) == 0
        assert list(await stage.waiting(netgang)) == sorted(_names())
        async with invariants_hold(stage.api, netgang, stage.namespace):
            started = await _start_one_by_one(stage, ROUNDS)
        assert started == sorted(_names())[:ROUNDS]
        await until_nothing_is_promised(stage.api, netgang)
        coming.cancel()
    assert await stage.attempts() == {"scheduled": float(ROUNDS * SIZE)}, "no attempt failed"
    length_s = after.at_s - before.at_s
    planning, cpu = (after.planning_s - before.planning_s) / length_s, (after.cpu_s - before.cpu_s) / length_s
    plans = after.plans - before.plans
    say(f"{(last - first) / length_s:.1f} pods of others/s come and go, late by {churn.behind_s:.1f} s at most")
    say(
        f"{GANGS} gangs wait: planning {planning:.1%} of a core, {plans / length_s:.1f} plans/s of"
        f" {1e3 * (after.planning_s - before.planning_s) / max(plans, 1.0):.1f} ms, the whole process {cpu:.1%}"
    )
    assert (last - first) / length_s > 0.5 * PER_S
    assert plans > length_s, "the churn makes the planner run"
    assert planning <= MOST_PLANNING * slowness()
    assert cpu <= MOST_CPU


@pytest.mark.timeout(120)
async def test_a_crash_keeps_order_and_clocks(stage: Stage) -> None:
    """Killed (-9) and started again, netgang says the same of every gang: rank, state, weight, since when it waits."""
    await stage.add_nodes(*(node(f"t{number}", cpu="1100m", zone="a") for number in range(SIZE)))
    await stage.api.apply([priority_class("hasty", 7)])
    netgang = await stage.netgang({"queue": {"starve_limit_s": 20.0}})
    await fill(stage, SIZE)
    hasty = [f"g{number:03}" for number in (40, 10, 30)]
    for name in hasty:
        await stage.api.create_all(_waiting(stage, name, priority_class="hasty"))
        await asyncio.sleep(1.1)  # creation times are whole seconds
    await stage.api.until(
        lambda: _stands(stage, netgang),
        lambda found: [one["state"] for one in found] == ["STARVING"] * 3,
        what="three starve",
    )
    patient = [f"g{number:03}" for number in (299, 2, 150, 77)]
    await stage.api.create_all([one for name in patient for one in _waiting(stage, name)])
    before = await stage.api.until(
        lambda: _stands(stage, netgang),
        lambda found: (
            [one["state"] for one in found] == ["STARVING"] * 3 + ["WAITING"] * 4
            and None not in [one["waiting_since_s"] for one in found]  # all their pods are known
        ),
        what="three starve and four wait, each with all its pods",
    )
    assert list(await stage.waiting(netgang)) == [*hasty, *sorted(patient)]
    await stage.cluster.restart(netgang.part.name, crash=True)
    assert await _stands(stage, netgang) == before
    await stage.end(*(f"x{number}" for number in range(SIZE)))
    bound = await stage.until_bound("g", SIZE)
    assert {gang_of(name) for name in bound} == {hasty[0]}


async def _stands(stage: Stage, netgang: Netgang) -> list[dict[str, Any]]:
    """What does not depend on the moment, of each gang that waits, in the order of the queue."""
    kept = ("gang", "rank", "state", "priority", "weight", "created_s", "waiting_since_s")
    return [{name: one[name] for name in kept} for one in (await stage.waiting(netgang)).values()]


async def _start_one_by_one(stage: Stage, rounds: int) -> list[str]:
    """Empty a place again and again: gangs in the order in which they were bound."""
    leaving = [f"x{number}" for number in range(SIZE)]
    started: list[str] = []
    for _ in range(rounds):
        await stage.end(*leaving)
        bound = await stage.until_bound("g", SIZE)
        leaving = sorted(bound)
        started.append(gang_of(leaving[0]))
        assert len(bound) == SIZE
        assert {gang_of(name) for name in bound} == {started[-1]}
    return started
