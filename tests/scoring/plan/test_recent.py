"""Room that comes back is not counted again, and what is remembered is what counting would say."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from scoring.feasibility.room import fit_counts
from scoring.network.matrix import Ints
from scoring.plan.recent import Recent

REQUESTS = np.array([[1, 0], [2, 3], [0, 5]], np.int64)
SLOTS = 4


class Counter:
    """Counts one by one, and notes of which slots it was asked."""

    def __init__(self) -> None:
        self.asked: list[int] = []

    def __call__(self, slots: Ints, free: Ints) -> Ints:
        """Members that fit, (classes, slots)."""
        self.asked += slots.tolist()
        return np.array([fit_counts(free, request) for request in REQUESTS])


def told(recent: Recent, counter: Counter, slots: list[int], free: list[list[int]]) -> list[list[int]]:
    """What is said of these slots."""
    room = np.array(free, np.int64).reshape(len(slots), 2)
    counts: list[list[int]] = recent.counts(
        np.array(slots, np.int64), room, classes=len(REQUESTS), count=counter
    ).tolist()
    return counts


def test_held_and_given_back() -> None:
    """Without room nothing fits, without asking; the room of before is known, another one is not."""
    recent, counter = Recent(8, SLOTS, 2), Counter()
    before = told(recent, counter, [0, 2], [[4, 9], [2, 3]])
    assert before == [[4, 2], [2, 1], [1, 0]]
    assert told(recent, counter, [0, 2], [[0, 0], [0, -1]]) == [[0, 0], [0, 0], [0, 0]]
    assert told(recent, counter, [2, 0], [[2, 3], [4, 9]]) == [row[::-1] for row in before]
    assert counter.asked == [0, 2]
    told(recent, counter, [0, 2], [[4, 9], [2, 4]])
    assert counter.asked == [0, 2, 2]


def test_what_is_forgotten_is_counted_again() -> None:
    """Some slots, or all."""
    recent, counter = Recent(8, SLOTS, 2), Counter()
    for forgotten, again in ((None, [0, 1]), (np.array([1]), [1]), (np.array([2]), [])):
        told(recent, counter, [0, 1], [[1, 1], [2, 2]])
        counter.asked.clear()
        recent.forget(forgotten)
        told(recent, counter, [0, 1], [[1, 1], [2, 2]])
        assert counter.asked == again


rooms = st.lists(st.lists(st.integers(-1, 6), min_size=2, max_size=2), min_size=SLOTS, max_size=SLOTS)


@given(st.lists(st.tuples(st.sets(st.integers(0, SLOTS - 1)), rooms), max_size=8))
def test_it_says_what_counting_says(looks: list[tuple[set[int], list[list[int]]]]) -> None:
    """Whatever was asked before."""
    recent = Recent(8, SLOTS, 2)
    for some, free in looks:
        slots = sorted(some)
        said = told(recent, Counter(), slots, [free[slot] for slot in slots])
        assert said == [[int(fit_counts(np.array([free[slot]]), one)[0]) for slot in slots] for one in REQUESTS]
