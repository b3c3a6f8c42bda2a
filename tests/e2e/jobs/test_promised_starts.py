"""Thirty gangs of declared lengths on a real control plane: each promised start is kept.

Lengths are seconds, and the test ends each gang's pods when its length is over, as a kubelet does. What the plan
promised is read from the decision log: a gang is late by no more than a gang ahead outlived its length, and the control
plane's own delay, which is measured: from the moment at which its nodes were free until its last pod was bound.
"""

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass, field
from random import Random
from typing import Final

import httpx
import pytest

from extender.decision_log import decisions
from extender.ports import SystemClock
from lab.testbed.api import Api
from lab.testbed.beside import beside
from lab.testbed.cluster import Cluster
from lab.testbed.parts.service import Netgang
from lab.testbed.processes.pace import slowness
from tests.e2e.objects import gang_of, name_of
from tests.e2e.stage import Stage, say

SETTINGS: Final = {"queue": {"order": "fifo", "starve_limit_s": 86_400}}
TOLERANCE_S: Final = 1.0  # Times of API objects are whole seconds
GANGS, NODES, SEED = 30, 12, 1
now_s = SystemClock().now_s
LIMIT_S = 170.0  # without any delay of the control plane the last gang ends after 85 s
DELAY_S = 5.0  # from room to bound pods, on a usual machine; a third of a second as measured


@dataclass(slots=True)
class Job:
    name: str
    size: int
    length_s: int
    on: dict[str, str] = field(default_factory=dict)  # pod → node
    started_s: float | None = None
    running: set[str] = field(default_factory=set)
    ended_s: float | None = None

    @property
    def start_s(self) -> float:
        assert self.started_s is not None, f"{self.name} has not started"
        return self.started_s

    @property
    def end_s(self) -> float:
        assert self.ended_s is not None, f"{self.name} has not ended"
        return self.ended_s


@pytest.fixture
async def queueing(cluster: Cluster, api: Api, namespace: str) -> Stage:
    """Of the first version alone: what is shown is netgang's own arithmetic over real starts and ends."""
    return Stage(cluster, api, namespace)


@pytest.mark.timeout(400)
async def test_promised_starts_are_kept(queueing: Stage) -> None:
    netgang = await queueing.netgang(SETTINGS, on={"a": NODES})
    chance, names = Random(SEED), [f"g{number:02}" for number in range(GANGS)]
    jobs = {one: Job(one, chance.choice((1, 1, 2, 2, 3, 4, 6)), chance.randint(5, 16)) for one in names}

    async def left() -> list[str]:
        return [one.name for one in jobs.values() if one.ended_s is None]

    async with beside(_run(queueing, jobs)):
        for one in jobs.values():
            length = {"netgang.io/expected-duration": f"{one.length_s}s"}
            await queueing.create_gang(one.name, one.size, gated=True, annotations=length)
        await queueing.api.until(left, lambda found: not found, what="all gangs have ended", limit_s=LIMIT_S)
    await _promises_are_kept(jobs, netgang, delay_s=DELAY_S * slowness())


async def _run(stage: Stage, jobs: Mapping[str, Job]) -> None:
    async with asyncio.TaskGroup() as ends:
        async for change, pod in stage.api.watch("Pod", namespace=stage.namespace):
            name = name_of(pod)
            job, node = jobs[gang_of(name)], pod["spec"].get("nodeName")
            if change == "DELETED" or node is None:
                continue
            job.on[name] = node
            if len(job.on) == job.size and job.started_s is None:
                job.started_s = now_s()
            if pod["status"].get("phase") != "Running" or name in job.running:
                continue
            job.running.add(name)  # an end that is written before would be overwritten by kwok
            if len(job.running) == job.size:
                ends.create_task(_end(stage, job))


async def _end(stage: Stage, job: Job) -> None:
    await asyncio.sleep(max(job.start_s + job.length_s - now_s(), 0.0))  # the work of its pods
    await asyncio.gather(*(stage.patch_pod(name, status={"phase": "Succeeded"}) for name in job.on))
    job.ended_s = now_s()


async def _promises_are_kept(jobs: Mapping[str, Job], netgang: Netgang, *, delay_s: float) -> None:
    async with httpx.AsyncClient(timeout=30.0) as client:
        log = (await client.get(f"{netgang.debug_url}/v1/record")).raise_for_status().content
    promised: dict[str, tuple[float, float]] = {}  # gang → when it was promised a start first, and the start
    admitted_s: dict[str, float] = {}  # gang → when it was admitted first
    for one in decisions(log):
        if (promise := one.made.promise) is not None:
            promised.setdefault(promise.gang.partition("/")[2], (one.at_s, promise.first_s))
        for key in one.made.admitted:
            admitted_s.setdefault(key.partition("/")[2], one.at_s)

    def later_s(one: Job, at_s: float) -> float:
        """By how much it ended later than the plan took it to; without a node then, it starts when it is admitted."""
        outlived_s = one.end_s - one.start_s - one.length_s
        return outlived_s + (one.start_s - admitted_s[one.name] if one.start_s > at_s else 0.0)

    assert len(promised) >= 5, promised
    for name, (at_s, first_s) in promised.items():
        job = jobs[name]
        late_s = job.start_s - first_s
        ahead = [one for one in jobs.values() if one is not job and one.start_s < job.start_s and one.end_s > at_s]
        error_s, longest = max(((later_s(one, at_s), one.name) for one in ahead), default=(0.0, "none"))
        shared = [one for one in jobs.values() if one is not job and not {*one.on.values()}.isdisjoint(job.on.values())]
        free_s = max((one.end_s for one in shared if one.end_s <= job.start_s), default=0.0)  # all its nodes
        own_s = job.start_s - max(free_s, at_s)
        say(
            f"{name}: promised {first_s - at_s:.1f} s ahead, started {late_s:+.2f} s from then; of the gangs ahead "
            f"{longest} ended latest, {error_s:+.2f} s; from free nodes to its last bound pod {own_s:.2f} s"
        )
        assert own_s <= delay_s, f"{name}: {own_s:.2f} s from room to bound pods"
        assert late_s <= max(error_s, 0.0) + own_s + TOLERANCE_S, f"{name}: the promise is broken"
