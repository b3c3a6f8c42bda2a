"""A workload before it runs, and what can become of each of its jobs: what engine, policies and reports share.

Rule: plain values, seconds since the start of the run, and nothing that depends on the policy.
"""

from collections.abc import Mapping
from enum import StrEnum

import msgspec

from scoring.model import Node
from scoring.model.pod import NO_RESOURCES, Resources


class Recorded(msgspec.Struct, frozen=True):
    """Measured step times of a recorded job by worker count; the count asked for is always among them.

    Why not from a model of compute and traffic: recorded workloads say how long each job took on the workers that it
    asked for, and measurements how long a step takes on other counts (packed on as few nodes as possible). Rule: work
    is counted in seconds at the size asked for, so that a job of `run_s` seconds takes that if it is never resized.

    >>> one = Recorded(asked=4, step_s={2: 1.0, 4: 0.6, 8: 0.4})
    >>> [round(one.rate(workers), 3) for workers in (4, 8, 2, 3)]
    [1.0, 1.5, 0.6, 0.75]
    """

    asked: int
    step_s: Mapping[int, float]
    """workers → seconds of one step"""

    def rate(self, workers: int) -> float:
        """Speed on so many workers; 1: as on those asked for. Step times between two measured counts lie on a line."""
        known = self.step_s
        if workers in known:
            return known[self.asked] / known[workers]
        low, high = max(n for n in known if n < workers), min(n for n in known if n > workers)
        share = (workers - low) / (high - low)
        return known[self.asked] / (known[low] + share * (known[high] - known[low]))


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
    """Nodes, and the jobs that arrive; `seed` is what it was drawn from."""

    name: str
    nodes: tuple[Node, ...]
    jobs: tuple[SimJob, ...]
    seed: int = 0
    resize_stall_s: float | None = None
    """Without training at each change of a worker count; `None`: as published (`lab.simulator.speed.table`)."""


class Fate(StrEnum):
    """How a job's story ended."""

    COMPLETED = "completed"
    DEADLOCKED = "deadlocked"
    """It used room without its minimum when nothing more could happen, or until the policy's rule removed it."""
    NEVER_STARTED = "never started"
