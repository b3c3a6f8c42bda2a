"""A large MaDDash mesh: how long its grids take to parse, and how long they hold the event loop.

Why: 100 ends are 10,000 cells in each of three grids, read while kube-scheduler waits for answers from the same loop.
The source is the real one; the server is in this process and answers at once, so what is measured is our
own work. Goals: at most 0.3 s for each 10,000 cells; the longest time without a turn for others at most 20 ms, as the
median over the fetches, since a busy machine adds its own pauses (the longest of all is printed).

And a large site: 5,000 nodes in 40 zones, each zone a full mesh in three metrics. Goals: a gang that may use one zone
has the pairs of that zone looked at and no other; the mesh, as its source's table and as a matrix, takes at most
150 MiB. Run `python -m lab.bench.maddash`; it prints two JSON lines and exits with 1 when a goal is missed.
"""

import argparse
import asyncio
import gc
import json
import sys
import tracemalloc
from collections.abc import AsyncIterator, Iterator, Sequence
from dataclasses import dataclass, field
from time import perf_counter

import httpx

from extender.network.maddash.client import MaddashServer
from extender.network.maddash.source import MaddashSource
from lab.bench import bed
from scoring.ids import EndpointId, NodeName
from scoring.model import Node
from scoring.model.policy import Policy
from scoring.network.matrix import METRICS, Block, Measurement, MeasurementTable, NetworkMatrix
from scoring.plan import PlannerCache, plan

_NOW_S = 1_800_000_000.0
_TEXTS = {  # grid → check, message
    "Loss": ("Packet+Loss", " Average packet loss is {:.3f}% "),
    "Delay": ("One-way+Delay", " Average minimum delay is {:.3f}ms "),
    "Throughput": ("Throughput", " Average throughput is {:.3f}Gbps "),
}
_GOAL_PARSE_S = 0.3
_GOAL_HELD_S = 0.02
_GOAL_MESH_BYTES = 150 * 2**20


