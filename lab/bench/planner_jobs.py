"""The gangs of the planner's load: each wants five whole nodes of a zone by GPUs; they differ in memory and in age."""

from datetime import UTC, datetime
from typing import Any

import msgspec

from lab.bench.scale import objects

SIZE = 5
_GROUP = "pod-group.scheduling.sigs.k8s.io"


class Job(msgspec.Struct, frozen=True):
    """A gang of five whole nodes."""

    number: int
    created_s: float
    """Unix time, whole seconds."""

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
            requests={"cpu": "32", "memory": f"{65_536 + self.number * 7919 % 997}Mi", "nvidia.com/gpu": "8"},
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
