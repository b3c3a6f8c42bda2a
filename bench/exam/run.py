"""Runs a scenario on the test bed of `bench.peers` and reads where its pods are after each step.

Rule: only nodes of pods are read; no scheduler's own account counts. That something is *not* bound can only be seen by
waiting: `WINDOW_S`, several cycles of the slowest scheduler here (Volcano's takes a second).
"""

import random
from collections.abc import AsyncGenerator, Sequence
from dataclasses import dataclass
from time import perf_counter

from bench.exam.scenarios import Job, Scenario
from bench.exam.verdict import Placed, first_miss
from bench.peers.bed import Bed, Running, bed
from bench.peers.ways import Way
from bench.peers.workloads import NAMESPACE, gang_of, unlabelled
from testbed.api import Object
from testbed.objects import gang_pods

WINDOW_S = 4.0
_ZONE_POLICY = "netgang.io/zone-policy"


@dataclass(frozen=True, slots=True)
class Run:
    """What one run of one scheduler showed."""

    way: str
    seed: int
    seen: tuple[Placed, ...]
    miss: str | None
    seconds: float


async def runs(scenario: Scenario, ways: Sequence[Way], *, times: int) -> AsyncGenerator[Run, None]:
    """Every way, so many times, the ways in turns on one control plane. The pods' order of arrival differs by run."""
    async with bed(scenario, ways) as place:
        for seed in range(times):
            for way in ways:
                yield await _run(place, scenario, way, seed)


async def _run(place: Bed[Scenario], scenario: Scenario, way: Way, seed: int) -> Run:
    order = random.Random(seed)
    seen: list[Placed] = []
    cordoned: list[str] = []
    sizes: dict[str, int] = {}
    begun_s = perf_counter()
    try:
        async with place.run(way) as running:
            for step in scenario.steps:
                await _end(place, step.ends)
                for name in step.cordoned:
                    await place.api.patch("Node", name, {"spec": {"unschedulable": True}})
                    cordoned.append(name)
                sizes = {job: size for job, size in sizes.items() if job not in step.ends}
                for job in step.submitted:
                    sizes[job.name] = job.size
                    await _submit(place, job, way, order)
                await _settle(running, sizes)
                seen.append(await _placed(place))
    finally:
        for name in cordoned:
            await place.api.patch("Node", name, {"spec": {"unschedulable": None}})
    return Run(way.name, seed, tuple(seen), first_miss(scenario, seen), round(perf_counter() - begun_s, 1))


async def _submit(place: Bed[Scenario], job: Job, way: Way, order: random.Random) -> None:
    groups = way.groups(job.name, job.size, NAMESPACE) if way.grouped else []
    pods = members(job, way)
    order.shuffle(pods)
    for one in (*groups, *pods):
        await place.api.create(one)


def members(job: Job, way: Way) -> list[Object]:
    """The job's pods as this way wants them; they tolerate nothing, so that an unschedulable node is one."""
    policy = {_ZONE_POLICY: job.zone_policy} if job.zone_policy else {}
    made = gang_pods(
        job.name,
        job.size,
        min_available=job.size,
        dialect=way.dialect,
        namespace=NAMESPACE,
        cpu=job.cpu,
        memory=job.memory,
        gpu=job.gpu,
        annotations={**way.annotations(job.name), **policy},
        scheduler=way.scheduler_name,
        gates=way.gates,
    )
    plain = [{**one, "spec": {**one["spec"], "tolerations": []}} for one in made]
    return [way.member(one, job.name) if way.grouped else unlabelled(one) for one in plain]


async def _end(place: Bed[Scenario], jobs: Sequence[str]) -> None:
    """Delete the bound pods of jobs; one that never started has nothing to end."""
    for one in await place.api.list_all("Pod", namespace=NAMESPACE):
        name = one["metadata"]["name"]
        if gang_of(name) in jobs and one["spec"].get("nodeName"):
            await place.api.delete("Pod", name, namespace=NAMESPACE, grace_s=0)


async def _settle(running: Running, sizes: dict[str, int]) -> None:
    """Wait until every pod of the jobs that are there is bound, `WINDOW_S` at most."""
    bound = running.times.bound_s

    def all_bound() -> bool:
        return all(f"{job}-worker-{index}" in bound for job, size in sizes.items() for index in range(size))

    await running.times.until(all_bound, limit_s=WINDOW_S)


async def _placed(place: Bed[Scenario]) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for one in await place.api.list_all("Pod", namespace=NAMESPACE):
        if node := one["spec"].get("nodeName"):
            found.setdefault(gang_of(one["metadata"]["name"]), []).append(node)
    return {job: sorted(nodes) for job, nodes in sorted(found.items())}
