"""Elastic jobs: a running one gives up workers for a heavier job, and gets them back (PAPERS K4, K5).

The operators, the schedulers and the API server are real; kwok plays the kubelets, and pods take a second to end.
Nothing is resized in the first half minute of a process, so these tests take that long.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from time import monotonic
from typing import Any
from uuid import uuid4

import pytest

from testbed.api import Api, Object
from testbed.cluster import Cluster
from testbed.objects import namespace as namespace_object
from testbed.objects import zone_nodes
from testbed.parts.operator import allow_updates, pytorch_job, refuse_updates, start_operator, tf_job
from testbed.parts.service import ROOT, Netgang, start_netgang, start_second_scheduler
from tests.e2e.invariants import until_nothing_is_promised
from tests.e2e.objects import indexed_job
from tests.e2e.stage import say

pytestmark = pytest.mark.timeout(240)

OURS = "netgang"
GATE = "netgang.io/gang"
LIMIT_S = 90.0
SETTINGS: dict[str, Any] = {"elastic": {"enabled": True, "cool_down_s": 2, "decrement": None, "increment": None}}


@dataclass(frozen=True, slots=True)
class Site:
    """A cluster with controllers, netgang and its scheduler; two nodes of four CPUs in zone a."""

    cluster: Cluster
    api: Api
    netgang: Netgang
    namespace: str

    async def pods(self) -> list[Object]:
        """All pods of the namespace."""
        return await self.api.list_all("Pod", namespace=self.namespace)

    async def running(self, job: str = "") -> list[str]:
        """Names of a job's pods that run and are not told to end; of Jobs without their random ending."""
        return sorted(
            _short(one)
            for one in await self.pods()
            if one["status"].get("phase") == "Running"
            and "deletionTimestamp" not in one["metadata"]
            and one["metadata"]["name"].startswith(job)
        )

    async def until_running(self, job: str, count: int, *, limit_s: float = LIMIT_S) -> list[str]:
        """Wait until exactly `count` pods of the job run and no other of its pods is there."""

        async def found() -> tuple[int, list[str]]:
            everybody = [one for one in await self.pods() if one["metadata"]["name"].startswith(job)]
            return len(everybody), await self.running(job)

        _, names = await self.api.until(
            found, lambda seen: seen[0] == len(seen[1]) == count, what=f"{count} pods of {job}", limit_s=limit_s
        )
        return names

    async def events(self, reason: str) -> dict[str, str]:
        """Events of netgang's: object → note."""
        found = await self.api.list_all("Event", namespace=self.namespace, fields=f"reason={reason}")
        return {one["involvedObject"]["name"]: one["message"] for one in found}


@pytest.fixture
async def site(controlled_cluster: Cluster, controlled_api: Api) -> AsyncIterator[Site]:
    """Stopped and emptied afterwards."""
    name = f"elastic-{uuid4().hex[:6]}"
    await controlled_api.create(namespace_object(name))
    await controlled_api.apply(ROOT / "manifests/components/elastic/rbac.yaml")
    await controlled_cluster.add_nodes(zone_nodes({"a": 2}, cpu="4", prefix="n"))
    before = set(controlled_cluster.parts)
    netgang = await start_netgang(controlled_cluster, SETTINGS)
    await start_second_scheduler(controlled_cluster, netgang)
    yield Site(controlled_cluster, controlled_api, netgang, name)
    for kind in ("Job", "TFJob", "PyTorchJob"):
        with suppress(Exception):
            await controlled_api.delete_all(kind, namespace=name)
    for part in [one for one in controlled_cluster.parts if one not in before]:
        await controlled_cluster.remove(part)
    await controlled_api.delete("Namespace", name)


@dataclass(slots=True)
class Watched:
    """What was seen of a job's pods and of the job while a scenario ran."""

    uids: dict[str, set[str]] = field(default_factory=dict)
    """pod → all uids that it had"""
    counts: list[int] = field(default_factory=list)
    """Worker counts of its spec, each once in a row"""
    conditions: set[str] = field(default_factory=set)
    """Types of conditions that were True after it first ran"""
    minimums: set[int] = field(default_factory=set)
    """minMember of its PodGroup"""


