"""Elastic jobs: a running one gives up workers for a heavier job, and gets them back (PAPERS K4, K5)."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from time import monotonic

import msgspec
import pytest

from lab.testbed.api import Object
from lab.testbed.beside import beside
from lab.testbed.objects import zone_nodes
from lab.testbed.parts.operator import start_operator, tf_job
from tests.e2e.objects import budget, indexed_job, name_of, runs
from tests.e2e.site import lasting_site_on
from tests.e2e.stage import Stage, say

pytestmark = pytest.mark.timeout(240)

LIMIT_S = 90.0
SETTINGS = {"elastic": {"condition": "lighter", "cool_down_s": 2, "increment": None}}
JOBS = ("Job", "TFJob")
lasting, site = lasting_site_on(zone_nodes({"a": 2}, cpu="4", prefix="n"), SETTINGS, kinds=JOBS)


async def until_running(site: Stage, job: str, count: int, *, limit_s: float = LIMIT_S) -> list[str]:
    def all_run(pods: list[Object]) -> bool:
        return len(pods) == count == sum(map(runs, pods))

    return sorted(map(_short, await site.until_pods(all_run, f"{count} of {job} run", begin=job, limit_s=limit_s)))


class Watched(msgspec.Struct):
    uids: dict[str, set[str]] = {}  # pod → all uids that it had
    counts: list[int] = []  # worker counts of its spec, each once in a row
    conditions: set[str] = set()  # types of conditions that were True after it first ran
    minimums: set[int] = set()  # minMember of its PodGroup

    async def until(self, site: Stage, accept: Callable[["Watched"], bool], what: str) -> None:
        async def seen() -> Watched:
            return self

        await site.api.until(seen, accept, what=what, limit_s=LIMIT_S)


@asynccontextmanager
async def watched(site: Stage, kind: str, name: str) -> AsyncIterator[Watched]:
    seen = Watched()

    async def look_at_the_job() -> None:
        async for _, job in site.api.watch(kind, namespace=site.namespace):  # each state, however short
            if name_of(job) != name:
                continue
            workers = WORKERS[kind](job)
            if seen.counts[-1:] != [workers]:
                seen.counts.append(workers)
            held = {one["type"] for one in job.get("status", {}).get("conditions", []) if one["status"] == "True"}
            if "Running" in held or "Running" in seen.conditions:
                seen.conditions |= held

    async def look_at_its_pods() -> None:
        while True:
            for one in await site.pods(name):
                seen.uids.setdefault(_short(one), set()).add(one["metadata"]["uid"])
            groups = await site.api.list_all("PodGroup", namespace=site.namespace)
            seen.minimums |= {one["spec"]["minMember"] for one in groups if name_of(one) == name}
            await asyncio.sleep(0.1)

    async with beside(look_at_the_job()), beside(look_at_its_pods()):
        yield seen


WORKERS: dict[str, Callable[[Object], int]] = {  # kind → worker count of a job's spec
    "Job": lambda job: int(job["spec"]["parallelism"]),
    "TFJob": lambda job: int(job["spec"]["tfReplicaSpecs"]["Worker"]["replicas"]),
}


class Pair(msgspec.Struct, frozen=True):
    kind: str
    low: Callable[[str], Object]
    heavy: Callable[[str], Object]
    low_pods: int
    left: tuple[str, ...]  # pods of the first while the second, of five, runs
    shrinks: tuple[int, ...]  # its worker counts until the second has its room; then it grows back to the first of them


PAIRS = {
    "Indexed Job": Pair(
        kind="Job",
        low=lambda namespace: job("low", namespace, 6, least=2),
        heavy=lambda namespace: job("heavy", namespace, 5, least=5),
        low_pods=6,
        left=("low-0", "low-1", "low-2"),
        shrinks=(6, 3),
    ),
    "TFJob": Pair(
        kind="TFJob",
        low=lambda namespace: tf_job("low", workers=6, least=3, namespace=namespace),
        heavy=lambda namespace: tf_job("heavy", workers=4, namespace=namespace),
        low_pods=7,
        left=("low-ps-0", "low-worker-0", "low-worker-1"),
        shrinks=(6, 5, 4, 3, 2),
    ),
}


@pytest.mark.parametrize("pair", PAIRS.values(), ids=PAIRS)
async def test_a_job_gives_way_and_grows_back(site: Stage, pair: Pair) -> None:
    """It shrinks to what a heavier job needs and not below its minimum; a third job that comes meanwhile gets nothing.

    A budget that allows no disruption changes nothing: operators delete their own pods without asking it.
    """
    await site.api.create(budget("keep", site.namespace))
    if pair.kind != "Job":
        await start_operator(site.cluster)
    await site.api.create(pair.low(site.namespace))
    before = await until_running(site, "low", pair.low_pods)
    async with watched(site, pair.kind, "low") as low:
        await site.api.create(pair.heavy(site.namespace))
        await low.until(site, lambda seen: len(seen.counts) > 1, "low is patched")
        began_s = monotonic()
        await site.api.create(job("small", site.namespace, 1, least=1))
        async with watched(site, pair.kind, "heavy") as heavy:
            gone = set(before) - set(pair.left)
            await site.until_pods(lambda found: not {*map(_short, found)} & gone, f"{gone} gone", limit_s=LIMIT_S)
            gone_s = monotonic()
            await until_running(site, "heavy", 5, limit_s=20.0)
            say(f"patch to gone {gone_s - began_s:.1f} s, gone to running {monotonic() - gone_s:.1f} s")
            assert await until_running(site, "low", len(pair.left)) == list(pair.left)
            assert await site.running("small") == {}
            if pair.kind != "Job":
                await heavy.until(site, lambda seen: "Running" in seen.conditions, "heavy is called Running")
        await site.api.delete(pair.kind, "heavy", namespace=site.namespace)
        await until_running(site, "small", 1)
        assert await until_running(site, "low", pair.low_pods) == before
        await low.until(site, lambda seen: seen.counts[-1] == pair.shrinks[0], "the watch")
    assert low.counts[: len(pair.shrinks)] == list(pair.shrinks)
    grown = low.counts[len(pair.shrinks) :]  # by as much at a time as there is room when heavy's pods go one by one
    assert grown == sorted(set(grown))
    assert (grown[-1], grown[0] > pair.shrinks[-1]) == (pair.shrinks[0], True)
    assert all(len(low.uids[name]) == 1 for name in pair.left)
    if pair.kind != "Job":
        for watch in (low, heavy):  # the operator's own update loses Created when another came first
            assert watch.conditions - {"Created"} == {"Running"}
        assert low.minimums == {3}, "that of its PodGroup, at all times"


def job(name: str, namespace: str, workers: int, *, least: int) -> Object:
    said = {"netgang.io/min-workers": str(least)}
    return indexed_job(name, namespace, workers, least=least, gated=False, ends_after="1s", annotations=said)


def _short(one: Object) -> str:
    of_job = "batch.kubernetes.io/job-name" in one["metadata"].get("labels", {})
    return name_of(one).rpartition("-")[0] if of_job else name_of(one)
