"""As installed, on 36 nodes in four zones of nine that are network namespaces: faults found, avoided, and gone again.

Helm installs the chart with no values but the image, and every pod is a process on its node. node33 loses 1 % of what
it sends, node34 sends 5 ms late, and zone C's uplink loses 1 % in both directions, all at once; node35 has 10 Mbit/s
from the start. netgang and its kube-scheduler are on two nodes of a zone of their own.
"""

import asyncio
import json
import math
import os
import random
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import partial
from itertools import chain, product
from statistics import fmean, median
from time import monotonic
from typing import TypeVar

import pytest

from extender.ports import SystemClock
from lab.bench.testbed.cases import BASE_BPS, Impairment, Setting
from lab.bench.testbed.commands import run_in
from lab.bench.testbed.nodes import Bed
from lab.bench.testbed.relay import relayed
from lab.bench.testbed.shaping import set_loss, set_rates, shaped
from lab.bench.testbed.site import Site, installed
from lab.testbed.api import Object
from lab.testbed.cluster import INSTALLED_IN, Cluster
from lab.testbed.objects import namespace, zone_nodes
from lab.testbed.parts.node_kubelet import Running
from scoring.network import node_links
from tests.e2e.objects import name_of
from tests.e2e.stage import Stage, say

T = TypeVar("T")
ZONES = {"A": 9, "B": 9, "C": 9, "D": 9}
NODES = tuple(f"node{i}" for i in range(1, 39))
ZONE_OF = {node: "ABCDS"[i // 9] for i, node in enumerate(NODES)}
LOSING, LATE, SLOW = "node33", "node34", "node35"
LOSS_RATIO, DELAY_MS, SLOW_BPS = 0.01, 5.0, 10e6
SILENT = NODES[12:36]
SEEN_RATIO = 0.003  # Loss above this, on the mean of some pairs, is a fault
CLEAN_RATIO = 0.001  # Pairs without a fault lose less, once what came late while faults were set up counts no more
FIRST_S, ALL_S, FOUND_S, GONE_S = 60.0, 300.0, 180.0, 180.0
WARM_UP_S, QUIET_S = 360.0, 200.0
TEAM = "team"
SEED = 40  # Twice two nodes of one zone lose what they send at once, and no three nodes of one zone are bad at once

# alone: beside other tests the agents' own packets and bursts wait for a processor
pytestmark = [pytest.mark.slow, pytest.mark.nightly, pytest.mark.timeout(1200)]


@dataclass(frozen=True, slots=True, repr=False)
class Values:
    """What netgang knows of directed pairs: loss and delay, NaN where nothing is known."""

    loss_ratio: dict[tuple[str, str], float]
    delay_ms: dict[tuple[str, str], float]

    def __repr__(self) -> str:
        losses = {"clean": _clean, "uplink": _by_uplink, "losing": lambda one, _: one == LOSING}
        said = ", ".join(f"{name} {self.loss_of(accept):.4f}" for name, accept in losses.items())
        return f"<{self.known():.0%} known; loss: {said}; late {self.late_ms():.2f} ms; faults: {self.faults()}>"

    def known(self, zone: str = "") -> float:
        """The share of directed pairs inside zones (or one zone) that are measured."""
        ends = ((ZONE_OF[one], ZONE_OF[other], value) for (one, other), value in self.loss_ratio.items())
        inside = [math.isnan(value) for a, b, value in ends if a == b == (zone or a)]
        return inside.count(False) / len(inside)

    def loss_of(self, accept: Callable[[str, str], bool]) -> float:
        found = [value for pair, value in self.loss_ratio.items() if accept(*pair) and not math.isnan(value)]
        return fmean(found) if found else 0.0

    def late_ms(self) -> float:
        late = [ms for (one, to), ms in self.delay_ms.items() if one == LATE and ZONE_OF[to] == "D"]
        return fmean([ms for ms in late if not math.isnan(ms)] or [0.0])

    def faults(self) -> set[str]:
        """Which of the three faults is seen: loss above 0.3 %, delay above 2 ms, on the mean of their pairs."""
        found = {
            "loss": self.loss_of(lambda one, other: one == LOSING and ZONE_OF[other] == "D") > SEEN_RATIO,
            "uplink": self.loss_of(_by_uplink) > SEEN_RATIO,
            "delay": self.late_ms() > DELAY_MS * 0.4,  # half of the round trip that is 5 ms longer
        }
        return {name for name, is_found in found.items() if is_found}


def _by_uplink(one: str, other: str) -> bool:
    return (ZONE_OF[one] == "C") != (ZONE_OF[other] == "C") and LOSING not in (one, other)


def _clean(one: str, other: str) -> bool:
    return not _by_uplink(one, other) and LOSING not in (one, other)


@contextmanager
def faults(made: Bed) -> Iterator[None]:
    with shaped(made, Setting(Impairment.DELAY, DELAY_MS, (LATE,))):
        set_rates(made, {SLOW: round(SLOW_BPS)})  # as it was
        set_loss(made, LOSS_RATIO, lambda one, other: one == LOSING or _by_uplink(one, other))
        try:
            yield
        finally:
            set_loss(made, 0.0, _clean)


async def books(site: Site, *names: str) -> Iterator[dict[tuple[str, str], float]]:
    await asyncio.sleep(1.0)  # asked again and again
    pairs = (await site.document("/v1/network"))["pairs"]
    ends = list(product(pairs["nodes"], repeat=2))
    matrices = (zip(ends, chain.from_iterable(pairs[name]), strict=True) for name in names)
    return ({(a, b): math.nan if value is None else value for (a, b), value in one if a != b} for one in matrices)


async def values(site: Site) -> Values:
    return Values(*await books(site, "loss_ratio", "delay_ms"))


async def until(
    site: Site, read: Callable[[Site], Awaitable[T]], limit_s: float, accept: Callable[[T], bool], what: str
) -> T:
    began_s = monotonic()
    found = await site.api.until(partial(read, site), accept, what=what, limit_s=limit_s)
    say(f"{what}: after {monotonic() - began_s:.0f} s; {found}")
    return found


@asynccontextmanager
async def running(cluster: Cluster, mesh: Bed, zones: Mapping[str, int]) -> AsyncIterator[tuple[Site, Stage]]:
    nodes = zone_nodes({**zones, "system": 2}, cpu="1500m")
    async with installed(cluster, mesh, first=nodes[-2:], then=nodes[:-2]) as site:
        await site.api.create(namespace(TEAM))
        yield site, Stage(cluster, site.api, TEAM)


async def slow_nodes(site: Site) -> set[str]:
    """Nodes without a fast link, by what counts as their throughput, among those that had a burst."""
    [bps] = await books(site, "throughput_bps")
    known = {pair: value for pair, value in bps.items() if not math.isnan(value)}
    fast = {node for pair, value in known.items() if value >= SLOW_BPS * 2.0 for node in pair}
    return {node for pair in known for node in pair} - fast


@pytest.mark.parametrize("nodes", [len(NODES)], indirect=True)
async def test_faults_are_found_avoided_and_gone(own_cluster: Cluster, nodes: Bed) -> None:
    with shaped(nodes, Setting(Impairment.BANDWIDTH, SLOW_BPS / 1e6, (SLOW,))):  # a tenth of the others
        async with running(own_cluster, nodes, ZONES) as (site, stage):
            within = partial(until, site, values)
            await within(FIRST_S, lambda found: found.known("D") > 0.0, "first values of zone D")
            found = await within(ALL_S, lambda found: found.known() == 1.0, "all pairs of all zones measured")
            assert found.faults() == set()
            await until(site, slow_nodes, FOUND_S, lambda found: found == {SLOW}, "10 Mbit/s found")
            with faults(nodes):
                await within(
                    FOUND_S,
                    lambda found: len(found.faults()) == 3 and found.loss_of(_clean) < CLEAN_RATIO,
                    "all three faults found, and no other",
                )
                await stage.create_gang("job", 6, annotations={"netgang.io/zones": "D"})
                taken = {*(await stage.until_bound("job", 6, limit_s=60.0)).values()}
                assert {ZONE_OF[node] for node in taken} == {"D"}
                assert taken.isdisjoint({LOSING, LATE, SLOW}), "six of nine nodes are left"
            await within(GONE_S, lambda found: not found.faults(), "all faults gone")
            for node, agent in (await site.agents()).items():
                if node in SILENT:
                    agent.child.freeze()
            await asyncio.sleep(90.0)
            after = await values(site)
            assert (after.known(), after.faults()) == (1.0, set())
            assert after.loss_of(_clean) < CLEAN_RATIO


async def marks(site: Site) -> dict[str, Object]:
    """Node → its condition, of nodes that were ever marked: when that is over the condition stays, as False."""
    await asyncio.sleep(1.0)
    nodes = await site.api.list_all("Node")
    conditions = [(name_of(node), condition) for node in nodes for condition in node["status"]["conditions"]]
    return {name: condition for name, condition in conditions if condition["type"] == node_links.NETWORK_DEGRADED}


async def bad_now(site: Site) -> set[str]:
    await asyncio.sleep(1.0)
    return {one["name"] for one in (await site.document("/v1/network"))["degraded"]}


async def impaired(site: Site, made: Bed, lossy: list[str], late: list[str]) -> dict[str, int]:
    """Impair these until they are marked, each for its own fault, and wait until no link is bad; seconds until then."""
    began_s = SystemClock().now_s()
    with relayed(made, late, delay_ms=DELAY_MS):
        set_loss(made, LOSS_RATIO, lambda one, _: one in lossy)
        found = await until(site, marks, ALL_S, lambda found: found.keys() >= {*lossy, *late}, "five nodes marked")
        set_loss(made, 0.0, _clean)
    after_s = {name: round(changed_at(found[name]).timestamp() - began_s) for name in (*lossy, *late)}
    say(f"marked after so many seconds: {after_s}; the last two were late, the others lost packets")
    assert all("loss up to" in found[name]["message"] for name in lossy)
    assert all("delay up to" in found[name]["message"] for name in late)
    await until(site, bad_now, GONE_S, lambda found: not found, "no bad link left")
    return after_s


def changed_at(condition: Object) -> datetime:
    return datetime.fromisoformat(condition["lastTransitionTime"])


@pytest.mark.parametrize("nodes", [len(NODES)], indirect=True)
async def test_ten_seeded_faults_mark_their_nodes_and_no_other(own_cluster: Cluster, nodes: Bed) -> None:
    """Five at once, twice. A mark lasts an hour: it is made so old, and a new leader, which has no more, ends it."""
    drawn = random.Random(SEED).sample(NODES[:36], 10)
    set_rates(nodes, dict.fromkeys(NODES, BASE_BPS))
    async with running(own_cluster, nodes, ZONES) as (site, _):
        await until(site, values, ALL_S, lambda found: found.known() == 1.0, "all pairs of all zones measured")
        marked_s = await impaired(site, nodes, drawn[:3], drawn[3:5])
        marked_s |= await impaired(site, nodes, drawn[5:8], drawn[8:])
        found, over = await marks(site), dict.fromkeys(drawn, "False")
        assert {name: one["status"] for name, one in found.items()} == dict.fromkeys(drawn, "True")
        for name, one in found.items():
            older = f"{changed_at(one) - timedelta(seconds=node_links.QUIET_S):%Y-%m-%dT%H:%M:%SZ}"
            condition = {"type": node_links.NETWORK_DEGRADED, "lastTransitionTime": older}
            await site.api.patch("Node", name, {"status": {"conditions": [condition]}}, subresource="status")
        await site.api.delete("Pod", name_of(await site.leader()), namespace=INSTALLED_IN)
        await until(site, marks, GONE_S, lambda found: {name: found[name]["status"] for name in found} == over, "over")
    assert max(marked_s.values()) <= FOUND_S


@pytest.mark.parametrize(("nodes", "zones"), [(38, {"A": 21, "B": 15}), (68, {"A": 33, "B": 33})], indirect=["nodes"])
async def test_an_agent_costs_little(own_cluster: Cluster, nodes: Bed, zones: dict[str, int]) -> None:
    """Once no packet was lost for five minutes, in a small and in a large cluster; no burst is due beside gangs."""
    async with running(own_cluster, nodes, zones) as (site, stage):
        for zone, size in zones.items():
            await stage.create_gang(f"job-{zone.lower()}", size, annotations={"netgang.io/zones": zone})
        await stage.until_bound("job-", sum(zones.values()), limit_s=60.0)
        agents = dict(sorted((await site.agents()).items())[: zones["A"]])
        await asyncio.sleep(WARM_UP_S)
        began_s, before = monotonic(), used(nodes, agents)
        await asyncio.sleep(QUIET_S)
        lasted_s, after = monotonic() - began_s, used(nodes, agents)
        memory = [one.group.usage() for one in agents.values()]
    own_mib = max(one.own_bytes for one in memory) / 2**20
    resident_mib = max(one.resident_bytes for one in memory) / 2**20
    rates = [[(b - a) / lasted_s for a, b in zip(*pair, strict=True)] for pair in zip(before, after, strict=True)]
    cpu, received, sent = zip(*rates, strict=True)
    say(f"{len(agents)} agents, {lasted_s:.0f} s, load {os.getloadavg()[0]:.1f}; median and worst:")
    memory_mib = f"{own_mib:.1f} MiB of its own, {resident_mib:.1f} with all shared pages (worst)"
    say(f"CPU {median(cpu) * 1e3:.1f}, {max(cpu) * 1e3:.1f} millicores; memory {memory_mib}")
    say(f"a node in {median(received):.0f}, {max(received):.0f}, out {median(sent):.0f}, {max(sent):.0f} bytes/s")
    assert median(cpu) <= 0.005
    assert resident_mib <= 40.0
    assert max(median(received), median(sent)) <= 2000.0


def used(made: Bed, agents: Mapping[str, Running]) -> list[tuple[float, int, int]]:
    """CPU in seconds of each, and bytes that its node received and sent."""
    found = []
    for node, one in agents.items():
        [link] = json.loads(run_in(made.namespace(node), "ip", "-s", "-j", "link", "show", "eth0"))
        moved = link["stats64"]
        found.append((one.group.usage().cpu_s, moved["rx"]["bytes"], moved["tx"]["bytes"]))
    return found
