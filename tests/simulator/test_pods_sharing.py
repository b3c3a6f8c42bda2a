"""What jobs share on their nodes: cores, and the network card of those that talk to other nodes."""

from lab.simulator.pods.sharing import Sharing
from scoring.ids import NodeName
from tests.simulator.simulated import nodes

N0, N1 = NodeName("n0"), NodeName("n1")


def test_cores_are_those_of_all_pods_on_the_node() -> None:
    """Pods come and go; each change gives the jobs that are there, and the view is live."""
    sharing = Sharing(nodes(2, cpu=10))
    crowd = sharing.crowd
    assert sharing.take("p", "a", N0, 2000) == ["a"]
    assert sharing.take("q", "b", N0, 3000) == ["a", "b"]
    assert crowd.requested_ratio == {0: 0.5}
    assert sharing.give("p") == ["b"]
    assert crowd.requested_ratio == {0: 0.3}
    assert sharing.give("p") == []


def test_a_card_is_shared_by_pods_that_talk_to_other_nodes() -> None:
    """A job on one node does not use the card; one on two nodes does, until it trains no more."""
    sharing = Sharing(nodes(2))
    for pod, job, node in (("p", "a", N0), ("q", "a", N1), ("r", "b", N0)):
        sharing.take(pod, job, node, 1000)
    assert sharing.talk("b", (N0,), (N0,)) == []
    assert sharing.talk("a", (N0,), (N0, N1)) == ["a", "b"]
    assert sharing.crowd.talkers == {0: 1, 1: 1}
    assert sharing.talk("a", (N0,), (N0, N1)) == []
    assert sharing.talk("a", (), ()) == ["a", "b"]
    assert not any(sharing.crowd.talkers.values())
