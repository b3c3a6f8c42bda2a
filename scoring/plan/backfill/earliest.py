"""The earliest moment at which a gang has room for all members of its minimum on some nodes.

Rule: room only comes free as gangs end, so the moment is found by halving. Room that is promised to others while the
gang would run counts as taken for all of that time; then later moments are looked at too, some of them together.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from scoring.feasibility.room import scatter_add
from scoring.network.matrix import Floats, Ints
from scoring.plan.backfill.endings import Endings
from scoring.selection import ClassDemand, Demand
from scoring.selection.demand import rooms
from scoring.selection.quick import fit

_MOST_TRIES: Final = 64
"""Moments that are looked at beside promises to others"""
_TOGETHER: Final = 16


@dataclass(slots=True)
class Promised:
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


@dataclass(frozen=True, slots=True)
class Moments:
    """The moments of some nodes, and how much room there is at each."""

    at_s: Floats
    """Ascending; at any other, nothing more is free than at the one before"""
    free: Ints
    """(k, resources): room now"""
    place: Ints
    """(entries,): nodes on which something comes free, in the order of the moments"""
    amounts: Ints
    """(entries, resources)"""
    ends_s: Floats
    """(entries,)"""

    def room(self, number: int) -> Ints:
        """Room at a moment, (k, resources), if nothing is promised to others."""
        until = int(np.searchsorted(self.ends_s, self.at_s[number], side="right"))
        total = self.free.copy()
        scatter_add(total, self.place[:until], self.amounts[:until])
        return total

    def rooms(self, begin: int, end: int) -> Ints:
        """Room at some moments, (end - begin, k, resources)."""
        total = np.empty((end - begin, *self.free.shape), np.int64)
        total[0] = self.room(begin)
        for one in range(1, end - begin):
            since, until = np.searchsorted(self.ends_s, self.at_s[begin + one - 1 : begin + one + 1], side="right")
            total[one] = total[one - 1]
            scatter_add(total[one], self.place[since:until], self.amounts[since:until])
        return total


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
    gang would run. Cost: O(log ends · k), and O(promises · k).
    """
    place, amounts, ends_s = endings.over(rows)
    beside = [(one, there) for one in promised if (there := one.on(rows)) is not None]
    found = np.unique(np.concatenate([[now_s], np.maximum(ends_s, now_s), [one.end_s for one, _ in beside]]))
    moments = Moments(found[(found >= now_s) & (found < before_s)], free, place, amounts, ends_s)
    if not len(moments.at_s) or _fits(demand, moments.room(len(moments.at_s) - 1)) is None:
        return None
    low, high = 0, len(moments.at_s) - 1
    while low < high:
        middle = (low + high) // 2
        if _fits(demand, moments.room(middle)) is None:
            low = middle + 1
        else:
            high = middle
    if not beside:
        at = _fits(demand, moments.room(low))
        return None if at is None else (float(moments.at_s[low]), at)
    return _beside(demand, moments, low, beside, runs_s=runs_s)


def _beside(
    demand: Demand, moments: Moments, low: int, beside: Sequence[tuple[Promised, Ints]], *, runs_s: float
) -> tuple[float, Ints] | None:
    """The first moment from `low` on with room beside what is promised."""
    starts_s = np.array([one.start_s for one, _ in beside])
    ends_s = np.array([one.end_s for one, _ in beside])
    amounts = np.stack([there for _, there in beside])
    last = min(len(moments.at_s), low + _MOST_TRIES)
    for begin in range(low, last, _TOGETHER):
        end = min(begin + _TOGETHER, last)
        at_s = moments.at_s[begin:end, None]
        while_it_runs = (starts_s < at_s + runs_s) & (ends_s > at_s)
        taken = (while_it_runs.astype(np.float64) @ amounts.reshape(len(beside), -1)).astype(np.int64)
        total = moments.rooms(begin, end) - taken.reshape(end - begin, *moments.free.shape)
        for one in np.flatnonzero(_counted(demand, total)).tolist():
            if (found := _fits(demand, total[one])) is not None:
                return float(moments.at_s[begin + one]), found
    return None


def amounts_of(demand: Demand, counts: Ints) -> Ints:
    """What members by class and row take; (rows, resources)."""
    return np.asarray(sum(counts[c][:, None] * one.request for c, one in enumerate(demand.classes)))


def _counted(demand: Demand, free: Ints) -> Ints:
    """(moments,): whether there is room for each class of members by itself; `free` (moments, k, resources)."""
    able = np.ones(len(free), np.bool_)
    for one in demand.classes:
        room = np.where(one.allowed, one.count, 0) * np.ones((len(free), 1), np.int64)
        for r, need in enumerate(one.request.tolist()):
            if need > 0:
                np.minimum(room, free[:, :, r] // need, out=room)
        able &= np.maximum(room, 0).sum(axis=1) >= one.count
    return np.asarray(able)


def _fits(demand: Demand, free: Ints) -> Ints | None:
    """Members by class and row; `None`: there is no room. Counting comes first, as it is quick."""
    if any(int(rooms(one, free).sum()) < one.count for one in demand.classes):
        return None
    return fit(demand, free)


def demand_over(classes: Iterable[ClassDemand], rows: Ints, all_reduce: bool) -> Demand:
    """The demand with its classes' allowed nodes cut to `rows`."""
    cut = [ClassDemand(one.role, one.request, one.allowed[rows], one.count) for one in classes]
    return Demand(tuple(cut), all_reduce)
