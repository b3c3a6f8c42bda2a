"""How many members still fit on each node, kept up to date while a plan is being made.

Why: each admission changes a few nodes, and counting all again for every gang is what makes planners slow. A class's
counts are computed once and afterwards only for the rows that changed, also from run to run. Rule: room only shrinks
during a run, so what did not fit once in a run does not fit later in it.
"""

from collections.abc import Sequence
from typing import Final

import numpy as np
from numpy.typing import NDArray

from scoring.model import NodeTable
from scoring.network.matrix import Ints

_MOST_CELLS: Final = 100_000  # Numbers that are divided in one step
_FEW_ROWS: Final = 128  # As many are divided sooner than looked through
MOST_ON_A_NODE: Final = 2**31 - 1  # What nothing limits, a request of nothing at all, fits so many times


def fit_counts(free: Ints, request: Ints) -> Ints:
    """How many times `request` (r,) fits into each row of `free` (n, r); (n,), from 0 to `MOST_ON_A_NODE`."""
    columns = np.flatnonzero(request)
    if not len(columns):
        return np.full(len(free), MOST_ON_A_NODE, np.int64)
    if len(free) <= _FEW_ROWS:
        fits = (free[:, columns] // request[columns]).min(axis=1)
        return np.asarray(np.clip(fits, 0, MOST_ON_A_NODE))
    asked = [(free[:, column], int(request[column])) for column in columns.tolist()]
    able = np.ones(len(free), np.bool_)
    for there, amount in asked:
        able &= there >= amount
    rows = able.nonzero()[0]  # only these are divided: that is slow, and in a full cluster they are few
    least = np.full(len(rows), MOST_ON_A_NODE, np.int64)
    for there, amount in asked:
        np.minimum(least, there[rows] // amount if amount > 1 else there[rows], out=least)
    counts = np.zeros(len(free), np.int64)
    counts[rows] = least
    return counts


def rows_with(matrix: NDArray[np.generic]) -> Ints:
    """Rows of a matrix with anything but 0 in them, ascending: several times as fast as `any` over short rows."""
    rows = np.flatnonzero(matrix != 0) // max(matrix.shape[1], 1)
    return np.asarray(rows[np.diff(rows, prepend=-1) > 0])  # ascending anyway


def scatter_add(total: Ints, rows: Ints, amounts: Ints) -> None:
    """Add `amounts` (k, resources) to `rows` (k,) of `total` (n, resources), in place; a row named twice gets both."""
    if not total.flags.c_contiguous:
        raise ValueError("total must be contiguous")
    columns = total.shape[1]
    np.add.at(total.reshape(-1), (rows[:, None] * columns + np.arange(columns)).reshape(-1), amounts.reshape(-1))


class Room:
    """Free amounts (nodes, resources) of one planner run; the only mutable thing in a run, and private to it."""

    __slots__ = ("_asked", "_begun", "_changed", "_counts", "_since", "free", "table")

    def __init__(self, free: Ints) -> None:
        self.free = np.array(free, np.int64, order="C")
        self._changed: list[int] = []
        self._counts: dict[bytes, tuple[Ints, int]] = {}  # Request → its counts, and how many changes they know of
        self._since: tuple[int, int, Ints] = (0, 0, np.zeros(0, np.int64))  # Rows of the changes between two numbers
        self.table: NodeTable | None = None
        self._asked = -1  # Number of changes when something was counted last
        self._begun = 0  # Changes before the run

    @classmethod
    def after(cls, before: "Room | None", table: NodeTable, free: Ints) -> "Room":
        """The room of the next run, which counts again only on nodes that changed; `before` has to count anew."""
        room = cls(free)
        room.table = table
        old = before.table if before is not None else None
        if before is None or old is None or old.axis != table.axis or not len(before.free) or not len(free):
            return room
        counts = {key: (there, seen - before._begun) for key, (there, seen) in before._counts.items()}
        changed, was, new = np.array(before._changed[before._begun :], np.int64), before.free, np.zeros(0, np.int64)
        if old.names != table.names:
            row_of = np.array([old.index.get(name, -1) for name in table.names], np.int64)
            new = np.flatnonzero(row_of < 0)
            now_at = np.zeros(len(was), np.int64)  # what is gone counts as the first row: it is counted in vain
            now_at[row_of[row_of >= 0]] = np.flatnonzero(row_of >= 0)
            changed, was = now_at[changed], was[row_of]
            counts = {key: (there[row_of], seen) for key, (there, seen) in counts.items() if seen >= 0}
        room._counts = {key: known for key, known in counts.items() if known[1] >= 0}  # what `before` was asked for
        room._changed = [*changed.tolist(), *new.tolist(), *rows_with(was != room.free).tolist()]
        room._begun = len(room._changed)
        before._counts = {}
        return room

    def take(self, rows: Sequence[int], request: Ints) -> None:
        """Subtract `request` from each of `rows` (a row named twice is taken twice)."""
        np.subtract.at(self.free, np.array(rows, np.int64), request)
        self._changed.extend(rows)

    def take_places(self, rows: Ints, amounts: Ints) -> None:
        """Subtract `amounts` (rows, resources) from `rows`, of which some may be the same."""
        scatter_add(self.free, rows, -amounts)
        self._changed.extend(rows.tolist())

    def shift(self, amounts: Ints) -> None:
        """Subtract `amounts` (nodes, resources) everywhere."""
        rows = rows_with(amounts)
        self.take_places(rows, amounts[rows])

    @property
    def moment(self) -> int:
        """How many changes of single rows there were: equal means nothing changed."""
        return len(self._changed)

    def changed_since(self, moment: int) -> Ints:
        """Rows that changed since then, ascending."""
        if self._since[:2] != (moment, len(self._changed)):
            rows = np.unique(np.array(self._changed[moment:], np.int64))
            self._since = (moment, len(self._changed), rows)
        return self._since[2]

    def counts(self, request: Ints) -> Ints:
        """`fit_counts` of the room now; not to be written. Cost: O(nodes) first, O(changed rows) afterwards."""
        key, now = request.tobytes(), len(self._changed)
        known = self._counts.get(key)
        if known is None:
            counts = fit_counts(self.free, request)
        elif known[1] == now:
            return known[0]
        elif self._asked == now:
            self._count_again(known[1])
            return self._counts[key][0]
        else:
            counts, seen = known
            rows = self.changed_since(seen)
            counts[rows] = fit_counts(self.free[rows], request)
        self._asked = now
        self._counts[key] = (counts, now)
        return counts

    def _count_again(self, seen: int) -> None:
        """Count together what was counted at the same time: nothing was taken between two questions, so more come."""
        rows, now = self.changed_since(seen), len(self._changed)
        free, keys = np.maximum(self.free[rows], 0), [key for key, known in self._counts.items() if known[1] == seen]
        step = max(_MOST_CELLS // free.size, 1)
        for some in (keys[at : at + step] for at in range(0, len(keys), step)):
            asked = np.frombuffer(b"".join(some), np.int64).reshape(len(some), 1, -1)
            fits = np.where(asked > 0, free // np.maximum(asked, 1), MOST_ON_A_NODE)
            for key, line in zip(some, fits.min(axis=2, initial=MOST_ON_A_NODE), strict=True):
                counts = self._counts[key][0]
                counts[rows] = line
                self._counts[key] = (counts, now)
