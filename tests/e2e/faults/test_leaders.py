"""Two replicas, one active: leaders that are killed, told to end, cut off and frozen while gangs come and go.

kube-scheduler calls one address that leads to whoever the installed Service would select. LEADER_KILLS says how
many leaders are killed (default 4; `make chaos KILLS=100`), CHAOS_SEED at which moments (default: by chance; it is
printed).
"""

import asyncio
import json
import os
import random
import re
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from functools import partial
from time import monotonic

import httpx
import msgspec
import pytest

from lab.testbed.api import Object
from lab.testbed.beside import beside
from lab.testbed.cluster import INSTALLED_IN, NETGANG
from lab.testbed.objects import pod, zone_nodes
from lab.testbed.parts.replicas import Replicas, kubeconfig_by_way_of, replicas
from lab.testbed.parts.service import Netgang
from lab.testbed.processes.pace import LIVENESS_S, slowness
from lab.testbed.processes.relay import Relay, relay
from tests.e2e.invariants import invariants_hold, until_nothing_is_promised
from tests.e2e.stage import Stage, assert_decides_again, document, metric, say

SETTINGS = {"leader_election": "on", "record": {"enabled": True}}
KILLS = int(os.environ.get("LEADER_KILLS") or "4")
SEED = int(os.environ.get("CHAOS_SEED", "0")) or random.SystemRandom().randrange(1, 10**6)
REPAIR_S = 20.0
"""A gang that was caught in the middle of its commit: kube-scheduler's longest backoff (10 s) twice, while a leader is
there."""
SIZE = 4


class Stream(msgspec.Struct):
    stage: Stage
    open: dict[str, float] = {}  # gang that is not whole yet → when it was created
    took_s: list[float] = []  # of each gang that became whole
    ended: bool = False
    made: int = 0

    async def create(self) -> None:
        while not self.ended:
            name = f"s{self.made}"
            self.made += 1
            pods = self.stage.gang(name, SIZE, memory="1Mi", gated=bool(self.made % 2))
            self.open[name] = monotonic()
            await self.stage.api.create_all(pods)
            await asyncio.sleep(0.4)

    async def collect(self) -> None:
        while not (self.ended and not self.open):
            found = Counter(name.split("-")[0] for name in await self.stage.bound("s"))
            for name in [name for name in self.open if found[name] == SIZE]:
                self.took_s.append(monotonic() - self.open.pop(name))
                for one in range(SIZE):
                    pod = f"{name}-worker-{one}"
                    await self.stage.api.delete("Pod", pod, namespace=self.stage.namespace, grace_s=0)
            await asyncio.sleep(0.1)


@asynccontextmanager
async def stream(stage: Stage, service: Netgang) -> AsyncIterator[Stream]:
    """Gangs while the block runs; at its end all that were created must become whole."""
    made, repair = Stream(stage), {"commit_s": REPAIR_S, "grace_s": REPAIR_S}
    async with invariants_hold(stage.api, service, stage.namespace, **repair), asyncio.TaskGroup() as tasks:
        tasks.create_task(made.create())
        collecting = tasks.create_task(made.collect())
        try:
            yield made
        finally:
            made.ended = True
        try:
            async with asyncio.timeout(60.0):
                await asyncio.shield(collecting)
        except TimeoutError:
            raise AssertionError(f"lost: {sorted(made.open)}") from None


async def binding_posts(stage: Stage) -> Counter[str]:
    text = str(await stage.api.request("GET", "/metrics"))
    found: Counter[str] = Counter()
    for labels, value in re.findall(r"^apiserver_request_total{([^}]*)} (\S+)$", text, re.MULTILINE):
        if 'subresource="binding"' in labels and 'verb="POST"' in labels:
            found[re.findall(r'code="(\d+)"', labels)[0]] += int(float(value))
    return found


@asynccontextmanager
async def both(stage: Stage, *, cable: bool = False) -> AsyncIterator[tuple[Replicas, Netgang, Relay]]:
    """Two replicas, `netgang-a` leading, kube-scheduler's address as a Netgang, and A's cable to the API server."""
    server = int(stage.cluster.server.rpartition(":")[2])
    async with AsyncExitStack() as stack:
        wire = await stack.enter_async_context(relay(lambda: server))
        group, address = await stack.enter_async_context(replicas(stage.cluster, SETTINGS))
        mine = kubeconfig_by_way_of(stage.cluster, NETGANG, wire.port) if cable else None
        first = await group.start("netgang-a", kubeconfig=mine)
        await until_selected(group, "netgang-a")
        await group.start("netgang-b")
        service = Netgang(part=first.part, url=f"http://127.0.0.1:{address.port}", debug_url=first.debug_url)
        await stage.start_second_scheduler(service)
        yield group, service, wire
        for one in group.running.values():
            await assert_decides_again(one)


async def until_selected(group: Replicas, name: str) -> None:
    await group.until_selected(lambda names: names == (name,), limit_s=LIVENESS_S)


async def lease(stage: Stage) -> Object:
    return dict((await stage.api.get("Lease", "netgang-leader", namespace=INSTALLED_IN))["spec"])


