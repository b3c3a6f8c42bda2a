"""What a scenario is made of: nodes, jobs, steps, and what must be true after each."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from lab.testbed.api import Object


@dataclass(frozen=True, slots=True)
class Job:
    """Pods that are alike and must start together."""

    name: str
    size: int
    cpu: str
    memory: str
    gpu: int = 0
    zone_policy: str = ""
    """For netgang: whether the job must be in one zone, or only should. Empty: its default."""


@dataclass(frozen=True, slots=True)
class Expected:
    """What must be true of a job at the end of a step."""

    job: str
    bound: int
    """Pods of it that have a node."""
    nodes: frozenset[str] | None = None
    """The nodes that they must be on, all of them used; `None`: any."""


@dataclass(frozen=True, slots=True)
class Step:
    """What happens, in this order, and what must be true afterwards."""

    expected: tuple[Expected, ...]
    ends: tuple[str, ...] = ()
    """Jobs that are over now: their pods go. One that never started is left alone."""
    cordoned: tuple[str, ...] = ()
    submitted: tuple[Job, ...] = ()


@dataclass(frozen=True, slots=True)
class Scenario:
    """One question."""

    name: str
    source: str
    """Where knavigator has it."""
    words: str
    passed: str
    """What counts as passed."""
    nodes: Mapping[str, Object] = field(hash=False)
    steps: tuple[Step, ...]
    ways: tuple[str, ...]
    """Names of the ways that take part unless others are asked for."""
