"""Room is taken by what runs, and kept for what a DaemonSet will run, for a time (docs/safety.md S12, S26)."""

from __future__ import annotations

import pytest

from testbed.api import Object
from testbed.objects import gang_pods, pod, zone_nodes
from tests.e2e.gangs.test_gates import OURS
from tests.e2e.invariants import until_nothing_is_promised
from tests.e2e.stage import Stage, document

pytestmark = pytest.mark.e2e_core

SIZE = 4


def gang(stage: Stage) -> list[Object]:
    """One that needs every node."""
    return gang_pods("g", SIZE, min_available=SIZE, namespace=stage.namespace, scheduler=OURS, cpu="1")


def phantom(stage: Stage, node: str, owners: list[Object]) -> Object:
    """A pod that asks for the whole node, is pinned to it, and whose scheduler does not exist."""
    made = pod(f"phantom-{node}", namespace=stage.namespace, scheduler="nobody", cpu="1500m")
    term = {"matchFields": [{"key": "metadata.name", "operator": "In", "values": [node]}]}
    required = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [term]}}
    made["spec"]["affinity"] = {"nodeAffinity": required}
    made["metadata"]["ownerReferences"] = owners
    return made


@pytest.mark.parametrize("owned", [False, True], ids=["bare", "of a made-up DaemonSet"])
async def test_pods_that_nobody_schedules_take_no_room(stage: Stage, owned: bool) -> None:
    """One on each node, pinned as a DaemonSet's are, with the node's whole request: the gang starts all the same."""
    nodes = zone_nodes({"a": SIZE}, cpu="1500m")
    await stage.add_nodes(*nodes)
    netgang = await stage.netgang()
    owner = {"apiVersion": "apps/v1", "kind": "DaemonSet", "name": "x", "uid": "x", "controller": True}
    names = [one["metadata"]["name"] for one in nodes]
    await stage.api.create_all([phantom(stage, name, [owner] if owned else []) for name in names])
    await stage.api.create_all(gang(stage))
    await stage.until_bound("g", SIZE, limit_s=20.0)
    await until_nothing_is_promised(stage.api, netgang)


async def test_young_nodes_keep_room_for_a_daemon_set_for_a_time(stage: Stage) -> None:
    """Its pods can never be made, there is no controller: explain names it, and then the gang starts."""
    template = {
        "metadata": {"labels": {"app": "agent"}},
        "spec": {
            "containers": [{"name": "c", "image": "x", "resources": {"requests": {"cpu": "1"}}}],
            "tolerations": [{"operator": "Exists"}],
        },
    }
    agent = {
        "apiVersion": "apps/v1",
        "kind": "DaemonSet",
        "metadata": {"name": "agent", "namespace": stage.namespace},
        "spec": {"selector": {"matchLabels": {"app": "agent"}}, "template": template},
    }
    netgang = await stage.netgang({"node_settle_s": 8})
    await stage.api.create(agent)
    await stage.add_nodes(*zone_nodes({"a": SIZE}, cpu="1500m"))
    await stage.api.create_all(gang(stage))

    async def said() -> str:
        found = await document(netgang, f"/v1/explain/{stage.namespace}/g")
        return "; ".join(note["text"] for note in found.get("notes", []))

    wanted = f"keep room free for the pod of DaemonSet {stage.namespace}/agent"
    await stage.api.until(said, lambda text: wanted in text, what="explain names the DaemonSet")
    assert await stage.bound("g") == {}
    await stage.until_bound("g", SIZE, limit_s=30.0)
    await stage.api.delete("DaemonSet", "agent", namespace=stage.namespace)
    await until_nothing_is_promised(stage.api, netgang)
