"""The body of `POST /v1/what-if`: which changes may be supposed, and how each is written.

Why models and not the typed changes themselves: a mistake must name its field, and /openapi.json must show the forms.
Rule: every list and text has a largest size; amounts are Kubernetes quantities; what does not fit the cluster (a node
that is not there) is found when the change is applied, and named by the same field.
"""

from collections.abc import Callable, Mapping
from typing import Annotated, Any, Literal, TypeAlias

from pydantic import BaseModel, ConfigDict, Field

from scoring.ids import EndpointId, GangKey, Namespace, NodeName, ResourceName, ZoneName
from scoring.model.policy import Policy
from scoring.model.resources import Resources, amount
from scoring.network.measurement import Metric
from scoring.what_if import changes as c
from scoring.what_if.changes import Change

MOST_CHANGES = 100
_MOST_NAMED = 1000
_Name: TypeAlias = Annotated[str, Field(max_length=253)]
_Key: TypeAlias = Annotated[str, Field(max_length=507, pattern=r"^[^/]+/[^/]+$", description="NAMESPACE/NAME")]
_Quantity: TypeAlias = Annotated[str | int, Field(description="Kubernetes quantity, such as 2, 500m or 4Gi")]
_Amounts: TypeAlias = Annotated[dict[_Name, _Quantity], Field(max_length=50)]


class _Body(BaseModel):
    model_config = ConfigDict(extra="forbid", allow_inf_nan=False)


class AddCapacityBody(_Body):
    """More of one resource on nodes that there are."""

    change: Literal["add-capacity"]
    zone: _Name
    resource: _Name
    amount: _Quantity
    nodes: _Amounts = Field(default={}, description="Node → its part; empty: the zone's node that has most of it")

    def typed(self) -> Change:
        """The change."""
        name = ResourceName(self.resource)
        parts = tuple((NodeName(node), _read(f"nodes.{node}", name, one)) for node, one in self.nodes.items())
        return c.AddCapacity(ZoneName(self.zone), name, _read("amount", name, self.amount), parts)


class AddNodesBody(_Body):
    """More nodes, empty and ready."""

    change: Literal["add-nodes"]
    zone: _Name
    count: int = Field(default=1, ge=1, le=1000)
    allocatable: _Amounts = Field(default={}, description="Of each; empty: as `like` has it")
    like: _Name | None = Field(default=None, description="Node whose labels and taints they have")
    labels: dict[_Name, _Name] = Field(default={}, max_length=100)

    def typed(self) -> Change:
        """The change."""
        like = None if self.like is None else NodeName(self.like)
        labels = tuple(sorted(self.labels.items()))
        return c.AddNodes(ZoneName(self.zone), self.count, _amounts("allocatable", self.allocatable), like, labels)


class RemoveNodesBody(_Body):
    """Nodes that are gone."""

    change: Literal["remove-nodes"]
    nodes: list[_Name] = Field(min_length=1, max_length=_MOST_NAMED)

    def typed(self) -> Change:
        """The change."""
        return c.RemoveNodes(tuple(NodeName(name) for name in self.nodes))


class AddPodsBody(_Body):
    """More pods: members of a gang, or plain ones on a node."""

    change: Literal["add-pods"]
    namespace: _Name
    name: _Name = Field(description="NAME-0… are the pods")
    count: int = Field(default=1, ge=1, le=10_000)
    gang: _Name | None = None
    min_available: int | None = Field(default=None, ge=1, le=100_000)
    requests: _Amounts = {}
    node: _Name | None = None
    priority: int = Field(default=0, ge=-(2**31), lt=2**31)

    def typed(self) -> Change:
        """The change."""
        node = None if self.node is None else NodeName(self.node)
        return c.AddPods(
            Namespace(self.namespace),
            self.name,
            self.count,
            self.gang,
            self.min_available,
            _amounts("requests", self.requests),
            node,
            self.priority,
        )


class RemovePodsBody(_Body):
    """Pods that are gone."""

    change: Literal["remove-pods"]
    pods: list[_Key] = Field(min_length=1, max_length=_MOST_NAMED)

    def typed(self) -> Change:
        """The change."""
        return c.RemovePods(tuple(self.pods))


class EndJobBody(_Body):
    """A gang or job that ends."""

    change: Literal["end-job"]
    job: _Key

    def typed(self) -> Change:
        """The change."""
        return c.JobEnds(self.job)


class ResizeJobBody(_Body):
    """A job with fewer or more workers."""

    change: Literal["shrink-job", "grow-job"]
    job: _Key
    by: int = Field(ge=1, le=10_000, description="So many workers")

    def typed(self) -> Change:
        """The change."""
        return c.JobShrinks(self.job, self.by) if self.change == "shrink-job" else c.JobGrows(self.job, self.by)


