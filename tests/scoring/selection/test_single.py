"""Selections for one class: what saves time must change no answer."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from scoring.model.policy import Selection
from scoring.network.matrix import Floats
from scoring.selection import Single, on_grid, quick_single, select_single
from scoring.selection.greedy import grow
from scoring.selection.improve import LEAST_GAIN, NEIGHBOURS, improvable, improve_one
from scoring.selection.paper import paper_one


def symmetric(n: int, *upper: float, own: float = 100.001) -> Floats:
    """Ranks of the pairs above the diagonal, row by row, and of each node with itself."""
    rank = np.zeros((n, n))
    rank[np.triu_indices(n, 1)] = upper
    rank = rank + rank.T
    np.fill_diagonal(rank, own)
    return on_grid(rank)


@st.composite
def singles(draw: st.DrawFn, *, own: tuple[float, ...] = (100.001,)) -> tuple[Single, Floats]:
    n = draw(st.integers(2, 8))
    room = draw(arrays(np.int64, n, elements=st.integers(0, 4)))
    count = draw(st.integers(1, 7))
    link = st.one_of(st.sampled_from([0.0, 50.0, 90.0]), st.floats(0.0, 100.0))
    rank = symmetric(n, *draw(arrays(float, n * (n - 1) // 2, elements=link)))
    np.fill_diagonal(rank, draw(arrays(float, n, elements=st.sampled_from(own))))
    placed = draw(st.one_of(st.none(), arrays(float, n, elements=link)))
    return Single(np.minimum(room, count), count, True, None if placed is None else on_grid(placed)), on_grid(rank)


@given(singles(own=(0.0, 50.0, 100.001)))
def test_looking_at_all_plans_together_is_looking_at_each(case: tuple[Single, Floats]) -> None:
    """`improvable` says of each plan whether `improve_one` finds a move, whatever nodes are worth to themselves."""
    wanted, rank = case
    rows = np.flatnonzero(wanted.room)
    room, rank = wanted.room[rows], rank[rows][:, rows]
    placed = None if wanted.placed is None else wanted.placed[rows]
    if int(room.sum()) < wanted.count:
        return
    plans, _ = grow(rank, room, wanted.count, starts=np.arange(len(room)), placed=placed)
    added = [improve_one(plan, room, rank, placed=placed, most=1)[1] for plan in plans]
    assert improvable(plans, room, rank, placed=placed) == [one > LEAST_GAIN for one in added]


def test_in_large_zones_each_plan_is_looked_at_by_itself() -> None:
    """There only some nodes are looked at for each plan, so nothing is known of all of them together."""
    n = NEIGHBOURS + 1
    plan = (np.arange(n) < 2).astype(np.int64)
    assert improvable(plan[None], np.ones(n, np.int64), np.full((n, n), 50.0), placed=None) == [True]


def test_the_paper_is_taken_where_it_is_better() -> None:
    """Greedy from every start fills nodes first; where a node is worthless to itself, one member each may be better."""
    first, second = [70.0, 5.0, 95.0, 30.0, 70.0, 30.0], [75.0, 30.0, 60.0, 70.0, 75.0]
    others = [70.0, 75.0, 55.0, 25.0, 25.0, 50.0, 70.0, 45.0, 5.0, 55.0]
    rank = symmetric(7, *first, *second, *others, own=0.0)
    wanted = Single(np.array([2, 2, 1, 2, 2, 1, 1]), 2, paired=True)
    literal = paper_one(wanted.room, 2, rank, placed=None)
    found = select_single(Selection.SUBSET, wanted, rank, exact_size=0)
    assert literal is not None
    assert found is not None
    assert found.rows == (tuple(np.flatnonzero(literal).tolist()),)
    assert found.value == 95.0


def test_members_without_pairs_go_where_they_gain_most() -> None:
    """Where only placed members count, the estimate is what the selection reaches; with nobody placed all is equal."""
    rank = symmetric(3, 10.0, 20.0, 30.0)
    near = Single(np.array([1, 0, 2]), 2, paired=False, placed=np.array([5.0, 99.0, 7.0]))
    found = select_single(Selection.SUBSET, near, rank, exact_size=12)
    assert found is not None
    assert (found.rows, found.value) == (((2, 2),), 14.0)
    assert quick_single(near, rank) == 14.0
    assert quick_single(Single(near.room, 2, paired=False), rank) == 0.0
