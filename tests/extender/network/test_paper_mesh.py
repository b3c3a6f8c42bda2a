"""The published test bed as data: it has the properties of PAPERS N4, and all its forms agree."""

from collections.abc import Sequence
from pathlib import Path

from extender.network.meshfile import read_mesh
from tests.fakes.mesh import Mesh, mesh_file, paper_mesh, paper_zone
from tests.fakes.network_source import measurements

EXAMPLE = Path(__file__).parents[3] / "examples" / "mesh" / "paper-testbed.json"
NOW_S = 1_800_000_000.0


def literal_score(mesh: Mesh, one: str, other: str) -> float:
    """PAPERS N2 with the prototype's units, of a link's worse direction."""
    a, b = mesh.links[one, other], mesh.links[other, one]
    loss = max(a.loss_ratio or 0.0, b.loss_ratio or 0.0)
    delay = max(a.delay_ms or 0.0, b.delay_ms or 0.0)
    throughput = min(a.throughput_bps or 0.0, b.throughput_bps or 0.0)
    return max(0.0, 20.0 - 10.0 * 100.0 * loss) + max(0.0, 40.0 - delay) + 40.0 * throughput / 1e9


def published_order(mesh: Mesh, nodes: Sequence[str], count: int) -> list[str]:
    """PAPERS N3: from the first node on, add each node's score with the last chosen one, take the highest total."""
    chosen, totals = [nodes[0]], dict.fromkeys(nodes[1:], 0.0)
    while len(chosen) < count:
        for name in totals:
            totals[name] += literal_score(mesh, chosen[-1], name)
        best = max(totals, key=lambda name: totals[name])
        del totals[best]
        chosen.append(best)
    return chosen


def test_the_example_is_the_mesh() -> None:
    assert EXAMPLE.read_text() == mesh_file(paper_mesh())
    batch = read_mesh(EXAMPLE, now_s=NOW_S)
    assert list(batch.measurements) == measurements(paper_mesh(), measured_at_s=NOW_S)
    assert not batch.problems


def test_impairments() -> None:
    """node33 has 10 ms delay, node34 10 % loss, node35 10 Mbit/s; all other links of a zone are clean."""
    mesh = paper_mesh()
    for (one, other), link in mesh.links.items():
        a, b = int(one.removeprefix("node")), int(other.removeprefix("node"))
        assert link.delay_ms is not None
        assert link.throughput_bps is not None
        assert link.loss_ratio == (0.1 if 34 in (a, b) else 0.0)
        assert (link.throughput_bps == 10e6) == (35 in (a, b))
        same_zone = paper_zone(a) == paper_zone(b)
        least_ms = (0.3 if same_zone else 5.0) + (10.0 if 33 in (a, b) else 0.0)
        assert least_ms <= link.delay_ms < least_ms + (0.3 if same_zone else 26.0)
        if 35 not in (a, b):
            low, high = (90e6, 100e6) if same_zone else (40e6, 50e6)
            assert low <= link.throughput_bps <= high


def test_the_published_order_is_possible() -> None:
    """With the mesh's noise the published method gives the figure's order: 28, then 32, 31, … and 29 last."""
    order = published_order(paper_mesh(), [f"node{number}" for number in range(28, 37)], 6)
    assert order[:3] == ["node28", "node32", "node31"]
    assert order[-1] == "node29"
    assert set(order) == {"node28", "node29", "node30", "node31", "node32", "node36"}
