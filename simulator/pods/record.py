"""What a simulation writes down: counts while it runs, and afterwards where each pod was and when."""

from collections import Counter
from dataclasses import dataclass, field

import msgspec

from scoring.ids import NodeName
from simulator.model import RunResult


@dataclass(slots=True)
class Record:
    """Counts of one run."""

    asked: Counter[str] = field(default_factory=Counter)
    """verb → calls"""
    tries: Counter[str] = field(default_factory=Counter)
    """how a scheduling cycle ended → how often"""


@dataclass(frozen=True, slots=True)
class JobRecord:
    """One job's placements and times; seconds since the start of the run."""

    name: str
    fate: str
    arrived_s: float
    started_s: float | None
    """When its minimum was on nodes."""
    ended_s: float | None
    placed: dict[str, tuple[NodeName, float]]
    """member → the node it was bound to last, and when"""


@dataclass(frozen=True, slots=True)
class PodRun:
    """One scenario, pod by pod."""

    result: RunResult
    jobs: tuple[JobRecord, ...]
    """In the order of the scenario's jobs."""
    asked: dict[str, int]
    """verb of the extender → calls"""
    tries: dict[str, int]
    """how scheduling cycles ended → how many"""
    calls: dict[str, int]
    """call of the service to the API server → how often"""
    pods: int
    """Pods that were created."""
    virtual_s: float
    """Seconds that were simulated."""

    def encoded(self) -> bytes:
        """All of it as JSON, keys sorted; equal runs give equal bytes."""
        return msgspec.json.encode(self, order="sorted")
