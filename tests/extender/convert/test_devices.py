"""DeviceClasses, ResourceSlices and ResourceClaims as the API server sends them."""

import json
from typing import Any

import pytest

from extender.convert import device_claim_from_json, device_class_from_json, device_slice_from_json, pod_from_json
from scoring.ids import NodeName
from scoring.model.devices import Device, DeviceClaim, DeviceSlice


def raw(name: str, **fields: Any) -> bytes:
    return json.dumps({"metadata": {"name": name, "namespace": "team"}, **fields}).encode()


def claim(*requests: dict[str, Any], constraints: Any = None, **fields: Any) -> DeviceClaim:
    devices = {"requests": list(requests), "constraints": constraints}
    return device_claim_from_json(raw("c", spec={"devices": devices}, **fields))


def exactly(**fields: Any) -> dict[str, Any]:
    return {"name": "r", "exactly": {"deviceClassName": "gpu", **fields}}


def test_a_slice() -> None:
    """Attributes become facts, with the driver's name where they have no domain of their own."""
    attributes = {"type": {"string": "gpu"}, "y.io/n": {"int": 4}, "ok": {"bool": True}, "v": {"version": "1.0.0"}}
    spec = {
        "driver": "x.io", "nodeName": "n1", "pool": {"name": "n1", "generation": 3, "resourceSliceCount": 2},
        "devices": [{"name": "a", "attributes": attributes}, {"name": "b", "taints": [{"effect": "NoSchedule"}]},
                    {"name": "c", "consumesCounters": [{}]}, {"name": "d", "allowMultipleAllocations": True}],
    }  # fmt: skip
    facts, driver = ('driver="x.io"', 'x.io/type="gpu"', "y.io/n=4", "x.io/ok=true"), ('driver="x.io"',)
    assert device_slice_from_json(raw("s", spec=spec)) == DeviceSlice(
        "s", ("x.io", "n1"), 3, 2, NodeName("n1"),
        (Device("a", facts), Device("b", driver, tainted=True), Device("c", driver, partial=True),
         Device("d", driver, shareable=True)),
    )  # fmt: skip


CLASSES = {  # case: (facts, selectors)
    "none": ((), []),
    "two": (('driver="x.io"', "x.io/ok=true"), ["device.driver == 'x.io'", "device.attributes['x.io'].ok"]),
    "one of two is not read": (None, ["device.driver == 'x.io'", "device.driver.startsWith('x')"]),
}


@pytest.mark.parametrize(("want", "selectors"), CLASSES.values(), ids=CLASSES)
def test_classes(want: tuple[str, ...] | None, selectors: list[str]) -> None:
    """All selectors of a class hold for its devices, so each must be read."""
    spec = {"selectors": [{"cel": {"expression": one}} for one in selectors]}
    assert device_class_from_json(raw("gpu", spec=spec)).facts == want


REQUESTS = {  # case: (asks, whether that is all, request)
    "default count": ((("gpu", 1),), True, exactly()),
    "two": ((("gpu", 2),), True, exactly(count=2, allocationMode="ExactCount")),
    "with a selector": ((("gpu", 2),), False, exactly(count=2, selectors=[{"cel": {"expression": "true"}}])),
    "all": ((), False, exactly(allocationMode="All")),
    "administrator's access": ((), False, exactly(adminAccess=True)),
    "tolerations": ((), False, exactly(tolerations=[{"operator": "Exists"}])),
    "a share": ((), False, exactly(capacity={"requests": {"memory": "1Gi"}})),
    "one of several kinds": ((), False, {"name": "r", "firstAvailable": [{"name": "a", "deviceClassName": "gpu"}]}),
    "nonsense count": ((), False, exactly(count=-1)),
    "more than any machine has": ((), False, exactly(count=2**63 - 1)),
}


@pytest.mark.parametrize(("asks", "counted", "request_"), REQUESTS.values(), ids=REQUESTS)
def test_requests(asks: tuple[tuple[str, int], ...], counted: bool, request_: dict[str, Any]) -> None:
    """Exact counts are read; what cannot be counted is said."""
    found = claim(request_)
    assert (asks, counted) == (found.asks, found.counted)


def test_constraints_are_not_counted() -> None:
    assert not claim(exactly(), constraints=[{"matchAttribute": "x.io/numa"}]).counted


def test_allocations() -> None:
    """Devices by pool and name; with administrator's access a device stays free."""
    results = [{"driver": "x.io", "pool": "n1", "device": d, "adminAccess": d == "b"} for d in ("a", "b")]
    assert claim(status={"allocation": {"devices": {"results": results}}}).allocated == ((("x.io", "n1"), "a"),)
    assert claim(status={"allocation": {}}).allocated == ()
    assert claim(status={}).allocated is None


BAD = {  # case: (what is said, reader, object)
    "too many devices": ("spec.devices", device_slice_from_json,
        {"spec": {"driver": "x", "pool": {"name": "p"}, "devices": [{"name": "d"}] * 129}}),
    "no pool": ("pool", device_slice_from_json, {"spec": {"driver": "x"}}),
    "too many requests": ("requests", device_claim_from_json, {"spec": {"devices": {"requests": [{}] * 33}}}),
    "a count that is a text": ("count", device_claim_from_json,
        {"spec": {"devices": {"requests": [exactly(count="2")]}}}),
}  # fmt: skip


@pytest.mark.parametrize(("said", "read", "fields"), BAD.values(), ids=BAD)
def test_what_cannot_be_read(said: str, read: Any, fields: dict[str, Any]) -> None:
    """The error names the field (docs/safety.md S21)."""
    with pytest.raises(ValueError, match=said):
        read(raw("x", **fields))


def test_claims_of_a_pod() -> None:
    """By name, or made of a template as its status says; many are cut off."""
    listed = [{"name": f"c{i}", "resourceClaimTemplateName": "t"} for i in range(99)]
    statuses = [{"name": "c0", "resourceClaimName": "p-c0"}, {"name": "c1"}]
    spec = {"containers": [], "resourceClaims": [{"name": "m", "resourceClaimName": "mine"}, *listed]}
    found = pod_from_json(raw("p", spec=spec, status={"resourceClaimStatuses": statuses})).claims
    assert (found[:3], len(found)) == (("team/mine", "team/p-c0", ""), 63)
