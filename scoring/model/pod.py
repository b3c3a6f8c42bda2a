"""One pod: what it requests, what narrows where it may go, its class and what it says of its job and gang.

Amounts are exact integers, as kube-scheduler counts them. Rule (k8s.io/apimachinery resource.Quantity): CPU counts in
millicores, all else in whole units, and a fraction of the unit is rounded **up**, for requests and allocatable alike.
"""

import re
from collections.abc import Iterable, Iterator, Mapping
from decimal import ROUND_CEILING, Decimal
from enum import StrEnum
from functools import lru_cache

import msgspec
from msgspec.structs import replace

from scoring import GangKey, JobKey, Namespace, NodeName, PodName, PodUid, ResourceName

CPU = ResourceName("cpu")
MEMORY = ResourceName("memory")
PODS = ResourceName("pods")

_SUFFIX = {unit: Decimal(1000) ** power for power, unit in enumerate(("n", "u", "m", "", *"kMGTPE"), start=-3)}
_SUFFIX |= {f"{unit}i": Decimal(1024) ** power for power, unit in enumerate("KMGTPE", start=1)}
_QUANTITY = re.compile(
    r"(?P<number>[+-]?(?:\d+(?:\.\d*)?|\.\d+))(?:(?P<suffix>n|u|m|k|Ki|M|Mi|G|Gi|T|Ti|P|Pi|E|Ei)|[eE](?P<exponent>[+-]?\d{1,3}))?"
)
LARGEST = 2**62 - 1  # Amounts are kept in the range of int64, with room to add two; more is not a machine that exists
QUANTITY_CHARS = 64  # Longest text that is read as a quantity; the API server writes less than half of it
NAME_CHARS = 317  # Longest name of a resource: a domain of 253 characters and a name of 63 (qualified names)
MOST_RESOURCES = 64  # Most resources of which a tenant's object may ask for any; nodes with a dozen are rare
_SHOWN_CHARS = 40
_BINARY: Mapping[str, int] = {"Ti": 2**40, "Gi": 2**30, "Mi": 2**20, "Ki": 2**10}  # suffix → factor, the largest first


def parse_quantity(text: str, *, millis: bool = False) -> int:
    """Read a Kubernetes quantity as whole units, or as thousandths with `millis`; fractions round up.

    More than ±`LARGEST` counts as that much, as in the API server. Raises ValueError when `text` is not a quantity; one
    that is longer than any is not looked at, nor remembered (docs/safety.md S21).
    """
    if len(text) > QUANTITY_CHARS:
        raise ValueError(f"{text[:_SHOWN_CHARS]!r}… is not a quantity such as 500m, 2 or 4Gi: too long")
    return _parsed(text, millis)


@lru_cache(maxsize=8192)
def _parsed(text: str, millis: bool) -> int:
    match = _QUANTITY.fullmatch(text.strip())
    if match is None:
        raise ValueError(f"{text!r} is not a quantity such as 500m, 2 or 4Gi")
    value, exponent = Decimal(match["number"]), match["exponent"]
    value = value.scaleb(int(exponent)) if exponent is not None else value * _SUFFIX[match["suffix"] or ""]
    value = max(min(value * 1000 if millis else value, Decimal(LARGEST)), -Decimal(LARGEST))
    return int(value.to_integral_value(rounding=ROUND_CEILING))


def amount(name: str, quantity: str | int | float) -> int:
    """Read the quantity of resource `name` in its own unit: millicores for cpu, whole units for all others."""
    return parse_quantity(str(quantity), millis=name == CPU)


def quantity(name: str, amount: int) -> str:
    """An amount as Kubernetes writes it.

    >>> quantity("cpu", 500), quantity("cpu", 19_500), quantity("memory", 3 * 2**30), quantity("nvidia.com/gpu", 2)
    ('500m', '19.5', '3Gi', '2')
    """
    if name == CPU:
        return f"{amount}m" if amount < 1000 and amount else f"{amount / 1000}".removesuffix(".0")
    if name == MEMORY or amount >= _BINARY["Mi"]:
        for suffix, factor in _BINARY.items():
            if amount and amount % factor == 0:
                return f"{amount // factor}{suffix}"
    return str(amount)


def is_extended(name: str) -> bool:
    """Whether a resource is an extended one: named by its vendor's domain (core/v1/helper, IsExtendedResourceName).

    >>> [is_extended(name) for name in ("nvidia.com/gpu", "cpu", "hugepages-2Mi", "example.kubernetes.io/x")]
    [True, False, False, False]
    """
    return "/" in name and "kubernetes.io/" not in name and not name.startswith("requests.")


