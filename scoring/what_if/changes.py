"""What may be supposed to be different: nodes, room, pods, jobs, the moment, links, annotations, shares, settings.

The one schema of a change: /v1/what-if reads these records, `netgang what-if` and `/v1/explain` write them, and
`scoring.what_if.suppose` applies them, so that a suggestion can be sent back as it is and the planner asked if it is
true. Rules: a change says one thing; amounts are Kubernetes quantities; all has bounds, checked where it is read.
"""

from collections.abc import Mapping
from typing import Annotated, Any, Literal, TypeAlias

import msgspec
from msgspec import Meta

from scoring.ids import GangKey, Namespace, NodeName, ResourceName, ZoneName
from scoring.model import Resources
from scoring.model.resources import amount
from scoring.network.measurement import Metric

MOST_CHANGES = 100
MOST_PODS = 10_000  # Of one change
_MOST_NAMED = 1000
_NAME = Meta(max_length=253)
_KEY = Meta(max_length=507, pattern=r"^[^/]+/[^/]+$", description="NAMESPACE/NAME")
_LABEL_KEY = Meta(max_length=317)  # A domain of 253 characters and a name of 63 (qualified names)
_MANY = Meta(min_length=1, max_length=_MOST_NAMED)
_Name: TypeAlias = Annotated[str, _NAME]
Quantity: TypeAlias = str | int
"""Kubernetes quantity, such as 2, 500m or 4Gi"""
_Amounts: TypeAlias = Annotated[Mapping[_Name, Quantity], Meta(max_length=50)]


class MisfitError(ValueError):
    """A change cannot be applied to this cluster; the text begins with the field that is wrong."""


class Supposition(msgspec.Struct, frozen=True, tag_field="change", forbid_unknown_fields=True):
    """What all changes are; their kind is field `change`."""


class AddCapacity(Supposition, frozen=True, tag="add-capacity"):
    """More of one resource on nodes that there are."""

    zone: Annotated[ZoneName, _NAME]
    resource: Annotated[ResourceName, _NAME]
    amount: Quantity
    """Kubernetes quantity, such as 2, 500m or 4Gi"""
    nodes: Annotated[Mapping[Annotated[NodeName, _NAME], Quantity], Meta(max_length=_MOST_NAMED)] = {}
    """Node → its part; empty: all of it on the zone's node that has most of it, of equals the first"""


class AddNodes(Supposition, frozen=True, tag="add-nodes"):
    """More nodes, empty and ready."""

    zone: Annotated[ZoneName, _NAME]
    count: Annotated[int, Meta(ge=1, le=1000)] = 1
    allocatable: _Amounts = {}
    """Of each; the number of pods need not be named. Empty: as `like` has it"""
    like: Annotated[NodeName, _NAME] | None = None
    """Node whose labels and taints they have, apart from its names"""
    labels: Annotated[Mapping[_Name, _Name], Meta(max_length=100)] = {}


class RemoveNodes(Supposition, frozen=True, tag="remove-nodes"):
    """Nodes that are gone, with all room on them; members of gangs there count as lost."""

    nodes: Annotated[tuple[Annotated[NodeName, _NAME], ...], _MANY]


class CordonNodes(Supposition, frozen=True, tag="cordon"):
    """Nodes that take no new pods, as after `kubectl cordon`; what runs there stays."""

    nodes: Annotated[tuple[Annotated[NodeName, _NAME], ...], _MANY]


class UncordonNodes(Supposition, frozen=True, tag="uncordon"):
    """Nodes that take pods again, as after `kubectl uncordon`."""

    nodes: Annotated[tuple[Annotated[NodeName, _NAME], ...], _MANY]


class TaintNodes(Supposition, frozen=True, tag="taint"):
    """Nodes with one taint more; what runs there stays, also without a toleration of NoExecute."""

    nodes: Annotated[tuple[Annotated[NodeName, _NAME], ...], _MANY]
    key: _Name
    effect: Literal["NoSchedule", "NoExecute", "PreferNoSchedule"]
    value: Annotated[str, Meta(max_length=63)] = ""


class UntaintNodes(Supposition, frozen=True, tag="untaint"):
    """Nodes without the taints of a key; each must have one."""

    nodes: Annotated[tuple[Annotated[NodeName, _NAME], ...], _MANY]
    key: _Name
    effect: Literal["NoSchedule", "NoExecute", "PreferNoSchedule"] | None = None
    """null: whatever effect they have"""


class AddPods(Supposition, frozen=True, tag="add-pods"):
    """More pods NAME-0…: members of a gang, or plain ones that take room on `node`: netgang does not plan them."""

    namespace: Annotated[Namespace, _NAME]
    name: _Name
    count: Annotated[int, Meta(ge=1, le=MOST_PODS)] = 1
    gang: _Name | None = None
    """Name of the group; one that exists gets members like its last one, unless `requests` says what they ask for"""
    min_available: Annotated[int, Meta(ge=1, le=100_000)] | None = None
    """Of a gang that does not exist yet; null: all of them"""
    requests: _Amounts = {}
    node: Annotated[NodeName, _NAME] | None = None
    priority: Annotated[int, Meta(ge=-(2**31), lt=2**31)] = 0


