"""N4, test case I: the published triple at once, measured by netgang's agents, and a job that trains on six nodes.

node33 sends 10 ms late, node34 loses 10 % of what it sends, node35 has 10 Mbit/s. netgang knows only what its agents
measure, for a minute after it has a value of each pair: enough for two bursts of each node. Its kube-scheduler binds a
TFJob's parameter server and five workers. The other choices are `lab.bench.testbed.cases`' and are asked for by node
affinity. Further gangs of six are only placed. What the agents measured stands beside `ping` and `iperf3` on the nodes,
and, at the end, beside `stamp-suite` where there is one.
"""

import asyncio
import json
import shutil
import subprocess
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from statistics import median
from time import monotonic
from typing import Any, Final

from lab.bench.testbed.cases import BASE_BPS, IMPAIRED, WANTED, Choice, clean_ps_case, drawn, worst_case
from lab.bench.testbed.commands import run_in
from lab.bench.testbed.nodes import NODES, Bed, address
from lab.bench.testbed.relay import relayed
from lab.bench.testbed.shaping import set_loss, set_rates
from lab.papers import stamp
from lab.papers.bed import TEAM, TrainingSite
from lab.papers.figures import Figure, Tell
from lab.papers.resizes import steps
from lab.testbed.errors import ControlPlaneError
from lab.testbed.objects import gang_pods

_LATE, _LOSING, _SLOW = IMPAIRED
_DELAY_MS, _LOSS_RATIO, _SLOW_BPS = 10.0, 0.1, 10_000_000
_PUBLISHED: Final = set(NODES) - set(IMPAIRED)
_PAIRS: Final = ((_LATE, NODES[0]), (_SLOW, NODES[1]), NODES[2:4])
_MEASURED_S, _BURSTS_S = 300.0, 45.0
_PLACEMENTS: Final = 20
_STEPS, _LIMIT_S = 3, 90.0
_TRAINS: Final = ("--mode=ps", f"--steps={_STEPS}", "--hidden=2630", "--batch=64", f"--limit-s={_LIMIT_S}")
"""A gradient has 0.79 MB, as of CIFAR-10"""
_METRICS: Final = ("loss_ratio", "delay_ms", "throughput_bps")


@contextmanager
def case_one(made: Bed) -> Iterator[None]:
    """The network of the test case."""
    set_rates(made, {**dict.fromkeys(made.nodes, BASE_BPS), _SLOW: _SLOW_BPS})
    set_loss(made, _LOSS_RATIO, lambda one, _: one == _LOSING)
    with relayed(made, (_LATE,), delay_ms=_DELAY_MS):
        yield
    set_loss(made, 0.0, lambda *_: False)


async def measure(made: Bed, site: TrainingSite, runs: int, tell: Tell) -> list[Figure]:
    """Measure once, then choose and train `runs` times with each choice. The network is `case_one`'s."""
    seconds, hits = defaultdict[Choice, list[float]](list), list[float]()
    await site.set_rooms(NODES, cpu_m=1450)
    began_s, read = monotonic(), partial(_unknown, site)
    await site.api.until(read, lambda count: count == 0, what="all pairs measured", limit_s=_MEASURED_S)
    await asyncio.sleep(_BURSTS_S)
    round_trips_ms = await asyncio.gather(*(asyncio.to_thread(_round_trip_ms, made, *pair) for pair in _PAIRS))
    tell(f"N4: measured for {monotonic() - began_s:.0f} s")
    tools = await _by_tools(made, site, round_trips_ms)
    for run in range(runs):
        for choice in Choice:
            nodes, took_s = await _trained(site, choice, run)
            seconds[choice].append(took_s)
            if choice is Choice.NETGANG:
                hits.append(float(set(nodes) == _PUBLISHED))
            tell(f"N4: run {run + 1}, {choice}: {took_s:.1f} s, {' '.join(nodes)}")
    for number in range(len(hits), _PLACEMENTS):
        hits.append(float(await _placed(site, f"placed-{number}") == _PUBLISHED))
    if shutil.which(stamp.PROGRAM):
        tools += await _by_stamp(made, site)
    else:
        tell(f"N4: {stamp.PROGRAM} is not on the path, and nothing is compared with it")
    return [*_figures(seconds, hits), *tools]


async def _unknown(site: TrainingSite) -> int:
    """How many directed pairs of the zone lack a metric."""
    pairs = (await site.document("/v1/network"))["pairs"]
    places = [place for place, name in enumerate(pairs["nodes"]) if name in NODES]
    metrics: list[Any] = [pairs[name] for name in _METRICS]
    found = [metric[a][b] for metric in metrics for a in places for b in places if a != b]
    return found.count(None) + len(_METRICS) * len(NODES) * (len(NODES) - 1) - len(found)


