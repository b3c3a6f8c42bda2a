"""The cluster and its jobs at one moment of a run: what a policy looks at and what the world changes.

Rule: only the world (`lab.simulator.world`) changes it; a policy reads. Rows are those of the node table.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import islice

import msgspec
import numpy as np

from lab.simulator.model import Fate, SimJob
from lab.simulator.speed.rate import Placement
from scoring import GangKey
from scoring.model import Role
from scoring.model.gang import gang_key
from scoring.model.snapshot import NodeTable
from scoring.network.matrix import Ints, NetworkMatrix

Slot = tuple[Role, int]
"""A pod of a job: its role and index."""


@dataclass(slots=True, eq=False)
class JobState:
    """One job that has arrived, from then on to its end."""

    job: SimJob
    number: int
    """Its place among the scenario's jobs."""
    needs: int
    """Workers without which it does not train."""
    wanted: int
    """Workers that its owner makes now."""
    key: GangKey = field(init=False)
    """Name of its gang."""
    ps: dict[int, int] = field(default_factory=dict)
    """index → row"""
    workers: dict[int, int] = field(default_factory=dict)
    """index → row"""
    bound_s: dict[Slot, float] = field(default_factory=dict)
    """pod → when it got its node"""
    before_s: float = 0.0
    """Workers × seconds on nodes of those that were there when it was suspended, each time"""
    changes: int = 0
    """Grows with every change of its pods: whatever was made for another count is old."""
    event: int = 0
    """Of its events in the queue only the one of this number counts."""
    trained: float = 0.0
    """Samples so far."""
    rate: float = 0.0
    """Samples per second while it trains."""
    busy_cores: float = 0.0
    step_samples: float = 1.0
    since_s: float = 0.0
    """`trained` is of this moment."""
    resumes_s: float | None = None
    """When it trains (again); `None`: it has not what it needs."""
    training: bool = False
    first_pod_s: float | None = None
    """When the first of its pods was on a node."""
    started_s: float | None = None
    """When its minimum was on nodes for the first time."""
    ended_s: float | None = None
    fate: Fate = Fate.NEVER_STARTED
    holds_since_s: float | None = None
    """When it last got its first pod; `None`: it has none."""
    deadlocks: int = 0
    """Times it was removed because it used room without its minimum."""
    suspensions: int = 0
    waited_s: float = 0.0
    """While it had not its minimum: before its start, and while it was suspended."""
    asked_s: float = 0.0
    """When its pods were made: at its arrival, or when it was suspended last."""
    waits_since_s: float | None = None
    """When it last began to wait: at its arrival, or when it was suspended; `None`: it runs."""
    ran_since_s: float | None = None
    """When it last started; `None`: it waits."""
    resizes: int = 0
    stalled_s: float = 0.0
    """Checkpoints, restarts and repeated steps."""
    worker_s: float = 0.0
    """Workers × seconds on nodes."""
    workers_since_s: float = 0.0
    changed_s: float | None = None
    """When its worker count was changed last, after its start."""
    changes_s: tuple[float, ...] = ()
    """All such moments of the last hour and before."""
    gave_up_from: int | None = None
    """Workers before the first were taken away for others; `None`: it has them again."""

    def __post_init__(self) -> None:
        self.key = gang_key("default", self.job.name)
        self.asked_s = self.job.arrival_s

    @property
    def whole(self) -> bool:
        """Whether it has the pods without which it does not train."""
        return len(self.ps) == self.job.ps_count and len(self.workers) >= self.needs

    @property
    def placement(self) -> Placement:
        """Where its pods are, by index."""
        return Placement(
            tuple([self.ps[index] for index in sorted(self.ps)]),
            tuple([self.workers[index] for index in sorted(self.workers)]),
        )

    @property
    def most(self) -> int:
        """Workers it may ever have."""
        return self.job.workers if self.job.max_workers is None else self.job.max_workers

    @property
    def elastic(self) -> bool:
        """Whether its worker count may differ."""
        return self.job.min_workers < self.most

    def attained_s(self, now_s: float) -> float:
        """Workers × seconds that it has had nodes."""
        return self.worker_s + len(self.workers) * (now_s - self.workers_since_s)

    def missing(self) -> list[Slot]:
        """Pods that exist and have no node, ps first. Cost: O(pods)."""
        slots: list[Slot] = [(Role.PS, index) for index in range(self.job.ps_count) if index not in self.ps]
        return slots + [(Role.WORKER, index) for index in self.wanted_indexes() if index not in self.workers]

    def wanted_indexes(self) -> list[int]:
        """Indexes of the wanted workers: those that have a node, then the smallest others."""
        others = (index for index in range(self.wanted) if index not in self.workers)
        return sorted([*self.workers, *islice(others, max(self.wanted - len(self.workers), 0))])

    @property
    def completion_s(self) -> float | None:
        """Job completion time: from its arrival to its end (PAPERS K8)."""
        return None if self.ended_s is None else self.ended_s - self.job.arrival_s


