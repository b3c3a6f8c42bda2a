"""1,000 agents that report: netgang's CPU, each agent's traffic and peers.

Why: cost must grow with nodes times peers and not with pairs. The server is a process of its own: the real port of
reports with its HTTP protocol, the real source and refresh, which publishes a matrix every 30 s; only TokenReview and
the pods come from memory. The agents are connections of this process, each kept open; they do what they are answered,
and report values without measuring: 1,000 of them every 40 s, which goes into 80 s twice. Traffic of probing is
counted from the orders: a STAMP packet of 44 bytes with UDP and IP headers is 72, each packet is answered, and each
agent reflects as many as it sends.

    python -m lab.bench.probing.load [--nodes 1000] [--zones 10] [--seconds 81]

One JSON line; exit 1 if netgang takes above 3 % of a core, a node above 2,000 bytes/s or above 20 peers. A second one
with the time of an assignment for 5,000 nodes; exit 1 above 100 ms.
"""

import argparse
import asyncio
import json
import os
import statistics
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from time import perf_counter, process_time
from typing import Any, Final

import msgspec
import uvicorn
import uvloop

from extender.api.probe import ProbePort
from extender.api.reports import Reporters, ReportsDoor, create_reports_app
from extender.bootstrap.serve import favour_the_loop, port_config
from extender.network.probe.agent_pods import POD_NAME, POD_UID, AgentPods
from extender.network.probe.agents import Agents
from extender.network.probe.source import LOOK_S, ProbeSource
from extender.network.refresh import NetworkRefresh, Polled, RefreshOptions
from extender.ports import Identity
from extender.runtime.clock import SystemClock
from extender.runtime.memory import collect_when_grown, give_back_each_minute
from extender.server.connections import Connections, PortLimits
from lab.bench.bed import nodes as bed_nodes
from scoring.ids import NodeName, ZoneName
from scoring.network.matrix import NetworkMatrix
from scoring.probing.peers import Turn, assign_peers

GOAL_CORE: Final = 0.03
GOAL_BYTES_PER_S: Final = 2000.0
GOAL_PEERS: Final = 20
GOAL_ASSIGN_S: Final = 0.1
_PACKET_BYTES: Final = 44 + 8 + 20  # STAMP in UDP in IPv4
_ACCOUNT: Final = "system:serviceaccount:netgang-system:netgang-probe"
_TOKEN_CHARS: Final = 1100  # As long as a projected token
_TICKS: Final = os.sysconf("SC_CLK_TCK")


class _Reviews:
    """The token says the node's number."""

    async def identity(self, token: str, *, audiences: Sequence[str] = ()) -> Identity | None:
        number = token.rstrip("=")
        return Identity(_ACCOUNT, extra=((POD_NAME, (f"agent-{number}",)), (POD_UID, (f"uid-{number}",))))

    async def may(self, caller: Identity, verb: str, path: str) -> bool:
        return False  # never asked at this port

    async def may_see(self, caller: Identity, namespace: str) -> bool:
        return False


def serve(port: int, count: int, zones: int) -> None:
    """Run the server until it is terminated; on the way its matrices are counted in its last line."""
    favour_the_loop()
    uvloop.run(_serve(port, count, zones))