def main() -> None:
    """Measure, print, judge."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--ends", type=int, default=100)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--nodes", type=int, default=5000)
    parser.add_argument("--zones", type=int, default=40)
    options = parser.parse_args()
    result = asyncio.run(measure(options.ends, options.rounds))
    print(json.dumps(result), flush=True)
    site = large_site(options.nodes, options.zones)
    print(json.dumps(site))
    slow = result["s_per_10000_cells"] > _GOAL_PARSE_S or result["held_s_max_median"] > _GOAL_HELD_S
    if slow or site["mesh_bytes"] > _GOAL_MESH_BYTES or site["pairs_looked_at"] > site["pairs_of_the_zone"]:
        sys.exit(1)


async def measure(ends: int, rounds: int) -> dict[str, float]:
    """Fetch a mesh that changed wholly, `rounds` times, beside a task that only wants its turn."""
    bodies: list[dict[str, bytes]] = [
        {f"/maddash/grids/{grid}": _grid(grid, ends, round_ + 1) for grid in _TEXTS} for round_ in range(rounds)
    ]
    listed = json.dumps({"grids": [{"name": name} for name in _TEXTS]}).encode()
    current: dict[str, bytes] = {}

    async def answer(request: httpx.Request) -> httpx.Response:
        return httpx.Response(200, stream=_Parts(current.get(request.url.path, listed)))

    source = MaddashSource(MaddashServer("http://127.0.0.1/maddash"), transport=httpx.MockTransport(answer))
    seconds, longest = [], []
    gc.collect()
    gc.freeze()
    for number, round_ in enumerate(bodies):
        current = round_
        began_s = perf_counter()
        fetch = asyncio.create_task(source.fetch(now_s=_NOW_S + 60.0 * number))
        held_s, turn_s = 0.0, perf_counter()
        while not fetch.done():
            await asyncio.sleep(0)
            now_s = perf_counter()
            held_s, turn_s = max(held_s, now_s - turn_s), now_s
        seconds.append(perf_counter() - began_s)
        longest.append(held_s)
        batch = fetch.result()
        if batch is None or len(MeasurementTable.of(batch.measurements)) != 3 * ends * (ends - 1):
            raise RuntimeError("the mesh was not read whole")
    await source.aclose()
    middle = rounds // 2
    return {
        "ends": ends,
        "cells": 3 * ends * (ends - 1),
        "bytes": sum(map(len, bodies[0].values())),
        "fetch_s": sorted(seconds)[middle],
        "s_per_10000_cells": sorted(seconds)[middle] / (3 * ends * (ends - 1)) * 10_000,
        "held_s_max_median": sorted(longest)[middle],
        "held_s_max": max(longest),
    }


def large_site(nodes: int, zones: int) -> dict[str, int]:
    """Pairs that a gang for one zone has looked at, and what the mesh takes: each zone is a full mesh."""
    listed = bed.nodes(nodes, zones=zones)
    ends = {metric: {one.name: EndpointId(one.name) for one in listed} for metric in METRICS}
    tracemalloc.start()
    table = MeasurementTable.of(_mesh(listed))
    matrix = NetworkMatrix.merged({"maddash": table}, endpoint_of=ends, now_s=_NOW_S)
    held, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    counted = Counted(**{name: getattr(matrix, name) for name in NetworkMatrix.__dataclass_fields__})
    zone = listed[0].zone
    gang = bed.gang("g", 64, cpu=8, options={"zones": zone})
    made = plan(bed.snapshot(listed, [gang], counted), Policy(), now_s=_NOW_S, cache=PlannerCache())
    if {node for one in made.admitted.values() for node in one.members.values()} - counted.asked:
        raise RuntimeError("members are on nodes whose links were not looked at")
    of_zone = sum(one.zone == zone for one in listed)
    return {
        "nodes": nodes,
        "zones": zones,
        "values": len(table),
        "mesh_bytes": held,
        "pairs": nodes * nodes,
        "pairs_of_the_zone": of_zone * of_zone,
        "pairs_looked_at": sum(counted.looks),
        "nodes_looked_at": len(counted.asked),
        "members_placed": len(made.node_of),
    }


@dataclass(frozen=True, slots=True)
class Counted(NetworkMatrix):
    """A matrix that notes how many pairs each look takes out."""

    looks: list[int] = field(default_factory=list)
    asked: set[NodeName] = field(default_factory=set)

    def block(self, sources: Sequence[NodeName], targets: Sequence[NodeName]) -> Block:
        """As the matrix does, and note the size."""
        self.looks.append(len(sources) * len(targets))
        self.asked.update(sources, targets)
        return NetworkMatrix.block(self, sources, targets)


def _mesh(listed: Sequence[Node]) -> Iterator[Measurement]:
    """Every link inside each zone, in both directions and all metrics."""
    zones: dict[str, list[EndpointId]] = {}
    for one in listed:
        zones.setdefault(one.zone, []).append(EndpointId(one.name))
    for ends in zones.values():
        for a in ends:
            for b in ends:
                if a != b:
                    for metric in METRICS:
                        yield Measurement(a, b, metric, bed.GOOD[metric], _NOW_S)


class _Parts(httpx.AsyncByteStream):
    """A body in the parts in which a network delivers it, each with a turn for others."""

    def __init__(self, body: bytes) -> None:
        self._body = body

    async def __aiter__(self) -> AsyncIterator[bytes]:
        for start in range(0, len(self._body), 65536):
            await asyncio.sleep(0)
            yield self._body[start : start + 65536]


def _grid(name: str, ends: int, number: int) -> bytes:
    check, text = _TEXTS[name]
    names = [f"ps{end}.zone-a.example.org" for end in range(ends)]

    def cell(a: int, b: int) -> list[dict[str, object]]:
        value = (number * (31 * a + 17 * b)) % 9000 / 1000.0
        uri = f"/maddash/grids/{name}/{names[a]}/{names[b]}/{check}"
        return [{"message": text.format(value), "status": 0, "prevCheckTime": int(_NOW_S) - 60, "uri": uri}]

    cells = [[None if a == b else cell(a, b) for b in range(ends)] for a in range(ends)]
    return json.dumps(
        {
            "name": name,
            "columnNames": names,
            "columnProps": [{} for _ in names],
            "rows": [{"name": one, "uri": f"/maddash/grids/{name}/{one}", "props": {}} for one in names],
            "grid": cells,
        }
    ).encode()


if __name__ == "__main__":
    main()