@pytest.mark.timeout(120 + 30 * KILLS)
async def test_leaders_are_killed_during_a_stream_of_gangs(stage: Stage) -> None:
    await stage.add_nodes(*zone_nodes({"a": 4, "b": 4}, cpu="16"))
    chance = random.Random(SEED)
    say(f"seed {SEED}: CHAOS_SEED={SEED} kills at the same moments of the stream again")
    took_s: list[float] = []
    ready_s: list[float] = []
    async with both(stage) as (group, service, _):
        before = await binding_posts(stage)
        async with stream(stage, service) as gangs:
            victim, other = "netgang-a", "netgang-b"
            for _ in range(KILLS):
                await asyncio.sleep(chance.uniform(0.5, 2.5))
                part = stage.cluster.parts[victim]
                await part.kill()
                began_s = monotonic()
                part.start()  # as a kubelet does
                await until_selected(group, other)
                took_s.append(monotonic() - began_s)
                await stage.cluster.until_ready(victim)
                ready_s.append(monotonic() - began_s)
                if len(took_s) % 10 == 0:
                    say(f"{len(took_s)} of {KILLS} kills, {gangs.made} gangs, longest take-over {max(took_s):.2f} s")
                victim, other = other, victim
        await until_nothing_is_promised(stage.api, service)
        posts = await binding_posts(stage) - before
        transitions = (await lease(stage))["leaseTransitions"]
    figures = {"take_over_s": took_s, "both_ready_again_s": ready_s, "start_of_a_gang_s": gangs.took_s}
    told = {name: cuts(found) for name, found in figures.items()}
    counts = {"kills": KILLS, "seed": SEED, "gangs": gangs.made, "bindings_by_status": dict(posts)}
    say(json.dumps({"chaos": "leader killed", **counts, **told}))
    assert transitions >= KILLS
    assert posts["201"] <= SIZE * gangs.made, "no pod is bound twice"
    # Whoever is killed while it posts leaves a request that takes effect, and that the API server counts as timed out.
    unheard = sum(count for code, count in posts.items() if code >= "500")
    assert SIZE * gangs.made - posts["201"] <= unheard, "each pod was bound by a Binding of ours"
    assert cuts(took_s)["p50"] <= 5.0 * slowness()
    assert max(took_s) <= 10.0 * slowness()


def cuts(found: list[float]) -> dict[str, float]:
    """Percentiles, each a value that was measured.

    >>> cuts([3.0, 1.0, 2.0])
    {'p50': 2.0, 'p90': 2.0, 'p95': 2.0, 'p99': 2.0, 'max': 3.0}
    """
    ordered, last = sorted(found), len(found) - 1
    return {f"p{p}": round(ordered[last * p // 100], 3) for p in (50, 90, 95, 99)} | {"max": round(ordered[-1], 3)}


async def refused(netgang: Netgang, verb: str) -> str:
    bodies = {
        "filter": {"Pod": pod("p"), "Nodes": None, "NodeNames": ["node1"]},
        "bind": {"PodName": "p", "PodNamespace": "default", "PodUID": "u", "Node": "node1"},
    }
    async with httpx.AsyncClient(base_url=netgang.url, headers={"User-Agent": "Go-http-client/1.1"}) as client:
        return str((await client.post(f"/{verb}", json=bodies[verb])).json()["Error"])


async def leads(netgang: Netgang) -> bool:
    return bool((await document(netgang, "/readyz"))["detail"]["leadership"]["leading"])


async def says_it_leads(netgang: Netgang) -> bool | None:
    try:
        async with asyncio.timeout(0.5):
            return await leads(netgang)
    except (TimeoutError, httpx.HTTPError):
        return None


@pytest.mark.timeout(150)
@pytest.mark.parametrize("how", ["cut off from the API server", "frozen"])
async def test_a_split_leaves_one_that_binds(stage: Stage, how: str) -> None:
    await stage.add_nodes(*zone_nodes({"a": 4, "b": 4}, cpu="16"))
    async with both(stage, cable=True) as (group, service, wire):
        first, second = group.running["netgang-a"], group.running["netgang-b"]
        before = await binding_posts(stage)
        await stage.create_held_gang(service, "g", 3)
        seen = Counter[tuple[bool, bool]]()  # whether the first said that it leads, and whether the second did

        async def watch() -> None:
            while True:
                said = await asyncio.gather(*map(says_it_leads, (first, second)))
                seen[bool(said[0]), bool(said[1])] += 1
                await asyncio.sleep(0.02)

        async with beside(watch()), stream(stage, service) as gangs:
            await asyncio.sleep(2.0)
            part = stage.cluster.parts["netgang-a"]
            began_s = monotonic()
            part.freeze() if how == "frozen" else wire.block()
            await until_selected(group, "netgang-b")
            say(f"take-over from a leader that is {how}: {monotonic() - began_s:.2f} s")
            if how != "frozen":
                for verb in ("filter", "bind"):
                    assert await refused(first, verb) == "netgang: this replica is not the leader"
                posted = await outcomes(first)
            await asyncio.sleep(3.0)
            part.unfreeze() if how == "frozen" else wire.unblock()
            await stage.create_anchor("node1")
            await stage.until_bound("g", 3)
            await asyncio.sleep(2.0)
            if how != "frozen":
                assert await outcomes(first) == posted
            # A process that was frozen first ends the connections whose time is over by then, a fresh one perhaps too.
            await stage.api.until(partial(says_it_leads, first), lambda said: said is not None, what="it answers")
            assert (await leads(first), await leads(second)) == (False, True)
            assert await metric(first, "netgang_leader") == 0.0
        posts = await binding_posts(stage) - before
        assert posts["201"] == SIZE * gangs.made + 3
        assert (True, True) not in seen
        assert seen.keys() >= {(True, False), (False, True)}
        assert group.selected == ("netgang-b",)
        say(f"{gangs.made} gangs of {SIZE}, slowest start {max(gangs.took_s):.1f} s; {seen.total()} looks at both")


async def outcomes(netgang: Netgang) -> dict[str, float]:
    names = ("bound", "conflict", "error")
    return {name: await metric(netgang, "netgang_bindings_total", outcome=name) for name in names}
