"""The earliest moment at which a gang has room for all members of its minimum on some nodes.

Rule: room only comes free as gangs end, so the moment is found by halving. Room that is promised to others while the
gang would run counts as taken for all of that time; then later moments are looked at too.
"""

from collections.abc import Iterable, Sequence
from typing import Final

import msgspec
import numpy as np

from scoring.feasibility.room import scatter_add
from scoring.network.matrix import Ints
from scoring.plan.backfill.endings import Endings
from scoring.selection.demand import ClassDemand, Demand, rooms
from scoring.selection.greedy import fit

_MOST_TRIES: Final = 64
"""Moments that are looked at beside promises to others"""


class Promised(msgspec.Struct):
    """Room that a gang is promised: for it alone from `start_s` to `end_s`."""

    rows: Ints
    """(k,), ascending"""
    amounts: Ints
    """(k, resources)"""
    start_s: float
    end_s: float

    def on(self, rows: Ints) -> Ints | None:
        """The amounts on other rows, ascending; (rows, resources). `None`: none are there."""
        if not len(rows) or not len(self.rows) or rows[-1] < self.rows[0] or rows[0] > self.rows[-1]:
            return None
        place = np.minimum(np.searchsorted(rows, self.rows), len(rows) - 1)
        some = rows[place] == self.rows
        if not some.any():
            return None
        found = np.zeros((len(rows), self.amounts.shape[1]), np.int64)
        found[place[some]] = self.amounts[some]
        return found


def earliest(
    demand: Demand,
    rows: Ints,
    free: Ints,
    endings: Endings,
    promised: Sequence[Promised] = (),
    *,
    now_s: float,
    runs_s: float = float("inf"),
    before_s: float = float("inf"),
) -> tuple[float, Ints] | None:
    """The moment, Unix seconds, and the members by class and row (classes, k); `None`: none before `before_s`.

    `rows` (k,), ascending, with room `free` (k, resources) now; `demand` is over these rows; `runs_s`: how long the
    gang would run. Cost: O(log ends · k), and O(promises · k) for each moment beside these.
    """
    place, amounts, ends_s = endings.over(rows)
    beside = [(one, there) for one in promised if (there := one.on(rows)) is not None]
    moments = np.unique(np.concatenate([[now_s], np.maximum(ends_s, now_s), [one.end_s for one, _ in beside]]))
    at_s = moments[(moments >= now_s) & (moments < before_s)].tolist()

    def room(number: int) -> Ints:
        """(k, resources) at a moment, if nothing is promised to others."""
        until = int(np.searchsorted(ends_s, at_s[number], side="right"))
        total = free.copy()
        scatter_add(total, place[:until], amounts[:until])
        return total

    if not at_s or _fits(demand, room(len(at_s) - 1)) is None:
        return None
    low, high = 0, len(at_s) - 1
    while low < high:
        middle = (low + high) // 2
        if _fits(demand, room(middle)) is None:
            low = middle + 1
        else:
            high = middle
    for number in range(low, min(len(at_s), low + _MOST_TRIES)):
        begin_s, left = at_s[number], room(number)
        for one, there in beside:
            if one.start_s < begin_s + runs_s and one.end_s > begin_s:
                left -= there
        if (found := _fits(demand, left)) is not None:
            return begin_s, found
    return None


def amounts_of(demand: Demand, counts: Ints) -> Ints:
    """What members by class and row take; (rows, resources)."""
    return np.asarray(sum(counts[c][:, None] * one.request for c, one in enumerate(demand.classes)))


def _fits(demand: Demand, free: Ints) -> Ints | None:
    """Members by class and row; `None`: there is no room. Counting comes first, as it is quick."""
    if any(int(rooms(one, free).sum()) < one.count for one in demand.classes):
        return None
    return fit(demand, free)


def demand_over(classes: Iterable[ClassDemand], rows: Ints, all_reduce: bool) -> Demand:
    """The demand with its classes' allowed nodes cut to `rows`."""
    cut = [ClassDemand(one.role, one.request, one.allowed[rows], one.count) for one in classes]
    return Demand(tuple(cut), all_reduce)
