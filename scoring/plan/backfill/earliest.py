"""The earliest moment at which a gang has room for all members of its minimum in one zone.

Rule: room only comes free as gangs end, so the moment is found by halving; room that is promised to others while the
gang would run counts as taken for all of that time, and then later moments are tried one after the other.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from scoring.feasibility.room import scatter_add
from scoring.network.matrix import Ints
from scoring.plan.backfill.endings import Endings
from scoring.selection import ClassDemand, Demand
from scoring.selection.demand import rooms
from scoring.selection.quick import fit

_MOST_TRIES: Final = 64
"""Moments that are tried one after the other, beside promises to others"""


@dataclass(slots=True)
class Promised:
    """Room that a gang is promised: for it alone from `start_s` to `end_s`."""

    rows: Ints
    """(k,), ascending"""
    amounts: Ints
    """(k, resources)"""
    start_s: float
    end_s: float


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
    which: int = 0,
) -> tuple[float, Ints] | None:
    """The moment, Unix seconds, and the members by class and row (classes, k); `None`: none before `before_s`.

    `rows` (k,), ascending, with room `free` (k, resources) now; `demand` is over these rows; `which`: the level of the
    ends (`Endings.freed`); `runs_s`: how long the gang would run. Cost: O(log ends · k).
    """
    place, amounts, ends_s = endings.over(rows, which)
    moments = np.unique(np.concatenate([[now_s], np.maximum(ends_s, now_s), [one.end_s for one in promised]]))
    moments = moments[(moments >= now_s) & (moments < before_s)]

    def room(at_s: float) -> Ints:
        until = int(np.searchsorted(ends_s, at_s, side="right"))
        total = free.copy()
        scatter_add(total, place[:until], amounts[:until])
        return total

    low, high = 0, len(moments)
    while low < high:
        middle = (low + high) // 2
        if _fits(demand, room(float(moments[middle]))) is None:
            low = middle + 1
        else:
            high = middle
    for moment in moments[low : low + (_MOST_TRIES if promised else 1)].tolist():
        total = room(moment)
        _take(total, rows, (one for one in promised if one.start_s < moment + runs_s and one.end_s > moment))
        if (found := _fits(demand, total)) is not None:
            return moment, found
    return None


def amounts_of(demand: Demand, counts: Ints) -> Ints:
    """What members by class and row take; (rows, resources)."""
    return np.asarray(sum(counts[c][:, None] * one.request for c, one in enumerate(demand.classes)))


def _take(total: Ints, rows: Ints, promised: Iterable[Promised]) -> None:
    for one in promised:
        place = np.minimum(np.searchsorted(rows, one.rows), len(rows) - 1)
        some = rows[place] == one.rows
        scatter_add(total, place[some], -one.amounts[some])


def _fits(demand: Demand, free: Ints) -> Ints | None:
    """Members by class and row; `None`: there is no room. Counting comes first, as it is quick."""
    if any(int(rooms(one, free).sum()) < one.count for one in demand.classes):
        return None
    return fit(demand, free)


def demand_over(classes: Iterable[ClassDemand], rows: Ints, all_reduce: bool) -> Demand:
    """The demand with its classes' allowed nodes cut to `rows`."""
    cut = [ClassDemand(one.role, one.request, one.allowed[rows], one.count) for one in classes]
    return Demand(tuple(cut), all_reduce)
