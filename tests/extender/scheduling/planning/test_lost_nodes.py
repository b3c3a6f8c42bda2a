"""Lost nodes: deleted at once, not ready only after their time (docs/safety.md S12)."""

from extender.cache import ClusterCache
from extender.scheduling.unfit_nodes import NodeHealth
from scoring.ids import NodeName
from scoring.model import Node
from tests.builders import bound, node, pod
from tests.fakes.clock import FakeClock

N1, N2 = NodeName("n1"), NodeName("n2")


def health_of(*nodes: Node) -> tuple[ClusterCache, FakeClock, NodeHealth]:
    """A cache, its clock, and the health of its nodes with 60 s of patience."""
    cache, clock = ClusterCache(), FakeClock()
    cache.nodes.replace(nodes)
    return cache, clock, NodeHealth(cache, clock, node_lost_s=60.0)


def test_a_deleted_node_is_lost_at_once() -> None:
    _, _, health = health_of(node("n1"))
    assert health.lost([N1, N2]) == {"n2"}


def test_time_counts_from_when_it_was_seen() -> None:
    _, clock, health = health_of(node("n1", ready=False))
    clock.advance(1000.0)
    assert health.lost([N1]) == frozenset()
    health.look()
    clock.advance(59.9)
    health.look()
    assert health.lost([N1]) == frozenset()
    clock.advance(0.1)
    assert health.lost([N1]) == {"n1"}


def test_a_node_that_recovers_begins_anew() -> None:
    cache, clock, health = health_of(node("n1", ready=False))
    health.look()
    clock.advance(50.0)
    cache.nodes.upsert(node("n1"))
    health.look()
    cache.nodes.upsert(node("n1", ready=False))
    health.look()
    clock.advance(59.0)
    assert health.lost([N1]) == frozenset()
    clock.advance(1.0)
    assert health.lost([N1]) == {"n1"}


def test_the_lost_nodes_of_a_gang_are_those_its_members_are_on() -> None:
    _, _, health = health_of(node("n1"))
    members = [bound(pod("a"), "n1"), bound(pod("b"), "gone"), pod("c")]
    assert health.lost_under(members) == {"gone"}
