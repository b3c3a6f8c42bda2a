"""A cluster in virtual time: gangs arrive, are planned, start where the plan says, run and end.

Why: what the queue promises is about hours, and about all orders of events. Rule: time jumps from event to event; after
each one the planner runs, as in the service, with what it remembers of the last run, until it admits no more.
"""

from collections.abc import Iterable, Sequence
from heapq import heapify, heappop, heappush

import msgspec
from msgspec.structs import replace

from scoring import GangKey, NodeName, PodUid
from scoring.explain.queue_report import report
from scoring.model import Gang, Node, Phase
from scoring.model.policy import Policy
from scoring.model.snapshot import Snapshot
from scoring.plan import Plan, PlannerCache, plan
from scoring.records import Queue
from tests.builders import gang, snapshot


class Job(msgspec.Struct, frozen=True):
    """A gang of `size` members of `cpu` each, which runs for `length_s` once it is whole."""

    name: str
    arrives_s: float
    size: int = 1
    cpu: int = 1
    length_s: float = 60.0
    priority: int = 0
    zones: str | None = None
    namespace: str = "default"
    gpu: int = 0
    says_s: float | None = None  # How long its user declares that it runs; `None`: nothing is known
    believed: bool = True  # Whether that is believed

    @property
    def key(self) -> GangKey:
        return GangKey(f"{self.namespace}/{self.name}")

    def gang(self) -> Gang:
        made = gang(
            self.name,
            self.size,
            cpu=str(self.cpu),
            gpu=self.gpu,
            namespace=self.namespace,
            created_s=self.arrives_s,
            priority=self.priority,
            options={"zones": self.zones} if self.zones is not None else None,
        )
        members = tuple(replace(pod, created_s=self.arrives_s) for pod in made.members)
        return replace(made, members=members, length_s=self.says_s, believed=self.believed)


class World:
    def __init__(self, nodes: Sequence[Node], jobs: Iterable[Job], policy: Policy) -> None:
        self.now_s = 0.0
        self.started_s: dict[GangKey, float] = {}
        self.ended_s: dict[GangKey, float] = {}
        self.order: list[GangKey] = []  # Gangs in the order in which they started
        self.where: dict[GangKey, set[str]] = {}  # gang → zones it started in
        self.promised_s: dict[GangKey, float] = {}  # gang → the start that it was promised first
        self.promised_at_s: dict[GangKey, float] = {}  # gang → when that was
        self._nodes = nodes
        self._zone = {node.name: str(node.zone) for node in nodes}
        self._policy = policy
        self._cache = PlannerCache()
        self.plan = Plan(version=-1)
        self.gangs: dict[GangKey, Gang] = {}
        self._job: dict[GangKey, Job] = {}
        self._events: list[tuple[float, int, str, Job]] = [(job.arrives_s, 1, job.name, job) for job in jobs]
        heapify(self._events)
        self._version = 0

    def run(self, until_s: float = float("inf")) -> None:
        while self._events and self._events[0][0] <= until_s:
            self.now_s = self._events[0][0]
            while self._events and self._events[0][0] == self.now_s:
                _, arrives, _, job = heappop(self._events)
                if arrives:
                    self._job[job.key], self.gangs[job.key] = job, job.gang()
                else:
                    del self.gangs[job.key]
                    self.ended_s[job.key] = self.now_s
            self._start_admitted()
        self.now_s = max(self.now_s, until_s) if until_s < float("inf") else self.now_s

    def snapshot(self) -> Snapshot:
        return snapshot(self._nodes, self.gangs.values(), version=self._version)

    def report(self, *, forgetful: bool = False) -> Queue:
        """The queue as it is; `forgetful`: as a process sees it that has just started."""
        state = self.snapshot()
        if not forgetful:
            return report(state, self.plan, self._policy, now_s=self.now_s, cache=self._cache)
        return report(state, plan(state, self._policy, now_s=self.now_s), self._policy, now_s=self.now_s)

    def _start_admitted(self) -> None:
        admitted = True
        while admitted:
            self._version += 1
            state = self.snapshot()
            self.plan = plan(state, self._policy, now_s=self.now_s, previous=self.plan, cache=self._cache)
            admitted = bool(self.plan.admitted)
            if (promise := self.plan.promise) is not None:
                self.promised_s.setdefault(promise.gang, promise.start_s)
                self.promised_at_s.setdefault(promise.gang, self.now_s)
            for admission in sorted(self.plan.admitted.values(), key=lambda one: one.rank):
                self._start(admission.gang, dict(admission.members))

    def _start(self, key: GangKey, nodes: dict[PodUid, NodeName]) -> None:
        job, waits = self._job[key], self.gangs[key]
        members = tuple(
            replace(pod, node=nodes[pod.uid], phase=Phase.RUNNING, scheduled_s=self.now_s) for pod in waits.members
        )
        self.gangs[key] = replace(waits, members=members)
        self.started_s[key] = self.now_s
        self.order.append(key)
        self.where[key] = {self._zone[node] for node in nodes.values()}
        heappush(self._events, (self.now_s + job.length_s, 0, job.name, job))
