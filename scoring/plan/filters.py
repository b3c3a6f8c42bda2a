"""Which nodes each filter lets through, by slots (`scoring.plan.slots`).

Why: a thousand classes of members mostly share one set of constraints, and a node that is cordoned changes the word on
that node alone. Rule: a filter is what its key stands for; whoever puts it again is told in which slots its word has
changed, so that nothing else need be counted again.
"""

from collections.abc import Collection, Hashable

import numpy as np
from numpy.typing import NDArray

from scoring.network.matrix import Ints
from scoring.plan.slots import grown

_NOTHING: Ints = np.zeros(0, np.int64)


class Filters:
    """The filters of a board. Not shared between threads."""

    def __init__(self) -> None:
        self._number: dict[Hashable, int] = {}
        self._masks: list[NDArray[np.bool_]] = []
        """What was put last, (nodes,): the same object says the same"""
        self._unused: list[int] = []
        """Numbers that stand for nothing"""
        self._passes: NDArray[np.bool_] = np.zeros((0, 0), np.bool_)
        """(filters, slots), of which the first `len(self)` rows are in use"""

    def __len__(self) -> int:
        return len(self._number)

    def keep_only(self, numbers: Collection[int]) -> None:
        """Forget the others; their numbers are given to those that come."""
        self._number = {key: number for key, number in self._number.items() if number in numbers}
        self._unused = sorted(set(range(len(self._masks))).difference(self._number.values()), reverse=True)

    def put(self, key: Hashable, mask: NDArray[np.bool_], slots: Ints) -> tuple[int, Ints]:
        """The filter's number, and the slots of which it says otherwise than before; `slots`: of the mask's nodes."""
        number = self._number.get(key)
        if number is not None and self._masks[number] is mask:
            return number, _NOTHING
        passes = np.zeros(self._passes.shape[1], np.bool_)
        passes[slots] = mask
        if number is None and self._unused:
            number = self._number[key] = self._unused.pop()
            self._masks[number], self._passes[number] = mask, passes
            return number, _NOTHING
        if number is None:
            number = self._number[key] = len(self._masks)
            self._masks.append(mask)
            if number == len(self._passes):
                self._passes = grown(self._passes, (number + max(number, 4), self._passes.shape[1]))
            self._passes[number] = passes
            return number, _NOTHING
        self._masks[number] = mask
        differs = np.flatnonzero(passes != self._passes[number])
        self._passes[number] = passes
        return number, differs

    def differing(self, one: int, other: int) -> Ints:
        """Slots of which two filters do not say the same."""
        return np.flatnonzero(self._passes[one] != self._passes[other])

    def of(self, filters: Ints, slots: Ints) -> NDArray[np.bool_]:
        """What each of `filters` says of `slots`, (filters, slots)."""
        if len(self._masks) == 1:
            return self._passes[:1][:, slots]
        return self._passes[np.ix_(filters, slots)]

    def widen(self, slots: int) -> None:
        """There are so many slots now; of the new ones every filter says no until it is put again."""
        self._passes = grown(self._passes, (len(self._passes), slots))