class Resources(msgspec.Struct, frozen=True, weakref=True):
    """Amounts by resource name, sorted by name, without zeros: equal amounts are equal and hash alike."""

    items: tuple[tuple[ResourceName, int], ...] = ()

    @classmethod
    def from_amounts(cls, amounts: Mapping[ResourceName, int] | Iterable[tuple[ResourceName, int]]) -> "Resources":
        """Build from amounts; later entries of the same name win."""
        return cls(tuple(sorted((n, a) for n, a in dict(amounts).items() if a)))

    @classmethod
    def parse(cls, quantities: Mapping[str, str | int | float]) -> "Resources":
        """Build from Kubernetes quantities; ValueError names the resource."""
        amounts: dict[ResourceName, int] = {}
        for name, quantity in quantities.items():
            if len(name) > NAME_CHARS:
                raise ValueError(f"{name[:_SHOWN_CHARS]}… is not the name of a resource: too long")
            try:
                amounts[ResourceName(name)] = amount(name, quantity)
            except ValueError as error:
                raise ValueError(f"{name}: {error}") from error
        return cls.from_amounts(amounts)

    def get(self, name: ResourceName) -> int:
        """Amount of `name`, 0 when it is not there."""
        return next((a for n, a in self.items if n == name), 0)

    def __iter__(self) -> Iterator[tuple[ResourceName, int]]:
        return iter(self.items)


NO_RESOURCES = Resources()


DEVICE_CLAIMS = "resourceClaims"  # In `Pod.unmodelled`: devices that kube-scheduler alone counts


class Taint(msgspec.Struct, frozen=True):
    """A node's taint."""

    key: str
    value: str
    effect: str


class Toleration(msgspec.Struct, frozen=True):
    """A pod's toleration; empty `key` with operator Exists tolerates everything, empty `effect` all effects."""

    key: str = ""
    operator: str = "Equal"
    value: str = ""
    effect: str = ""


class Requirement(msgspec.Struct, frozen=True):
    """One line of a node selector term: In, NotIn, Exists, DoesNotExist, Gt, Lt."""

    key: str
    operator: str
    values: tuple[str, ...] = ()


class NodeSelectorTerm(msgspec.Struct, frozen=True):
    """Requirements that must all hold; terms of one affinity are alternatives. An empty term matches nothing."""

    expressions: tuple[Requirement, ...] = ()
    fields: tuple[Requirement, ...] = ()


class HostPort(msgspec.Struct, frozen=True):
    """A port that a pod occupies on its node; `ip` "0.0.0.0" conflicts with every address."""

    protocol: str
    ip: str
    port: int


class Constraints(msgspec.Struct, frozen=True, weakref=True, cache_hash=True):
    """Where a pod may go, as far as we model it; the rest is learned from NodeNames (docs/safety.md S7)."""

    node_selector: tuple[tuple[str, str], ...] = ()
    affinity: tuple[NodeSelectorTerm, ...] | None = None  # Required node affinity; an empty tuple matches no node
    tolerations: tuple[Toleration, ...] = ()
    host_ports: tuple[HostPort, ...] = ()
    claims: tuple[str, ...] = ()  # Volume claims, `namespace/name`: what one pod learns holds for those with the same


class Role(StrEnum):
    """What a pod does in its job. Only workers are ever counted up and down (facts of the job kinds)."""

    PS = "ps"
    CHIEF = "chief"
    WORKER = "worker"
    OTHER = "other"  # The job's framework is not known, or the pod is an evaluator or initialiser


class Phase(StrEnum):
    """`status.phase` of a pod."""

    PENDING = "Pending"
    RUNNING = "Running"
    SUCCEEDED = "Succeeded"
    FAILED = "Failed"
    UNKNOWN = "Unknown"


class GangSource(StrEnum):
    """Where a gang's name and size come from; the first that matches wins."""

    NATIVE = "spec.schedulingGroup"  # kube-scheduler alone starts it
    GATED_NATIVE = "spec.schedulingGroup and gate netgang.io/gang"  # kube-scheduler starts it once netgang admits it
    POD_GROUP = "PodGroup scheduling.x-k8s.io/v1alpha1"
    LABELS = "labels pod-group.scheduling.sigs.k8s.io"
    ANNOTATION = "annotation scheduling.k8s.io/group-name"

    @property
    def is_native(self) -> bool:
        """Whether it is a gang of Kubernetes' own, which kube-scheduler starts as a whole."""
        return self in (GangSource.NATIVE, GangSource.GATED_NATIVE)


GATE = "netgang.io/gang"  # Our scheduling gate: pods wait with it outside kube-scheduler's queues until admitted


class MemberClass(msgspec.Struct, frozen=True, weakref=True, cache_hash=True):
    """Members that are interchangeable for placement: same role, same request, same constraints."""

    role: Role
    requests: Resources
    constraints: Constraints
    lineage: str = ""
    """For whose pods it holds what filters that are not modelled say of nodes: the namespace, and the gang too where a
    pod itself has constraints that are not modelled. No tenant closes nodes to another's pods (docs/safety.md S27)."""

    @property
    def anywhere(self) -> "MemberClass":
        """Without required node affinity: what nodes refused holds for an admitted pod's successor, too (S27)."""
        if self.constraints.affinity is None:
            return self
        return replace(self, constraints=replace(self.constraints, affinity=None))


