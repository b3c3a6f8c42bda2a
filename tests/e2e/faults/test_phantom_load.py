"""Room is taken by what runs, and kept for what a DaemonSet will run, for a time (docs/safety.md S12, S26)."""

from lab.testbed.api import Object
from lab.testbed.objects import zone_nodes
from tests.e2e.invariants import until_nothing_is_promised
from tests.e2e.objects import daemon_set
from tests.e2e.stage import Stage

SIZE = 4  # each gang needs every node


def phantom(stage: Stage, node: str, owners: list[Object]) -> Object:
    made = stage.pod(f"phantom-{node}", scheduler="none", cpu="1500m")
    term = {"matchFields": [{"key": "metadata.name", "operator": "In", "values": [node]}]}
    required = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [term]}}
    made["spec"]["affinity"] = {"nodeAffinity": required}
    made["metadata"]["ownerReferences"] = owners
    return made


async def test_pods_that_no_scheduler_places_take_no_room(stage: Stage) -> None:
    """One on each node, pinned as a DaemonSet's are, with the node's whole request: the gang starts all the same."""
    netgang = await stage.netgang(on={"a": SIZE})
    owner = {"apiVersion": "apps/v1", "kind": "DaemonSet", "name": "x", "uid": "x", "controller": True}
    names = [f"node{number}" for number in range(1, SIZE + 1)]
    await stage.api.create_all([phantom(stage, name, [owner]) for name in names])
    await stage.create_gang("g", SIZE)
    await stage.until_bound("g", SIZE, limit_s=20.0)
    await until_nothing_is_promised(stage.api, netgang)


async def test_young_nodes_keep_room_for_a_daemon_set_for_a_time(stage: Stage) -> None:
    """Its pods can never be made, there is no controller: explain names it, and then the gang starts."""
    netgang = await stage.netgang({"node_settle_s": 8})
    await stage.api.create(daemon_set("agent", stage.namespace, "1"))
    await stage.add_nodes(*zone_nodes({"a": SIZE}, cpu="1500m"))
    await stage.create_gang("g", SIZE)

    wanted = f"keep room free for the pod of DaemonSet {stage.namespace}/agent"
    await stage.until_document(
        netgang,
        f"/v1/explain/{stage.namespace}/g",
        lambda found: any(wanted in note for note in found.get("notes", [])),
        "explain names the DaemonSet",
    )
    assert await stage.bound("g") == {}
    await stage.until_bound("g", SIZE, limit_s=30.0)
    await stage.api.delete("DaemonSet", "agent", namespace=stage.namespace)
    await until_nothing_is_promised(stage.api, netgang)
