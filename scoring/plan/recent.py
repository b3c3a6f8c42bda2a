"""What a board counted for each node's room of a moment ago, for room that comes back.

Why: all room of the nodes that are held for a STARVING gang is taken in each run, given back in thought to tell others
what they would have, and there again when the next run begins. Counted anew each time, that doubled what a run costs.
Rule: what is remembered is a function of a node's room alone; whoever changes anything else a count follows from, a
class or a filter's word, has it forgotten.
"""

from collections.abc import Callable

import numpy as np

from scoring.feasibility.room import Counts
from scoring.network.matrix import Ints


class Recent:
    """Counts of some classes, for the last room that each slot had, if it had any. Not shared between threads."""

    def __init__(self, classes: int, slots: int, resources: int) -> None:
        self._free: Ints = np.zeros((slots, resources), np.int64)
        self._counts: Counts = np.zeros((classes, slots), np.int32)
        self._known = np.zeros(slots, np.bool_)

    def forget(self, slots: Ints | None = None) -> None:
        """Do not know these slots any more; all of them if they are not named."""
        self._known[slice(None) if slots is None else slots] = False

    def counts(self, slots: Ints, free: Ints, *, classes: int, count: Callable[[Ints, Ints], Counts]) -> Counts:
        """Members of the first `classes` classes that fit `slots` with the room `free`; (classes, slots).

        `count` is asked, with slots and their room, for those of which nothing is known; it is not asked about slots
        without any room, which no member fits.
        """
        found: Counts = np.zeros((classes, len(slots)), np.int32)
        some = (free > 0).any(axis=1)
        same = some & self._known[slots] & (self._free[slots] == free).all(axis=1)
        found[:, same] = self._counts[:classes, slots[same]]
        new = some & ~same
        at = slots[new]
        if len(at):
            found[:, new] = self._counts[:classes, at] = count(at, free[new])
            self._free[at], self._known[at] = free[new], True
        return found
