"""Nodes, and what takes room on all of them: DaemonSets."""

from dataclasses import dataclass, replace

from scoring.ids import Namespace, NodeName, ZoneName
from scoring.model.constraints import Taint
from scoring.model.pod import MemberClass
from scoring.model.resources import Resources


@dataclass(frozen=True, slots=True)
class Node:
    """A node as the planner sees it. `allocatable` holds every resource, incl. extended ones and `pods`."""

    name: NodeName
    zone: ZoneName
    allocatable: Resources
    labels: tuple[tuple[str, str], ...] = ()
    taints: tuple[Taint, ...] = ()
    unschedulable: bool = False
    ready: bool = True
    leaving: bool = False  # Out of service, or an autoscaler is about to remove it (docs/safety.md S12)
    addresses: tuple[str, ...] = ()  # Of `status.addresses`: for mapping to measurement endpoints
    annotations: tuple[tuple[str, str], ...] = ()  # Only those that name measurement endpoints
    created_s: float = 0.0

    @property
    def at_best(self) -> "Node":
        """The node as its labels alone describe it: ready, not cordoned, without taints."""
        return replace(self, ready=True, leaving=False, unschedulable=False, taints=())


@dataclass(frozen=True, slots=True)
class DaemonSet:
    """What an apps DaemonSet will ask of each node that it selects."""

    namespace: Namespace
    name: str
    identity: str  # `NAMESPACE/UID`: a pod can claim any uid for its owner, and not another namespace for itself
    member_class: MemberClass  # Of its pods, with the tolerations that its controller adds
    created_s: float = 0.0
    deleting: bool = False

    @property
    def key(self) -> str:
        """`namespace/name`, for people."""
        return f"{self.namespace}/{self.name}"
