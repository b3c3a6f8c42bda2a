"""What a story of `lab.simulator.agreement.stories` sees of its cluster, and the words in which it asks and waits.

Why an interface: a story runs on simulated and on real programs, and must not know which. Rule: what is waited for
comes within `LIMIT_S`, or the answer says that it did not; no answer depends on how fast a machine is.
"""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol, TypeAlias

LIMIT_S = 8.0
_LOOK_S = 0.05
QUIET_S = 2.2
"""Longer than a first backoff and the look at it: a pod that is parked now is parked for good."""
GANGS = "netgang"
PLAIN = "default-scheduler"
Facts: TypeAlias = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class NodeSpec:
    """A node of a story."""

    name: str
    cpu: str = "1500m"
    zone: str = "a"
    gpu: int = 0
    labels: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class PodSpec:
    """A pod of a story; with a `gang` it is a member, and `minimum` of them must start together."""

    name: str
    cpu: str = "1"
    gang: str = ""
    minimum: int = 1
    scheduler: str = GANGS
    gpu: int = 0
    selector: Mapping[str, str] = field(default_factory=dict)
    zones: str = ""
    urgent: bool = False
    """Of a higher priority than the others."""
    gated: bool = False


@dataclass(frozen=True, slots=True)
class Look:
    """All pods at one moment, by name."""

    bound: Mapping[str, str]
    """pod → node"""
    refused: frozenset[str]
    """Those of which kube-scheduler wrote that they fit nowhere."""
    gated: frozenset[str]

    def of(self, gang: str) -> dict[str, str]:
        """Those whose name begins so: pod → node."""
        return {name: node for name, node in sorted(self.bound.items()) if name.startswith(gang)}


class Stage(Protocol):
    """A cluster with two schedulers, one of which asks netgang, and nothing in it yet."""

    async def add_nodes(self, *nodes: NodeSpec) -> None:
        """They are ready when it returns."""

    async def create(self, *pods: PodSpec) -> None:
        """One after the other."""

    async def delete(self, *names: str) -> None:
        """At once, without grace; they are gone when it returns."""

    async def look(self) -> Look:
        """All pods."""

    async def asked(self) -> int:
        """Calls of /filter so far."""

    async def sleep(self, seconds: float) -> None:
        """Let time pass."""


Story: TypeAlias = Callable[[Stage], Awaitable[Facts]]


def members(gang: str, count: int, **more: Any) -> list[PodSpec]:
    """Pods `GANG-0…` that start together or not at all, unless `minimum` says otherwise.

    >>> [one.name for one in members("g", 2)]
    ['g-0', 'g-1']
    """
    more.setdefault("minimum", count)
    return [PodSpec(f"{gang}-{index}", gang=gang, **more) for index in range(count)]


def nodes(count: int, **more: Any) -> list[NodeSpec]:
    """Nodes `n1…` that are alike."""
    return [NodeSpec(f"n{number}", **more) for number in range(1, count + 1)]


async def until(stage: Stage, true: Callable[[Look], bool], *, limit_s: float = LIMIT_S) -> Look | None:
    """The cluster when it has become true; `None`: it has not."""
    for _ in range(int(limit_s / _LOOK_S)):
        look = await stage.look()
        if true(look):
            return look
        await stage.sleep(_LOOK_S)
    return None


async def bound(stage: Stage, gang: str, count: int, *, limit_s: float = LIMIT_S) -> dict[str, str] | None:
    """Where `count` pods of the gang are, once that many are bound; `None`: they are not in time."""
    look = await until(stage, lambda seen: len(seen.of(gang)) >= count, limit_s=limit_s)
    return None if look is None else look.of(gang)


async def parked(stage: Stage, *names: str) -> bool:
    """Whether all of these are refused, and none of them is bound once everything is quiet."""
    if await until(stage, lambda seen: seen.refused >= set(names)) is None:
        return False
    await stage.sleep(QUIET_S)
    return not (set((await stage.look()).bound) & set(names))
