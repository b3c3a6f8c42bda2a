"""What narrows where a pod may go: taints, selectors, affinity, host ports, claims."""

from dataclasses import Field, dataclass
from typing import ClassVar


@dataclass(frozen=True, slots=True)
class Taint:
    """A node's taint."""

    key: str
    value: str
    effect: str


@dataclass(frozen=True, slots=True)
class Toleration:
    """A pod's toleration; empty `key` with operator Exists tolerates everything, empty `effect` all effects."""

    key: str = ""
    operator: str = "Equal"
    value: str = ""
    effect: str = ""


@dataclass(frozen=True, slots=True)
class Requirement:
    """One line of a node selector term: In, NotIn, Exists, DoesNotExist, Gt, Lt."""

    key: str
    operator: str
    values: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class NodeSelectorTerm:
    """Requirements that must all hold; terms of one affinity are alternatives. An empty term matches nothing."""

    expressions: tuple[Requirement, ...] = ()
    fields: tuple[Requirement, ...] = ()


@dataclass(frozen=True, slots=True)
class HostPort:
    """A port that a pod occupies on its node; `ip` "0.0.0.0" conflicts with every address."""

    protocol: str
    ip: str
    port: int


class HashedOnce:
    """Keeps the hash of a record that is the key of many tables: a run of the planner asks thousands of times for it.

    No field of the record; a record says `__hash__ = HashedOnce.__hash__`, for a dataclass inherits none.
    """

    __slots__ = ("_hash",)
    __dataclass_fields__: ClassVar[dict[str, Field[object]]]
    _hash: int

    def __hash__(self) -> int:
        try:
            return self._hash
        except AttributeError:
            content = tuple([getattr(self, name) for name in self.__dataclass_fields__])
            object.__setattr__(self, "_hash", hash(content))
            return self._hash


@dataclass(frozen=True, slots=True, weakref_slot=True)
class Constraints(HashedOnce):
    """Where a pod may go, as far as we model it; the rest is learned from NodeNames (docs/safety.md S7)."""

    node_selector: tuple[tuple[str, str], ...] = ()
    affinity: tuple[NodeSelectorTerm, ...] | None = None
    """Required node affinity; `None`: none asked; an empty tuple matches no node."""
    tolerations: tuple[Toleration, ...] = ()
    host_ports: tuple[HostPort, ...] = ()
    claims: tuple[str, ...] = ()
    """Volume claims, `namespace/name`: where their volumes are is not modelled, but what one pod learns of it holds
    for pods with the same claims only."""

    __hash__ = HashedOnce.__hash__
