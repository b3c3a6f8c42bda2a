"""Devices of Dynamic Resource Allocation (resource.k8s.io/v1), as far as counting them needs.

A device's attributes are kept as *facts*, texts such as `driver="gpu.example.com"` or `gpu.example.com/type="gpu"`;
what a DeviceClass selects by equality is a tuple of such facts, too.
"""

from dataclasses import dataclass
from typing import TypeAlias

from scoring.ids import NodeName, ResourceName

PoolKey: TypeAlias = tuple[str, str]  # Driver and pool: devices are named inside one pool
IMPLICIT_PREFIX = "deviceclass.resource.kubernetes.io/"  # Before a class's name: the resource to ask for it by


@dataclass(frozen=True, slots=True)
class Device:
    """One device of a ResourceSlice."""

    name: str
    facts: tuple[str, ...]
    tainted: bool = False  # NoSchedule or NoExecute: only claims that tolerate it get it
    partial: bool = False  # It shares counters with other devices: not all of them can be had at once
    shareable: bool = False  # Several claims may have it: a number of devices says nothing


@dataclass(frozen=True, slots=True)
class DeviceSlice:
    """A ResourceSlice: some devices of a pool, all at one node, or with `node` None elsewhere (in a network, say)."""

    name: str
    pool: PoolKey
    generation: int
    slices: int  # Of which the pool's generation consists
    node: NodeName | None
    devices: tuple[Device, ...]


@dataclass(frozen=True, slots=True)
class DeviceClass:
    """Which devices a claim may ask for: those with all `facts`; `None`: its selectors ask for more than facts."""

    name: str
    resources: tuple[ResourceName, ...]  # Names of extended resources by which a container may ask for one
    facts: tuple[str, ...] | None = None


@dataclass(frozen=True, slots=True)
class DeviceClaim:
    """A ResourceClaim: what it asks, and which devices it has."""

    key: str  # namespace/name
    asks: tuple[tuple[str, int], ...]  # (DeviceClass, count) of the requests for an exact count
    counted: bool = True  # Whether `asks` is all, without selectors and constraints of the claim's own
    allocated: tuple[tuple[PoolKey, str], ...] | None = None  # (pool, device); `None`: it is not allocated
    for_resource: bool = False  # kube-scheduler made it for an extended resource, which the pod's requests count