class AdvanceClockBody(_Body):
    """Time passes: to a moment, or for a while."""

    change: Literal["advance-clock"]
    to_s: float | None = Field(default=None, description="Unix seconds")
    by_s: float | None = Field(default=None, ge=0.0, le=366 * 86_400.0)

    def typed_at(self, now_s: float) -> Change:
        """The change. ValueError: neither or both are given."""
        if (self.to_s is None) == (self.by_s is None):
            raise ValueError("to_s: give either to_s or by_s")
        return c.ClockAdvances(self.to_s if self.to_s is not None else now_s + (self.by_s or 0.0))


class SetLinkBody(_Body):
    """A link that is measured again, in one direction."""

    change: Literal["set-link"]
    source: _Name = Field(description="Node or endpoint")
    target: _Name = Field(description="Node or endpoint")
    metric: Metric
    value: float = Field(ge=0.0, description="loss: ratio 0..1; delay: ms, one way; throughput: bit/s")

    def typed(self) -> Change:
        """The change."""
        return c.SetLink(EndpointId(self.source), EndpointId(self.target), self.metric, self.value)


class SetAnnotationBody(_Body):
    """Annotation netgang.io/NAME of a gang's pods, such as weight, zones or zone-policy; null takes it away."""

    change: Literal["set-annotation"]
    gang: _Key
    name: _Name
    value: Annotated[str, Field(max_length=1000)] | None

    def typed(self) -> Change:
        """The change."""
        return c.SetOption(GangKey(self.gang), self.name.removeprefix("netgang.io/"), self.value)


class SetShareBody(_Body):
    """The share of the cluster that a namespace may have."""

    change: Literal["set-share"]
    namespace: _Name
    cap: float = Field(gt=0.0, le=1.0)

    def typed(self) -> Change:
        """The change."""
        return c.SetShare(Namespace(self.namespace), self.cap)


class GangBody(_Body):
    """One obstacle of a gang that is gone: others' gates, contradictions in its pods, or refusals that were learned."""

    change: Literal["open-gates", "mend-group", "forget-refusals"]
    gang: _Key

    def typed(self) -> Change:
        """The change."""
        gang = GangKey(self.gang)
        match self.change:
            case "open-gates":
                return c.OpenGates(gang)
            case "mend-group":
                return c.MendGroup(gang)
            case "forget-refusals":
                return c.ForgetRefusals(gang)


class SetSettingsBody(_Body):
    """Other settings that decide, as in the settings file: score, queue, selection, zone_policy and so on."""

    change: Literal["set-settings"]
    settings: dict[str, Any] = Field(min_length=1, max_length=50)


AnyBody: TypeAlias = Annotated[
    AddCapacityBody
    | AddNodesBody
    | RemoveNodesBody
    | AddPodsBody
    | RemovePodsBody
    | EndJobBody
    | ResizeJobBody
    | AdvanceClockBody
    | SetLinkBody
    | SetAnnotationBody
    | SetShareBody
    | GangBody
    | SetSettingsBody,
    Field(discriminator="change"),
]


class WhatIfBody(_Body):
    """What is to be supposed, one after the other."""

    changes: list[AnyBody] = Field(min_length=1, max_length=MOST_CHANGES)


PolicyOf: TypeAlias = Callable[[Mapping[str, Any]], Policy]
"""Gives the policy with these settings instead of those in force. ValueError: they are none that decide."""


def typed_changes(body: WhatIfBody, *, now_s: float, policy_of: PolicyOf) -> tuple[Change, ...]:
    """The changes. ValueError names the field that is wrong, as `changes.2.amount: …`."""
    found: list[Change] = []
    for number, one in enumerate(body.changes):
        try:
            match one:
                case SetSettingsBody():
                    found.append(c.SetPolicy(policy_of(one.settings)))
                case AdvanceClockBody():
                    found.append(one.typed_at(now_s))
                case _:
                    found.append(one.typed())
        except ValueError as error:
            raise ValueError(f"changes.{number}.{error}") from error
    return tuple(found)


def _amounts(field: str, given: Mapping[str, str | int]) -> Resources:
    names = {ResourceName(name): one for name, one in given.items()}
    return Resources.of({name: _read(f"{field}.{name}", name, one) for name, one in names.items()})


def _read(field: str, resource: ResourceName, given: str | int) -> int:
    """An amount in the resource's own unit. ValueError names the field."""
    try:
        found = amount(resource, given)
    except ValueError as error:
        raise ValueError(f"{field}: {error}") from error
    if found < 0:
        raise ValueError(f"{field}: {given} is negative")
    return found
