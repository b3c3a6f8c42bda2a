"""What the probe is told of gangs: where bursts must not run, and which zones they measure first."""

from msgspec.structs import replace

from extender.bootstrap.controllers import nodes_of_gangs, zones_of_waiting
from scoring.model import Snapshot
from scoring.model.policy import Policy
from tests.builders import bound, gang, node, pod, snapshot

NODES = [node("n1", zone="a"), node("n2", zone="b"), node("n3", zone="c")]


def cluster() -> Snapshot:
    running = gang("runs", members=[bound(pod("r"), "n1")])
    foreign = replace(gang("foreign", members=[bound(pod("f"), "n2")]), own=False)
    waiting = gang("waits", 1, options={"zones": "b, c"})
    return snapshot(NODES, gangs=[running, foreign, waiting])


def test_gangs_of_others_count_for_bursts_alone() -> None:
    assert nodes_of_gangs(cluster()) == {"n1"}
    assert nodes_of_gangs(cluster(), foreign=True) == {"n1", "n2"}


def test_zones_that_waiting_gangs_name_and_else_all() -> None:
    assert zones_of_waiting(cluster(), Policy()) == {"b", "c"}
    assert zones_of_waiting(snapshot(NODES, gangs=[gang("any", 1)]), Policy()) == {"a", "b", "c"}
    assert not zones_of_waiting(snapshot(NODES), Policy())
