"""DeviceClasses of Dynamic Resource Allocation: raw JSON → `scoring.model.DeviceClass`.

Why: a container may ask for devices as for any extended resource (KEP-5004), by the name that a DeviceClass gives them
or by the class's own; no node's allocatable then says how many there are. How many, only kube-scheduler counts.
"""

from sys import intern

import msgspec

from extender.convert.decode import Json, Metadata, decode
from scoring.ids import ResourceName
from scoring.model import DeviceClass

IMPLICIT_PREFIX = "deviceclass.resource.kubernetes.io/"
"""Before a DeviceClass's name: the resource by which each of them can be asked for."""


class _Spec(Json):
    extended_resource_name: str | None = None


class _DeviceClass(Json):
    metadata: Metadata
    spec: _Spec | None = None


_decoder = msgspec.json.Decoder(_DeviceClass)


def device_class_from_json(raw: bytes | msgspec.Raw) -> DeviceClass:
    """Read a resource.k8s.io DeviceClass. ValueError names the field that is wrong.

    >>> device_class_from_json(b'{"metadata": {"name": "gpu"}, "spec": {"extendedResourceName": "nvidia.com/gpu"}}')
    DeviceClass(name='gpu', resources=('deviceclass.resource.kubernetes.io/gpu', 'nvidia.com/gpu'))
    """
    read = decode(_decoder, raw, what="DeviceClass")
    names = [f"{IMPLICIT_PREFIX}{read.metadata.name}"]
    if read.spec is not None and read.spec.extended_resource_name:
        names.append(read.spec.extended_resource_name)
    return DeviceClass(read.metadata.name, tuple([ResourceName(intern(name)) for name in names]))
