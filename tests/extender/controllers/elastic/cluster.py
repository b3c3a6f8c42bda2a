"""A cluster in memory in which Indexed Jobs get pods, pods get nodes, and deleted pods take a while to end.

Job controller, kube-scheduler and kubelets are three loops in virtual time, which do what the real ones do as far as
resizing goes.
"""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from itertools import count
from typing import Any

import msgspec

from extender.controllers.removals import QUIET_S
from extender.convert.wire import Passed
from extender.kube.calls import OWNERS, PODS
from scoring import GangKey
from scoring.feasibility.quorum import quorum_of
from tests.extender.beside import playing
from tests.extender.scheduling.world import World, node_json, pod_json, unfinished
from tests.fakes.cluster_api import FakeClusterApi

JOBS = OWNERS["batch", "Job"]
ENDS_S = 2.0  # how long a pod takes to end
ELASTIC: dict[str, Any] = {"enabled": True, "condition": "lighter", "cool_down_s": 0.0, "increment": None}
CPUS = 4  # of a node; each pod asks for one
LEAK_S = 5.0  # longest time for which room may be kept for who needs none any more
NAME, INDEX = "batch.kubernetes.io/job-name", "batch.kubernetes.io/job-completion-index"
_TICK_S = 0.2
_TICKS_A_TRY = 5