@asynccontextmanager
async def watched(site: Site, kind: str, name: str) -> AsyncIterator[Watched]:
    """Look at a job ten times a second while the block runs."""
    seen = Watched()

    async def look() -> None:
        while True:
            job = await site.api.get(kind, name, namespace=site.namespace)
            workers = WORKERS[kind](job)
            if seen.counts[-1:] != [workers]:
                seen.counts.append(workers)
            held = {one["type"] for one in job.get("status", {}).get("conditions", []) if one["status"] == "True"}
            if "Running" in held or "Running" in seen.conditions:
                seen.conditions |= held
            for one in await site.pods():
                if one["metadata"]["name"].startswith(name):
                    seen.uids.setdefault(_short(one), set()).add(one["metadata"]["uid"])
            for group in await site.api.list_all("PodGroup", namespace=site.namespace):
                if group["metadata"]["name"] == name:
                    seen.minimums.add(group["spec"]["minMember"])
            await asyncio.sleep(0.1)

    looking = asyncio.create_task(look(), name=f"watch {name}")
    try:
        yield seen
        assert not looking.done(), "the watch ended by itself"
    finally:
        looking.cancel()
        with suppress(asyncio.CancelledError):
            await looking


WORKERS: dict[str, Callable[[Object], int]] = {
    # kind → worker count of a job's spec
    "Job": lambda job: int(job["spec"]["parallelism"]),
    "TFJob": lambda job: int(job["spec"]["tfReplicaSpecs"]["Worker"]["replicas"]),
    "PyTorchJob": lambda job: int(job["spec"]["pytorchReplicaSpecs"]["Worker"]["replicas"]),
}


@dataclass(frozen=True, slots=True)
class Pair:
    """A job that fills the cluster, and a heavier one that comes later; what the first shrinks to."""

    kind: str
    low: Callable[[str], Object]
    heavy: Callable[[str], Object]
    low_pods: int
    heavy_pods: int
    left: tuple[str, ...]
    """Pods of the first while the second runs"""
    shrinks: tuple[int, ...]
    """Its worker counts until the second has its room; then it grows back to the first of them"""
    minimum: int | None = None
    """Of its PodGroup, at all times"""


PAIRS = {
    "Indexed Job": Pair(
        kind="Job",
        low=lambda namespace: job("low", namespace, 6, least=2),
        heavy=lambda namespace: job("heavy", namespace, 5, least=5),
        low_pods=6,
        heavy_pods=5,
        left=("low-0", "low-1", "low-2"),
        shrinks=(6, 3),
    ),
    "TFJob": Pair(
        kind="TFJob",
        low=lambda namespace: tf_job("low", workers=6, least=3, namespace=namespace),
        heavy=lambda namespace: tf_job("heavy", workers=4, namespace=namespace),
        low_pods=7,
        heavy_pods=5,
        left=("low-ps-0", "low-worker-0", "low-worker-1"),
        shrinks=(6, 5, 4, 3, 2),
        minimum=3,
    ),
    "PyTorchJob": Pair(
        kind="PyTorchJob",
        low=lambda namespace: pytorch_job("low", workers=6, min_workers=2, namespace=namespace, gates=[GATE]),
        heavy=lambda namespace: pytorch_job("heavy", workers=5, min_workers=5, namespace=namespace, gates=[GATE]),
        low_pods=6,
        heavy_pods=5,
        left=("low-worker-0", "low-worker-1", "low-worker-2"),
        shrinks=(6, 3),
        minimum=2,
    ),
}