class PodSet(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Pods that differ in their names alone."""

    pod: msgspec.Raw
    """A v1 Pod as a controller would create it"""
    count: Annotated[int, Meta(ge=1, le=MOST_PODS)] = 1
    """Several are NAME-0, NAME-1, …"""


class AddJob(Supposition, frozen=True, tag="add-job"):
    """A job that is submitted: its pods, which must form gangs that do not exist yet, and its PodGroups."""

    pods: Annotated[tuple[PodSet, ...], Meta(min_length=1, max_length=100)]
    pod_groups: Annotated[tuple[msgspec.Raw, ...], Meta(max_length=100)] = ()


class RemovePods(Supposition, frozen=True, tag="remove-pods"):
    """Pods that are gone: members of gangs, or others that take room on a node."""

    pods: Annotated[tuple[Annotated[str, _KEY], ...], _MANY]


class JobEnds(Supposition, frozen=True, tag="end-job"):
    """A gang, or a job with all its gangs, that ends: its pods are gone, whether they ran or waited."""

    job: Annotated[str, _KEY]


class JobShrinks(Supposition, frozen=True, tag="shrink-job"):
    """A job with `by` workers fewer: those of the highest index leave, and need not be made up for."""

    job: Annotated[str, _KEY]
    by: Annotated[int, Meta(ge=1, le=10_000)]


class JobGrows(Supposition, frozen=True, tag="grow-job"):
    """A job with `by` workers more."""

    job: Annotated[str, _KEY]
    by: Annotated[int, Meta(ge=1, le=10_000)]


class ClockAdvances(Supposition, frozen=True, tag="advance-clock"):
    """Time passes, to a moment or for a while; waits, back-offs and holds run on, links go on being measured."""

    to_s: float | None = None
    """Unix seconds"""
    by_s: Annotated[float, Meta(ge=0.0, le=366 * 86_400.0)] | None = None

    def moment_s(self, now_s: float) -> float:
        """Unix seconds. Errors: MisfitError when neither or both are given."""
        if self.to_s is not None and self.by_s is None:
            return self.to_s
        if self.by_s is not None and self.to_s is None:
            return now_s + self.by_s
        raise MisfitError("to_s: give either to_s or by_s")


class SetLink(Supposition, frozen=True, tag="set-link"):
    """A link that is measured again, in one direction."""

    source: _Name
    """Node or endpoint, as `target`"""
    target: _Name
    metric: Metric
    value: Annotated[float, Meta(ge=0.0)]
    """loss: ratio 0..1; delay: ms, one way; throughput: bit/s"""


class SetOption(Supposition, frozen=True, tag="set-annotation"):
    """Annotation netgang.io/NAME of a gang's pods, such as weight, zones or zone-policy; null takes it away."""

    gang: Annotated[GangKey, _KEY]
    name: _Name
    value: Annotated[str, Meta(max_length=1000)] | None

    @property
    def option(self) -> str:
        """The name without its prefix, which may be left out."""
        return self.name.removeprefix("netgang.io/")


class SetShare(Supposition, frozen=True, tag="set-share"):
    """The share of the cluster that the gangs of a namespace may have."""

    namespace: Annotated[Namespace, _NAME]
    cap: Annotated[float, Meta(gt=0.0, le=1.0)]


class SetSettings(Supposition, frozen=True, tag="set-settings"):
    """Other settings that decide, as in the settings file: score, queue, selection, zone_policy and so on."""

    settings: Annotated[Mapping[str, Any], Meta(min_length=1, max_length=50)]


class OpenGates(Supposition, frozen=True, tag="open-gates"):
    """Others remove their scheduling gates from the gang's pods."""

    gang: Annotated[GangKey, _KEY]


class MendGroup(Supposition, frozen=True, tag="mend-group"):
    """What the gang's labels, scheduler names or priorities contradict each other in is put right."""

    gang: Annotated[GangKey, _KEY]


class ForgetRefusals(Supposition, frozen=True, tag="forget-refusals"):
    """kube-scheduler's own filters accept the nodes again that they refused to the gang's pods."""

    gang: Annotated[GangKey, _KEY]


class Tolerate(Supposition, frozen=True, tag="tolerate"):
    """The gang's pods tolerate the taints of this key, whatever their value and effect."""

    gang: Annotated[GangKey, _KEY]
    key: Annotated[str, _LABEL_KEY]


class LowerRequest(Supposition, frozen=True, tag="lower-request"):
    """The gang's waiting pods that ask for `asked` of a resource ask for less of it."""

    gang: Annotated[GangKey, _KEY]
    resource: Annotated[ResourceName, _NAME]
    asked: Quantity
    """Kubernetes quantity, such as 16: what a pod's request is now"""
    to: Quantity
    """What it would be, more than 0"""


class IgnoreNodeLabel(Supposition, frozen=True, tag="ignore-node-label"):
    """The gang's waiting pods have no nodeSelector and no required node affinity for the label of this key."""

    gang: Annotated[GangKey, _KEY]
    key: Annotated[str, _LABEL_KEY]


Change: TypeAlias = (
    AddCapacity | AddNodes | RemoveNodes | CordonNodes | UncordonNodes | TaintNodes | UntaintNodes
    | AddJob | AddPods | RemovePods | JobEnds | JobShrinks | JobGrows
    | ClockAdvances | SetLink | SetOption | SetShare | SetSettings | OpenGates | MendGroup | ForgetRefusals
    | Tolerate | LowerRequest | IgnoreNodeLabel
)  # fmt: skip


class WhatIf(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What is to be supposed, one after the other."""

    changes: Annotated[tuple[Change, ...], Meta(min_length=1, max_length=MOST_CHANGES)]


def amount_of(field: str, resource: ResourceName, given: Quantity) -> int:
    """An amount in the resource's own unit. Errors: MisfitError names the field."""
    try:
        found = amount(resource, given)
    except ValueError as error:
        raise MisfitError(f"{field}: {error}") from error
    if found < 0:
        raise MisfitError(f"{field}: {given} is negative")
    return found


def resources_of(field: str, given: Mapping[str, Quantity]) -> Resources:
    """All of them."""
    names = {ResourceName(name): one for name, one in given.items()}
    return Resources.of({name: amount_of(f"{field}.{name}", name, one) for name, one in names.items()})
