"""Other nodes for members whose planned one is refused by filters that are not modelled."""

import pytest

from scoring.ids import NodeName
from scoring.model.policy import Policy
from scoring.model.snapshot import Snapshot
from scoring.plan import plan
from scoring.verbs.places import Alternative, PlanPlaces
from tests.builders import gang, mesh, node, pod, snapshot

POLICY = Policy()
NAMES = [f"n{i}" for i in range(1, 6)]


def asked(state: Snapshot, member: int, *nodes: str) -> Alternative:
    """What member `member` of gang `g` may have instead, of these nodes."""
    made = plan(state, POLICY, now_s=0.0)
    one = state.gangs["default/g"]  # type: ignore[index]
    return PlanPlaces(state, made, POLICY).instead(one, one.members[member], [NodeName(name) for name in nodes])


def test_the_best_link_to_the_siblings_wins() -> None:
    """Of the nodes asked about; those not asked about are named, but for the places of the gang itself."""
    network = mesh(NAMES, bad={"n3": {"delay_ms": 30.0}, "n5": {"delay_ms": 20.0}})
    state = snapshot(map(node, NAMES), [gang("g", 2, cpu="8")], network=network)
    found = asked(state, 1, "n3", "n5")
    places = set(plan(state, POLICY, now_s=0.0).node_of.values())
    assert (found.node, set(found.absent)) == ("n5", set(NAMES) - {"n3", "n5"} - places)


OTHER = gang("h", 1, cpu="8", created_s=1.0)
NONE = {  # case: (cluster, nodes asked about)
    "a node of another zone": (snapshot([node("n1"), node("n2"), node("z1", zone="z")], [gang("g", 2, cpu="8")]),
        ["z1"]),
    "nodes that are full, or that the plan gives to another gang": (
        snapshot(map(node, NAMES[:3]), [gang("g", 1, cpu="8"), OTHER], pods=[pod("x", node="n3")]), ["n2", "n3"]),
    "a gang that is not admitted": (snapshot([node("n1")], [gang("g", 2, cpu="8")]), ["n1"]),
}  # fmt: skip


@pytest.mark.parametrize(("state", "nodes"), NONE.values(), ids=NONE)
def test_no_alternative(state: Snapshot, nodes: list[str]) -> None:
    """The gang stays in its zones, and no other member's place is taken."""
    assert asked(state, 0, *nodes).node is None
