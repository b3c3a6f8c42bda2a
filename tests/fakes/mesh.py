"""Meshes as data for fakes and examples: who is measured, and what the links give.

`paper_mesh` is the test bed of PAPERS N4. Its values are what a real mesh would show, so each carries a little
measured noise: a fixed function of the node numbers, in the steps in which MaDDash prints (0.001 ms, 1 Mbit/s), so
that the same mesh as a file, as a MaDDash server and in memory is equal to the last digit.

Write the example file again with: python -m tests.fakes.mesh > examples/mesh/paper-testbed.json
"""

import json
import sys
from itertools import permutations

import msgspec
from msgspec.structs import asdict, replace

ZONES = "ABCD"
INTER_ZONE_MS = {"AB": 5.0, "AC": 12.0, "AD": 20.0, "BC": 8.0, "BD": 15.0, "CD": 30.0}
PAPER_RANKS = {28: 2, 29: 4, 30: 2, 31: 1, 32: 0, 33: 2, 34: 2, 35: 2, 36: 3}  # node → noise: 32 is best, 29 worst


class Link(msgspec.Struct, frozen=True):
    """One direction: loss ratio, one-way delay in ms, throughput in bit/s; `None` is not measured."""

    loss_ratio: float | None = 0.0
    delay_ms: float | None = 0.3
    throughput_bps: float | None = 1e8


class End(msgspec.Struct, frozen=True):
    label: str
    address: str


class Mesh(msgspec.Struct):
    ends: dict[str, End] = {}
    links: dict[tuple[str, str], Link] = {}

    def change(self, source: str, target: str, **values: float | None) -> None:
        self.links[source, target] = replace(self.links[source, target], **values)


def full_mesh(*names: str) -> Mesh:
    ends = {name: End(name, f"{name}.lab.example") for name in names}
    return Mesh(ends, {(a, b): Link() for a in names for b in names if a != b})


def paper_zone(number: int) -> str:
    """Zone of node `number`: nine nodes each, A from node1, D from node28.

    >>> [paper_zone(number) for number in (1, 9, 10, 27, 28, 36)]
    ['A', 'A', 'B', 'C', 'D', 'D']
    """
    return ZONES[(number - 1) // 9]


def paper_mesh() -> Mesh:
    """36 nodes in four zones; in zone D node33 has 10 ms delay, node34 10 % loss, node35 10 Mbit/s (PAPERS N4)."""
    mesh = Mesh()
    for number in range(1, 37):
        mesh.ends[f"node{number}"] = End(f"node{number}", f"node{number}.zone-{paper_zone(number).lower()}.example")
    for a, b in permutations(range(1, 37), 2):
        mesh.links[f"node{a}", f"node{b}"] = _paper_link(a, b)
    return mesh


def _paper_link(a: int, b: int) -> Link:
    noise = _rank(a) + _rank(b)
    zones = "".join(sorted({paper_zone(a), paper_zone(b)}))
    delay_ms = INTER_ZONE_MS.get(zones, 0.3) + 0.02 * noise + 0.001 * ((31 * a + 17 * b) % 4)
    throughput_bps = (100e6 if len(zones) == 1 else 50e6) - 1e6 * noise
    impaired = {a, b}
    return Link(
        loss_ratio=0.1 if 34 in impaired else 0.0,
        delay_ms=round(delay_ms + (10.0 if 33 in impaired else 0.0), 3),
        throughput_bps=10e6 if 35 in impaired else throughput_bps,
    )


def _rank(number: int) -> int:
    return PAPER_RANKS.get(number, 7 * number % 5)


def mesh_file(mesh: Mesh) -> str:
    links = mesh.links.items()
    entries = [{"source": source, "target": target, **asdict(link), "age_s": 0.0} for (source, target), link in links]
    return "[\n" + ",\n".join(map(json.dumps, entries)) + "\n]\n"


if __name__ == "__main__":
    sys.stdout.write(mesh_file(paper_mesh()))