class Site(msgspec.Struct):
    world: World
    asleep: set[str] = set()  # Jobs whose pods kube-scheduler does not try
    stuck: set[str] = set()  # pods that do not end
    _idle_s: dict[str, float] = {}  # gang that needs no kept room any more → since when
    _ends_s: dict[str, float] = {}  # uid of a deleted pod → when it is gone

    @property
    def api(self) -> FakeClusterApi:
        return self.world.api

    def create(self, name: str, workers: int, *, least: int, annotations: dict[str, str] | None = None) -> None:
        labels = pod_json(name, gang=name, size=least)["metadata"]["labels"]
        annotations = {"netgang.io/min-workers": str(least), **(annotations or {})}
        metadata = {"name": name, "annotations": annotations, "creationTimestamp": "2023-11-14T00:00:00Z"}
        counts = {"completionMode": "Indexed", "parallelism": workers, "completions": workers}
        spec = {**counts, "template": {"metadata": {"labels": labels}}}
        self.api.add({"apiVersion": "batch/v1", "kind": "Job", "metadata": metadata, "spec": spec})

    def workers(self, name: str) -> int:
        return int(self.api.store.get(JOBS, "default", name)["spec"]["parallelism"])

    def scale(self, name: str, workers: int) -> None:
        counts = {"parallelism": workers, "completions": workers}
        self.api.store.merge_patch(JOBS, "default", name, {"spec": counts})

    def end(self, name: str) -> None:
        self.api.remove(name, kind="Job")

    def on_nodes(self, job: str) -> list[int]:
        there = [one for one in self.pods(job) if "deletionTimestamp" not in one["metadata"]]
        return sorted(int(one["metadata"]["labels"][INDEX]) for one in there if one["spec"].get("nodeName"))

    def pods(self, job: str = "") -> list[dict[str, Any]]:
        found = [msgspec.json.decode(body) for body in self.api.store.bodies(PODS).values()]
        return [one for one in found if job in ("", one["metadata"]["labels"][NAME])]

    def names(self, job: str) -> list[str]:
        return [pod["metadata"]["name"] for pod in self.pods(job)]

    async def heavy_runs(self, *, limit_s: float = 60.0) -> None:
        await self.until("heavy runs", lambda: len(self.on_nodes("heavy")) == 5, limit_s=limit_s)

    async def nothing_is_kept(self) -> None:
        await self.until("nothing is kept any more", lambda: not self.claims, limit_s=5.0)

    @property
    def claims(self) -> dict[str, dict[str, str]]:
        claims = self.world.service.cache.snapshot().claims
        return {key: {str(u): str(n) for u, n in one.assignment.items()} for key, one in claims.items()}

    async def until_quiet_is_over(self) -> None:
        await self.world.settle(QUIET_S + 1.0)

    async def until(self, what: str, accept: Any, *, limit_s: float = 60.0) -> None:
        until_s = self.world.now_s + limit_s
        while not accept():
            assert self.world.now_s < until_s, f"{what}: not within {limit_s:g} s"
            await self.world.settle(_TICK_S)

    async def runs(self, name: str, workers: int, *, least: int, annotations: dict[str, str] | None = None) -> None:
        self.create(name, workers, least=least, annotations=annotations)
        await self.until(f"{name} runs", lambda: len(self.on_nodes(name)) == workers)

    async def low_runs(self) -> None:
        """Six workers of which two suffice, on all of six CPUs that are not left free, and the quiet time is over."""
        await self.runs("low", 6, least=2)
        await self.until_quiet_is_over()

    async def gives_way(self, *, limit_s: float = 60.0) -> None:
        """A gang of five comes, for which low is patched."""
        self.create("heavy", 5, least=5)
        await self.until("low is patched", lambda: self.workers("low") == 3, limit_s=limit_s)

    async def act(self) -> None:
        """Job controller and kubelets five times a second, kube-scheduler once."""
        for tick in count():
            jobs = {name: msgspec.json.decode(body) for (_, name), body in self.api.store.bodies(JOBS).items()}
            for name, job in jobs.items():
                self._sync(name, int(job["spec"]["completions"]), job)
            for pod in self.pods():
                if pod["metadata"]["labels"][NAME] not in jobs:
                    self._delete(pod)
                self._kubelet(pod)
            if tick % _TICKS_A_TRY == 0:
                for pod in self.pods():
                    self._schedule(pod)
            self._nothing_leaks()
            await asyncio.sleep(_TICK_S)

    def _nothing_leaks(self) -> None:
        """Room is kept for gangs that wait, and nodes hold no more than they can; else an AssertionError."""
        now_s, gangs = self.world.now_s, self.world.service.cache.snapshot().gangs
        idle = [key for key in self.claims if key not in gangs or quorum_of(gangs[GangKey(key)]).whole]
        self._idle_s = {key: self._idle_s.get(key, now_s) for key in idle}
        assert all(now_s - since_s < LEAK_S for since_s in self._idle_s.values()), f"room is kept for {idle}"
        on_nodes = Counter(pod["spec"]["nodeName"] for pod in self.pods() if pod["spec"].get("nodeName"))
        assert all(count <= CPUS for count in on_nodes.values()), on_nodes

    def _sync(self, name: str, completions: int, job: dict[str, Any]) -> None:
        there: set[int] = set()
        for pod in self.pods(name):
            index = int(pod["metadata"]["labels"][INDEX])
            if index >= completions:
                self._delete(pod)
            elif "deletionTimestamp" not in pod["metadata"]:
                there.add(index)
        labels = job["spec"]["template"]["metadata"]["labels"]
        for index in sorted(set(range(completions)) - there):
            made = pod_json(f"{name}-{index}-{self.api.store.version}")
            made["metadata"]["creationTimestamp"] = datetime.fromtimestamp(self.world.clock.now_s(), UTC).isoformat()
            made["metadata"]["labels"] = {**labels, NAME: name, INDEX: str(index)}
            self.api.add(made)

    def _delete(self, pod: dict[str, Any]) -> None:
        if "deletionTimestamp" not in pod["metadata"]:
            pod["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
            self.api.add(pod)
            self._ends_s[pod["metadata"]["uid"]] = self.world.now_s + ENDS_S

    def _kubelet(self, pod: dict[str, Any]) -> None:
        meta = pod["metadata"]
        if "deletionTimestamp" in meta:
            if self.world.now_s >= self._ends_s.get(meta["uid"], 0.0) and meta["name"] not in self.stuck:
                self.api.remove(meta["name"])
        elif pod["spec"].get("nodeName") and pod.get("status", {}).get("phase") != "Running":
            self.world.change(meta["name"], phase="Running")

    def _schedule(self, pod: dict[str, Any]) -> None:
        name = pod["metadata"]["name"]
        waits = "deletionTimestamp" not in pod["metadata"] and not pod["spec"].get("nodeName")
        at_bind = any(call.pod == name and call.waits for call in self.world.calls)
        if not waits or at_bind or pod["metadata"]["labels"][NAME] in self.asleep:
            return
        answer = self.world.filter(name)
        if isinstance(answer, Passed) and answer.names:
            self.world.bind(name, answer.names[0])


@asynccontextmanager
async def site(
    *, api: FakeClusterApi | None = None, nodes: int = 2, elastic: dict[str, Any] | None = None, **settings: Any
) -> AsyncIterator[Site]:
    """Nodes of four CPUs with netgang and everything that acts; with `api` they go on where another block ended."""
    objects = [] if api is not None else [node_json(f"n{number}", cpu=str(CPUS)) for number in range(nodes)]
    fake = api if api is not None else FakeClusterApi()
    fake.store.install(JOBS)
    async with unfinished(*objects, api=fake, elastic={**ELASTIC, **(elastic or {})}, **settings) as world:
        made = Site(world)
        async with playing(made.act()):
            yield made


@asynccontextmanager
async def full(**how: Any) -> AsyncIterator[Site]:
    async with site(**how) as here:
        await here.low_runs()
        yield here
