"""The cluster of the soak: a thousand gangs wait, everything else moves, and the order of starts is checked.

Rule: users, owners, kubelets and controllers are played here, straight into an `ApiStore`; kube-scheduler is played by
`lab.bench.soak.scheduler` through netgang's own verbs. Nothing is random.

Every node is taken by one member of a gang of five; beside it run pods of others. What happens: pods of others come
(created, bound, running) and go at `--rate`; the gang that ran longest ends every two seconds, and a new one queues up;
waiting gangs lose pods, which come again; others are given up by their owners; nodes are cordoned, leave and return,
and send heartbeats.
"""

import asyncio
import json
import time
from collections import deque
from collections.abc import Callable
from typing import Any

from extender.kube.calls import NODES, POD_GROUPS, PODS
from extender.runtime.clock import SystemClock
from lab.bench.scale import objects
from lab.bench.soak.jobs import SIZE, STARVE_LIMIT_S, Job, overtaken
from lab.testbed.apiserver.store import ApiStore

_TICK_S = 0.02
_SAY_S = 5.0
_ENDS_EVERY_S = 2.0
_LOSES_EVERY_S = 2.0
_GIVES_UP_EVERY_S = 5.0
_CORDON_EVERY_S = 5.0
_LEAVES_EVERY_S = 30.0
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
        self.overtakings: list[str] = []
        self.counts = dict.fromkeys(
            ("others", "ended", "started", "pods_lost", "given_up", "cordons", "nodes_left", "heartbeats"), 0
        )
        self._nodes = nodes
        self._rate = rate
        self._next = 0
        self._running: deque[Job] = deque()
        self._starting: dict[str, tuple[Job, set[str]]] = {}
        """An admitted gang → names of its members that have no node yet"""
        self._freed_s: deque[float] = deque()
        self._others: deque[tuple[str, str]] = deque()
        self._other = 0
        self._away: deque[dict[str, Any]] = deque()
        self._fill(gangs, seconds)

    # -- the beginning ------------------------------------------------------------------------------------------------

    def _fill(self, gangs: int, seconds: float) -> None:
        now_s = float(int(_now_s()))
        self.store.load(NODES, {("", objects.node_name(i)): objects.raw_node(i) for i in range(self._nodes)})
        pods: list[dict[str, Any]] = []
        zones: dict[int, list[int]] = {}
        for i in range(self._nodes):
            zones.setdefault(i % objects.ZONES, []).append(i)
        groups: list[dict[str, Any]] = []
        for rows in zones.values():
            for begin in range(0, len(rows) - SIZE + 1, SIZE):
                job = self._new_job(now_s - 7200.0)
                pods.extend(job.pod(k, node=objects.node_name(rows[begin + k])) for k in range(SIZE))
                groups.extend([job.group()] if job.grouped else [])
                self._running.append(job)
        for number in range(gangs):
            starves = number % _STARVES_EVERY == 0
            age_s = STARVE_LIMIT_S - seconds * (number + 1) / gangs if starves else 60.0 + number % 300
            job = self._new_job(now_s - age_s)
            job.steady_s = 0.0
            pods.extend(job.pod(k) for k in range(SIZE))
            groups.extend([job.group()] if job.grouped else [])
            self.waiting[f"{job.namespace}/{job.name}"] = job
        pods.extend(objects.foreign(900_000 + i, objects.node_name(i)) for i in range(self._nodes))
        self.store.load(PODS, {_key(one): json.dumps(one, separators=(",", ":")).encode() for one in pods})
        self.store.load(POD_GROUPS, {})
        for group in groups:
            self.store.put(POD_GROUPS, group)

    def _new_job(self, created_s: float) -> Job:
        self._next += 1
        return Job(self._next, float(int(created_s)), _now_s())

    # -- what the scheduler reports -----------------------------------------------------------------------------------

    def let_in(self, pod: dict[str, Any]) -> None:
        """A gate was removed: for the first one of a gang the order is checked."""
        key = _gang_of(pod)
        job = self.waiting.pop(key, None)
        if job is not None:
            first = overtaken(job, self.waiting.values(), now_s=_now_s())
            if first is not None:
                self.overtakings.append(f"{key} before {first.namespace}/{first.name}")
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
            (_GIVES_UP_EVERY_S, self._owner_gives_up),
            (_CORDON_EVERY_S, self._cordon),
            (_LEAVES_EVERY_S / 2, self._node_leaves_or_returns),
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
        number, node = self._other, self._other * 31 % self._nodes
        self._other += 1
        self.store.put(PODS, objects.foreign(number, None))
        pod: dict[str, Any] = objects.foreign(number, objects.node_name(node))
        self.store.put(PODS, pod)
        pod["status"]["podIP"] = f"10.1.{number % 250}.9"
        self.store.put(PODS, pod)
        self._others.append(_key(pod))
        if len(self._others) > 10 * self._rate:
            self.store.remove(PODS, *self._others.popleft())
        self.counts["others"] += 1

    def _gang_ends(self) -> None:
        """The gang that ran longest ends; a new one queues up. Not while a gang has to start in room freed before."""
        if len(self._freed_s) > 2:
            return
        job = self._running.popleft()
        self._remove(job)
        self._freed_s.append(_now_s())
        self.counts["ended"] += 1
        fresh = self._new_job(_now_s())
        if fresh.grouped:
            self.store.put(POD_GROUPS, fresh.group())
        for k in range(SIZE):
            self.store.put(PODS, fresh.pod(k))
        self.waiting[f"{fresh.namespace}/{fresh.name}"] = fresh

    def _gang_loses_a_pod(self) -> None:
        """A controller replaces a pod of a gang that waits, is not first, and is far from starving."""
        now_s = _now_s()
        able = [job for job in self.waiting.values() if job.created_s > now_s - 0.5 * STARVE_LIMIT_S]
        job = max(able, key=lambda one: one.turn(now_s), default=None)
        if job is None:
            return
        self.store.remove(PODS, job.namespace, f"{job.name}-worker-0")
        self.store.put(PODS, job.pod(0, created_s=float(int(now_s))))
        job.steady_s = now_s
        self.counts["pods_lost"] += 1

    def _owner_gives_up(self) -> None:
        """The youngest gang that waits is deleted, and submitted again under a new name."""
        key = next(reversed(self.waiting))
        job = self.waiting.pop(key)
        self._remove(job)
        fresh = self._new_job(_now_s())
        if fresh.grouped:
            self.store.put(POD_GROUPS, fresh.group())
        for k in range(SIZE):
            self.store.put(PODS, fresh.pod(k))
        self.waiting[f"{fresh.namespace}/{fresh.name}"] = fresh
        self.counts["given_up"] += 1

    def _remove(self, job: Job) -> None:
        for k in range(SIZE):
            self.store.remove(PODS, job.namespace, f"{job.name}-worker-{k}")
        if job.grouped:
            self.store.remove(POD_GROUPS, job.namespace, job.name)

    def _cordon(self) -> None:
        """A node is cordoned; the one before it is open again."""
        turn = self.counts["cordons"]
        for number, shut in ((turn - 1, False), (turn, True)):
            if number >= 0:
                node = self.store.get(NODES, "", objects.node_name(number * 13 % self._nodes))
                node["spec"]["unschedulable"] = shut
                self.store.put(NODES, node)
        self.counts["cordons"] += 1

    def _node_leaves_or_returns(self) -> None:
        """A node beyond the gangs' goes; the next time it comes back."""
        if self._away:
            self.store.put(NODES, self._away.popleft())
        else:
            name = objects.node_name(self._nodes)
            self._away.append(json.loads(objects.raw_node(self._nodes)))
            if ("", name) in self.store.bodies(NODES):
                self.store.remove(NODES, "", name)
            self.counts["nodes_left"] += 1

    def _heartbeat(self) -> None:
        """A kubelet writes its node's status."""
        beat = self.counts["heartbeats"]
        node = self.store.get(NODES, "", objects.node_name(beat * 7 % self._nodes))
        for condition in node["status"]["conditions"]:
            condition["lastHeartbeatTime"] = (
                f"2026-11-20T{beat // 3600 % 24:02d}:{beat // 60 % 60:02d}:{beat % 60:02d}Z"
            )
        self.store.put(NODES, node)
        self.counts["heartbeats"] += 1


def _key(pod: dict[str, Any]) -> tuple[str, str]:
    return str(pod["metadata"]["namespace"]), str(pod["metadata"]["name"])


def _gang_of(pod: dict[str, Any]) -> str:
    namespace, name = _key(pod)
    return f"{namespace}/{name.rpartition('-worker-')[0]}"