class RunResult(msgspec.Struct, frozen=True):
    """One scenario under one policy. Means are of the time from the first arrival to `makespan_s`."""

    policy: str
    outcomes: tuple[JobState, ...]
    """In the order of the scenario's jobs."""
    makespan_s: float
    """End of the last job."""
    busy_cpu_ratio: float
    """CPU that trains (not waiting for the network, a quorum or a restart) of what the nodes have, mean over time."""


class State:
    """Nodes, what is used of them, and the jobs that wait and run."""

    def __init__(self, table: NodeTable) -> None:
        self.table = table
        self.network = NetworkMatrix()
        self.now_s = 0.0
        self.used: Ints = np.zeros_like(table.allocatable)
        self.waiting: dict[str, JobState] = {}
        """name → job without all that it needs, in the order of arrival; some of its pods may have nodes"""
        self.running: dict[str, JobState] = {}
        """name → job that trains, or starts, or stalls"""
        self.elastic: dict[str, JobState] = {}
        """name → those of `running` whose worker count may change"""
        self.on_node: list[dict[str, int]] = [{} for _ in table.nodes]
        """row → job → its pods there"""
        self.changes = 0
        """Grows with every change of jobs or pods."""
        self._vectors: dict[int, tuple[object, Ints | None]] = {}

    def jobs(self) -> Mapping[str, JobState]:
        """All that have arrived and not ended."""
        return {**self.waiting, **self.running}

    def vector(self, state: JobState, role: Role) -> Ints | None:
        """Request of one pod over the table's axis; every pod counts as one of `pods`. `None`: no node has it."""
        requests = state.job.ps if role is Role.PS else state.job.worker
        known = self._vectors.get(id(requests))
        if known is None or known[0] is not requests:
            vector = None if self.table.uncounted(requests) else self.table.vector(requests)
            if vector is not None and "pods" in self.table.axis:
                vector[self.table.axis.index("pods")] = 1
            known = self._vectors[id(requests)] = (requests, vector)
        return known[1]

    def free(self) -> Ints:
        """(nodes, resources): a copy that may be written."""
        return np.asarray(self.table.allocatable - self.used)

    def occupy(self, one: JobState, role: Role, index: int, row: int) -> bool:
        """Give one pod a node. `False`, and nothing is changed: there is no room for it."""
        held = one.ps if role is Role.PS else one.workers
        vector = self.vector(one, role)
        if vector is None or index in held or ((self.used[row] + vector) > self.table.allocatable[row]).any():
            return False
        self.used[row] += vector
        held[index] = row
        one.bound_s[role, index] = self.now_s
        on_node = self.on_node[row]
        on_node[one.job.name] = on_node.get(one.job.name, 0) + 1
        if one.first_pod_s is None:
            one.first_pod_s, one.fate = self.now_s, Fate.DEADLOCKED  # unless it comes to its end
        one.holds_since_s = self.now_s if one.holds_since_s is None else one.holds_since_s
        return True

    def vacate(self, one: JobState, role: Role, index: int) -> None:
        """Take one pod off its node."""
        row = (one.ps if role is Role.PS else one.workers).pop(index)
        vector = self.vector(one, role)
        assert vector is not None
        self.used[row] -= vector
        on_node, name = self.on_node[row], one.job.name
        on_node[name] -= 1
        if not on_node[name]:
            del on_node[name]
