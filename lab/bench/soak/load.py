"""The cluster of the soak, in a process of its own: a thousand gangs wait, everything else moves.

Why a process of its own: what netgang costs must not be mixed with what its cluster costs. Rule: users, owners,
kubelets and controllers are played here, straight into an `ApiStore`; kube-scheduler is played by
`lab.bench.soak.scheduler` through netgang's own verbs. Nothing is random. Commands come as JSON lines on standard
input; it ends when standard input closes.

    {"do": "churn", "port": 8888, "seconds": 1200}      answers with a line every few seconds, the last has "done"

Every node is taken by one member of a gang of five; beside it run pods of others. What happens: pods of others come
(created, bound, running) and go at `--rate`; the gang that ran longest ends every two seconds, and a new one queues up;
waiting gangs lose pods, which come again; nodes are cordoned and send heartbeats.
"""

import argparse
import asyncio
import json
import sys
import time
from collections import deque
from collections.abc import Callable
from typing import Any

from extender.kube.calls import NODES, POD_GROUPS, PODS
from extender.ports import SystemClock
from lab.bench.child import say
from lab.bench.scale import objects
from lab.bench.scale.objects import STARVE_LIMIT_S
from lab.bench.soak.jobs import SIZE, Job
from lab.bench.soak.scheduler import Scheduler
from lab.testbed.apiserver.server import LoopbackApi, serve
from lab.testbed.apiserver.store import ApiStore
from lab.testbed.beside import beside

_TICK_S = 0.02
_SAY_S = 5.0
_ENDS_EVERY_S = 2.0
_LOSES_EVERY_S = 2.0
_CORDON_EVERY_S = 5.0
_HEARTBEAT_S = 300.0
_STARVES_EVERY = 20
"""Every so many-th of the first gangs begins to starve during the run, one after the other."""
_now_s = SystemClock().now_s


