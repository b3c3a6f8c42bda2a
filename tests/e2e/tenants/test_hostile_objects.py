"""No tenant's object stops netgang (docs/safety.md S21)."""

from time import monotonic

from lab.testbed.objects import zone_nodes
from lab.testbed.parts.replicas import replicas
from lab.testbed.parts.service import Netgang
from tests.e2e.faults.test_leaders import lease, until_selected
from tests.e2e.stage import Stage, say


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
