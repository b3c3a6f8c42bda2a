"""The zones' sums of what fits, kept up to date while room is taken, given back and hidden."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from scoring.feasibility.room import Room, ZoneFits, fit_counts, scatter_add
from scoring.network.matrix import Ints

NODES = 40
"""More than are counted one by one."""
FREE = arrays(np.int64, (NODES, 2), elements=st.integers(-2, 9))
AMOUNT = arrays(np.int64, 2, elements=st.integers(0, 3))
ROWS = st.one_of(st.just(list(range(NODES))), st.lists(st.integers(0, NODES - 1), max_size=4))


@given(
    FREE,
    AMOUNT,
    arrays(bool, NODES),
    arrays(np.int64, NODES, elements=st.integers(0, 2)),
    st.lists(st.tuples(st.sampled_from(["take", "places", "shift", "nothing"]), ROWS, AMOUNT), max_size=6),
)
def test_sums_are_those_of_counting_anew(free: Ints, request_: Ints, mask: np.ndarray, zone: Ints, steps: list) -> None:
    """After every step each node's count is that of its room, none where masked out, and zones add theirs up."""
    room = Room(free)
    fits = ZoneFits(room, request_, mask, zone, 4)
    for what, rows, amount in steps:
        match what:
            case "take":
                room.take(rows, amount)
            case "places":
                room.take_places(np.array(rows, np.int64), np.tile(amount, (len(rows), 1)))
            case "shift":
                room.shift(np.tile(amount, (NODES, 1)))
            case _:
                pass
        fits.refresh()
        want = np.where(mask, fit_counts(room.free, request_), 0)
        assert fits.counts.tolist() == want.tolist()
        assert fits.sums == [int(want[zone == number].sum()) for number in range(4)]


@given(FREE, ROWS, AMOUNT)
def test_places_are_taken_row_by_row(free: Ints, rows: list[int], amount: Ints) -> None:
    """A row that is named twice is taken twice, and rows that changed are known."""
    room, other = Room(free), Room(free)
    moment = room.moment
    room.take_places(np.array(rows, np.int64), np.tile(amount, (len(rows), 1)))
    other.take(rows, amount)
    assert (room.free == other.free).all()
    assert room.changed_since(moment) == set(rows)
    room.shift(np.zeros_like(free))
    assert room.changed_since(moment) is None


def test_sums_are_not_lost_in_a_copy() -> None:
    """An array that cannot be written to as one row of numbers is refused."""
    with pytest.raises(ValueError, match="contiguous"):
        scatter_add(np.zeros((3, 2), np.int64, order="F"), np.array([0]), np.array([[1, 1]]))