class Load:
    """Everything that happens beside kube-scheduler. Times are Unix seconds."""

    def __init__(self, store: ApiStore, *, nodes: int, gangs: int, rate: float, seconds: float) -> None:
        self.store = store
        self.waiting: dict[str, Job] = {}
        """namespace/name → a gang that waits"""
        self.waits_s: list[float] = []
        """From room freed to a gang that is whole, once per gang that started"""
        self.counts = dict.fromkeys(("others", "ended", "started", "pods_lost", "cordons", "heartbeats"), 0)
        self._nodes = nodes
        self._rate = rate
        self._next = 0
        self._running: deque[Job] = deque()
        self._starting: dict[str, tuple[Job, set[str]]] = {}
        """An admitted gang → names of its members that have no node yet"""
        self._freed_s: deque[float] = deque()
        self._others: deque[tuple[str, str]] = deque()
        self._fill(gangs, seconds)

    def _fill(self, gangs: int, seconds: float) -> None:
        now_s = float(int(_now_s()))
        self.store.load(NODES, {("", objects.node_name(i)): objects.raw_node(i) for i in range(self._nodes)})
        self.store.load(POD_GROUPS, {})
        pods: list[dict[str, Any]] = []
        zones: dict[int, list[int]] = {}
        for i in range(self._nodes):
            zones.setdefault(i % objects.ZONES, []).append(i)
        for rows in zones.values():
            for begin in range(0, len(rows) - SIZE + 1, SIZE):
                job = self._new_job(now_s - 7200.0)
                pods.extend(job.pod(k, node=objects.node_name(rows[begin + k])) for k in range(SIZE))
                self._running.append(job)
        for number in range(gangs):
            starves = number % _STARVES_EVERY == 0
            age_s = STARVE_LIMIT_S - seconds * (number + 1) / gangs if starves else 60.0 + number % 300
            job = self._new_job(now_s - age_s)
            pods.extend(job.pod(k) for k in range(SIZE))
            self.waiting[f"{job.namespace}/{job.name}"] = job
        pods.extend(objects.foreign(900_000 + i, objects.node_name(i)) for i in range(self._nodes))
        self.store.load(PODS, {_key(one): json.dumps(one, separators=(",", ":")).encode() for one in pods})

    def _new_job(self, created_s: float) -> Job:
        self._next += 1
        job = Job(self._next, float(int(created_s)))
        if job.grouped:
            self.store.put(POD_GROUPS, job.group())
        return job

    # -- what the scheduler reports -----------------------------------------------------------------------------------

    def let_in(self, pod: dict[str, Any]) -> None:
        """A gate was removed."""
        key = _gang_of(pod)
        job = self.waiting.pop(key, None)
        if job is not None:
            self._starting[key] = (job, {f"{job.name}-worker-{k}" for k in range(SIZE)})

    def bound(self, pod: dict[str, Any]) -> None:
        """A member has its node; the kubelet runs it."""
        key, name = _gang_of(pod), pod["metadata"]["name"]
        running = self.store.get(PODS, pod["metadata"]["namespace"], name)
        running["status"] = {"phase": "Running", "podIP": "10.0.0.1"}
        self.store.put(PODS, running)
        if key not in self._starting:
            return
        job, missing = self._starting[key]
        missing.discard(name)
        if not missing:
            del self._starting[key]
            self._running.append(job)
            self.counts["started"] += 1
            if self._freed_s:
                self.waits_s.append(_now_s() - self._freed_s.popleft())

    # -- what happens -------------------------------------------------------------------------------------------------

    async def run(self, seconds: float, say: Callable[[], None]) -> None:
        """Let it happen for so long."""
        begun_s = time.monotonic()
        timers: list[tuple[float, Callable[[], None]]] = [
            (1.0 / self._rate, self._other_comes_and_goes),
            (_ENDS_EVERY_S, self._gang_ends),
            (_LOSES_EVERY_S, self._gang_loses_a_pod),
            (_CORDON_EVERY_S, self._cordon),
            (_HEARTBEAT_S / self._nodes, self._heartbeat),
            (_SAY_S, say),
        ]
        due_s = [every_s for every_s, _ in timers]
        while (age_s := time.monotonic() - begun_s) < seconds:
            for number, (every_s, act) in enumerate(timers):
                while due_s[number] <= age_s:
                    due_s[number] += every_s
                    act()
            await asyncio.sleep(_TICK_S)

    def _other_comes_and_goes(self) -> None:
        """One is created and bound, the oldest of some hundred is deleted."""
        number = self.counts["others"]
        self.counts["others"] += 1
        self.store.put(PODS, objects.foreign(number, None))
        pod: dict[str, Any] = objects.foreign(number, objects.node_name(number * 31 % self._nodes))
        self.store.put(PODS, pod)
        pod["status"]["podIP"] = f"10.1.{number % 250}.9"
        self.store.put(PODS, pod)
        self._others.append(_key(pod))
        if len(self._others) > 10 * self._rate:
            self.store.remove(PODS, *self._others.popleft())

    def _gang_ends(self) -> None:
        """The gang that ran longest ends; a new one queues up. Not while a gang has to start in room freed before."""
        if len(self._freed_s) > 2 or not self._running:
            return
        job = self._running.popleft()
        for k in range(SIZE):
            self.store.remove(PODS, job.namespace, f"{job.name}-worker-{k}")
        if job.grouped:
            self.store.remove(POD_GROUPS, job.namespace, job.name)
        self._freed_s.append(_now_s())
        self.counts["ended"] += 1
        fresh = self._new_job(_now_s())
        for k in range(SIZE):
            self.store.put(PODS, fresh.pod(k))
        self.waiting[f"{fresh.namespace}/{fresh.name}"] = fresh

    def _gang_loses_a_pod(self) -> None:
        """A controller replaces a pod of the gang that came last."""
        job = next(reversed(self.waiting.values()), None)
        if job is not None:
            self.store.remove(PODS, job.namespace, f"{job.name}-worker-0")
            self.store.put(PODS, job.pod(0, created_s=float(int(_now_s()))))
            self.counts["pods_lost"] += 1

    def _cordon(self) -> None:
        """A node is cordoned; the one before it is open again."""
        turn = self.counts["cordons"]
        for number, shut in ((turn - 1, False), (turn, True)):
            if number >= 0:
                node = self.store.get(NODES, "", objects.node_name(number * 13 % self._nodes))
                node["spec"]["unschedulable"] = shut
                self.store.put(NODES, node)
        self.counts["cordons"] += 1

    def _heartbeat(self) -> None:
        """A kubelet writes its node's status."""
        beat = self.counts["heartbeats"]
        node = self.store.get(NODES, "", objects.node_name(beat * 7 % self._nodes))
        node["status"]["conditions"][0]["lastHeartbeatTime"] = f"2026-11-20T{beat // 60 % 24:02d}:{beat % 60:02d}:00Z"
        self.store.put(NODES, node)
        self.counts["heartbeats"] += 1


def _key(pod: dict[str, Any]) -> tuple[str, str]:
    return str(pod["metadata"]["namespace"]), str(pod["metadata"]["name"])


def _gang_of(pod: dict[str, Any]) -> str:
    namespace, name = _key(pod)
    return f"{namespace}/{name.rpartition('-worker-')[0]}"


async def _churn(load: Load, *, port: int, seconds: float) -> None:
    scheduler = Scheduler(load.store, port, let_in=load.let_in, bound=load.bound)
    async with beside(scheduler.run()):
        await load.run(seconds, lambda: say({"ok": {**load.counts, **scheduler.counts}}))
    waits_s = sorted(load.waits_s) or [0.0]
    waits = {"room_to_bound_p50_s": waits_s[len(waits_s) // 2], "room_to_bound_max_s": waits_s[-1]}
    say({"ok": {**load.counts, **scheduler.counts, **waits, "done": True}})


async def _main(*, nodes: int, gangs: int, rate: float, seconds: float) -> None:
    load = Load(ApiStore(), nodes=nodes, gangs=gangs, rate=rate, seconds=seconds)
    async with serve(LoopbackApi(load.store)) as api:
        say({"ok": {"url": api.url}})
        while line := await asyncio.to_thread(sys.stdin.readline):
            command = json.loads(line)
            await _churn(load, port=command["port"], seconds=command["seconds"])


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="A loopback API server with a queue of gangs and a busy cluster.")
    for option, kind in (("nodes", int), ("gangs", int), ("rate", float), ("seconds", float)):
        parser.add_argument(f"--{option}", type=kind, required=True)
    given = parser.parse_args()
    asyncio.run(_main(nodes=given.nodes, gangs=given.gangs, rate=given.rate, seconds=given.seconds))
