"""36 real agents in network namespaces, four zones of nine, no other measurements: faults found, and gone again.

node33 loses 1 % of what it sends, node34 sends 5 ms late, and zone C's uplink loses 1 % in both directions, all at
once; node35 has 10 Mbit/s from the start. netgang is outside the namespaces: agents reach it by a relay beside the
bridge. All settings are as installed, but for the size of a burst.
"""

import asyncio
import math
import shutil
import socket
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from functools import partial
from itertools import chain, product
from pathlib import Path
from statistics import fmean
from time import monotonic
from typing import Any, TypeVar

import pytest

from lab.bench.testbed.cases import Impairment, Setting
from lab.bench.testbed.commands import BedUnavailable, in_namespace, ip_in, run_in
from lab.bench.testbed.nodes import Bed, address, bed, examine, small_packets_only
from lab.bench.testbed.shaping import set_rates, shaped
from lab.testbed.objects import zone_nodes
from lab.testbed.parts.service import ROOT, Netgang
from lab.testbed.processes.network import free_ports
from lab.testbed.processes.process import Child
from lab.testbed.processes.relay import relay
from tests.e2e.objects import kind
from tests.e2e.stage import Stage, document, say

T = TypeVar("T")
ZONES = {"A": 9, "B": 9, "C": 9, "D": 9}
NODES = tuple(f"node{i}" for i in range(1, 37))
ZONE_OF = {node: "ABCD"[i // 9] for i, node in enumerate(NODES)}
LOSING, LATE, SLOW = "node33", "node34", "node35"
LOSS_RATIO, DELAY_MS, SLOW_BPS = 0.01, 5.0, 10e6
SERVER = "10.77.0.254"  # the nodes have 1 to 36
KILLED = NODES[12:]
ACCOUNT = "netgang-probe"
SEEN_RATIO = 0.003
"""Loss above this, on the mean of some pairs, is a fault"""
CLEAN_RATIO = 0.001
"""Pairs without a fault lose less than this, once what came late while the faults were set up counts no more"""
BURSTS = {"throughput": {"enabled": True, "size_bytes": 10_000_000}}
FIRST_S, ALL_S, FOUND_S, GONE_S = 60.0, 300.0, 180.0, 180.0

# alone: beside other tests the agents' own packets and bursts wait for a processor
pytestmark = [pytest.mark.slow, pytest.mark.nightly, pytest.mark.timeout(1200)]


@dataclass(frozen=True, slots=True, repr=False)
class Values:
    """What netgang knows of directed pairs: loss and delay, NaN where nothing is known, and ages in seconds."""

    loss_ratio: dict[tuple[str, str], float]
    delay_ms: dict[tuple[str, str], float]
    age_s: dict[tuple[str, str], float]

    def __repr__(self) -> str:
        losses = {"clean": _clean, "uplink": _by_uplink, "losing": lambda one, _: one == LOSING}
        said = ", ".join(f"{name} {self.loss_of(accept):.4f}" for name, accept in losses.items())
        late = f"late {self.late_ms():.2f} ms; oldest {self.oldest_s():.0f} s"
        return f"<{self.known():.0%} known; loss: {said}; {late}; faults: {self.faults()}>"

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

    def oldest_s(self) -> float:
        inside = [age for (one, other), age in self.age_s.items() if ZONE_OF[one] == ZONE_OF[other]]
        return max((age for age in inside if not math.isnan(age)), default=0.0)

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


@pytest.fixture
def mesh() -> Iterator[Bed]:
    try:
        examine()
    except BedUnavailable as error:
        pytest.skip(str(error))
    with bed(nodes=NODES) as made:
        ip_in(made.switch, [f"addr add {SERVER}/24 dev br0"])
        in_namespace(made.switch, lambda: small_packets_only("br0"))
        yield made


def listening(made: Bed) -> socket.socket:
    """Beside the bridge, where all nodes reach it: a socket stays in the namespace in which it is made."""
    found: list[socket.socket] = []
    in_namespace(made.switch, lambda: found.append(socket.create_server((SERVER, 0))))
    return found[0]


@contextmanager
def faults(made: Bed) -> Iterator[None]:
    drop = f"-m statistic --mode random --probability {LOSS_RATIO} -j DROP"
    with shaped(made, Setting(Impairment.DELAY, DELAY_MS, (LATE,))):
        set_rates(made, {SLOW: round(SLOW_BPS)})  # as it was
        for node in NODES:
            others = [one for one in NODES if one != node and (one == LOSING or _by_uplink(one, node))]
            _only(made, node, [f"-A INPUT -s {address(one)} {drop}" for one in others])
        try:
            yield
        finally:
            for node in NODES:
                _only(made, node, [])


def _only(made: Bed, node: str, rules: list[str]) -> None:
    text = "\n".join(("*filter", ":INPUT ACCEPT [0:0]", *rules, "COMMIT", ""))
    run_in(made.namespace(node), "iptables-restore", given=text)


async def books(netgang: Netgang, *names: str) -> Iterator[dict[tuple[str, str], float]]:
    pairs = (await document(netgang, "/v1/network"))["pairs"]
    ends = list(product(pairs["nodes"], repeat=2))
    matrices = (zip(ends, chain.from_iterable(pairs[name]), strict=True) for name in names)
    return ({(a, b): math.nan if value is None else value for (a, b), value in one if a != b} for one in matrices)


async def values(netgang: Netgang) -> Values:
    return Values(*await books(netgang, "loss_ratio", "delay_ms", "loss_age_s"))


async def token_of_pod(stage: Stage, node: str) -> str:
    """Start the pod of a node's agent, give it the agent's address by hand; a token that is bound to it."""
    name = f"agent-{node}"
    made = stage.pod(name, on=node, cpu="100m")
    made["spec"]["serviceAccountName"] = ACCOUNT
    await stage.api.create(made)

    def addressed(pods: list[dict[str, Any]]) -> bool:  # by kwok, in place of a kubelet
        return any(one["metadata"]["name"] == name and one["status"].get("podIP") for one in pods)

    await stage.until_pods(addressed, f"{name} has an address", begin=name)
    found = {"/status/podIP": address(node), "/status/podIPs": [{"ip": address(node)}]}
    change = [{"op": "add", "path": path, "value": value} for path, value in found.items()]
    await stage.api.patch("Pod", name, change, namespace=stage.namespace, subresource="status")
    return await stage.token(ACCOUNT, pod=name)


def agent(made: Bed, node: str, token: str, folder: Path, *, url: str) -> Child:
    token_file = folder / f"{node}.token"
    token_file.write_text(token)
    given = {"url": url, "node": node, "address": address(node), "token-file": str(token_file)}
    options = [word for name, value in given.items() for word in (f"--{name}", value)]
    within = (shutil.which("ip") or "ip", "netns", "exec", made.namespace(node))
    command = [*within, sys.executable, "-m", "probe", *options]
    return Child(f"agent-{node}", command, log=folder / f"{node}.log", env={"PYTHONPATH": str(ROOT)})


async def until(
    stage: Stage, read: Callable[[], Awaitable[T]], limit_s: float, accept: Callable[[T], bool], what: str
) -> T:
    began_s = monotonic()
    found = await stage.api.until(read, accept, what=what, limit_s=limit_s)
    say(f"{what}: after {monotonic() - began_s:.0f} s; {found}")
    return found


@asynccontextmanager
async def running(
    stage: Stage, made: Bed, folder: Path, probe: Mapping[str, Any]
) -> AsyncIterator[tuple[Netgang, dict[str, Child]]]:
    await stage.add_nodes(*zone_nodes(ZONES, cpu="1500m"))
    await stage.api.create(kind("v1", "ServiceAccount", ACCOUNT, stage.namespace))
    [port] = free_ports(1)
    account = f"{stage.namespace}/{ACCOUNT}"
    netgang = await stage.netgang(
        {"reports": {"port": port}, "probe": {"enabled": True, "service_account": account, **probe}}
    )
    async with relay(lambda: port, listening=listening(made)) as by:
        tokens = await asyncio.gather(*(token_of_pod(stage, node) for node in NODES))
        url, given = f"http://{SERVER}:{by.port}", zip(NODES, tokens, strict=True)
        agents = {node: agent(made, node, token, folder, url=url) for node, token in given}
        try:
            for one in agents.values():
                one.start()
            yield netgang, agents
        finally:
            await asyncio.gather(*(one.stop() for one in agents.values()))


async def a_job_avoids(stage: Stage, *bad: str) -> None:
    await stage.create_gang("job", 6, annotations={"netgang.io/zones": "D"})
    nodes = {*(await stage.until_bound("job", 6, limit_s=60.0)).values()}
    assert {ZONE_OF[node] for node in nodes} == {"D"}
    assert nodes.isdisjoint(bad)


async def test_faults_are_found_avoided_and_gone(stage: Stage, mesh: Bed, tmp_path: Path) -> None:
    async with running(stage, mesh, tmp_path, BURSTS) as (netgang, agents):
        within = partial(until, stage, partial(values, netgang))
        with shaped(mesh, Setting(Impairment.BANDWIDTH, SLOW_BPS / 1e6, (SLOW,))):  # a tenth of the others
            await within(FIRST_S, lambda found: found.known("D") > 0.0, "first values of zone D")
            found = await within(ALL_S, lambda found: found.known() == 1.0, "all pairs of all zones measured")
            assert found.faults() == set()
            await until(stage, partial(slow_nodes, netgang), FOUND_S, lambda found: found == {SLOW}, "10 Mbit/s found")
            with faults(mesh):
                await within(
                    FOUND_S,
                    lambda found: len(found.faults()) == 3 and found.loss_of(_clean) < CLEAN_RATIO,
                    "all three faults found, and no other",
                )
                await a_job_avoids(stage, LOSING, LATE, SLOW)  # six of nine nodes are left
        await within(GONE_S, lambda found: not found.faults(), "all faults gone")
        before = await values(netgang)
        for node in KILLED:
            await agents[node].kill()
        await within(90.0, lambda found: found.oldest_s() > 60.0, "values of the killed are a minute old")
        after = await values(netgang)
        assert after.faults() == set()
        assert after.loss_of(_clean) < CLEAN_RATIO
        assert after.known() == before.known() == 1.0
        alive = [pair for pair in after.age_s if not {*pair} & {*KILLED} and ZONE_OF[pair[0]] == ZONE_OF[pair[1]]]
        assert max(after.age_s[pair] for pair in alive) < 60.0


async def slow_nodes(netgang: Netgang) -> set[str]:
    """Nodes without a fast link, by what counts as their throughput, among those that had a burst."""
    [bps] = await books(netgang, "throughput_bps")
    known = {pair: value for pair, value in bps.items() if not math.isnan(value)}
    fast = {node for pair, value in known.items() if value >= SLOW_BPS * 2.0 for node in pair}
    return {node for pair in known for node in pair} - fast
