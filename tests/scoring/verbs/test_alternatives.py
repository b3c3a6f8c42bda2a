"""Other nodes for members whose planned one is refused by filters that are not modelled."""

from scoring.ids import NodeName
from scoring.model.policy import Policy
from scoring.model.snapshot import Snapshot
from scoring.plan import plan
from scoring.verbs.alternatives import Alternative, Alternatives
from tests.builders import gang, mesh, node, pod, snapshot

POLICY = Policy()
NAMES = [f"n{i}" for i in range(1, 6)]


def asked(state: Snapshot, member: int, *nodes: str) -> Alternative:
    """What member `member` of gang `g` may have instead, of these nodes."""
    made = plan(state, POLICY, now_s=0.0)
    one = state.gangs["default/g"]  # type: ignore[index]
    return Alternatives(state, made, POLICY).of(one, one.members[member], [NodeName(name) for name in nodes])


def test_the_best_link_to_the_siblings_wins() -> None:
    """Of the nodes asked about; those not asked about are named, but for the places of the gang itself."""
    network = mesh(NAMES, bad={"n3": {"delay_ms": 30.0}, "n5": {"delay_ms": 20.0}})
    state = snapshot(map(node, NAMES), [gang("g", 2, cpu="8")], network=network)
    found = asked(state, 1, "n3", "n5")
    assert found.node == "n5"
    assert set(found.absent) == {"n1", "n2", "n3", "n4", "n5"} - {"n3", "n5"} - set(
        plan(state, POLICY, now_s=0.0).node_of.values()
    )


def test_the_zone_is_kept() -> None:
    """A node of another zone is no alternative, however good."""
    state = snapshot([node("n1"), node("n2"), node("z1", zone="z")], [gang("g", 2, cpu="8")])
    assert asked(state, 0, "z1").node is None


def test_nobodys_place_is_taken() -> None:
    """Nodes that run full, or that the plan gives away, have no room."""
    other = gang("h", 1, cpu="8", created_s=1.0)
    state = snapshot(map(node, NAMES[:3]), [gang("g", 1, cpu="8"), other], pods=[pod("x", node="n3")])
    made = plan(state, POLICY, now_s=0.0)
    [taken] = made.admitted[other.key].members.values()
    assert asked(state, 0, taken, "n3").node is None


def test_a_gang_without_a_place_has_no_alternative() -> None:
    """Who is not admitted is not admitted by another door."""
    state = snapshot([node("n1")], [gang("g", 2, cpu="8")])
    assert asked(state, 0, "n1") == Alternative(None, ())
