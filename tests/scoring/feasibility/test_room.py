"""Room on nodes: what is left of it, and nodes with more on them than they have."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from scoring.feasibility.recheck import overcommits, suspects
from scoring.model import NodeTable, Phase, Pod
from scoring.model.snapshot import Room, fit_counts, scatter_add
from scoring.network.matrix import Ints
from tests.builders import node, pod, snapshot


def test_members_that_ask_for_nothing_fit_without_end() -> None:
    assert (fit_counts(np.array([[-5], [0]]), np.array([0])) > 10**9).all()


FREE = arrays(np.int64, (4, 2), elements=st.integers(-3, 9))
REQUEST = arrays(np.int64, 2, elements=st.integers(0, 3))


@given(FREE, REQUEST)
def test_counts_are_the_most_that_fit(free: Ints, request_: Ints) -> None:
    """So many members fit and one more does not; never fewer than none."""
    counts = fit_counts(free, request_)
    assert (counts >= 0).all()
    if request_.any():
        asked = request_ > 0
        for row, count in zip(free[:, asked], counts, strict=True):
            assert count == 0 or (count * request_[asked] <= row).all()
            assert ((count + 1) * request_[asked] > row).any()


NAMES = st.sets(st.sampled_from("abcdef"), min_size=1).map(sorted)


@given(st.lists(st.tuples(NAMES, arrays(np.int64, (6, 1), elements=st.integers(-2, 5)), st.booleans()), max_size=5))
def test_counts_of_a_run_before_are_those_of_the_room_now(runs: list[tuple[list[str], Ints, bool]]) -> None:
    """Whichever nodes came, went or changed in between, and whatever was asked for and taken in each run."""
    room = None
    for names, amounts, takes in runs:
        table = NodeTable.from_nodes([node(name, cpu="9") for name in names])
        free = np.repeat(amounts[: len(names)], len(table.axis), axis=1)
        before, room = room, Room.after(room, table, free)
        requests = [np.full(len(table.axis), amount, np.int64) for amount in ((1, 2, 3) if takes else (2, 3))]
        for _ in range(2):
            for request_ in requests:
                assert room.counts(request_).tolist() == fit_counts(room.free, request_).tolist()
            room.take([0] if takes else [], requests[0])
        if before is not None:
            assert before.counts(requests[0]).tolist() == fit_counts(before.free, requests[0]).tolist()


STEP = st.one_of(
    st.tuples(st.just("take"), st.lists(st.integers(0, 3), max_size=3), REQUEST),
    st.tuples(st.just("places"), st.lists(st.integers(0, 3), max_size=3), REQUEST),
    st.tuples(st.just("shift"), st.just([0, 1, 2, 3]), REQUEST),
    st.tuples(st.just("ask"), st.just([]), REQUEST),
)


@given(FREE, st.lists(STEP, max_size=12), st.lists(REQUEST, min_size=1, max_size=2))
def test_the_ledger_agrees_with_counting_anew(
    free: Ints, steps: list[tuple[str, list[int], Ints]], requests: list[Ints]
) -> None:
    """Whatever is taken and given back in between, counts are those of the room as it is, for every request.

    A ledger works on a copy: snapshots are shared.
    """
    room, mirror, given = Room(free), free.copy(), free.copy()
    for what, rows, amount in steps:
        match what:
            case "take":
                room.take(rows, amount)
            case "places":
                room.take_places(np.array(rows, np.int64), np.tile(amount, (len(rows), 1)))
            case "shift":
                room.shift(np.tile(amount, (4, 1)))
            case _:
                room.counts(amount)
        for row in rows:
            mirror[row] -= amount
        for request_ in requests:
            assert room.counts(request_).tolist() == fit_counts(mirror, request_).tolist()
    assert (room.free == mirror).all()
    assert (free == given).all()


def test_sums_are_not_lost_in_a_copy() -> None:
    """An array that cannot be written to as one row of numbers is refused."""
    with pytest.raises(ValueError, match="contiguous"):
        scatter_add(np.zeros((3, 2), np.int64, order="F"), np.array([0]), np.array([[1, 1]]))


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
