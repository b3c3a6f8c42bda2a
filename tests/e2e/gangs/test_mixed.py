"""Five minutes of everything at once: gangs with and without gates, pods of others, DaemonSets, nodes that come and go.

Why: the other scenarios show one thing at a time; what goes wrong between two of them shows only here.
Rule: chance is seeded, the load is an owner as controllers are (members that got lost are made again), and what must
hold is looked at all the time. `MIXED_LOAD_S` makes it shorter or longer.
"""

from __future__ import annotations

import asyncio
import os
import random
from collections import Counter
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from time import monotonic

import pytest

from scoring.model import GATE
from testbed.api import Api, Object
from testbed.cluster import Cluster
from testbed.errors import ApiRefused
from testbed.objects import gang_pods, namespace, pod, zone_nodes
from testbed.parts.service import Netgang, start_netgang, start_second_scheduler
from testbed.processes.schedulers import PLAIN
from tests.e2e.invariants import OURS, invariants_hold, until_nothing_is_promised
from tests.e2e.stage import metric, say

LENGTH_S = float(os.environ.get("MIXED_LOAD_S", "300"))
END_S = 120.0
"""How long the gangs that are there at the end may take until all of them have run."""
NAMESPACE = "mixed"
OTHERS = ("default-scheduler", "other")
_TURN_S = 0.5


@dataclass(slots=True)
class _Gang:
    """A gang of the load: how its pods are made, and when it was first seen whole."""

    pods: list[Object]
    least: int
    runs_s: float
    whole_s: float | None = None


@dataclass(slots=True)
class Load:
    """The users of the cluster. Ends gangs that ran, makes lost members again, and counts."""

    api: Api
    cluster: Cluster
    nodes: list[Object]
    rng: random.Random
    until_s: float
    gangs: dict[str, _Gang] = field(default_factory=dict)
    others: dict[str, float] = field(default_factory=dict)
    """pod of another scheduler → when it ends"""
    others_bound: set[str] = field(default_factory=set)
    """Pods of other schedulers that were seen on a node; they may have been lost with it"""
    counts: Counter[str] = field(default_factory=Counter)

    async def run(self) -> None:
        """Until the time is over, and then until every gang has run."""
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._nodes_come_and_go())
            tasks.create_task(self._daemon_sets_come_and_go())
            began_s = monotonic()
            while monotonic() < self.until_s or self.gangs:
                assert monotonic() < self.until_s + END_S, f"stuck: {sorted(self.gangs)}"
                if monotonic() < self.until_s:
                    await self._more(monotonic() - began_s)
                await self._look()
                await asyncio.sleep(_TURN_S)

    async def _more(self, age_s: float) -> None:
        """New gangs and pods, at a pace that keeps the cluster nearly full."""
        if self.counts["gangs"] < age_s / 1.5:
            await self._new_gang()
        while self.counts["others"] < age_s * 1.5:
            await self._new_other()

    async def _new_gang(self) -> None:
        number, rng = self.counts["gangs"], self.rng
        size = rng.randint(2, 8)
        least = size if rng.random() < 0.7 else rng.randint(1, size)
        gated = rng.random() < 0.5
        pods = gang_pods(
            f"g{number}",
            size,
            min_available=least,
            cpu=rng.choice(("1", "1500m", "2")),
            namespace=NAMESPACE,
            scheduler=OURS,
            gates=(GATE,) if gated else (),
        )
        self.gangs[f"g{number}"] = _Gang(pods, least, rng.uniform(5.0, 20.0))
        self.counts.update(gangs=1, gated=int(gated))
        await self._create(pods)

    async def _new_other(self) -> None:
        number = self.counts["others"]
        name = f"p{number}"
        self.counts["others"] += 1
        self.others[name] = monotonic() + self.rng.uniform(5.0, 20.0)
        await self._create([pod(name, namespace=NAMESPACE, cpu="500m", scheduler=OTHERS[number % 2])])

    async def _look(self) -> None:
        """One turn of an owner: pods of lost nodes go, lost members come again, gangs that ran are ended."""
        there = {one["metadata"]["name"] for one in await self.api.list_all("Node")}
        pods = {one["metadata"]["name"]: one for one in await self.api.list_all("Pod", namespace=NAMESPACE)}
        lost = [name for name, one in pods.items() if one["spec"].get("nodeName", "") not in (*there, "")]
        await self._delete(lost)
        self.counts["lost"] += len(lost)
        now_s = monotonic()
        for name, gang in list(self.gangs.items()):
            members = {one["metadata"]["name"]: one for one in gang.pods}
            bound = [one for one in members if one in pods and pods[one]["spec"].get("nodeName") in there]
            if gang.whole_s is None and len(bound) >= gang.least:
                gang.whole_s = now_s
                self.counts["whole"] += 1
            if gang.whole_s is not None and now_s - gang.whole_s > gang.runs_s:
                del self.gangs[name]
                await self._delete(members)
            elif gang.whole_s is None:
                await self._create([one for name, one in members.items() if name not in pods])
        over = [name for name, end_s in self.others.items() if now_s > end_s]
        self.others_bound |= {name for name in self.others if name in pods and pods[name]["spec"].get("nodeName")}
        for name in over:
            del self.others[name]
        await self._delete(over)

    async def _nodes_come_and_go(self) -> None:
        """Five a minute leave, each for ten seconds."""
        while monotonic() < self.until_s:
            await asyncio.sleep(2.0)
            node = self.rng.choice(self.nodes)
            await self.api.delete("Node", node["metadata"]["name"])
            self.counts["nodes left"] += 1
            await asyncio.sleep(10.0)
            await self.cluster.add_nodes([node])

    async def _daemon_sets_come_and_go(self) -> None:
        """One from the start on, another for the second half only."""
        await self.api.create(_daemon_set("agent"))
        await asyncio.sleep(max(self.until_s - monotonic(), 0.0) / 2)
        await self.api.create(_daemon_set("late-agent"))

    async def _create(self, pods: Iterable[Object]) -> None:
        for one in pods:
            try:
                await self.api.create(one)
            except ApiRefused as refused:
                if refused.status != 409:  # its predecessor is about to go: next turn
                    raise

    async def _delete(self, names: Iterable[str]) -> None:
        await asyncio.gather(*(self.api.delete("Pod", name, namespace=NAMESPACE, grace_s=0) for name in names))


