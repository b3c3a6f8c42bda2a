"""No tenant's object stops netgang: not one that starts beside it, and not one that runs (docs/safety.md S21)."""

from functools import partial
from time import monotonic
from typing import Any

from lab.testbed.api import Object
from lab.testbed.objects import pod_group, zone_nodes
from lab.testbed.parts.replicas import replicas
from lab.testbed.parts.service import Netgang
from tests.e2e.faults.test_leaders import lease, until_selected
from tests.e2e.stage import Stage, document, metric, say

DIGITS = "1" * 1_000_000
HOSTILE: dict[str, dict[str, Any]] = {  # name of the PodGroup → its minResources
    "digits": {"cpu": DIGITS},
    "digits-of-a-unit": {"memory": DIGITS + "Ki"},
    "fraction": {"cpu": "0." + DIGITS},
    "exponent": {"cpu": "1e" + "9" * 1000},
    "resources": {f"example.com/r{number}": 1 for number in range(20_000)},
}
SIZE = 3


def group(namespace: str, name: str, least: dict[str, Any]) -> Object:
    made = pod_group(name, 1, namespace=namespace)
    made["spec"]["minResources"] = least
    return made


async def starts(stage: Stage, name: str) -> None:
    await stage.create_gang(name, SIZE)
    await stage.end(*await stage.until_bound(name, SIZE, limit_s=20.0))


async def test_pod_groups_that_cannot_be_read_stop_nobody(stage: Stage) -> None:
    await stage.add_nodes(*zone_nodes({"a": SIZE}, cpu="1500m"))
    first, *later = HOSTILE
    await stage.api.create(group(stage.namespace, first, HOSTILE[first]))
    netgang = await stage.netgang()
    await starts(stage, "fresh")
    for name in later:
        await stage.api.create(group(stage.namespace, name, HOSTILE[name]))
    [waits] = stage.gang("waits", 1)
    waits["metadata"]["labels"] = {"scheduling.x-k8s.io/pod-group": first}
    await stage.api.create(waits)
    await starts(stage, "running")
    await stage.until_events("Unreadable", lambda found: found.keys() == set(HOSTILE))
    notes = [one for one in (await stage.explain(netgang, first))["notes"] if "cannot be read and is left out" in one]
    assert notes[0].startswith(f"PodGroup {stage.namespace}/{first} cannot be read and is left out: ")
    ready = await document(netgang, "/readyz")
    assert ready["ready"], ready["reasons"]
    sync = ready["detail"]["sync"]["podgroups"]
    assert (sync["relists"], sync["errors"], sync["unreadable_now"]) == (1, 0, len(HOSTILE))
    count = partial(metric, netgang, "netgang_unreadable_objects", kind="podgroups")
    await stage.api.until(count, lambda found: found == len(HOSTILE), what="all are counted")
    await stage.api.delete("PodGroup", first, namespace=stage.namespace)
    await stage.api.create(group(stage.namespace, first, {"cpu": "1"}))
    await stage.until_bound(waits["metadata"]["name"], 1, limit_s=20.0)


async def test_pods_of_endless_node_affinity_delay_nobody(stage: Stage) -> None:
    """4,500 terms each, 248 kB, at 1,000 nodes: the leader keeps its lease, and gangs start as before."""
    await stage.add_nodes(*zone_nodes({"a": 1000}, cpu="16"))
    async with replicas(stage.cluster, {"leader_election": "on"}) as (group, address):
        first = await group.start("netgang-a")
        await until_selected(group, "netgang-a")
        await group.start("netgang-b")
        url = f"http://127.0.0.1:{address.port}"
        await stage.start_second_scheduler(Netgang(part=first.part, url=url, debug_url=first.debug_url))

        async def takes_s(name: str) -> float:
            began_s = monotonic()
            await stage.create_gang(name, 4)
            await stage.until_bound(name, 4, limit_s=60.0)
            return monotonic() - began_s

        changes = (await lease(stage))["leaseTransitions"]
        alone_s = [await takes_s(f"alone{number}") for number in range(5)]
        for number in range(4):
            [hostile] = stage.gang(f"hostile{number}", 1)
            terms = [{"matchExpressions": [{"key": f"a{number}", "operator": "Exists"}]}] * 4500
            required = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}
            hostile["spec"]["affinity"] = {"nodeAffinity": required}
            await stage.api.create(hostile)
        beside_s = [await takes_s(f"beside{number}") for number in range(5)]
        say(f"a gang starts within {alone_s} s, beside such pods within {beside_s} s")
        assert max(beside_s) < 12.0  # kube-scheduler itself compares them for half a second; compared here, it was 27
        assert (await lease(stage))["leaseTransitions"] == changes
