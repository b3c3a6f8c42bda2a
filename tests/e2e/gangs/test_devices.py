"""Gangs whose GPUs exist as ResourceSlices only (Dynamic Resource Allocation): counted, placed whole, given back."""

from collections.abc import AsyncIterator
from functools import partial
from typing import Any

import pytest

from lab.testbed.api import Api, Object
from lab.testbed.objects import node
from tests.e2e.objects import kind, listed_nodes, name_of, needs_anchor, planned_node
from tests.e2e.site import site_on
from tests.e2e.stage import Stage

API, DRIVER = "resource.k8s.io/v1", "gpu.example.com"
BARE, EQUIPPED = ("d1", "d2"), ("d3", "d4", "d5", "d6")  # by name the bare ones come first
NODES = [node(name, zone="a", cpu="8") for name in BARE + EQUIPPED]
site = site_on(NODES, {"exclusion_ttl_s": 20})


@pytest.fixture
async def devices(site: Stage) -> AsyncIterator[Stage]:
    """Two GPUs on each of four nodes, as a driver publishes them, and a NIC of the same driver on all."""
    for name in (one["metadata"]["name"] for one in NODES):
        await site.api.create(resource_slice(name, gpus=2 if name in EQUIPPED else 0))
    cel = f'device.driver == "{DRIVER}" && device.attributes["{DRIVER}"].type == "gpu"'
    spec = {"selectors": [{"cel": {"expression": cel}}]}
    await site.api.create(kind(API, "DeviceClass", DRIVER, spec=spec))
    exactly = {"deviceClassName": DRIVER, "count": 2}
    requests = {"devices": {"requests": [{"name": "gpus", "exactly": exactly}]}}
    template = kind(API, "ResourceClaimTemplate", "two-gpus", site.namespace, spec={"spec": requests})
    await site.api.create(template)
    yield site
    await site.api.delete("DeviceClass", DRIVER)
    for one in await site.api.list_all("ResourceSlice"):
        await site.api.delete("ResourceSlice", name_of(one))


def resource_slice(name: str, *, gpus: int) -> Object:
    listed = [("nic", "nic-0"), *(("gpu", f"gpu-{number}") for number in range(gpus))]
    made = [{"name": device, "attributes": {"type": {"string": what}}} for what, device in listed]
    pool = {"name": name, "generation": 1, "resourceSliceCount": 1}
    return kind(
        API, "ResourceSlice", f"{name}-gpus", spec={"driver": DRIVER, "nodeName": name, "pool": pool, "devices": made}
    )


def with_gpus(pods: list[Object]) -> list[Object]:
    for one in pods:
        one["spec"]["resourceClaims"] = [{"name": "gpus", "resourceClaimTemplateName": "two-gpus"}]
        one["spec"]["containers"][0]["resources"]["claims"] = [{"name": "gpus"}]
    return pods


def with_resource(resource: str, pods: list[Object]) -> list[Object]:
    for one in pods:
        for part in one["spec"]["containers"][0]["resources"].values():
            part[resource] = "2"
    return pods


async def allocated(api: Api, namespace: str) -> list[str]:
    claims = await api.list_all("ResourceClaim", namespace=namespace)
    allocations = [one.get("status", {}).get("allocation") for one in claims]
    return [result["pool"] for one in allocations if one for result in one["devices"]["results"]]


@pytest.mark.parametrize("gated", [True, False], ids=["gated", "ungated"])
async def test_a_gang_takes_the_devices_and_the_next_waits_for_them(devices: Stage, gated: bool) -> None:
    site = devices
    await site.api.create_all(with_gpus(site.gang("first", 4, gated=gated)))
    assert set((await site.until_bound("first", 4)).values()) == set(EQUIPPED)
    if gated:
        assert {planned_node(one) for one in await site.pods("first")} == set(EQUIPPED)
        assert all(listed_nodes(one) >= set(EQUIPPED) for one in await site.pods("first"))
    assert sorted(await allocated(site.api, site.namespace)) == sorted(EQUIPPED * 2)

    await site.api.create_all(with_gpus(site.gang("second", 4, gated=gated)))
    path = f"/v1/explain/{site.namespace}/second"
    explained = await site.until_document(site.service, path, _says_no_room, "no room for the second")
    assert f"devices of class {DRIVER}" in str(explained)
    assert await site.bound("second") == {}

    await site.end(*map(name_of, await site.pods("first")))
    assert set((await site.until_bound("second", 4)).values()) == set(EQUIPPED)


async def test_an_extended_resource_that_devices_provide(devices: Stage) -> None:
    """The class gives its devices a resource's name (KEP-5004): asked for by that and by claims, they count once."""
    site, resource = devices, "example.com/gpu"
    await site.api.patch("DeviceClass", DRIVER, {"spec": {"extendedResourceName": resource}})
    for gang, asking in (("first", with_gpus), ("second", partial(with_resource, resource))):
        await site.api.create_all(asking(site.gang(gang, 2, gated=True)))
        await site.until_bound(gang, 2)
    assert set((await site.bound()).values()) == set(EQUIPPED)
    assert sorted(await allocated(site.api, site.namespace)) == sorted(EQUIPPED * 2)
    await site.api.create_all(with_resource(resource, site.gang("third", 1, gated=True)))
    path = f"/v1/explain/{site.namespace}/third"
    assert resource in str(await site.until_document(site.service, path, _says_no_room, "no room for the third"))
    await site.end(name_of((await site.pods("second"))[0]))
    await site.until_bound("third", 1)


async def test_killed_while_it_holds_allocated_members(devices: Stage) -> None:
    """kube-scheduler allocates before it calls bind: the claims of held members outlive netgang."""
    site = devices
    members = with_gpus(site.gang("held", 4))
    needs_anchor(members[-1])
    await site.api.create_all(members)
    await site.until_held(site.service, 3)
    assert len(await allocated(site.api, site.namespace)) == 6
    await site.cluster.restart(site.service.part.name, crash=True)
    await site.create_anchor(EQUIPPED[0])
    assert set((await site.until_bound("held", 4, limit_s=90.0)).values()) == set(EQUIPPED)


def _says_no_room(explained: dict[str, Any]) -> bool:
    return bool(explained.get("code") == "NO_ROOM")