async def _by_tools(made: Bed, site: TrainingSite, round_trips_ms: list[float]) -> list[Figure]:
    """What the agents measured on three pairs by what other programs do."""
    pairs = (await site.document("/v1/network"))["pairs"]
    rows = {name: place for place, name in enumerate(pairs["nodes"])}
    delays, rates = list[float](), list[float]()
    for (one, other), round_trip_ms in zip(_PAIRS, round_trips_ms, strict=True):
        rate_bps = await asyncio.to_thread(_rate_bps, made, one, other)
        delays.append(_both_ways_ms(pairs, one, other) / round_trip_ms)
        rates.append(pairs["throughput_bps"][rows[one]][rows[other]] / rate_bps)
    return [
        Figure("N4", "agents' delay there and back by ping's, medians (late, slow, clean pair)", "–", tuple(delays)),
        Figure("N4", "agents' throughput by iperf3's (the same)", "–", tuple(rates)),
    ]


async def _by_stamp(made: Bed, site: TrainingSite) -> list[Figure]:
    looks = (asyncio.to_thread(stamp.round_trip_ms, made, *pair) for pair in _PAIRS)
    by_it_ms = await asyncio.gather(*looks)
    pairs = (await site.document("/v1/network"))["pairs"]
    shares = [await asyncio.to_thread(stamp.understood, made, *pair) for pair in _PAIRS]
    delays = [_both_ways_ms(pairs, *pair) / ms for pair, ms in zip(_PAIRS, by_it_ms, strict=True)]
    return [
        Figure("N4", "agents' delay there and back by stamp-suite's, medians (the same)", "–", tuple(delays)),
        Figure("N4", "answers that agents' STAMP and stamp-suite take from each other (the same)", "–", tuple(shares)),
    ]


def _both_ways_ms(pairs: Any, one: str, other: str) -> float:
    """What the agents measured there and back."""
    rows = {name: place for place, name in enumerate(pairs["nodes"])}
    return float(sum(pairs["delay_ms"][rows[a]][rows[b]] for a, b in ((one, other), (other, one))))


def _round_trip_ms(made: Bed, one: str, other: str) -> float:
    """The median, as agents' delays are medians: a burst fills a link's queue for seconds. Blocks for 13 s."""
    answer = run_in(made.namespace(one), *f"ping -c 25 -i 0.5 {address(other)}".split())
    return median(float(line.rpartition("time=")[2].split()[0]) for line in answer.splitlines() if "time=" in line)


def _rate_bps(made: Bed, one: str, other: str) -> float:
    """Throughput from the one to the other. Blocks, for two seconds."""
    serve = f"ip netns exec {made.namespace(other)} iperf3 -s -1 --forceflush -p 5999".split()
    with subprocess.Popen(serve, stdout=subprocess.PIPE) as server:
        try:
            assert server.stdout is not None
            _ = server.stdout.readline(), server.stdout.readline()  # a rule, and that it listens
            report = json.loads(run_in(made.namespace(one), *f"iperf3 -J -t 2 -p 5999 -c {address(other)}".split()))
        finally:
            server.kill()
    return float(report["end"]["sum_received"]["bits_per_second"])


async def _placed(site: TrainingSite, name: str) -> set[str]:
    """The nodes of a gang, which is removed."""
    api = site.api
    pods = gang_pods(name, WANTED, min_available=WANTED, namespace=TEAM, scheduler="netgang")
    await api.create_all(pods)
    bound = await api.until_bound(TEAM, WANTED)
    await api.delete_all("Pod", namespace=TEAM)
    await api.until(partial(api.list_all, "Pod", namespace=TEAM), lambda found: not found, what=f"{name} gone")
    return set(bound.values())


async def _trained(site: TrainingSite, choice: Choice, run: int) -> tuple[list[str], float]:
    """Where a job ran, its parameter server first, and how long its steps took."""
    asked = {
        Choice.NETGANG: (),
        Choice.WORST: worst_case(),
        Choice.CLEAN_PS: clean_ps_case(),
        Choice.RANDOM: drawn(f"N4/{run}"),
    }[choice]
    name = f"n4-{choice.replace(' ', '-')}-{run}"
    arguments = [*_TRAINS, f"--seed={run}"]
    await site.api.create(site.job(name, arguments, workers=WANTED - 1, ps_on=asked[:1], workers_on=asked[1:]))
    pods = await site.until_ended(name, WANTED, limit_s=3.0 * _LIMIT_S)
    nodes = {one["metadata"]["name"]: one["spec"]["nodeName"] for one in pods}
    if (count := len(told := steps(site, name))) != _STEPS:
        raise ControlPlaneError(f"{name} ended after {count} of {_STEPS} steps")
    await site.remove(name)
    return [nodes[one] for one in sorted(nodes)], sum(line["seconds"] for line in told)


def _figures(seconds: dict[Choice, list[float]], hits: list[float]) -> list[Figure]:
    ours = seconds[Choice.NETGANG]
    speeds = {
        choice: tuple(other / mine for other, mine in zip(seconds[choice], ours, strict=True))
        for choice in (Choice.WORST, Choice.CLEAN_PS, Choice.RANDOM)
    }
    return [
        Figure("N4", "share of the choices that are 28–32 and 36", "1 of 1", tuple(hits)),
        Figure("N4", f"seconds of {_STEPS} steps on netgang's nodes", "–", tuple(ours)),
        *(Figure("N4", f"speed on them by that of the choice {one}", "–", found) for one, found in speeds.items()),
    ]
