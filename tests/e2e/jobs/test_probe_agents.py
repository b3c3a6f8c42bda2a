"""Nine real agents and netgang: from the first report to the placed gang, over a fault and two agents that are killed.

An agent has a loopback address of its own (its pod's status.podIP). iptables drops part of the packets to three of
them, and of no one else; it needs root. Where iperf3 is installed, bursts of 1 MB measure throughput meanwhile. Short
settings: reports every 2 s instead of 10. All else is as installed: a window's weight is halved in 40 s, a new table
every 30 s. Loopback has no netem in many kernels: no delay is injected.
"""

import asyncio
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from time import monotonic
from typing import Any, TypeAlias

import pytest

from lab.testbed.api import Api
from lab.testbed.objects import zone_nodes
from lab.testbed.parts.service import ROOT, Netgang
from lab.testbed.processes.network import LOOPBACK, free_ports
from tests.e2e.objects import kind
from tests.e2e.probe_agents import ACCOUNT, agent, token_of_pod
from tests.e2e.stage import Stage, document, say
from tests.liveness import LIVENESS_S

ADDRESSES = {f"node{i}": f"127.0.77.{i}" for i in range(1, 10)}
BAD = {"node1", "node2", "node3"}  # first by name: chosen if nothing were measured
KILLED = ("node8", "node9")
DROPPED = 0.1
_Losses: TypeAlias = dict[tuple[str, str], float | None]
FOUND, GONE = 0.02, 0.01  # loss of a link, as a ratio
ENOUGH_BPS = 10e6  # Throughput decides nothing: a loopback carries less while the machine is busy


@contextmanager
def packets_dropped() -> Iterator[None]:
    """A part of the UDP packets to the bad nodes is lost, until the end of the block."""
    with ExitStack() as stack:
        for node in sorted(BAD):
            rule = ["INPUT", "-d", ADDRESSES[node], "-p", "udp", "-m", "statistic", "--mode", "random"]
            rule += ["--probability", str(DROPPED), "-j", "DROP"]
            subprocess.run(["iptables", "-w", "-A", *rule], check=True)
            stack.callback(subprocess.run, ["iptables", "-w", "-D", *rule], check=True)
        yield


async def _losses(netgang: Netgang) -> _Losses:
    """Directed pair → loss as a ratio; `None`: not known. There is no source but the probe."""
    pairs = (await document(netgang, "/v1/network"))["pairs"]
    assert {*pairs["nodes"]} == {*ADDRESSES}
    rows = zip(pairs["nodes"], pairs["loss_ratio"], strict=True)
    return {(one, to): loss for one, row in rows for to, loss in zip(pairs["nodes"], row, strict=True) if to != one}


async def _throughputs(netgang: Netgang) -> list[float]:
    """Bits per second of each direction that a burst measured."""
    pairs = (await document(netgang, "/v1/network"))["pairs"]
    return [value for row in pairs["throughput_bps"] for value in row if value is not None]


def _touches_bad(pair: tuple[str, str]) -> bool:
    return not BAD.isdisjoint(pair)


def _is_found(losses: _Losses) -> bool:
    """What good nodes send to bad ones is known to be lost in part; that is the direction that iptables drops."""
    return all((loss or 0.0) > FOUND for (one, to), loss in losses.items() if to in BAD and one not in BAD)


def _all_clean(losses: _Losses) -> bool:
    return all(loss is not None and loss < GONE for loss in losses.values())


async def _named(stage: Stage) -> set[str]:
    """Our nodes with an Event about their own bad links; other tests of this cluster leave Events about theirs."""
    found = await stage.api.list_all("Event", namespace="default", fields="reason=NetworkDegraded")
    about = [(one["involvedObject"]["name"], one["message"]) for one in found]
    return {name for name, message in about if name in ADDRESSES and message.startswith(f"Node {name}:")}