class GroupRef(msgspec.Struct, frozen=True, weakref=True):
    """What a pod says of its gang; `problem` is set when it contradicts itself."""

    key: GangKey
    source: GangSource
    min_available: int | None = None
    problem: str | None = None


class Controller(msgspec.Struct, frozen=True, weakref=True):
    """The object that makes a pod and makes another when it goes: the controller of its ownerReferences."""

    api_version: str
    kind: str
    name: str
    uid: str

    @property
    def group_kind(self) -> tuple[str, str]:
        """API group (empty: the core's) and kind."""
        group, slash, _ = self.api_version.partition("/")
        return (group if slash else ""), self.kind


class RunRef(msgspec.Struct, frozen=True, weakref=True):
    """The object whose pods make up a run of a job, as far as a pod says: another object is another run."""

    uid: str
    kind: str  # With its API group; one for a family whose objects share a job (an MPIJob and its launcher's Job)
    name: str
    whole: str = ""  # Uid of the object of which several such are the parts, where pods name it (JobSet)


class Pod(msgspec.Struct, frozen=True):
    """A pod as the planner sees it. `requests` counts init containers, overhead and pod-level resources (§4)."""

    uid: PodUid
    namespace: Namespace
    name: PodName
    member_class: MemberClass
    scheduler_name: str = "default-scheduler"
    node: NodeName | None = None
    nominated_node: NodeName | None = None
    phase: Phase = Phase.PENDING
    priority: int = 0
    never_preempts: bool = False  # `spec.preemptionPolicy: Never`: no gang leaves for it, whatever its priority
    created_s: float = 0.0
    scheduled_s: float | None = None  # When it got its node (PodScheduled), Unix seconds; `None`: not known
    deleting: bool = False
    gates: tuple[str, ...] = ()  # `spec.schedulingGates`, by name
    unmodelled: tuple[str, ...] = ()  # Fields by which kube-scheduler may refuse what we allow (docs/safety.md S6)
    admitted_to: NodeName | None = None  # The node planned when its gate was removed (our note, valid for this uid)
    unschedulable: bool = False  # PodScheduled=False, Unschedulable; read of admitted pods only (docs/safety.md S6)
    refusal: str = ""
    """Why kube-scheduler did not place it, in its own words, bounded; empty where it was we that refused it. Decides
    nothing, and a gang's record may have older words; read of waiting members only, as `parked`."""
    parked: bool = False  # kube-scheduler says that no node would do, and sleeps over it until an event: as `refusal`
    obstacle: str = ""  # kube-scheduler's words, if no node at all would do: its claim does not exist, say
    told: str = ""  # What our condition on it says (`scoring.queue.states`); decides nothing, as `refusal`
    group: GroupRef | None = None
    job: JobKey | None = None
    owner: Controller | None = None  # Read of members of gangs, of pods with misspelt keys, and of those without a node
    daemon: str = ""  # The DaemonSet that controls it, as its ownerReferences say: `identity` of that; empty: none does
    run: RunRef | None = None  # Of members of gangs only; `None`: unknown, or its owner has no runs
    index: int | None = None  # Replica index inside its role, when the framework gives it
    options: tuple[tuple[str, str], ...] = ()  # Its `netgang.io/…` annotations; `policy.gang_options` reads them
    limit_s: float | None = None  # `spec.activeDeadlineSeconds`: it is ended so long after it has started
    misspelt: tuple[str, ...] = ()  # Keys of labels and annotations that are probably misspelt, a sentence each
    resource_version: str = ""

    @property
    def requests(self) -> Resources:
        """What the pod takes from its node."""
        return self.member_class.requests

    @property
    def role(self) -> Role:
        """What the pod does in its job."""
        return self.member_class.role

    @property
    def gated(self) -> bool:
        """Whether it waits at our gate."""
        return GATE in self.gates

    @property
    def needs_others(self) -> bool:
        """Whether it may be placed only near other pods: perhaps of its own gang, and those must come first."""
        return "podAffinity" in self.unmodelled

    @property
    def foreign_gates(self) -> tuple[str, ...]:
        """Gates that others must remove."""
        return tuple(gate for gate in self.gates if gate != GATE) if self.gates else ()

    @property
    def terminal(self) -> bool:
        """Succeeded and Failed pods take no room; deleted ones do until they are gone."""
        return self.phase in (Phase.SUCCEEDED, Phase.FAILED)

    @property
    def lives(self) -> bool:
        """It has not ended and is not being deleted."""
        return not self.deleting and not self.terminal

    @property
    def key(self) -> str:
        """`namespace/name`, for people."""
        return f"{self.namespace}/{self.name}"


def counts(member: Pod) -> bool:
    """Whether a member counts towards quorum: on a node and alive, or Succeeded, not Failed (docs/safety.md S8)."""
    if member.node is None or member.deleting:
        return member.phase is Phase.SUCCEEDED
    return member.phase is not Phase.FAILED