@pytest.mark.parametrize("pair", PAIRS.values(), ids=PAIRS)
async def test_a_job_gives_way_and_grows_back(site: Site, pair: Pair) -> None:
    """It shrinks to what a heavier job needs and not below its minimum; a third job that comes meanwhile gets nothing.

    The heavier job starts whole within seconds after the removed pods are gone. When it ends, the third starts and the
    first has all its workers again. Neither of the first two is ever anything but Running. A budget that allows no
    disruption changes nothing: operators delete their own pods without asking it.
    """
    await site.api.create(_no_disruption(site.namespace))
    if pair.kind != "Job":
        await start_operator(site.cluster)
    await site.api.create(pair.low(site.namespace))
    before = await site.until_running("low", pair.low_pods)
    async with watched(site, pair.kind, "low") as low:
        await site.api.create(pair.heavy(site.namespace))
        await site.api.until(
            lambda: _counts_of(low), lambda seen: len(seen) > 1, what="low is patched", limit_s=LIMIT_S
        )
        began_s = monotonic()
        await site.api.create(job("small", site.namespace, 1, least=1))
        async with watched(site, pair.kind, "heavy") as heavy:
            await _until_gone(site, sorted(set(before) - set(pair.left)))
            gone_s = monotonic()
            await site.until_running("heavy", pair.heavy_pods, limit_s=20.0)
            say(f"patch to gone {gone_s - began_s:.1f} s, gone to running {monotonic() - gone_s:.1f} s")
            assert await site.until_running("low", len(pair.left)) == list(pair.left)
            assert await site.running("small") == []
            if pair.kind != "Job":
                await site.api.until(
                    lambda: _conditions_of(heavy), lambda seen: "Running" in seen, what="heavy is called Running"
                )
        await site.api.delete(pair.kind, "heavy", namespace=site.namespace)
        await site.until_running("small", 1)
        assert await site.until_running("low", pair.low_pods) == before
        await site.api.until(lambda: _counts_of(low), lambda seen: seen[-1] == pair.shrinks[0], what="the watch")
    assert low.counts[: len(pair.shrinks)] == list(pair.shrinks)
    grown = low.counts[len(pair.shrinks) :]  # by as much at a time as there is room when heavy's pods go one by one
    assert grown == sorted(set(grown))
    assert (grown[-1], grown[0] > pair.shrinks[-1]) == (pair.shrinks[0], True)
    assert all(len(low.uids[name]) == 1 for name in pair.left)
    if pair.kind != "Job":
        assert low.conditions == heavy.conditions == {"Created", "Running"}
        assert low.minimums == {pair.minimum}


def _no_disruption(namespace: str) -> Object:
    """A budget over all pods."""
    return {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": {"name": "keep", "namespace": namespace},
        "spec": {"maxUnavailable": 0, "selector": {}},
    }


async def test_a_job_that_must_not_be_resized_keeps_its_workers(site: Site) -> None:
    """A TFJob without enableDynamicWorker would fail: nothing is patched, and an Event on it says why.

    The same for one that an autoscaler scales, and for a gang that would not fit even if everybody gave way.
    """
    await start_operator(site.cluster)
    await site.api.create(tf_job("low", workers=3, least=2, namespace=site.namespace, dynamic=False))
    await site.api.create(job("scaled", site.namespace, 2, least=1))
    await site.api.create(_autoscaler("scaled", site.namespace))
    await site.api.create(job("small", site.namespace, 2, least=1))
    await site.until_running("low", 4)
    await site.until_running("scaled", 2)
    await site.until_running("small", 2)
    specs = [(await site.api.get(kind, name, namespace=site.namespace))["spec"] for kind, name in _ALL]
    await site.api.create(job("heavy", site.namespace, 4, least=4))
    notes = await site.api.until(
        lambda: site.events("JobNotResized"), lambda found: len(found) == 2, what="two Events", limit_s=LIMIT_S
    )
    assert "enableDynamicWorker" in notes["low"]
    assert "HorizontalPodAutoscaler" in notes["scaled"]
    for _ in range(32):  # the quiet time and some rounds after it
        await asyncio.sleep(1.0)
        assert await site.running("heavy") == []
    assert specs == [(await site.api.get(kind, name, namespace=site.namespace))["spec"] for kind, name in _ALL]


