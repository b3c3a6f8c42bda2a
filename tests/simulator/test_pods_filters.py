"""The simulated filters and scores give what kube-scheduler's in-tree plugins give."""

from dataclasses import replace

import pytest

from lab.simulator.pods.kube_scheduler.filters import Filters
from lab.simulator.pods.kube_scheduler.nodes import Nodes
from lab.simulator.pods.kube_scheduler.queueing_hints import Plugin
from scoring.ids import NodeName
from scoring.model import HostPort, Node, NodeSelectorTerm, Pod, Requirement
from tests.builders import node, pod

BOTH = [NodeName("n1"), NodeName("n2")]


def on(*listed: Node, percentage: int | None = 100) -> tuple[Nodes, Filters]:
    nodes = Nodes()
    for one in listed:
        nodes.put(one)
    return nodes, Filters(nodes, percentage=percentage)


def names(nodes: Nodes, filters: Filters, one: Pod) -> list[str]:
    found = filters.find(one).names
    assert set(found) <= set(nodes.table.names)
    return [str(name) for name in found]


def test_room_is_what_bound_and_assumed_pods_leave() -> None:
    """Taken, given back, taken elsewhere; also after the nodes changed and everything was counted again."""
    nodes, filters = on(node("n1", cpu="2"), node("n2", cpu="1"))
    nodes.take(pod("a"), nodes.table.names[0])
    nodes.take(pod("b"), nodes.table.names[0])
    assert names(nodes, filters, pod("c")) == ["n2"]
    nodes.take(pod("b"), nodes.table.names[1])
    assert names(nodes, filters, pod("c")) == ["n1"]
    nodes.put(node("n3", cpu="1"))
    assert names(nodes, filters, pod("c")) == ["n1", "n3"]
    assert nodes.give_back(pod("b").uid)
    assert not nodes.give_back(pod("b").uid)
    assert names(nodes, filters, pod("c")) == ["n1", "n2", "n3"]


def test_where_the_search_begins() -> None:
    """120 of 250 nodes are found by default, and the next search begins behind them; at 100 % always all."""
    many = [node(f"n{i:03}") for i in range(250)]
    nodes, filters = on(*many, percentage=None)
    first, second, third = (names(nodes, filters, pod("p")) for _ in range(3))
    assert [len(first), len(second), len(third)] == [120, 120, 120]
    assert (second[0], third[0], third[10]) == ("n120", "n240", "n000")
    nodes, filters = on(*many)
    assert [len(names(nodes, filters, pod("p"))) for _ in range(2)] == [250, 250]


def test_an_affinity_that_names_nodes_is_looked_at_alone() -> None:
    """Its PreFilter hands on the named nodes only, so sampling cannot miss them, and others are never spoken of."""
    terms = tuple(
        NodeSelectorTerm(fields=(Requirement("metadata.name", "In", (name,)),)) for name in ("n7", "n9", "gone")
    )
    nodes, filters = on(*(node(f"n{i}", cpu="1") for i in range(200)), percentage=5)
    found = filters.find(pod("p", affinity=terms))
    assert found.looked_at == 2
    nodes.take(pod("x"), nodes.table.names[nodes.table.index[node("n7").name]])
    assert names(nodes, filters, pod("p", affinity=terms)) == ["n9"]


REFUSALS = {  # case: (expected plugins, expected words, the pod)
    "no room": ({Plugin.FIT}, {"Insufficient cpu": 2}, pod("p", cpu="9")),
    "labels": (
        {Plugin.CONSTRAINTS},
        {"node(s) didn't match Pod's node affinity/selector": 2},
        pod("p", node_selector={"x": "y"}),
    ),
    "one each": (
        {Plugin.FIT, Plugin.CONSTRAINTS},
        {"Insufficient cpu": 1, "node(s) didn't match Pod's node affinity/selector": 1},
        pod("p", cpu="9", node_selector={"fast": "yes"}),
    ),
    "nobody has it": ({Plugin.FIT}, {"Insufficient resources that no node has": 2}, pod("p", gpu=1)),
}


@pytest.mark.parametrize(("plugins", "words", "one"), REFUSALS.values(), ids=REFUSALS)
def test_who_refuses_and_in_which_words(plugins: set[Plugin], words: dict[str, int], one: Pod) -> None:
    """The plugins decide what wakes the pod; the words are constant while nothing changes, or the pod wakes itself."""
    _, filters = on(node("n1", cpu="8"), node("n2", cpu="8", labels={"fast": "yes"}))
    found = filters.find(one)
    assert (plugins, words) == (set(found.refused_by), dict(found.said))
    assert filters.find(one) is found


def test_host_ports() -> None:
    def with_port(name: str) -> Pod:
        plain = pod(name)
        limits = replace(plain.member_class.constraints, host_ports=(HostPort("TCP", "0.0.0.0", 80),))
        return replace(plain, member_class=replace(plain.member_class, constraints=limits))

    nodes, filters = on(node("n1"), node("n2"))
    nodes.take(with_port("a"), nodes.table.names[0])
    assert names(nodes, filters, with_port("b")) == ["n2"]
    nodes.take(with_port("b"), nodes.table.names[1])
    assert filters.find(with_port("c")).refused_by == {Plugin.PORTS}


def test_scores() -> None:
    """LeastAllocated: (75 + 75)/2 and (50 + 50)/2; BalancedAllocation: 75 where the balance stays as it was.

    A container without requests counts as 100 millicores and 200 MiB, and only the emptier node attracts it.
    """
    _, filters = on(node("n1", cpu="4", memory="4Gi"), node("n2", cpu="2", memory="2Gi"))
    assert filters.score(pod("p", cpu="1", memory="1Gi"), BOTH).tolist() == [150, 125]
    _, filters = on(node("n1", cpu="1", memory="2000Mi"), node("n2", cpu="2", memory="2000Mi"))
    assert filters.score(pod("p", cpu="0"), BOTH).tolist() == [90, 92]


def test_nodes_are_listed_zone_by_zone_in_turns() -> None:
    """As kube-scheduler's node tree does, so that a truncated search is not one zone's."""
    nodes, filters = on(*(node(name, zone=name[0]) for name in ("b1", "a1", "a3", "a2", "b2")))
    assert names(nodes, filters, pod("p")) == ["b1", "a1", "b2", "a3", "a2"]
