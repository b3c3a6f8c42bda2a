"""Nodes with more on them than they have: what counts and what does not."""

import pytest

from scoring.feasibility.overcommit import overcommits, suspects
from scoring.model import Phase, Pod
from tests.builders import node, pod, snapshot

COUNTS: dict[str, tuple[bool, list[Pod]]] = {  # case: (over-committed, pods beside one of 6 CPUs on a node of 8)
    "exactly full": (False, [pod("p", cpu="2", node="n1")]),
    "one millicore over": (True, [pod("p", cpu="2001m", node="n1")]),
    "on another node": (False, [pod("p", cpu="4", node="n2")]),
    "not bound": (False, [pod("p", cpu="4", nominated_node="n1")]),
    "succeeded": (False, [pod("p", cpu="4", node="n1", phase=Phase.SUCCEEDED)]),
    "rejected by the kubelet": (False, [pod("p", cpu="4", node="n1", phase=Phase.FAILED)]),
    "ending": (True, [pod("p", cpu="4", node="n1", deleting=True)]),
    "another scheduler's": (True, [pod("p", cpu="4", node="n1", scheduler_name="default-scheduler")]),
    "a resource that the node does not offer": (False, [pod("p", cpu="1", gpu=4, node="n1")]),
    "too many pods": (True, [pod(f"p{i}", cpu="0", node="n1") for i in range(110)]),
}


@pytest.mark.parametrize(("over", "pods"), COUNTS.values(), ids=COUNTS)
def test_what_counts(over: bool, pods: list[Pod]) -> None:
    """Bound pods that hold their room, of whatever scheduler, and resources that the node has."""
    there = [pod("base", cpu="6", node="n1"), *pods]
    found = overcommits([node("n1")], there)
    assert over == bool(found)
    if over:
        assert suspects(snapshot([node("n1"), node("n2")], pods=there)) == {"n1"}


def test_each_resource_is_named_with_its_amounts() -> None:
    """In the resource's own unit, and with all pods of the node."""
    pods = [pod("b", cpu="5", memory="20Gi", node="n1"), pod("a", cpu="4", memory="20Gi", node="n1")]
    [one] = overcommits([node("n1")], pods)
    assert {each.resource: (each.requested, each.allocatable) for each in one.excess} == {
        "cpu": (9000, 8000),
        "memory": (40 * 2**30, 32 * 2**30),
    }
    assert [each.name for each in one.pods] == ["a", "b"]


def test_an_empty_cluster_has_none() -> None:
    assert suspects(snapshot([])) == frozenset()
    assert overcommits([], []) == ()
