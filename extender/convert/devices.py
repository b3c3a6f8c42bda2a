"""Dynamic Resource Allocation: raw JSON of DeviceClasses, ResourceSlices and ResourceClaims → `scoring.model.devices`.

Rules: of a device only what a selector can be compared with leaves a trace. Drivers write slices; claims are tenants'
and bounded (docs/safety.md S21), but their status is kube-scheduler's.
"""

from sys import intern

import msgspec

from extender.convert.decode import NO_RAW, Json, Metadata, decode, given
from scoring.feasibility.devices import facts_of
from scoring.ids import NodeName, ResourceName
from scoring.model.devices import IMPLICIT_PREFIX, Device, DeviceClaim, DeviceClass, DeviceSlice
from scoring.model.resources import LARGEST

MOST_DEVICES = 128  # Of a slice; the API server's own limit, as those below
MOST_ATTRIBUTES = 32  # Of a device
MOST_REQUESTS = 32  # Of a claim, and its results
_VALUE_CHARS = 64
_FOR_RESOURCE = "resource.kubernetes.io/extended-resource-claim"


class _Cel(Json):
    expression: str = ""


class _Selector(Json):
    cel: _Cel | None = None


class _DeviceClassSpec(Json):
    extended_resource_name: str | None = None
    selectors: list[_Selector] | None = None


class _DeviceClass(Json):
    metadata: Metadata
    spec: _DeviceClassSpec | None = None


class _Value(Json):
    string: str | None = None
    int_: int | None = msgspec.field(default=None, name="int")
    bool_: bool | None = msgspec.field(default=None, name="bool")


class _Taint(Json):
    effect: str = ""


class _Device(Json):
    name: str
    attributes: dict[str, _Value] | None = None
    taints: list[_Taint] | None = None
    consumes_counters: list[msgspec.Raw] | None = None
    allow_multiple_allocations: bool | None = None


class _Pool(Json):
    name: str
    generation: int = 0
    resource_slice_count: int = 1


class _SliceSpec(Json):
    driver: str
    pool: _Pool
    node_name: str | None = None
    devices: list[_Device] | None = None


class _Slice(Json):
    metadata: Metadata
    spec: _SliceSpec


class _Exactly(Json):
    device_class_name: str = ""
    allocation_mode: str = "ExactCount"
    count: int = 1
    admin_access: bool | None = None
    selectors: list[msgspec.Raw] | None = None
    tolerations: list[msgspec.Raw] | None = None
    capacity: msgspec.Raw = NO_RAW


class _Request(Json):
    exactly: _Exactly | None = None


class _Asked(Json):
    requests: list[_Request] | None = None
    constraints: list[msgspec.Raw] | None = None


class _ClaimSpec(Json):
    devices: _Asked | None = None


class _Result(Json):
    driver: str
    pool: str
    device: str
    admin_access: bool | None = None


class _Results(Json):
    results: list[_Result] | None = None


class _Allocation(Json):
    devices: _Results | None = None


class _ClaimStatus(Json):
    allocation: _Allocation | None = None


class _Claim(Json):
    metadata: Metadata
    spec: _ClaimSpec | None = None
    status: _ClaimStatus | None = None


_device_class = msgspec.json.Decoder(_DeviceClass)
_slice = msgspec.json.Decoder(_Slice)
_claim = msgspec.json.Decoder(_Claim)


def device_class_from_json(raw: bytes | msgspec.Raw) -> DeviceClass:
    """Read a DeviceClass. ValueError names the field that is wrong.

    >>> device_class_from_json(b'{"metadata": {"name": "gpu"}, "spec": {"extendedResourceName": "nvidia.com/gpu"}}')
    DeviceClass(name='gpu', resources=('deviceclass.resource.kubernetes.io/gpu', 'nvidia.com/gpu'), facts=())
    """
    read = decode(_device_class, raw, what="DeviceClass")
    spec = read.spec or _DeviceClassSpec()
    names = [f"{IMPLICIT_PREFIX}{read.metadata.name}"]
    if spec.extended_resource_name:
        names.append(spec.extended_resource_name)
    facts: list[str] | None = []
    for selector in spec.selectors or ():
        found = facts_of(selector.cel.expression) if selector.cel is not None else None
        facts = [*facts, *map(intern, found)] if facts is not None and found is not None else None
    resources = tuple([ResourceName(intern(name)) for name in names])
    return DeviceClass(read.metadata.name, resources, tuple(facts) if facts is not None else None)


def device_slice_from_json(raw: bytes | msgspec.Raw) -> DeviceSlice:
    """Read a ResourceSlice. ValueError names the field that is wrong."""
    read = decode(_slice, raw, what="ResourceSlice")
    spec = read.spec
    if len(spec.devices or ()) > MOST_DEVICES:
        raise ValueError(f"ResourceSlice {read.metadata.name}: spec.devices: more than {MOST_DEVICES}")
    return DeviceSlice(
        read.metadata.name,
        (intern(spec.driver), intern(spec.pool.name)),
        spec.pool.generation,
        spec.pool.resource_slice_count,
        NodeName(intern(spec.node_name)) if spec.node_name else None,
        tuple([_read(device, spec.driver) for device in spec.devices or ()]),
    )


def _read(device: _Device, driver: str) -> Device:
    facts = [f'driver="{driver}"']
    for name, value in list((device.attributes or {}).items())[:MOST_ATTRIBUTES]:
        key = name if "/" in name else f"{driver}/{name}"
        if value.string is not None and len(value.string) <= _VALUE_CHARS:
            facts.append(f'{key}="{value.string}"')
        elif value.bool_ is not None:
            facts.append(f"{key}={'true' if value.bool_ else 'false'}")
        elif value.int_ is not None:
            facts.append(f"{key}={value.int_}")
    return Device(
        intern(device.name),
        tuple(map(intern, facts)),
        tainted=any(one.effect in ("NoSchedule", "NoExecute") for one in device.taints or ()),
        partial=bool(device.consumes_counters),
        shareable=bool(device.allow_multiple_allocations),
    )


def device_claim_from_json(raw: bytes | msgspec.Raw) -> DeviceClaim:
    """Read a ResourceClaim. ValueError names the field that is wrong.

    Requests for all devices, for one of several kinds, with administrator's access, tolerations or a share of a device
    are left out of `asks`.
    """
    read = decode(_claim, raw, what="ResourceClaim")
    meta = read.metadata
    asked = (read.spec and read.spec.devices) or _Asked()
    allocation = read.status.allocation if read.status is not None else None
    results = ((allocation.devices and allocation.devices.results) or []) if allocation is not None else []
    if max(len(asked.requests or ()), len(results)) > MOST_REQUESTS:
        raise ValueError(f"ResourceClaim {meta.namespace}/{meta.name}: more than {MOST_REQUESTS} requests or results")
    asks: list[tuple[str, int]] = []
    counted = not asked.constraints
    for request in asked.requests or ():
        one = request.exactly
        if (
            one is None
            or one.allocation_mode != "ExactCount"
            or one.admin_access
            or one.tolerations
            or given(one.capacity)
            or not 0 < one.count <= LARGEST
        ):
            counted = False
        else:
            counted = counted and not one.selectors
            asks.append((intern(one.device_class_name), one.count))
    had = tuple(
        [((intern(one.driver), intern(one.pool)), intern(one.device)) for one in results if not one.admin_access]
    )
    return DeviceClaim(
        f"{meta.namespace}/{meta.name}",
        tuple(asks),
        counted,
        had if allocation is not None else None,
        for_resource=(meta.annotations or {}).get(_FOR_RESOURCE) == "true",
    )
