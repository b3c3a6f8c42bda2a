"""What is installed, running: a rollout and a drain of the leader's node come to their end, and gangs go on starting.

Helm installs the chart, and each pod is a process on its node; both schedulers run with leader election on.
"""

from functools import partial
from time import monotonic

import pytest

from lab.bench.testbed.nodes import Bed
from lab.bench.testbed.site import installed
from lab.testbed.cluster import INSTALLED_IN, Cluster
from lab.testbed.objects import namespace, node, zone_nodes
from tests.e2e.stage import Stage, say

PLACE = "work"
LIMIT = "--timeout=120s"


@pytest.mark.nightly
@pytest.mark.timeout(400)
@pytest.mark.parametrize("nodes", [5], indirect=True)
async def test_a_rollout_and_a_drain_of_the_leader_s_node_finish(own_cluster: Cluster, nodes: Bed) -> None:
    kubectl, took_s, system = own_cluster.kubectl, list[float](), [node(f"node{i}", cpu="2") for i in (3, 4, 5)]
    async with installed(own_cluster, nodes, first=system, then=zone_nodes({"a": 2}, cpu="8")) as site:
        await site.api.create(namespace(PLACE))
        stage, rollout = Stage(own_cluster, site.api, PLACE), partial(kubectl, "-n", INSTALLED_IN, "rollout")

        async def a_gang_starts(name: str) -> None:
            began_s = monotonic()
            await stage.create_gang(name, 4)
            await stage.until_bound(name, 4, limit_s=40.0)
            took_s.append(round(monotonic() - began_s, 1))

        leases = {one["metadata"]["name"] for one in await site.api.list_all("Lease", namespace=INSTALLED_IN)}
        assert leases == {"netgang-leader", "netgang-scheduler"}
        await a_gang_starts("before")

        first = await site.leader()
        began_s = monotonic()
        drain = ("drain", "--delete-emptydir-data", "--force", "--ignore-daemonsets", LIMIT)
        await kubectl(*drain, first["spec"]["nodeName"])
        say(f"drain of the leader's node: {monotonic() - began_s:.1f} s")
        assert (await site.leader())["metadata"]["name"] != first["metadata"]["name"]
        await a_gang_starts("between")

        for deployment in ("deploy/netgang", "deploy/netgang-scheduler"):
            await rollout("status", deployment, LIMIT)
            began_s = monotonic()
            await rollout("restart", deployment)
            await rollout("status", deployment, LIMIT)
            say(f"rollout of {deployment}: {monotonic() - began_s:.1f} s")
        await a_gang_starts("after")
        say(f"gangs before, between, after: {took_s} s; slowest end of a process: {max(site.kubelet.ended_s):.1f} s")
        assert max(site.kubelet.ended_s) < 40.0