async def _serve(port: int, count: int, zones: int) -> None:
    clock, nodes = SystemClock(), bed_nodes(count, zones=zones)
    agents = Agents(clock)

    async def get_pod(namespace: str, name: str) -> bytes:
        number = int(name.rpartition("-")[2])
        status = {"podIP": f"10.{number >> 16}.{number >> 8 & 255}.{number & 255}"}
        spec = {"nodeName": nodes[number].name}
        return msgspec.json.encode({"metadata": {"uid": f"uid-{number}"}, "spec": spec, "status": status})

    zone_of: Mapping[NodeName, ZoneName] = {node.name: node.zone for node in nodes}
    source = ProbeSource(agents, zones=lambda: zone_of, wanted=lambda: frozenset(), acting=lambda: True, seed="bench")
    app = create_reports_app(None, acting=lambda: True, probe=ProbePort(agents, AgentPods(get_pod, clock), _ACCOUNT))
    door = ReportsDoor(app, Reporters(_Reviews(), None, agents=_ACCOUNT), clock, count=lambda _: None)
    published: list[int] = []

    def publish(matrix: NetworkMatrix) -> None:
        published.append(matrix.version)

    refresh = NetworkRefresh(
        [Polled(source, LOOK_S)],
        RefreshOptions(zone_fallback=True),
        clock=clock,
        nodes=lambda: nodes,
        publish=publish,
        jitter=lambda: 0.5,
    )
    # All agents have this machine's address here, where each pod has its own.
    connections = Connections(PortLimits(connections=2 * count, per_peer=2 * count))
    server = uvicorn.Server(port_config(door, "127.0.0.1", port, connections=connections))
    async with asyncio.TaskGroup() as tasks:
        beside = [tasks.create_task(one) for one in (refresh.run(), collect_when_grown(), give_back_each_minute())]
        await server.serve()
        for one in beside:
            one.cancel()


