"""What a simulation writes down: counts and used room while it runs, afterwards where each pod was and when."""

from collections import Counter
from dataclasses import dataclass, field

import msgspec

from lab.simulator.model import RunResult
from scoring.ids import NodeName, ResourceName
from scoring.model.resources import PODS, Resources


class Meter:
    """Integrals of what pods on nodes request; times are the loop's. Cost of each change: O(resources)."""

    def __init__(self) -> None:
        self._held: dict[str, Resources] = {}
        """uid of a pod on a node → its requests"""
        self._now: Counter[ResourceName] = Counter()
        self._sum: Counter[ResourceName] = Counter()
        self._since_s = 0.0

    def take(self, uid: str, amounts: Resources, *, now_s: float) -> None:
        """A pod is on a node."""
        self._advance(now_s)
        self._held[uid] = amounts
        self._now.update(dict(amounts))

    def give(self, uid: str, *, now_s: float) -> None:
        """The pod is gone or has ended; nothing, for one that was on no node."""
        self._advance(now_s)
        self._now.subtract(dict(self._held.pop(uid, Resources())))

    def ratios(self, capacity: Resources, *, from_s: float, to_s: float) -> dict[str, float]:
        """Share of each resource of `capacity` that was requested, mean between two moments; nothing was before."""
        self._advance(to_s)
        span_s = to_s - from_s
        wanted = [(name, most) for name, most in capacity if name != PODS]
        return {str(name): self._sum[name] / (most * span_s) if span_s > 0.0 else 0.0 for name, most in wanted}

    def _advance(self, now_s: float) -> None:
        past_s = now_s - self._since_s
        self._since_s = now_s
        if past_s > 0.0:
            for name, amount in self._now.items():
                self._sum[name] += amount * past_s  # type: ignore[assignment]


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
