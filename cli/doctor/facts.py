"""What was seen of an installation; `None`: it was not looked at."""

from collections.abc import Mapping
from typing import Any, TypeAlias

import msgspec

from extender.schemas import ProbeAgents
from extender.settings.settings import Settings
from scoring.model import Node

Json: TypeAlias = Mapping[str, Any]
Right: TypeAlias = tuple[str, str, str]  # (verb, API group, resource[/subresource]), as RBAC has it


class ServiceAddress(msgspec.Struct, frozen=True):
    """Where kube-scheduler finds netgang by its Service."""

    name: str
    namespace: str
    port: int
    cluster_ip: str = ""


class Policies(msgspec.Struct, frozen=True):
    """Admission policies as they are in the cluster: name → object."""

    policies: Mapping[str, Json]
    bindings: Mapping[str, Json]


class Replica(msgspec.Struct, frozen=True):
    """A pod of netgang's."""

    name: str
    ready: bool
    role: str = ""


class LeaseSeen(msgspec.Struct, frozen=True):
    """The Lease of the replicas, looked at twice, at least its duration apart."""

    holder: str
    renewed: bool  # Whether it changed between the two looks


class Endpoints(msgspec.Struct, frozen=True):
    """Which nodes are measured: metric → how many of each state."""

    counts: Mapping[str, Mapping[str, int]]
    unmapped: tuple[str, ...] = ()  # Some of the nodes that no metric has an endpoint for


class Answered(msgspec.Struct, frozen=True):
    """A running netgang, asked by its address."""

    url: str
    problem: str | None
    ready: bool = False
    reasons: tuple[str, ...] = ()
    probe: ProbeAgents | None = None  # `None`: the probe is off, or that replica does not lead


class Facts(msgspec.Struct, frozen=True):
    """Everything that was seen."""

    settings: Settings
    settings_from: str = "defaults"  # Where the settings were read, in words
    settings_problems: tuple[str, ...] = ()
    settings_seen: bool = True  # Whether these are netgang's settings; else the defaults, by which nothing is judged
    account: str = ""
    kubernetes: str | None = None
    denied: tuple[Right, ...] | None = None
    scheduler: Json | None = None
    scheduler_from: str = ""
    scheduler_version: str | None = None
    service: ServiceAddress | None = None
    policies: Policies | None = None
    confined: frozenset[str] | None = None  # Names of the policies that confine the account
    wanted: int = 0  # Replicas that its Deployment asks for; 0: there is none, it runs by other means
    replicas: tuple[Replica, ...] | None = None
    lease: LeaseSeen | None = None
    nodes: tuple[Node, ...] | None = None
    gated: tuple[str, ...] | None = None  # Pods at our gate, namespace/name
    sources: Mapping[str, str | None] | None = None  # source → why it did not answer; `None`: it did
    endpoints: Endpoints | None = None
    answered: Answered | None = None
    unseen: tuple[str, ...] = ()


def spec_of(one: Json | None) -> Json:
    """The object's spec; empty where there is none."""
    return (one or {}).get("spec") or {}
