"""Runs a scenario on the test bed of `lab.bench.peers` and reads where its pods are after each step.

Rule: only nodes of pods are read; no scheduler's own account counts. A step is over when every pod is bound, or when no
pod has moved for a while: `WINDOW_S`, several cycles of the slowest scheduler here (Volcano's takes a second). While a
job lacks pods it is `JOB_S`, after which kube-scheduler has tried each pod again (five minutes and half a minute). So a
slow machine makes a run longer, and changes a verdict only if a scheduler pauses for that long in its work.
"""

import random
from collections import Counter
from collections.abc import AsyncGenerator, Mapping, Sequence
from time import perf_counter
from typing import Any

import msgspec

from lab.bench.exam.scenarios import Job, Scenario, Step
from lab.bench.peers.bed import Bed, bed
from lab.bench.peers.watch import PodTimes
from lab.bench.peers.ways import Way
from lab.bench.peers.workloads import NAMESPACE, gang_of
from lab.testbed.api import Object

Placed = Mapping[str, Sequence[str]]
"""job → the node of each of its pods that is bound"""
WINDOW_S = 4.0
JOB_S = 340.0


async def taken(scenario: Scenario, ways: Sequence[Way], *, times: int) -> list[dict[str, Any]]:
    """Run a scenario with all ways; a line for each: the verdict, the misses in words, seconds of the longest run."""
    made = [run async for run in runs(scenario, ways, times=times)]
    lines = []
    for way in ways:
        mine = [run for run in made if run.way == way.name]
        about = {"scenario": scenario.name, "source": scenario.source, "words": scenario.words, "way": way.name}
        misses, run_s = [run.miss for run in mine], max(run.seconds for run in mine)
        found = {"verdict": verdict(misses), "misses": sorted({*filter(None, misses)}), "runs": times, "run_s": run_s}
        lines.append({**about, "passes_if": scenario.passed, **found})
    return lines


class Run(msgspec.Struct, frozen=True):
    """What one run of one scheduler showed."""

    way: str
    miss: str | None
    """The first expectation that did not hold, in words; `None`: passed."""
    seconds: float


async def runs(scenario: Scenario, ways: Sequence[Way], *, times: int) -> AsyncGenerator[Run, None]:
    """Every way, so many times, the ways in turns on one control plane. The pods' order of arrival differs by run."""
    async with bed(list(scenario.nodes.values()), ways) as place:
        for seed in range(times):
            for way in ways:
                yield await _run(place, scenario, way, seed)


async def _run(place: Bed, scenario: Scenario, way: Way, seed: int) -> Run:
    order = random.Random(seed)
    miss: str | None = None
    cordoned: list[str] = []
    sizes: dict[str, int] = {}
    begun_s = perf_counter()
    try:
        async with place.run(way) as running:
            for number, step in enumerate(scenario.steps):
                await _end(place, step.ends)
                for name in step.cordoned:
                    await place.api.patch("Node", name, {"spec": {"unschedulable": True}})
                    cordoned.append(name)
                sizes = {job: size for job, size in sizes.items() if job not in step.ends}
                for job in order.sample(step.submitted, len(step.submitted)):
                    sizes[job.name] = job.size
                    objects = way.gang(job.name, members(job, way))
                    pods = [one for one in objects if one["kind"] == "Pod"]
                    order.shuffle(pods)
                    for one in (*objects[: -len(pods)], *pods):
                        await place.api.create(one)
                await _settle(running.times, sizes, step)
                if (miss := step_miss(scenario, number, await _placed(place))) is not None:
                    break  # what comes later changes no verdict
    finally:
        for name in cordoned:
            await place.api.patch("Node", name, {"spec": {"unschedulable": None}})
    return Run(way.name, miss, round(perf_counter() - begun_s, 1))


def members(job: Job, way: Way) -> list[Object]:
    """The job's pods for this way; they tolerate nothing, so that an unschedulable node is one."""
    policy = {"netgang.io/zone-policy": job.zone_policy} if job.zone_policy else {}
    room = {"cpu": job.cpu, "memory": job.memory, "gpu": job.gpu}
    made = way.members(job.name, job.size, NAMESPACE, annotations=policy, **room)
    return [{**one, "spec": {**one["spec"], "tolerations": []}} for one in made]


async def _end(place: Bed, jobs: Sequence[str]) -> None:
    """End the bound pods of jobs; one that never started has nothing to end."""
    for one in await place.api.list_all("Pod", namespace=NAMESPACE):
        name = one["metadata"]["name"]
        if gang_of(name) in jobs and one["spec"].get("nodeName"):
            await place.api.delete("Pod", name, namespace=NAMESPACE, grace_s=0)


async def _settle(times: PodTimes, sizes: Mapping[str, int], step: Step) -> None:
    """Wait until every pod of the jobs that are there is bound, or nothing moves any more."""
    wanted = {f"{job}-worker-{index}" for job, size in sizes.items() for index in range(size)}
    moved = True
    while moved and not times.bound_now >= wanted:
        before = times.moves
        counts = Counter(map(gang_of, times.bound_now))  # of a job with more pods than expected nothing is hoped for
        limit_s = JOB_S if any(counts[one.job] < one.bound for one in step.expected) else WINDOW_S
        moved = await times.until(lambda: times.moves != before, limit_s=limit_s)  # noqa: B023 - it is used up here


async def _placed(place: Bed) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for one in await place.api.list_all("Pod", namespace=NAMESPACE):
        if (node := one["spec"].get("nodeName")) and "deletionTimestamp" not in one["metadata"]:
            found.setdefault(gang_of(one["metadata"]["name"]), []).append(node)
    return {job: sorted(nodes) for job, nodes in sorted(found.items())}


def step_miss(scenario: Scenario, number: int, placed: Placed) -> str | None:
    """The first expectation of step `number` (from 0) that does not hold, in words; `None`: all hold."""
    step, words = scenario.steps[number], f"step {number + 1}"
    for expected in step.expected:
        nodes = placed.get(expected.job, ())
        if len(nodes) != expected.bound:
            return f"{words}: {len(nodes)} pods of {expected.job} bound, expected {expected.bound}"
        if expected.nodes is not None and set(nodes) != expected.nodes:
            return f"{words}: {expected.job} on {', '.join(sorted(set(nodes)))}"
    return None


def verdict(misses: Sequence[str | None]) -> str:
    """What several runs say together.

    >>> verdict([None, None]), verdict(["step 1: …"]), verdict([None, None, "step 1: …"])
    ('passed', 'missed', '2 of 3')
    """
    passed = sum(one is None for one in misses)
    if misses and passed == len(misses):
        return "passed"
    return f"{passed} of {len(misses)}" if passed else "missed"
