"""What a pod takes from its node, counted exactly as kube-scheduler does.

Source: k8s.io/component-helpers resource.PodRequests, 0.36.3, after the API server's defaults (`SetDefaults_Pod`),
which a body sent by hand or a file may lack. Rule: quantities are rounded up to thousandths one by one, summed, and the
sum is rounded up to the resource's own unit. The inputs are raw JSON, so that pods of one template are computed once.
"""

from collections.abc import Callable
from functools import partial
from typing import NamedTuple, TypeAlias

import msgspec

from extender.convert.decode import Json, Quantities, decode
from scoring.ids import ResourceName
from scoring.model import Resources
from scoring.model.resources import CPU, MOST_RESOURCES, NAME_CHARS, PODS, parse_quantity

Thousandths: TypeAlias = dict[str, int]  # resource → amount in thousandths of its unit
Ask: TypeAlias = "Callable[[ContainerResources, str], Thousandths]"  # (container, its field's name) → what it asks
_LARGEST = 2**52  # A pod asks for no more than this of anything, so that the members of a gang add up within int64


class ContainerResources(NamedTuple):
    """Raw JSON of what one container asks: `resources`, and what its status says is in force while it is resized."""

    spec: bytes = b""
    in_force: bytes = b""  # `status.containerStatuses[].resources`; empty when the kubelet says nothing
    allocated: bytes = b""  # `status.containerStatuses[].allocatedResources`
    sidecar: bool = False  # An init container with restartPolicy Always


class PodResources(NamedTuple):
    """Raw JSON of everything that makes up a pod's request."""

    containers: tuple[ContainerResources, ...] = ()
    init_containers: tuple[ContainerResources, ...] = ()
    overhead: bytes = b""
    spec: bytes = b""  # `spec.resources`: pod-level requests replace the containers' for cpu, memory and huge pages
    in_force: bytes = b""
    allocated: bytes = b""
    resize_infeasible: bool = False  # For good: what is in force counts, not what the spec asks


class _Requirements(Json):
    requests: Quantities | None = None
    limits: Quantities | None = None


_requirements = msgspec.json.Decoder(_Requirements)
_quantities = msgspec.json.Decoder(Quantities)


def pod_requests(parts: PodResources) -> Resources:
    """Add up a pod's request, `pods: 1` included. ValueError names the field of a bad quantity."""
    total = _aggregate(parts, partial(_now, infeasible=parts.resize_infeasible))
    total.update(_pod_level(parts))
    _add(total, _quantities_in(parts.overhead, what="spec.overhead"))
    amounts = {name: value if name == CPU else -(-value // 1000) for name, value in total.items() if value}
    if len(amounts) > MOST_RESOURCES:
        raise ValueError(f"requests for more than {MOST_RESOURCES} resources")
    return Resources.of({ResourceName(name): min(value, _LARGEST) for name, value in amounts.items()} | {PODS: 1})


def _quantities_in(raw: bytes, *, what: str) -> Thousandths:
    """Read a map of quantities in thousandths; ValueError names `what` and the resource."""
    return _read(decode(_quantities, raw, what=what), what) if raw else {}


def _aggregate(parts: PodResources, ask: Ask) -> Thousandths:
    """Sum of containers and sidecars, or the widest moment of the initialisation if that is more (KEP-753)."""
    total: Thousandths = {}
    for i, container in enumerate(parts.containers):
        _add(total, ask(container, f"containers[{i}]"))
    started: Thousandths = {}
    widest: Thousandths = {}
    for i, container in enumerate(parts.init_containers):
        asked = dict(ask(container, f"initContainers[{i}]"))
        if container.sidecar:
            _add(total, asked)
            _add(started, asked)
            _raise(widest, started)
        else:
            _add(asked, started)
            _raise(widest, asked)
    _raise(total, widest)
    return total


def _pod_level(parts: PodResources) -> Thousandths:
    """What `spec.resources` asks for the whole pod, after the API server's defaults for a partly written one."""
    asked, limits = _written(parts.spec, "spec.resources")
    if asked or limits:
        for name, limit in _aggregate(parts, lambda one, at: _written(one.spec, f"spec.{at}.resources")[1]).items():
            if _huge(name) and name not in asked:
                limits.setdefault(name, limit)
    if limits:
        for name, amount in _aggregate(parts, _requests).items():
            if not _huge(name):
                asked.setdefault(name, amount)
        asked = limits | asked
    asked = {name: amount for name, amount in asked.items() if name in ("cpu", "memory") or _huge(name)}
    now = _in_force(asked, parts.in_force, parts.allocated, "status.", infeasible=parts.resize_infeasible)
    return {name: now.get(name, 0) for name in asked}


def _requests(container: ContainerResources, field: str) -> Thousandths:
    """Requests as written; a limit without a request counts as the request."""
    asked, limits = _written(container.spec, f"spec.{field}.resources")
    return limits | asked


def _written(raw: bytes, what: str) -> tuple[Thousandths, Thousandths]:
    if not raw:
        return {}, {}
    found = decode(_requirements, raw, what=what)
    limits = _read(found.limits, f"{what}.limits")
    return _read(found.requests, f"{what}.requests"), limits


def _now(container: ContainerResources, field: str, *, infeasible: bool) -> Thousandths:
    asked, what = _requests(container, field), f"status of {field}: "
    return _in_force(asked, container.in_force, container.allocated, what, infeasible=infeasible)


def _in_force(asked: Thousandths, in_force: bytes, allocated: bytes, what: str, *, infeasible: bool) -> Thousandths:
    """The larger of old and new while a resize is under way, so that neither end of it is over-committed."""
    if not in_force:
        return asked
    top = _read(decode(_requirements, in_force, what=f"{what}resources").requests, f"{what}resources.requests")
    _raise(top, _quantities_in(allocated, what=f"{what}allocatedResources"))
    if not infeasible:
        _raise(top, asked)
    return top


def _read(quantities: Quantities | None, field: str) -> Thousandths:
    amounts: Thousandths = {}
    for name, quantity in (quantities or {}).items():
        if len(name) > NAME_CHARS:
            raise ValueError(f"{field}: a resource's name is longer than {NAME_CHARS} characters")
        try:
            amounts[name] = parse_quantity(str(quantity), millis=True)
        except ValueError as error:
            raise ValueError(f"{field}: {name}: {error}") from error
        if amounts[name] < 0:
            raise ValueError(f"{field}: {name}: {quantity!r} is negative")
    return amounts


def _huge(name: str) -> bool:
    return name.startswith("hugepages-")


def _add(total: Thousandths, more: Thousandths) -> None:
    for name, value in more.items():
        total[name] = total.get(name, 0) + value


def _raise(top: Thousandths, other: Thousandths) -> None:
    for name, value in other.items():
        if value > top.get(name, -1):
            top[name] = value
