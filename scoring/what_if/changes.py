"""What may be supposed to be different: nodes, room, pods, jobs, the moment, links, annotations, shares, the policy.

Why typed values and not patches of objects: a suggestion of `scoring.explain` is a list of these, so its reader
can apply it, a program as well as a person, and the planner can be asked whether it is true. Rule: a change says one
thing about the cluster, in the cluster's own units; what it does to a snapshot is in `scoring.what_if.apply`.
"""

from dataclasses import dataclass
from typing import TypeAlias

from scoring.ids import EndpointId, GangKey, Namespace, NodeName, ResourceName, ZoneName
from scoring.model.policy import Policy
from scoring.model.resources import NO_RESOURCES, Resources
from scoring.network.measurement import Metric


@dataclass(frozen=True, slots=True)
class AddCapacity:
    """`amount` more of `resource` on nodes that the zone has already."""

    zone: ZoneName
    resource: ResourceName
    amount: int
    """In the resource's own unit: millicores for cpu."""
    nodes: tuple[tuple[NodeName, int], ...] = ()
    """How much of it on which node; empty: all of it on the zone's node that has most of it, of equals the first."""


@dataclass(frozen=True, slots=True)
class AddNodes:
    """`count` more ready nodes in a zone, without any pods."""

    zone: ZoneName
    count: int
    allocatable: Resources = NO_RESOURCES
    """Of each; the number of pods need not be named. Empty: as `like` has it."""
    like: NodeName | None = None
    """A node whose labels and taints they have, apart from its names."""
    labels: tuple[tuple[str, str], ...] = ()
    """Further labels."""


@dataclass(frozen=True, slots=True)
class RemoveNodes:
    """Nodes that are gone, with all room on them; members of gangs there count as lost."""

    nodes: tuple[NodeName, ...]


@dataclass(frozen=True, slots=True)
class AddPods:
    """`count` more pods: of a gang, or plain ones that take room on `node`."""

    namespace: Namespace
    name: str
    """`NAME-0…`, the first numbers that are free"""
    count: int
    gang: str | None = None
    """Name of the group; one that exists gets members like its last one, unless `requests` says what they ask for."""
    min_available: int | None = None
    """Of a gang that does not exist yet; `None`: all of them."""
    requests: Resources = NO_RESOURCES
    node: NodeName | None = None
    """Where they run; plain pods need one, because netgang does not plan them."""
    priority: int = 0


@dataclass(frozen=True, slots=True)
class RemovePods:
    """Pods, `namespace/name`, that are gone: members of gangs, or others that take room on a node."""

    pods: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class JobEnds:
    """All pods of a gang, or of a job with all its gangs, are gone, whether they ran or waited."""

    job: str
    """`namespace/name`"""


@dataclass(frozen=True, slots=True)
class JobShrinks:
    """A job does with `by` workers fewer: those of the highest index leave, and need not be made up for."""

    job: str
    by: int


@dataclass(frozen=True, slots=True)
class JobGrows:
    """A job asks for `by` workers more."""

    job: str
    by: int


@dataclass(frozen=True, slots=True)
class ClockAdvances:
    """Nothing happens until `to_s` (Unix seconds): waits, back-offs and holds run on; links go on being measured."""

    to_s: float


@dataclass(frozen=True, slots=True)
class SetLink:
    """A metric of the link from one endpoint of measurements, or node, to another is measured as `value` just now."""

    source: EndpointId | NodeName
    target: EndpointId | NodeName
    metric: Metric
    value: float


@dataclass(frozen=True, slots=True)
class SetOption:
    """Annotation `netgang.io/NAME` of a gang's pods; `None` takes it away."""

    gang: GangKey
    name: str
    value: str | None


@dataclass(frozen=True, slots=True)
class SetShare:
    """The share of the cluster that the gangs of a namespace may have."""

    namespace: Namespace
    cap: float


@dataclass(frozen=True, slots=True)
class SetPolicy:
    """Everything is decided by another policy."""

    policy: Policy


@dataclass(frozen=True, slots=True)
class OpenGates:
    """Others remove their scheduling gates from the gang's pods."""

    gang: GangKey


@dataclass(frozen=True, slots=True)
class MendGroup:
    """What the gang's labels, scheduler names or priorities contradict each other in is put right."""

    gang: GangKey


@dataclass(frozen=True, slots=True)
class ForgetRefusals:
    """kube-scheduler's own filters accept the nodes again that they refused to the gang's pods."""

    gang: GangKey


Change: TypeAlias = (
    AddCapacity
    | AddNodes
    | RemoveNodes
    | AddPods
    | RemovePods
    | JobEnds
    | JobShrinks
    | JobGrows
    | ClockAdvances
    | SetLink
    | SetOption
    | SetShare
    | SetPolicy
    | OpenGates
    | MendGroup
    | ForgetRefusals
)


@dataclass(frozen=True, slots=True)
class Misfit:
    """Why a change cannot be applied to this cluster; `number`: its place in the list, `field` what is wrong of it."""

    number: int
    field: str
    why: str
