"""The gangs of the soak: what they are made of, and which is next by the documented order.

Why apart from netgang's own order: a benchmark that asks the measured program for the right order measures nothing.
Rule: every gang wants the same room (five whole nodes of a zone, by their GPUs), so the first one in the order
starts next; gangs differ in memory, which makes weights, and in age. Order (docs/explanation/queue.md): STARVING ones
by how long they starve, then by ω′ (here: least memory first), by age, by name.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from lab.bench.scale import objects

SIZE = 5
STARVE_LIMIT_S = 1800.0
"""What measured services are set to: half an hour in which gangs starve one after the other."""
_GROUP = "pod-group.scheduling.sigs.k8s.io"
_UNSURE_S = 3.0
"""Nothing is concluded about a gang that started to starve, or became complete, so short a time ago."""


@dataclass(slots=True)
class Job:
    """A gang of five whole nodes."""

    number: int
    created_s: float
    """Unix time, whole seconds."""
    steady_s: float
    """When its pods last came; Unix time."""

    @property
    def name(self) -> str:
        """Of the gang, and of its PodGroup if it has one."""
        return f"job-{self.number:06d}"

    @property
    def namespace(self) -> str:
        """One of fifty."""
        return f"team-{self.number % 50}"

    @property
    def grouped(self) -> bool:
        """Whether it has a PodGroup; the others say their size by labels."""
        return self.number % 2 == 0

    @property
    def memory_mib(self) -> int:
        """Of each member; several gangs have the same."""
        return 65_536 + self.number * 7919 % 997

    def starving(self, now_s: float) -> bool:
        """Whether it starves by now."""
        return now_s >= self.created_s + STARVE_LIMIT_S

    def turn(self, now_s: float) -> tuple[object, ...]:
        """What gangs are sorted by.

        >>> old, light, heavy = Job(1, 0.0, 0.0), Job(2, 900.0, 900.0), Job(126, 901.0, 901.0)
        >>> [one.number for one in sorted([light, heavy, old], key=lambda one: one.turn(1800.0))]
        [1, 126, 2]
        """
        if self.starving(now_s):
            return 0, self.created_s, self.memory_mib, f"{self.namespace}/{self.name}"
        return 1, self.memory_mib, self.created_s, f"{self.namespace}/{self.name}"

    def sure(self, now_s: float) -> bool:
        """Whether its rank must be certain by now."""
        unsure = abs(now_s - self.created_s - STARVE_LIMIT_S) < _UNSURE_S
        return now_s - self.steady_s > _UNSURE_S and not unsure

    def pod(self, index: int, *, node: str | None = None, created_s: float | None = None) -> dict[str, Any]:
        """A member; without a node it waits at the gate."""
        born_s = self.created_s if created_s is None else created_s
        labels = {"scheduling.x-k8s.io/pod-group": self.name} if self.grouped else {}
        if not self.grouped:
            labels = {f"{_GROUP}/name": self.name, f"{_GROUP}/min-available": str(SIZE)}
        return objects.raw_pod(
            f"{self.name}-worker-{index}",
            self.namespace,
            owner="Job",
            uid=f"{self.name}-{index}-{born_s:.0f}",
            node=node,
            requests={"cpu": "32", "memory": f"{self.memory_mib}Mi", "nvidia.com/gpu": "8"},
            labels=labels,
            scheduler="netgang",
            gated=node is None,
            created=stamp(born_s),
        )

    def group(self) -> dict[str, Any]:
        """Its PodGroup."""
        metadata = {"name": self.name, "namespace": self.namespace, "creationTimestamp": stamp(self.created_s)}
        return {"metadata": metadata, "spec": {"minMember": SIZE}}


def stamp(moment_s: float) -> str:
    """A moment as the API writes it.

    >>> stamp(0.0)
    '1970-01-01T00:00:00Z'
    """
    return datetime.fromtimestamp(moment_s, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def overtaken(started: Job, waiting: Iterable[Job], *, now_s: float) -> Job | None:
    """The gang that should have been admitted before the one that was; `None`: all is as specified, or unsure.

    >>> first, second = Job(126, 0.0, 0.0), Job(2, 0.0, 0.0)
    >>> overtaken(first, [second], now_s=9.0), overtaken(second, [first], now_s=9.0).number
    (None, 126)
    """
    if not started.sure(now_s):
        return None
    ahead = [one for one in waiting if one.sure(now_s) and one.turn(now_s) < started.turn(now_s)]
    return min(ahead, key=lambda one: one.turn(now_s), default=None)
