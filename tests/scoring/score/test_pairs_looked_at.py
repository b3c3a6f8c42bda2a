"""How many pairs of nodes a decision looks at: those of the zones in question, not of the cluster."""

from collections.abc import Sequence
from dataclasses import dataclass, field

import pytest

from scoring.ids import NodeName
from scoring.model import Node
from scoring.model.policy import Policy
from scoring.network.matrix import METRICS, Block, Measurement, NetworkMatrix
from scoring.plan import PlannerCache, plan
from tests.builders import gang, node, snapshot

ZONES, SIZE = 40, 125
NOW_S = 1000.0


@dataclass(frozen=True, slots=True, eq=False)
class Counted(NetworkMatrix):
    """A matrix that notes how many pairs each look takes out."""

    looks: list[int] = field(default_factory=list)
    asked: set[NodeName] = field(default_factory=set)

    def block(self, sources: Sequence[NodeName], targets: Sequence[NodeName]) -> Block:
        """As the matrix does, and note the size."""
        self.looks.append(len(sources) * len(targets))
        self.asked.update(sources, targets)
        return NetworkMatrix.block(self, sources, targets)


def site() -> tuple[list[Node], Counted]:
    """5,000 nodes in 40 zones; the first five of each zone are measured towards each other."""
    nodes = [node(f"z{zone:02}-n{i:03}", zone=f"z{zone:02}", cpu="4") for zone in range(ZONES) for i in range(SIZE)]
    ends = {one.name: one.name for one in nodes}
    found = [
        Measurement(nodes[zone * SIZE + i].name, nodes[zone * SIZE + j].name, metric, 1.0, NOW_S)  # type: ignore[arg-type]
        for zone in range(ZONES)
        for i in range(5)
        for j in range(5)
        if i != j
        for metric in METRICS
    ]
    matrix = NetworkMatrix.of(found, endpoint_of=dict.fromkeys(METRICS, ends), now_s=NOW_S)  # type: ignore[arg-type]
    fields = {name: getattr(matrix, name) for name in NetworkMatrix.__dataclass_fields__}
    return nodes, Counted(**fields)


ASKED = {  # case: (annotation, zones looked at, pairs at least and at most)
    "near to one of 40 zones: 15,625 pairs of 25,000,000": ({"near": "z07"}, {"z07"}, (SIZE * SIZE, SIZE * SIZE)),
    "two zones are allowed": ({"zones": "z03, z31"}, {"z03", "z31"}, (1, 2 * SIZE * SIZE)),
}


@pytest.mark.parametrize(("options", "zones", "pairs"), ASKED.values(), ids=ASKED)
def test_only_pairs_of_zones_in_question_are_looked_at(
    options: dict[str, str], zones: set[str], pairs: tuple[int, int]
) -> None:
    nodes, matrix = site()
    wanted = gang("g", size=8, cpu="4", options=options)
    made = plan(snapshot(nodes, gangs=[wanted], network=matrix), Policy(), now_s=NOW_S, cache=PlannerCache())
    [admission] = made.admitted.values()
    assert set(admission.zones) <= {str(name)[:3] for name in matrix.asked} <= zones
    assert pairs[0] <= sum(matrix.looks) <= pairs[1]


def test_where_any_zone_may_be_each_zone_is_looked_at_by_itself() -> None:
    """Which zone has the best network is not known before: 15,625 pairs of each, 2.5 % of all, and never again.

    Each twice: for the best rate of all zones, and with that as what rates are compared with.
    """
    nodes, matrix = site()
    state = snapshot(nodes, gangs=[gang("g", size=8, cpu="4")], network=matrix)
    cache = PlannerCache()
    plan(state, Policy(), now_s=NOW_S, cache=cache)
    assert max(matrix.looks) == SIZE * SIZE
    assert sum(matrix.looks) == 2 * ZONES * SIZE * SIZE
    before = len(matrix.looks)
    plan(state, Policy(), now_s=NOW_S + 1.0, cache=cache)
    assert len(matrix.looks) == before
