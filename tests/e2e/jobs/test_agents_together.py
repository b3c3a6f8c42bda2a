"""Agents in one process, as `make cluster` runs them: they measure what their mesh says, and it outlives netgang."""

import json
from collections.abc import Callable
from itertools import permutations
from pathlib import Path
from time import monotonic

import pytest

from lab.testbed.objects import zone_nodes
from lab.testbed.parts.agents import start_agents
from lab.testbed.parts.service import Netgang
from lab.testbed.processes.network import LOOPBACK, free_ports
from tests.e2e.stage import Stage, document, say
from tests.liveness import LIVENESS_S

NODES = tuple(f"node{i}" for i in range(1, 5))
LOSSY, FAR = ("node1", "node2"), "node4"
_Links = dict[tuple[str, str], tuple[float, float, float]]


def mesh() -> list[dict[str, object]]:
    """A fifth is lost between two nodes, and to and from another all takes 20 ms."""
    return [
        {
            "source": one,
            "target": other,
            "loss_ratio": 0.2 if {one, other} == {*LOSSY} else 0.0,
            "delay_ms": 20.0 if FAR in (one, other) else 0.0,
        }
        for one, other in permutations(NODES, 2)
    ]


async def _links(netgang: Netgang) -> _Links:
    """Directed pair → loss as a ratio, delay in ms, age of the loss in s; what is not known is left out."""
    pairs = (await document(netgang, "/v1/network"))["pairs"]
    place = {node: number for number, node in enumerate(pairs["nodes"])}
    figures = [pairs[name] for name in ("loss_ratio", "delay_ms", "loss_age_s")]
    found = {pair: [rows[place[pair[0]]][place[pair[1]]] for rows in figures] for pair in permutations(NODES, 2)}
    return {pair: (loss, delay, age) for pair, (loss, delay, age) in found.items() if None not in (loss, delay)}


def _as_in_the_mesh(links: _Links) -> bool:
    if len(links) < 12:
        return False
    delays = all((delay > 15.0) == (FAR in pair) for pair, (_, delay, _) in links.items())
    return delays and all((loss > 0.05) == ({*pair} == {*LOSSY}) for pair, (loss, _, _) in links.items())


@pytest.mark.slow
@pytest.mark.timeout(LIVENESS_S * 4)
async def test_the_next_leader_knows_what_agents_measured_for_the_last_one(stage: Stage, tmp_path: Path) -> None:
    await stage.add_nodes(*zone_nodes({"D": len(NODES)}))
    [port] = free_ports(1)
    settings = {"reports": {"port": port}, "probe": {"enabled": True}}
    first = await stage.start_netgang(settings)
    (file := tmp_path / "mesh.json").write_text(json.dumps(mesh()))
    url, ready_url = f"http://{LOOPBACK}:{port}", f"{first.url}/readyz"
    began_s = monotonic()
    await start_agents(stage.cluster, NODES, url=url, ready_url=ready_url, mesh=file)
    try:
        await _until(stage, first, _as_in_the_mesh, "links are as in the mesh", began_s)
        await stage.cluster.remove(first.part.name)
        second = await stage.start_netgang(settings, name="second")
        ready_s = monotonic()
        found = await _until(stage, second, _as_in_the_mesh, "the next leader knows the links", ready_s)
        say(f"the oldest was measured {max(age_s for _, _, age_s in found.values()):.0f} s ago")

        def again(links: _Links) -> bool:
            return _as_in_the_mesh(links) and all(age_s < monotonic() - ready_s for _, _, age_s in links.values())

        await _until(stage, second, again, "links are measured again", ready_s)
    finally:
        await stage.cluster.remove("agents")
        for node in NODES:
            await stage.api.delete("Pod", f"netgang-probe-{node}", namespace="netgang-system", grace_s=0)


async def _until(stage: Stage, netgang: Netgang, accept: Callable[[_Links], bool], what: str, since_s: float) -> _Links:
    found = await stage.api.until(lambda: _links(netgang), accept, what=what, limit_s=120.0)
    say(f"{what}: after {monotonic() - since_s:.0f} s")
    return found