def _daemon_set(name: str) -> Object:
    template = pod(name, cpu="200m", labels={"app": name})
    return {
        "apiVersion": "apps/v1",
        "kind": "DaemonSet",
        "metadata": {"name": name, "namespace": NAMESPACE},
        "spec": {
            "selector": {"matchLabels": {"app": name}},
            "template": {"metadata": {"labels": {"app": name}}, "spec": template["spec"]},
        },
    }


@asynccontextmanager
async def everything(cluster: Cluster, api: Api) -> AsyncIterator[Netgang]:
    """netgang, its scheduler, one for two more scheduler names, and the namespace; gone afterwards."""
    before = set(cluster.parts)
    await api.create(namespace(NAMESPACE))
    await api.until(
        lambda: api.list_all("ServiceAccount", namespace=NAMESPACE), bool, what="a service account for the pods"
    )
    try:
        netgang = await start_netgang(cluster)
        await start_second_scheduler(cluster, netgang)
        await cluster.start_scheduler({**PLAIN, "profiles": [{"schedulerName": name} for name in OTHERS]})
        yield netgang
    finally:
        await api.delete_all("DaemonSet", namespace=NAMESPACE)
        for name in [one for one in cluster.parts if one not in before]:
            await cluster.remove(name)
        await api.delete_all("Pod", namespace=NAMESPACE, grace_s=0)
        await api.delete("Namespace", NAMESPACE)


async def _memory(netgang: Netgang, samples: list[tuple[float, int]]) -> None:
    """When, and how many bytes of netgang's process are resident; every two seconds until cancelled."""
    while True:
        samples.append((monotonic(), _resident_bytes(netgang)))
        await asyncio.sleep(2.0)


def _resident_bytes(netgang: Netgang) -> int:
    return int(Path(f"/proc/{netgang.part.pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


@pytest.mark.timeout(LENGTH_S + END_S + 120.0, func_only=True)
async def test_mixed_load(controlled_cluster: Cluster, controlled_api: Api) -> None:
    """Nothing is bound in part or beyond the room, nothing promised is forgotten, no gang is stuck, memory is flat."""
    nodes = zone_nodes({"a": 8, "b": 8, "c": 8})
    await controlled_cluster.add_nodes(nodes)
    began_s = monotonic()
    memory: list[tuple[float, int]] = []
    async with everything(controlled_cluster, controlled_api) as netgang:
        watching = asyncio.create_task(_memory(netgang, memory))
        try:
            async with invariants_hold(controlled_api, netgang, NAMESPACE, commit_s=20.0, grace_s=10.0):
                load = Load(controlled_api, controlled_cluster, nodes, random.Random(4), monotonic() + LENGTH_S)
                await load.run()
                await until_nothing_is_promised(controlled_api, netgang)
        finally:
            watching.cancel()
        bound = await metric(netgang, "netgang_bindings_total", outcome="bound")
        say(f"{dict(load.counts)}, {bound:g} Bindings in {monotonic() - began_s:.0f} s")
        assert await metric(netgang, "netgang_internal_errors_total") == 0
        assert "Traceback" not in netgang.part.log.read_text()
    assert load.counts["whole"] == load.counts["gangs"]
    assert len(load.others_bound) > 0.9 * load.counts["others"]
    warm = median(size for at_s, size in memory if 0.25 < (at_s - began_s) / LENGTH_S < 0.45)
    late = median(size for at_s, size in memory if 0.8 < (at_s - began_s) / LENGTH_S < 1.0)
    say(f"resident: {warm / 2**20:.1f} MiB when warm, {late / 2**20:.1f} MiB at the end")
    assert late < 1.1 * warm
