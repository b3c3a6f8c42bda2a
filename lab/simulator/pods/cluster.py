"""Put a simulated cluster together: API server, kube-schedulers, kubelets, and the service.

The service is the real one (`extender.bootstrap.following`): planner, permit machine, queue, admission, repair and
scaling run as they do in a cluster, over the ports. A kubelet writes a pod's phase, and its end: a pod without a node
never comes to one. Rule: everything random is drawn from the run's seed, one stream for each part.
"""

import asyncio
import random
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

from extender.bootstrap import Service, following
from extender.kube.calls import BUDGETS, NODES, POD_GROUPS, PODS
from extender.settings.settings import Settings
from lab.simulator.apiserver.api import StoreApi
from lab.simulator.apiserver.store import ApiStore, Change, ChangeType, Object, with_condition
from lab.simulator.model import Scenario
from lab.simulator.pods.jobs import TF_JOBS
from lab.simulator.pods.kube_scheduler.extender import Extender
from lab.simulator.pods.kube_scheduler.scheduler import KubeScheduler, SchedulerProfile
from lab.simulator.pods.objects import node_object
from lab.simulator.pods.record import Record
from lab.simulator.pods.virtual_time import Latencies, VirtualClock

_SYNC_LIMIT_S = 60.0


class Cluster:
    """The parts of a simulated cluster; make it inside a running loop."""

    def __init__(
        self,
        settings: Settings,
        profiles: Sequence[SchedulerProfile],
        latencies: Latencies,
        seed: int,
        scenario: Scenario | None = None,
    ) -> None:
        """With a kube-scheduler for each of `profiles`; empty unless a `scenario` says what nodes and links it has."""
        self.clock = VirtualClock()
        self.record = Record()
        self.api = simulated_api(latencies, stream(seed, "api"))
        self.store = self.api.store
        for node in scenario.nodes if scenario is not None else ():
            self.store.create(NODES, node_object(node))
        self.service: Service | None = None
        if any(one.extender for one in profiles):
            self.service = following(
                settings, self.api, self.clock, stream(seed, "service"), random_bytes=stream(seed, "notes").randbytes
            )
            if scenario is not None:
                self.service.cache.set_network(scenario.network)
        self.schedulers = [self._scheduler(one, latencies, seed) for one in profiles]
        self.kubelets = Kubelets(self.store, latencies, stream(seed, "kubelets"))

    def _scheduler(self, profile: SchedulerProfile, latencies: Latencies, seed: int) -> KubeScheduler:
        extender = None
        if profile.extender and self.service is not None:
            wire, limit_s = stream(seed, f"wire {profile.name}"), profile.http_timeout_s
            extender = Extender(self.service.verbs, latencies, wire, self.record, http_timeout_s=limit_s)
        rng = stream(seed, f"scheduler {profile.name}")
        return KubeScheduler(self.api, profile, latencies, rng, self.record, extender=extender)

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Everything runs inside the block, which begins when the service has planned first, at a whole second."""
        self.kubelets.start()
        for one in self.schedulers:
            one.start()
        async with asyncio.TaskGroup() as group:
            parts = [group.create_task(one.run(), name="kube-scheduler") for one in self.schedulers]
            if self.service is not None:
                parts.append(group.create_task(self.service.run(), name="service"))
                planned = asyncio.Event()
                self.service.planner.subscribe(lambda _: planned.set())
                async with asyncio.timeout(_SYNC_LIMIT_S):
                    await planned.wait()
            now_s = self.clock.monotonic_s()
            await asyncio.sleep(int(now_s) + 1.0 - now_s)
            try:
                yield
            finally:
                for part in parts:
                    part.cancel()


def simulated_api(latencies: Latencies, rng: random.Random) -> StoreApi:
    """An empty API server whose calls and watches take their time."""

    @asynccontextmanager
    async def around(verb: str) -> AsyncIterator[None]:
        if verb != "watch":
            await asyncio.sleep((latencies.page if verb == "list" else latencies.write).draw(rng))
        yield

    kinds = PODS, NODES, POD_GROUPS, BUDGETS, TF_JOBS
    store = ApiStore(*kinds, now_s=VirtualClock().now_s, watch_delay_s=latencies.watch_s, kubelets=True)
    return StoreApi(store, around=around)


def stream(seed: int, part: str) -> random.Random:
    """The chance of one part: what another part draws does not change it."""
    return random.Random(f"{seed} {part}")  # noqa: S311 - a simulation, nothing secret


class Kubelets:
    """All of them. `start` them before there are pods."""

    def __init__(self, store: ApiStore, latencies: Latencies, rng: random.Random) -> None:
        self._store = store
        self._latencies = latencies
        self._rng = rng

    def start(self) -> None:
        """Follow pods."""
        self._store.follow(PODS, self._hear)

    def _hear(self, change: Change) -> None:
        new, old = change.new, change.old
        if change.type is ChangeType.DELETED or not new["spec"].get("nodeName"):
            return
        loop = asyncio.get_running_loop()
        metadata = new["metadata"]
        key = (metadata["namespace"], metadata["name"], metadata["uid"])
        if old is None or not old["spec"].get("nodeName"):
            loop.call_later(self._latencies.pod_start.draw(self._rng), self._begin, *key)
        if "deletionTimestamp" in metadata and (old is None or "deletionTimestamp" not in old["metadata"]):
            loop.call_later(self._latencies.pod_stop.draw(self._rng), self._end, *key)

    def _begin(self, namespace: str, name: str, uid: str) -> None:
        pod = self._there(namespace, name, uid)
        if pod is not None and pod["status"].get("phase") == "Pending":
            ready = self._store.dated({"type": "Ready", "status": "True"})
            self._store.replace(PODS, {**pod, "status": {**with_condition(pod, ready), "phase": "Running"}})

    def _end(self, namespace: str, name: str, uid: str) -> None:
        if self._there(namespace, name, uid) is not None:
            self._store.remove(PODS, namespace, name)

    def _there(self, namespace: str, name: str, uid: str) -> Object | None:
        """The very pod, if it is there."""
        found = self._store.find(PODS, namespace, name)
        return found if found is not None and found["metadata"]["uid"] == uid else None
