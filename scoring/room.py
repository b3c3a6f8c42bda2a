"""How many members still fit on each node, kept up to date while a plan is being made.

Why a ledger: a plan tries many gangs one after another, each admission changes a few nodes, and counting all nodes anew
for every gang is what makes planners slow. A class's counts are computed once per run and afterwards only for the rows
that changed. Rule: room only shrinks during a run, so what did not fit once in a run does not fit later in it.
"""

from collections.abc import Sequence

import numpy as np

from scoring.network import Ints

_NO_LIMIT = np.int64(2**31)
"""Members per node where nothing limits them: a request of nothing at all."""


def fit_counts(free: Ints, request: Ints) -> Ints:
    """How many times `request` (r,) fits into each row of `free` (n, r); shape (n,). Negative room counts as none.

    >>> fit_counts(np.array([[5, 4], [1, 9]]), np.array([2, 0])).tolist()
    [2, 0]
    """
    asked = request > 0
    if not asked.any():
        return np.full(len(free), _NO_LIMIT)
    counts = (free[:, asked] // request[asked]).min(axis=1)
    return np.asarray(np.maximum(counts, 0), dtype=np.int64)


class Room:
    """Free amounts (nodes, resources) of one planner run; the only mutable thing in a run, and private to it."""

    __slots__ = ("_changed", "_counts", "free")

    def __init__(self, free: Ints) -> None:
        self.free = free.copy()
        self._changed: list[int] = []
        self._counts: dict[bytes, tuple[Ints, int]] = {}

    def take(self, rows: Sequence[int], request: Ints) -> None:
        """Subtract `request` from each of `rows` (a row named twice is taken twice)."""
        np.subtract.at(self.free, np.array(rows, np.int64), request)
        self._changed.extend(rows)

    def take_many(self, rows: Ints, amounts: Ints) -> None:
        """Subtract `amounts` (rows, resources) from `rows`, which are all different."""
        self.free[rows] -= amounts
        self._changed.extend(rows.tolist())

    def give(self, rows: Ints, amounts: Ints) -> None:
        """Undo `take_many` within the same step, before anybody else has looked."""
        self.free[rows] += amounts
        self._changed.extend(rows.tolist())

    def shift(self, amounts: Ints) -> None:
        """Subtract `amounts` (nodes, resources) everywhere; all counts are forgotten."""
        self.free -= amounts
        self._counts.clear()

    def counts(self, request: Ints) -> Ints:
        """`fit_counts` of the room as it is now; the caller must not write to it.

        Cost: O(nodes) the first time, O(changed rows) afterwards.
        """
        key = request.tobytes()
        known = self._counts.get(key)
        if known is None:
            counts = fit_counts(self.free, request)
        else:
            counts, seen = known
            if seen < len(self._changed):
                rows = np.unique(np.array(self._changed[seen:], np.int64))
                counts[rows] = fit_counts(self.free[rows], request)
        self._counts[key] = (counts, len(self._changed))
        return counts