class _Agent:
    """One agent on a connection of its own."""

    def __init__(self, port: int, number: int, node: str) -> None:
        self._port, self._number, self._node = port, number, node
        self._sequence = 0
        self.orders: dict[str, Any] = {"peers": [], "interval_s": 2.0, "packet_interval_s": 1.0, "reflect_for": []}
        self.bytes = 0
        self.statuses: dict[str, int] = {}

    async def run(self, until_s: float, *, late_s: float) -> None:
        await asyncio.sleep(late_s)
        reader, writer = await asyncio.open_connection("127.0.0.1", self._port)
        while perf_counter() < until_s:
            began_s = perf_counter()
            try:
                await self._report(reader, writer)
            except (asyncio.IncompleteReadError, ConnectionError):
                self.statuses["closed"] = self.statuses.get("closed", 0) + 1
                reader, writer = await asyncio.open_connection("127.0.0.1", self._port)
            await asyncio.sleep(max(self.orders["interval_s"] - (perf_counter() - began_s), 0.0))
        writer.close()

    async def _report(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        sent = int(10.0 / self.orders["packet_interval_s"])
        links = [
            {
                "peer": peer["node"], "sent": sent, "lost_out": 0, "lost_back": 0, "lost": 0,
                "rtt_ms": [0.213, 0.482], "one_way_ms": None, "jitter_ms": 0.113, "suspect": 0,
            }
            for peer in self.orders["peers"]
        ]  # fmt: skip
        document = {
            "node": self._node, "since_s": 1_795_248_238.5, "sequence": self._sequence, "reflector_port": 8862,
            "links": links,
        }  # fmt: skip
        self._sequence += 1
        body = msgspec.json.encode(document)
        token = str(self._number).ljust(_TOKEN_CHARS, "=")
        head = (
            f"POST /v1/probe HTTP/1.1\r\nhost: netgang\r\nauthorization: Bearer {token}\r\n"
            f"content-type: application/json\r\ncontent-length: {len(body)}\r\n\r\n"
        ).encode()
        writer.write(head + body)
        answer = await reader.readuntil(b"\r\n\r\n")
        status = answer.split(b" ", 2)[1].decode()
        [length] = [int(line[15:]) for line in answer.lower().split(b"\r\n") if line.startswith(b"content-length:")]
        content = await reader.readexactly(length)
        self.statuses[status] = self.statuses.get(status, 0) + 1
        self.bytes += len(head) + len(body) + len(answer) + length
        if status == "200":
            self.orders = msgspec.json.decode(content)


async def measure(count: int, zones: int, seconds: float, port: int) -> dict[str, Any]:
    """Let agents join, wait until they have their peers, then measure for so many seconds."""
    arguments = ("-m", "lab.bench.probing.load", "--serve", str(port), "--nodes", str(count), "--zones", str(zones))
    server = await asyncio.create_subprocess_exec(sys.executable, *arguments)
    try:
        await _until_listening(port)
        agents = [_Agent(port, number, node.name) for number, node in enumerate(bed_nodes(count, zones=zones))]
        joining_s = 75.0
        began_s = perf_counter()
        until_s = began_s + joining_s + seconds
        async with asyncio.TaskGroup() as tasks:
            for number, agent in enumerate(agents):
                tasks.create_task(agent.run(until_s, late_s=10.0 * number / count))
            await asyncio.sleep(joining_s)
            before_s, bytes_before = _cpu_s(server.pid), sum(agent.bytes for agent in agents)
            reports_before = sum(agent.statuses.get("200", 0) for agent in agents)
            measured_s = perf_counter()
            await asyncio.sleep(seconds - 1.0)
            measured_s = perf_counter() - measured_s
            cpu_s = _cpu_s(server.pid) - before_s
            reports = sum(agent.statuses.get("200", 0) for agent in agents) - reports_before
            report_bytes = (sum(agent.bytes for agent in agents) - bytes_before) / measured_s / count
        peers = [len(agent.orders["peers"]) for agent in agents]
        rates = [len(agent.orders["peers"]) / agent.orders["packet_interval_s"] for agent in agents]
        probe_bytes = 2.0 * _PACKET_BYTES * max(rates)
        statuses: dict[str, int] = {}
        for agent in agents:
            for status, times in agent.statuses.items():
                statuses[status] = statuses.get(status, 0) + times
        return {
            "bench": "probing", "nodes": count, "zones": zones, "seconds": round(measured_s, 1),
            "reports_per_s": round(reports / measured_s, 1), "core": round(cpu_s / measured_s, 4),
            "us_per_report": round(cpu_s / max(reports, 1) * 1e6), "peers_mean": statistics.fmean(peers),
            "peers_max": max(peers), "report_bytes_per_s": round(report_bytes), "probe_bytes_per_s": round(probe_bytes),
            "rss_mib": round(_rss_mib(server.pid)), "statuses": statuses,
        }  # fmt: skip
    finally:
        server.terminate()
        await server.wait()


async def _until_listening(port: int) -> None:
    async with asyncio.timeout(90.0):
        while True:
            try:
                _, writer = await asyncio.open_connection("127.0.0.1", port)
            except OSError:
                await asyncio.sleep(0.1)
            else:
                writer.close()
                return


def _cpu_s(pid: int) -> float:
    """User and system time of all threads."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / _TICKS


def _rss_mib(pid: int) -> float:
    pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 2**20


def assignment(count: int, zones: int, rounds: int = 7) -> dict[str, Any]:
    """CPU time that the peers of all nodes take, as the median."""
    zone_of = {node.name: node.zone for node in bed_nodes(count, zones=zones)}
    times = []
    for epoch in range(rounds):
        began_s = process_time()
        found = assign_peers(zone_of, Turn(epoch, "bench"))
        times.append(process_time() - began_s)
    peers = [len(one) for one in found.values()]
    return {
        "bench": "probing_assignment", "nodes": count, "zones": zones, "s": round(statistics.median(times), 4),
        "peers_max": max(peers),
    }  # fmt: skip


def main() -> None:
    """Measure, print, judge."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--nodes", type=int, default=1000)
    parser.add_argument("--zones", type=int, default=10)
    parser.add_argument("--seconds", type=float, default=81.0)
    parser.add_argument("--port", type=int, default=18891)
    parser.add_argument("--serve", type=int, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.serve is not None:
        serve(options.serve, options.nodes, options.zones)
        return
    load = uvloop.run(measure(options.nodes, options.zones, options.seconds, options.port))
    print(json.dumps(load), flush=True)
    found = assignment(5000, 40)
    print(json.dumps(found))
    traffic = load["report_bytes_per_s"] + load["probe_bytes_per_s"]
    too_many = max(load["peers_max"], found["peers_max"]) > GOAL_PEERS
    if load["core"] > GOAL_CORE or traffic > GOAL_BYTES_PER_S or too_many or found["s"] > GOAL_ASSIGN_S:
        sys.exit(1)


if __name__ == "__main__":
    main()
