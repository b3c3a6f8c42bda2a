"""Many waiting pods beside a busy cluster: the guard against refusal storms (decision 4)."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from itertools import count
from statistics import median
from time import monotonic

import msgspec
import pytest

from lab.testbed.objects import node
from lab.testbed.parts.service import Netgang
from lab.testbed.processes.pace import slowness
from lab.testbed.processes.stages import HOLD
from tests.e2e.stage import Stage, filter_calls, say

POOL = {"pool": "train"}
BIG = {"kubernetes.io/hostname": "big"}
MAX_BACKOFF_S = 10.0  # podMaxBackoffSeconds of the shipped configurations


class Churn(msgspec.Struct):
    open: dict[str, float] = {}
    took_s: dict[str, list[float]] = {}  # phase in which they were created → seconds
    phase: str = "before"
    ended: bool = False  # no further pods; the one that is being created is still waited for


@pytest.mark.timeout(300)
async def test_three_hundred_refused_pods_beside_five_new_ones_a_second(stage: Stage) -> None:
    """At most 60 filter calls a second once the guard holds, others are not delayed, and room is used soon after.

    Under churn within podMaxBackoffSeconds + 3 s. 30 s after the last foreign event the guard lets go: pods are parked
    again, nobody asks, and room is used within seconds, not backoffs (3 s for one gang alone: test_faults).
    """
    nodes = [node(f"t{i}", cpu="1100m", zone="a", labels=POOL) for i in range(11)]
    nodes.append(node("big", cpu="1000", zone="b", pods=1000))
    for one in nodes:  # a heartbeat is an event: quiet means none
        one["metadata"]["annotations"] = {HOLD: "node-heartbeat"}
    await stage.add_nodes(*nodes)
    netgang = await stage.netgang()
    await stage.cluster.start_scheduler(name="plain")
    for number in range(10):  # one node of eleven stays free, so that kube-scheduler has something to ask about
        await stage.create_pod(f"x{number}", scheduler="another", on=f"t{number}")
    async with _five_pods_a_second(stage) as churn:
        await asyncio.sleep(10.0)
        churn.phase = "begin"
        gangs = [stage.gang(f"wait{number}", 10, memory="1Mi", node_selector=POOL) for number in range(30)]
        await stage.api.create_all([one for pods in gangs for one in pods])
        await asyncio.sleep(15.0)  # the guard needs a few refusals of each pod, and a slow machine is long at the first
        in_5_s = partial(_filter_calls_a_second, netgang, 5.0)
        await stage.api.until(in_5_s, lambda per_s: per_s <= 60.0, what="the guard holds")
        churn.phase = "guarded"
        per_s = await _filter_calls_a_second(netgang, 20.0)
        assert per_s <= 60.0
        await stage.end(*(f"x{number}" for number in range(9)))
        began_s = monotonic()
        bound = await stage.until_bound("wait", 10, limit_s=MAX_BACKOFF_S + 3.0)
        say(f"{per_s:.1f} filter calls a second; room used after {monotonic() - began_s:.1f} s under churn")
        assert len({name.partition("-")[0] for name in bound}) == 1
    middle = {phase: median(took_s) for phase, took_s in churn.took_s.items()}
    assert len(churn.took_s["guarded"]) >= 40
    assert middle["guarded"] <= middle["before"] + slowness(), "pods of others were delayed"
    await asyncio.sleep(30.0 + MAX_BACKOFF_S + 2.0)
    quiet = await filter_calls(netgang)
    await asyncio.sleep(5.0)
    assert await filter_calls(netgang) == quiet
    await stage.end(*bound)
    await stage.until_bound("wait", 10, limit_s=8.0)  # kube-scheduler goes through all 290 that wait, 6 ms each


async def _filter_calls_a_second(netgang: Netgang, during_s: float) -> float:
    before, began_s = await filter_calls(netgang), monotonic()
    await asyncio.sleep(during_s)
    return (await filter_calls(netgang) - before) / (monotonic() - began_s)


@asynccontextmanager
async def _five_pods_a_second(stage: Stage) -> AsyncIterator[Churn]:
    """Plain pods on a node that no gang may use, and a look twice a second at which are bound; at the end all are."""
    churn = Churn()

    async def create() -> None:
        for number in count():
            if churn.ended:
                return
            name = f"{churn.phase}-{number}"
            churn.open[name] = monotonic()
            await stage.create_pod(name, cpu="10m", node_selector=BIG)
            await asyncio.sleep(0.2)

    async def look() -> None:
        while not churn.ended or churn.open:
            for name in (await stage.bound()).keys() & churn.open.keys():
                phase = name.partition("-")[0]
                churn.took_s.setdefault(phase, []).append(monotonic() - churn.open.pop(name))
            await asyncio.sleep(0.5)

    creating, looking = asyncio.create_task(create()), asyncio.create_task(look())
    try:
        yield churn
    finally:
        churn.ended = True
        await creating
        await asyncio.wait_for(looking, 30.0)