_ALL = (("TFJob", "low"), ("Job", "scaled"), ("Job", "small"))


def _autoscaler(job: str, namespace: str) -> Object:
    """A HorizontalPodAutoscaler that names a Job; nobody runs it."""
    return {
        "apiVersion": "autoscaling/v2",
        "kind": "HorizontalPodAutoscaler",
        "metadata": {"name": job, "namespace": namespace},
        "spec": {"maxReplicas": 3, "scaleTargetRef": {"apiVersion": "batch/v1", "kind": "Job", "name": job}},
    }


async def test_refused_then_killed_and_still_once(site: Site) -> None:
    """A webhook refuses the change until it does not; then netgang dies between the patch and the start.

    The job is shrunk once, the heavier one starts on the room that was freed, and a third gets none of it.
    """
    await site.api.create(job("low", site.namespace, 6, least=2, ends_after="6s"))
    await site.until_running("low", 6)
    await refuse_updates(site.api, "jobs")
    try:
        async with watched(site, "Job", "low") as low:
            await site.api.create(job("heavy", site.namespace, 5, least=5))
            notes = await site.api.until(
                lambda: site.events("JobNotResized"), lambda found: bool(found), what="the refusal", limit_s=LIMIT_S
            )
            assert "API server refuses" in notes["low"]
            await allow_updates(site.api)
            await site.api.until(
                lambda: _counts_of(low), lambda seen: seen == [6, 3], what="low is patched", limit_s=LIMIT_S
            )
            await site.cluster.restart(site.netgang.part.name, crash=True)
            await site.api.create(job("small", site.namespace, 1, least=1))
            await site.until_running("heavy", 5)
            assert await site.running("small") == []
            await asyncio.sleep(35.0)  # the quiet time of the new process, and more
            assert (low.counts, await site.running("small")) == ([6, 3], [])
            await site.api.delete("Job", "heavy", namespace=site.namespace)
            await site.until_running("small", 1)
            await site.until_running("low", 6)
            await until_nothing_is_promised(site.api, site.netgang)
    finally:
        await allow_updates(site.api)


async def test_a_job_deleted_in_the_middle_leaves_nothing_kept(site: Site) -> None:
    """The heavier job starts on the room, and what it does not need is free for others at once."""
    await site.api.create(job("low", site.namespace, 6, least=2, ends_after="4s"))
    await site.until_running("low", 6)
    async with watched(site, "Job", "low") as low:
        await site.api.create(job("heavy", site.namespace, 5, least=5))
        await site.api.until(lambda: _counts_of(low), lambda seen: seen == [6, 3], what="patched", limit_s=LIMIT_S)
    await site.api.delete("Job", "low", namespace=site.namespace)
    await site.until_running("heavy", 5)
    await site.api.create(job("small", site.namespace, 3, least=3))
    await site.until_running("small", 3, limit_s=15.0)
    await until_nothing_is_promised(site.api, site.netgang)


async def _counts_of(seen: Watched) -> list[int]:
    return seen.counts


async def _conditions_of(seen: Watched) -> set[str]:
    return seen.conditions


async def _until_gone(site: Site, names: list[str]) -> None:
    """Wait until no pod has one of these names."""

    async def left() -> set[str]:
        return {_short(one) for one in await site.pods()} & set(names)

    await site.api.until(left, lambda found: not found, what=f"{names} gone", limit_s=LIMIT_S)


def job(name: str, namespace: str, workers: int, *, least: int, ends_after: str = "1s") -> Object:
    """An Indexed Job of one-CPU workers, ungated, whose gang needs `least`."""
    return indexed_job(name, namespace, workers, least=least, gated=False, ends_after=ends_after)


def _short(one: Object) -> str:
    """The pod's name, of a Job's pod without the random part."""
    name: str = one["metadata"]["name"]
    of_job = "batch.kubernetes.io/job-name" in one["metadata"].get("labels", {})
    return name.rpartition("-")[0] if of_job else name
