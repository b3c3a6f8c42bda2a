"""A workload before it runs, and the outcome of each of its jobs: what engine, policies and reports share.

Rule: plain values, seconds since the start of the run, and nothing that depends on the policy.
"""

from enum import StrEnum

import msgspec

from lab.simulator.recorded import Recorded
from scoring.model import Node
from scoring.model.resources import NO_RESOURCES, Resources
from scoring.network.matrix import NetworkMatrix


class Sync(StrEnum):
    """How workers share what they learned."""

    ASYNCHRONOUS = "asynchronous"
    """Each pushes to the parameter servers when it is done with a batch."""
    SYNCHRONOUS = "synchronous"
    """All wait for the slowest after each batch."""


class Work(msgspec.Struct, frozen=True):
    """What a job trains, and how much of it: what the training-speed model needs to know."""

    model: str
    """One of the speed model's table, such as `resnet50`."""
    batch: int
    """Samples a worker takes per step."""
    samples: float
    """Samples to be seen before the job is complete, over all workers."""
    sync: Sync = Sync.ASYNCHRONOUS
    recorded: Recorded | None = None
    """Measured step times; then `samples` are seconds at the size asked for."""


class SimJob(msgspec.Struct, frozen=True):
    """A distributed training job: parameter servers (none: all-reduce) and workers between a minimum and a maximum."""

    name: str
    arrival_s: float
    work: Work
    worker: Resources
    """Requests of one worker."""
    workers: int
    """Wanted at the start; an elastic job may run with fewer, and its maximum is `max_workers`."""
    min_workers: int
    max_workers: int | None = None
    """`None`: as many as wanted."""
    ps: Resources = NO_RESOURCES
    """Requests of one parameter server."""
    ps_count: int = 0
    suspendable: bool = False
    """Whether it may be stopped as a whole and started again from its last checkpoint."""


class Scenario(msgspec.Struct, frozen=True):
    """Nodes, the network between them, and the jobs that arrive; `seed` is what it was drawn from."""

    name: str
    nodes: tuple[Node, ...]
    network: NetworkMatrix
    jobs: tuple[SimJob, ...]
    seed: int = 0


class Fate(StrEnum):
    """How a job's story ended."""

    COMPLETED = "completed"
    DEADLOCKED = "deadlocked"
    """It used room without its minimum when nothing more could happen, or until the policy's rule removed it."""
    NEVER_STARTED = "never started"


class JobOutcome(msgspec.Struct, frozen=True):
    """One job's times, seconds since the start of the run; `None`: it did not come to that."""

    job: SimJob
    fate: Fate
    first_pod_s: float | None = None
    """When the first of its pods was on a node."""
    started_s: float | None = None
    """When its minimum was on nodes."""
    ended_s: float | None = None
    resizes: int = 0
    stalled_s: float = 0.0
    """Checkpoints, restarts and repeated steps."""
    worker_s: float = 0.0
    """Workers × seconds on nodes."""
    deadlocks: int = 0
    """Times it was removed because it used room without its minimum."""
    suspensions: int = 0
    waited_s: float = 0.0
    """From its arrival to its end, while it had not its minimum: before its start, and while it was suspended."""

    @property
    def completion_s(self) -> float | None:
        """Job completion time: from its arrival to its end (PAPERS K8)."""
        return None if self.ended_s is None else self.ended_s - self.job.arrival_s


class RunResult(msgspec.Struct, frozen=True):
    """One scenario under one policy. Means are of the time from the first arrival to `makespan_s`."""

    policy: str
    outcomes: tuple[JobOutcome, ...]
    """In the order of the scenario's jobs."""
    makespan_s: float
    """End of the last job."""
    busy_cpu_ratio: float
    """CPU that trains (not waiting for the network, a quorum or a restart) of what the nodes have, mean over time."""
