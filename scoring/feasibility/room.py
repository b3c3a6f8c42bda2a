"""How many members still fit on each node, kept up to date while a plan is being made.

Why a ledger: a plan tries many gangs one after another, each admission changes a few nodes, and counting all nodes
again for every gang is what makes planners slow. A class's counts are computed once per run and afterwards only for the
rows that changed. Rule: room only shrinks during a run, so what did not fit once in a run does not fit later in it.
"""

from collections.abc import Sequence
from typing import Final

import numpy as np
from numpy.typing import NDArray

from scoring.network.matrix import Ints

MOST_ON_A_NODE: Final = 2**31 - 1  # What nothing limits, a request of nothing at all, fits so many times


def fit_counts(free: Ints, request: Ints) -> Ints:
    """How many times `request` (r,) fits into each row of `free` (n, r); (n,), from 0 to `MOST_ON_A_NODE`.

    Only rows with room are divided: that is slow, and in a full cluster they are few.
    """
    asked = [(free[:, column], amount) for column, amount in enumerate(request.tolist()) if amount > 0]
    if not asked:
        return np.full(len(free), MOST_ON_A_NODE, np.int64)
    able = np.ones(len(free), np.bool_)
    for there, amount in asked:
        able &= there >= amount
    rows = able.nonzero()[0]
    least = np.full(len(rows), MOST_ON_A_NODE, np.int64)
    for there, amount in asked:
        np.minimum(least, there[rows] // amount if amount > 1 else there[rows], out=least)
    counts = np.zeros(len(free), np.int64)
    counts[rows] = least
    return counts


def rows_with(matrix: NDArray[np.generic]) -> Ints:
    """Rows of a matrix with anything but 0 in them, ascending: several times as fast as `any` over short rows.

    >>> rows_with(np.array([[0, 1], [0, 0], [2, 2]])).tolist()
    [0, 2]
    """
    rows = np.flatnonzero(matrix != 0) // max(matrix.shape[1], 1)
    return np.asarray(rows[np.diff(rows, prepend=-1) > 0])  # ascending anyway


def scatter_add(total: Ints, rows: Ints, amounts: Ints) -> None:
    """Add `amounts` (k, resources) to `rows` (k,) of `total` (n, resources), in place; a row named twice gets both.

    >>> total = np.zeros((2, 2), np.int64)
    >>> scatter_add(total, np.array([1, 1]), np.array([[1, 2], [3, 4]]))
    >>> total.tolist()
    [[0, 0], [4, 6]]
    """
    if not total.flags.c_contiguous:
        raise ValueError("total must be contiguous")
    columns = total.shape[1]
    np.add.at(total.reshape(-1), (rows[:, None] * columns + np.arange(columns)).reshape(-1), amounts.reshape(-1))


class Room:
    """Free amounts (nodes, resources) of one planner run; the only mutable thing in a run, and private to it."""

    __slots__ = ("_changed", "_counts", "_shifts", "free")

    def __init__(self, free: Ints) -> None:
        self.free = np.array(free, np.int64, order="C")
        self._changed: list[int] = []
        self._shifts = 0
        self._counts: dict[bytes, tuple[Ints, int]] = {}

    def take(self, rows: Sequence[int], request: Ints) -> None:
        """Subtract `request` from each of `rows` (a row named twice is taken twice)."""
        np.subtract.at(self.free, np.array(rows, np.int64), request)
        self._changed.extend(rows)

    def take_places(self, rows: Ints, amounts: Ints) -> None:
        """Subtract `amounts` (rows, resources) from `rows`, of which some may be the same."""
        scatter_add(self.free, rows, -amounts)
        self._changed.extend(rows.tolist())

    def shift(self, amounts: Ints) -> None:
        """Subtract `amounts` (nodes, resources) everywhere; all counts are forgotten."""
        self.free -= amounts
        self._shifts += 1
        self._counts.clear()

    @property
    def moment(self) -> tuple[int, int]:
        """How often everything changed, and how many changes of single rows there were: equal means nothing did."""
        return self._shifts, len(self._changed)

    def changed_since(self, moment: tuple[int, int]) -> Ints | None:
        """Rows that changed since then, some perhaps several times; `None`: all of them may have."""
        shifts, seen = moment
        return np.array(self._changed[seen:], np.int64) if shifts == self._shifts else None

    def counts(self, request: Ints) -> Ints:
        """`fit_counts` of the room now; not to be written. Cost: O(nodes) first, O(changed rows) afterwards."""
        key = request.tobytes()
        known = self._counts.get(key)
        if known is None:
            counts = fit_counts(self.free, request)
        else:
            counts, seen = known
            if seen < len(self._changed):
                rows = np.array(self._changed[seen:], np.int64)  # counting one twice is cheaper than finding it
                counts[rows] = fit_counts(self.free[rows], request)
        self._counts[key] = (counts, len(self._changed))
        return counts
