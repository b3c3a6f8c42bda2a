"""Room is taken by what runs, and kept for what a DaemonSet will run, for a time (docs/safety.md S12, S26)."""

from lab.testbed.objects import zone_nodes
from tests.e2e.invariants import until_nothing_is_promised
from tests.e2e.objects import daemon_set, pinned
from tests.e2e.stage import Stage

SIZE = 4  # each gang needs every node


async def test_pods_that_no_scheduler_places_take_no_room(stage: Stage) -> None:
    netgang = await stage.netgang(on={"a": SIZE})
    owner = {"apiVersion": "apps/v1", "kind": "DaemonSet", "name": "x", "uid": "x", "controller": True}
    for name in (f"node{number}" for number in range(1, SIZE + 1)):
        phantom = pinned(stage.pod(f"phantom-{name}", scheduler="none", cpu="1500m"), name)
        phantom["metadata"]["ownerReferences"] = [owner]
        await stage.api.create(phantom)
    await stage.create_gang("g", SIZE)
    await stage.until_bound("g", SIZE, limit_s=20.0)
    await until_nothing_is_promised(stage.api, netgang)


async def test_young_nodes_keep_room_for_a_daemon_set_for_a_time(stage: Stage) -> None:
    netgang = await stage.netgang({"node_settle_s": 8})
    await stage.api.create(daemon_set("agent", stage.namespace, "1"))
    await stage.add_nodes(*zone_nodes({"a": SIZE}, cpu="1500m"))
    await stage.create_gang("g", SIZE)

    wanted = f"keep room free for the pod of DaemonSet {stage.namespace}/agent"
    path, what = f"/v1/explain/{stage.namespace}/g", "explain names the DaemonSet"
    await stage.until_document(netgang, path, lambda found: wanted in str(found.get("notes")), what)
    assert await stage.bound("g") == {}
    await stage.until_bound("g", SIZE, limit_s=30.0)
    await stage.api.delete("DaemonSet", "agent", namespace=stage.namespace)
    await until_nothing_is_promised(stage.api, netgang)
