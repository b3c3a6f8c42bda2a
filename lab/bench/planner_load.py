"""A busy cluster as the planner sees it: a thousand unlike gangs wait, and one thing after the other changes.

Why beside `bench.scale`: that measures a service for minutes; this measures nothing but planner runs, in seconds, so
that two versions can be compared in turns. Rule: each node is taken by one member of a gang of five, pods of others
come and go, 997 different requests wait, every twentieth gang is STARVING; all is read by the service's own readers and
cache, so that what stays the same between two snapshots is the same object there, too. Nothing is random; times are CPU
of this process.
"""

import gc
import json
from collections import deque
from collections.abc import Callable, Iterator
from time import process_time
from typing import Any

from extender.cache.cluster import ClusterCache
from extender.convert import node_from_json, pod_from_json
from lab.bench.planner_jobs import SIZE, Job
from lab.bench.scale import objects
from scoring.model import Pod
from scoring.model.policy import Policy, QueuePolicy
from scoring.plan import Plan, PlannerCache, plan

_NOW_S = 1_800_000_000.0
_STEP_S = 0.1
_STARVES_EVERY = 20


class BusyCluster:
    """The cluster, and the plan for it after each event."""

    def __init__(self, *, nodes: int = 1000, gangs: int = 1000) -> None:
        self.cache = ClusterCache()
        self.policy = Policy(queue=QueuePolicy(starve_limit_s=objects.STARVE_LIMIT_S))
        self.now_s = _NOW_S
        self.planner_cache = PlannerCache()
        self.plan: Plan | None = None
        self._nodes, self._next, self._others = nodes, 0, deque[Pod]()
        self._waiting: dict[str, Job] = {}
        self._running: deque[tuple[Job, list[Pod]]] = deque()
        self._cordoned: int | None = None
        self._away: int | None = None
        self._fill(gangs)

    def full(self) -> float:
        """CPU milliseconds of a plan with nothing to reuse."""
        return self._planned(PlannerCache(), None)[1]

    def events(self, count: int) -> list[float]:
        """CPU milliseconds of a run after each event; the first, after which everything is known, are not measured."""
        times_ms: list[float] = []
        for number in range(count + _WARM):
            self.now_s += _STEP_S
            next(act for every, act in _EVENTS if number % every == every - 1)(self)
            self.plan, took_ms = self._planned(self.planner_cache, self.plan)
            self._adopt(self.plan)
            if number >= _WARM:
                times_ms.append(took_ms)
        return times_ms

    # -- what happens -------------------------------------------------------------------------------------------------

    def _other_comes_or_goes(self) -> None:
        if len(self._others) > 100:
            gone = self._others.popleft()
            self.cache.pods.remove(gone.key)
            return
        self._next += 1
        self._others.append(_pod(objects.foreign(self._next, objects.node_name(self._next * 31 % self._nodes))))
        self.cache.pods.put(self._others[-1])

    def _gang_ends(self) -> None:
        """The one that runs longest; another one queues up."""
        _, pods = self._running.popleft()
        for pod in pods:
            self.cache.pods.remove(pod.key)
        job = self._new_job(self.now_s)
        self._waiting[job.name] = job
        for k in range(SIZE):
            self.cache.pods.put(_pod(job.pod(k)))

    def _gang_loses_a_pod(self) -> None:
        """A controller replaces a pod of a gang that waits, somewhere in the queue."""
        job = list(self._waiting.values())[len(self._waiting) * 2 // 3]
        self.cache.pods.put(_pod(job.pod(0, created_s=self.now_s)))

    def _cordon(self) -> None:
        """A node is cordoned, or opened again."""
        number = 13 if self._cordoned is None else self._cordoned
        node = json.loads(objects.raw_node(number))
        node["spec"]["unschedulable"] = self._cordoned is None
        self._cordoned = number if self._cordoned is None else None
        self.cache.nodes.put(node_from_json(json.dumps(node).encode()))

    def _node_leaves_or_returns(self) -> None:
        """A node without gangs' members."""
        node = node_from_json(objects.raw_node(self._nodes))
        if self._away is None:
            self._away = self._nodes
            self.cache.nodes.put(node)
        else:
            self._away = None
            self.cache.nodes.remove(node.name)

    # -- inside -------------------------------------------------------------------------------------------------------

    def _fill(self, gangs: int) -> None:
        self.cache.nodes.replace([node_from_json(objects.raw_node(number)) for number in range(self._nodes)])
        zones: dict[int, list[int]] = {}
        for number in range(self._nodes):
            zones.setdefault(number % objects.ZONES, []).append(number)
        pods = [_pod(objects.foreign(900_000 + number, objects.node_name(number))) for number in range(self._nodes)]
        for rows in zones.values():
            for begin in range(0, len(rows) - SIZE + 1, SIZE):
                job = self._new_job(self.now_s - 7200.0)
                nodes = [objects.node_name(row) for row in rows[begin : begin + SIZE]]
                self._running.append((job, [_pod(job.pod(k, node=nodes[k])) for k in range(SIZE)]))
                pods += self._running[-1][1]
        for number in range(gangs):
            age_s = objects.STARVE_LIMIT_S + number if number % _STARVES_EVERY == 0 else 60.0 + number % 300
            job = self._new_job(self.now_s - age_s)
            self._waiting[job.name] = job
            pods += [_pod(job.pod(k)) for k in range(SIZE)]
        self.cache.pods.replace(pods)

    def _new_job(self, created_s: float) -> Job:
        self._next += 1
        return Job(2 * self._next + 1, created_s)  # an odd one says its size by labels

    def _adopt(self, made: Plan) -> None:
        """Members of admitted gangs are bound and run."""
        for key, admission in made.admitted.items():
            job = self._waiting.pop(key.partition("/")[2], None)
            if job is not None:
                nodes = list(admission.members.values())
                pods = [_pod(job.pod(k, node=nodes[k])) for k in range(SIZE)]
                for pod in pods:
                    self.cache.pods.put(pod)
                self._running.append((job, pods))

    def _planned(self, planner_cache: PlannerCache, previous: Plan | None) -> tuple[Plan, float]:
        """A plan, and its CPU milliseconds."""
        snapshot, begun_s = self.cache.snapshot(), process_time()
        made = plan(snapshot, self.policy, now_s=self.now_s, previous=previous, cache=planner_cache)
        return made, (process_time() - begun_s) * 1e3


def _pod(raw: dict[str, Any]) -> Pod:
    return pod_from_json(json.dumps(raw).encode())


_WARM = 40
_EVENTS: tuple[tuple[int, Callable[[BusyCluster], None]], ...] = (
    (60, BusyCluster._node_leaves_or_returns),
    (25, BusyCluster._cordon),
    (20, BusyCluster._gang_ends),
    (15, BusyCluster._gang_loses_a_pod),
    (1, BusyCluster._other_comes_or_goes),
)
"""Of so many events one is …; the first that fits"""


def cases() -> Iterator[tuple[str, float | None, float]]:
    """Name, goal and CPU milliseconds."""
    busy = BusyCluster()
    gc.collect()
    gc.disable()  # as the service does (`extender.runtime.memory`)
    yield "1,000 unlike gangs, full cluster: full plan", 400.0, busy.full()
    ordered = sorted(busy.events(240))
    yield "1,000 unlike gangs, full cluster: after an event, p50", None, ordered[len(ordered) // 2]
    yield "1,000 unlike gangs, full cluster: after an event, p99", 100.0, ordered[int(0.99 * (len(ordered) - 1))]
    large = BusyCluster(nodes=5000)
    yield "1,000 unlike gangs on 5,000 nodes: full plan", None, large.full()
