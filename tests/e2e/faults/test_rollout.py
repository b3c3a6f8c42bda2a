"""What is installed, running: a rollout and a drain of the leader's node come to their end, and gangs go on starting.

The Deployments, Services, budgets and rights are those of manifests/, made into pods by the real controllers and placed
by the cluster's own kube-scheduler; each pod is a process. Both schedulers run with leader election on.
"""

from collections.abc import AsyncIterator
from time import monotonic

import msgspec
import pytest

from lab.testbed.api import Api
from lab.testbed.cluster import CONTROLLERS, INSTALLED_IN, NETGANG_SCHEDULER, Cluster
from lab.testbed.objects import namespace, node, zone_nodes
from lab.testbed.parts.installed import MANIFESTS, SECOND, installed_settings
from lab.testbed.parts.kubelet import STAGES, Kubelet, Start, kubelet
from lab.testbed.parts.replicas import Replicas, replicas
from lab.testbed.parts.service import SECOND_SCHEDULER, install_rights
from tests.e2e.stage import Stage, say

MORE_CONTROLLERS = ("deployment-controller", "replicaset-controller")
KEPT_SETTINGS = ("leader_election", "scheduler_names", "hold_limit_s", "http_timeout_s")
PLACE = "work"


class Site(msgspec.Struct, frozen=True):
    cluster: Cluster
    api: Api
    group: Replicas
    kubelet: Kubelet

    async def leader(self) -> str:
        return await self.group.until_selected(lambda names: len(names) == 1, limit_s=60.0)

    async def rolled_out(self, deployment: str) -> None:
        await self.cluster.kubectl("-n", INSTALLED_IN, "rollout", "status", f"deploy/{deployment}", "--timeout=120s")

    async def a_gang_starts(self, name: str) -> float:
        began_s = monotonic()
        stage = Stage(self.cluster, self.api, PLACE)
        await stage.create_gang(name, 4)
        await stage.until_bound(name, 4, limit_s=40.0)
        return monotonic() - began_s


@pytest.fixture
async def site() -> AsyncIterator[Site]:
    installed = installed_settings()
    settings = {name: installed[name] for name in KEPT_SETTINGS}
    async with Cluster(controllers=(*CONTROLLERS, *MORE_CONTROLLERS), stage_names=STAGES) as cluster:
        await cluster.install("podgroup-crd")
        await install_rights(cluster)
        async with cluster.api() as api, replicas(cluster, settings) as (group, address):

            async def start_scheduler(name: str) -> None:
                await cluster.start_scheduler(
                    SECOND_SCHEDULER,
                    name=name,
                    extender=f"http://127.0.0.1:{address.port}",
                    account=NETGANG_SCHEDULER,
                    leader_election=True,
                )

            await api.create(namespace(PLACE))
            await cluster.add_nodes([*zone_nodes({"a": 2}, cpu="8"), *(node(f"system{i}", cpu="2") for i in range(3))])
            await cluster.start_scheduler(name="the-clusters-own")
            start: dict[str, Start] = {"netgang": group.start_process, "netgang-scheduler": start_scheduler}
            async with kubelet(cluster, start, INSTALLED_IN, PLACE) as running:
                await cluster.kubectl("apply", "-f", str(MANIFESTS / f"{SECOND}.yaml"))
                site = Site(cluster, api, group, running)
                for deployment in ("netgang", "netgang-scheduler"):
                    await site.rolled_out(deployment)
                yield site


@pytest.mark.timeout(400)
async def test_a_rollout_and_a_drain_of_the_leader_s_node_finish(site: Site) -> None:
    leases = {one["metadata"]["name"] for one in await site.api.list_all("Lease", namespace=INSTALLED_IN)}
    assert leases == {"netgang-leader", "netgang-scheduler"}
    took_s = [await site.a_gang_starts("before")]

    first = await site.leader()
    pod = await site.api.get("Pod", first, namespace=INSTALLED_IN)
    began_s = monotonic()
    await site.cluster.kubectl(
        "drain", pod["spec"]["nodeName"], "--delete-emptydir-data", "--force", "--timeout=120s", "--ignore-daemonsets"
    )
    say(f"drain of the leader's node: {monotonic() - began_s:.1f} s")
    assert await site.leader() != first
    took_s.append(await site.a_gang_starts("between"))

    for deployment in ("netgang", "netgang-scheduler"):
        await site.rolled_out(deployment)
        began_s = monotonic()
        await site.cluster.kubectl("-n", INSTALLED_IN, "rollout", "restart", f"deploy/{deployment}")
        await site.rolled_out(deployment)
        say(f"rollout of {deployment}: {monotonic() - began_s:.1f} s")
    took_s.append(await site.a_gang_starts("after"))
    say(f"gangs before, between, after: {', '.join(f'{one:.1f}' for one in took_s)} s")
    say(f"slowest end of a process: {max(site.kubelet.ended_s):.1f} s")
    assert max(site.kubelet.ended_s) < 40.0
