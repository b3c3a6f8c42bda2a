"""Put a simulated cluster together: API server, kube-schedulers, kubelets, and the service.

The service is the real one (`extender.bootstrap.following`): planner, permit machine, queue, admission, repair and
scaling run as they do in a cluster, over the ports. Rule: everything random is drawn from the run's seed, one stream
for each part.
"""

import asyncio
import random
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

from extender.bootstrap import Service, following
from extender.kube.calls import NODES, POD_GROUPS, PODS
from extender.settings.settings import Settings
from simulator.model import Scenario
from simulator.pods.extender import Extender
from simulator.pods.jobs import TF_JOBS
from simulator.pods.kubelet import Kubelets
from simulator.pods.latency import Latencies
from simulator.pods.loop import VirtualClock
from simulator.pods.objects import node_object
from simulator.pods.profile import SchedulerProfile
from simulator.pods.record import Record
from simulator.pods.scheduler import KubeScheduler
from simulator.pods.server import ApiServer
from simulator.pods.store import Store

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
        self.store = Store(PODS, NODES, POD_GROUPS, TF_JOBS, now_s=self.clock.now_s)
        self.api = ApiServer(self.store, latencies, stream(seed, "api"))
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


def stream(seed: int, part: str) -> random.Random:
    """The chance of one part: what another part draws does not change it."""
    return random.Random(f"{seed} {part}")  # noqa: S311 - a simulation, nothing secret