async def _doctor(netgang: Netgang) -> str:
    command = [sys.executable, "-m", "cli.main", "doctor", "--no-cluster", "--url", netgang.url, "--json"]
    process = await asyncio.create_subprocess_exec(*command, cwd=ROOT, stdout=asyncio.subprocess.PIPE)
    out, _ = await process.communicate()
    return " ".join(one["what"] for one in json.loads(out)["findings"] if one["id"] == "probe-silent")


async def _within(limit_s: float, api: Api, netgang: Netgang, accept: Callable[[_Losses], bool], what: str) -> _Losses:
    began_s = monotonic()
    found = await api.until(lambda: _losses(netgang), accept, what=what, limit_s=limit_s)
    say(f"{what}: after {monotonic() - began_s:.0f} s")
    return found


@pytest.mark.slow
@pytest.mark.timeout(LIVENESS_S * 8)
@pytest.mark.skipif(os.geteuid() != 0 or shutil.which("iptables") is None, reason="needs root and iptables")
async def test_a_gang_avoids_what_real_agents_measure(stage: Stage, tmp_path: Path) -> None:
    await stage.add_nodes(*zone_nodes({"D": 9}, cpu="1500m"))
    await stage.api.create(kind("v1", "ServiceAccount", ACCOUNT, stage.namespace))
    [port] = free_ports(1)
    probe: dict[str, Any] = {"enabled": True, "service_account": f"{stage.namespace}/{ACCOUNT}", "interval_s": 2.0}
    if shutil.which("iperf3") is not None:
        probe["throughput"] = {"enabled": True, "size_bytes": 1_000_000}
    score = {"reference_bps": ENOUGH_BPS}
    netgang = await stage.netgang({"reports": {"port": port}, "probe": probe, "score": score})
    url = f"http://{LOOPBACK}:{port}"
    agents = {
        node: agent(node, address, await token_of_pod(stage, node, address), tmp_path, url=url)
        for node, address in ADDRESSES.items()
    }
    try:
        for one in agents.values():
            one.start()
        await _within(60.0, stage.api, netgang, _all_clean, "all 72 directions measured, none with loss")
        if "throughput" in probe:
            await stage.api.until(lambda: _throughputs(netgang), bool, what="a link's throughput", limit_s=120.0)
        with packets_dropped():
            losses = await _within(180.0, stage.api, netgang, _is_found, "loss of three nodes found")
            assert all(loss is not None and loss < GONE for pair, loss in losses.items() if not _touches_bad(pair))
            await stage.create_gang("job", 6)
            assert {*(await stage.until_bound("job", 6, limit_s=60.0)).values()} == {*ADDRESSES} - BAD
            named = await stage.api.until(
                lambda: _named(stage), lambda nodes: len(nodes) == len(BAD), what="Events of bad nodes", limit_s=120.0
            )
            assert named == BAD
        ended_s = monotonic()
        for node in KILLED:
            await agents[node].kill()
        said = await stage.api.until(
            lambda: _doctor(netgang), lambda text: all(node in text for node in KILLED), what="silence said", limit_s=60
        )
        assert "2 of 9 agents silent" in said
        left_s = 180.0 - (monotonic() - ended_s)
        await _within(left_s, stage.api, netgang, _all_clean_or_killed, "loss gone after its end, and doctor's answer")
        pairs = (await document(netgang, "/v1/network"))["pairs"]
        killed, good = pairs["nodes"].index(KILLED[0]), pairs["nodes"].index("node4")
        other, alive = pairs["nodes"].index(KILLED[1]), pairs["nodes"].index("node5")
        assert pairs["loss_ratio"][killed][other] < GONE > pairs["loss_ratio"][good][killed]
        assert pairs["loss_age_s"][killed][other] > pairs["loss_age_s"][good][alive]
    finally:
        for one in agents.values():
            await one.stop()


def _all_clean_or_killed(losses: _Losses) -> bool:
    """Links to the killed keep their last value; those between others are clean."""
    return _all_clean({pair: loss for pair, loss in losses.items() if {*KILLED}.isdisjoint(pair)})
