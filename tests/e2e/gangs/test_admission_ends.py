"""A gang that kube-scheduler keeps from coming to bind does not keep its room from others (docs/safety.md S25)."""

from __future__ import annotations

import pytest

from testbed.api import Object
from testbed.objects import gang_pods, zone_nodes
from tests.e2e.gangs.test_gates import OURS, never_schedulable, waiting_gang
from tests.e2e.invariants import until_nothing_is_promised
from tests.e2e.objects import volume_in
from tests.e2e.stage import Stage, document

SIZE = 3


def members(stage: Stage, name: str, *, gated: bool) -> list[Object]:
    """A gang that takes all the room there is."""
    if gated:
        return waiting_gang(stage, name, SIZE)
    return gang_pods(name, SIZE, min_available=SIZE, namespace=stage.namespace, scheduler=OURS)


@pytest.mark.e2e_core
@pytest.mark.parametrize("gated", [True, False], ids=["gated", "ungated"])
async def test_a_gang_whose_claim_does_not_exist_waits_without_room(stage: Stage, gated: bool) -> None:
    """The next gang starts long before `admit_timeout_s`; the first one starts as soon as there are claim and room."""
    await stage.add_nodes(*zone_nodes({"a": SIZE}, cpu="1500m"))
    netgang = await stage.netgang()  # admit_timeout_s is 60
    lacking = members(stage, "lacks", gated=gated)
    for one in lacking:
        one["spec"]["volumes"] = [{"name": "data", "persistentVolumeClaim": {"claimName": "data"}}]
    await stage.api.create_all(lacking)

    async def explained() -> Object:
        return await document(netgang, f"/v1/explain/{stage.namespace}/lacks")

    found = await stage.api.until(
        explained, lambda one: 'persistentvolumeclaim "data" not found' in one["detail"], what="the claim is named"
    )
    assert found["code"] == "INCOMPLETE"
    await stage.api.create_all(members(stage, "next", gated=gated))
    bound = await stage.until_bound("next", SIZE, limit_s=20.0)
    volume, claim = volume_in(stage.namespace, "a")
    await stage.api.create(volume)
    try:
        await stage.api.create(claim)
        await stage.end(*bound)
        await stage.until_bound("lacks", SIZE, limit_s=20.0)
        await until_nothing_is_promised(stage.api, netgang)
    finally:
        await stage.api.delete("PersistentVolume", volume["metadata"]["name"])


@pytest.mark.e2e_core
async def test_an_ungated_gang_that_fits_no_node_of_kube_scheduler_lapses(stage: Stage) -> None:
    """Filters that we do not model refuse every node, /filter is never asked: the Event says kube-scheduler's words."""
    await stage.add_nodes(*zone_nodes({"a": SIZE}, cpu="1500m"))
    netgang = await stage.netgang({"admit_timeout_s": 3.0})
    await stage.api.create_all(never_schedulable(members(stage, "never", gated=False)))
    await stage.until_refused(SIZE)
    await stage.api.create_all(members(stage, "next", gated=False))
    bound = await stage.until_bound("next", SIZE, limit_s=20.0)
    events = await stage.api.list_all("Event", namespace=stage.namespace, fields="reason=AdmissionLapsed")
    assert any("didn't match pod affinity rules" in one["message"] for one in events)
    await stage.end(*bound, *(f"never-worker-{i}" for i in range(SIZE)))
    await until_nothing_is_promised(stage.api, netgang)
