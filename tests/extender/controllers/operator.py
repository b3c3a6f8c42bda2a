"""A controller of gangs in a few lines: creates missing members, and removes all while it is suspended.

As a batch Job and Kubeflow's operators: a suspended owner says so in its conditions, a resumed one has new pods.
"""

import asyncio
from dataclasses import KW_ONLY, dataclass, field
from typing import Any

from extender.controllers.removal.suspensions import HISTORY
from extender.errors import NotFoundError
from extender.kube.calls import OWNERS, PODS
from tests.extender.scheduling.world import Object, World, pod_json

ROOT = {"Job": "batch/v1", "TFJob": "kubeflow.org/v1", "StatefulSet": "apps/v1"}


@dataclass(eq=False)
class Operator:
    """Keeps `size` pods of one gang there. Run `keep` as a task."""

    world: World
    _: KW_ONLY
    kind: str = "Job"
    size: int = 3
    least: int = 0  # Of the gang; 0: `size`
    name: str = "job"
    gates: tuple[str, ...] = ("netgang.io/gang",)
    annotations: dict[str, str] = field(default_factory=lambda: {"netgang.io/repair": "restart"})
    labels: dict[str, str] = field(default_factory=dict)  # of its pods, beside those of every job
    spec: dict[str, Any] = field(default_factory=dict)
    cpu: str = "1"
    gang: str = "g"
    priority: int = 0
    created: int = 0  # pods created so far
    ends: bool = True  # whether pods of a suspended owner end
    first: set[str] = field(default_factory=set)  # uids of its pods when all had started

    def __post_init__(self) -> None:
        self.least = self.least or self.size
        self.resource = OWNERS[ROOT[self.kind].rpartition("/")[0], self.kind]
        self.reference = self.world.owner(self.name, kind=self.kind, api_version=ROOT[self.kind], spec=self.spec)

    @property
    def owner(self) -> Object:
        return self.world.api.store.get(self.resource, "default", self.name)

    @property
    def annotations_of_owner(self) -> dict[str, str]:
        return dict(self.owner["metadata"].get("annotations") or {})

    @property
    def restarted(self) -> int:
        """How often, by what is written on the owner."""
        return sum(bool(moment) for moment in self.annotations_of_owner.get(HISTORY, "").split(","))

    @property
    def suspended(self) -> bool:
        spec = self.owner["spec"]
        return bool(spec.get("suspend") or (spec.get("runPolicy") or {}).get("suspend"))

    def put(self, **fields: Any) -> None:
        self.world.api.store.put(self.resource, {**self.owner, **fields})

    def members(self) -> list[str]:
        names = [name for _, name in self.world.api.store.bodies(PODS)]
        return sorted(name for name in names if name.startswith(f"{self.name}-"))

    def uids(self) -> set[str]:
        return {str(self.world.uid(name)) for name in self.members()}

    @property
    def anew(self) -> bool:
        """Whether all pods are others than at first, and on nodes."""
        return self.uids().isdisjoint(self.first) and len(self.world.bound()) == self.size

    async def keep(self) -> None:
        while True:
            await asyncio.sleep(0.2)
            try:
                self.sync()
            except NotFoundError:
                return

    def sync(self) -> None:
        suspended = self.suspended
        status = self.owner.get("status") or {}
        said = {"type": "Suspended", "status": "True" if suspended else "False"}
        if said not in status.get("conditions", []):
            others = [one for one in status.get("conditions", []) if one["type"] != "Suspended"]
            self.put(status={**status, "conditions": [said, *others]})
        there = set(self.members())
        if suspended:
            if self.ends:
                self.world.delete(*there)
            return
        for index in range(self.size):
            if f"{self.name}-{index}" not in there:
                self.create(index)

    def create(self, index: int, *, name: str = "") -> None:
        """Create a member; a Job gives each pod a name of its own, `name`."""
        self.created += 1
        pod = pod_json(
            name or f"{self.name}-{index}",
            gang=self.gang,
            size=self.least,
            cpu=self.cpu,
            annotations=dict(self.annotations),
            schedulingGates=[{"name": gate} for gate in self.gates],
            priority=self.priority,
            owner=self.reference,
        )
        own = {"batch.kubernetes.io/job-name": self.name, "batch.kubernetes.io/job-completion-index": str(index)}
        pod["metadata"]["labels"] |= own | self.labels
        self.world.api.add(pod)


async def schedule(world: World) -> None:
    """kube-scheduler's part: ask for every pod that may be scheduled, until cancelled."""
    asked: set[str] = set()
    while True:
        await asyncio.sleep(0.1)
        for pod in (one.new for one in world.api.store.all(PODS)):
            name, uid = pod["metadata"]["name"], pod["metadata"]["uid"]
            if pod["spec"].get("schedulingGates") or pod["spec"].get("nodeName") or uid in asked:
                continue
            if pod["metadata"].get("deletionTimestamp") or pod["spec"].get("schedulerName") != "netgang":
                continue
            node = world.plan.node_of.get(uid)
            if node is not None:
                asked.add(uid)
                world.bind(name, world.offered(name))
