"""The places that gangs later in the order had in the previous plan and will probably keep.

Why: a gang that loses its place should not push the next one out of its own while there is room elsewhere. Rule: these
places are spared only while a displaced gang is placed, the last ones given up first; they never keep a gang from being
admitted that is ahead in the order.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import islice

import numpy as np

from scoring.ids import GangKey
from scoring.network import Ints
from scoring.plan.ask import Ask
from scoring.plan.result import Admission
from scoring.plan.run import Run


class Later:
    """Amounts (nodes, resources) of places of gangs whose turn is still to come; computed when first needed."""

    def __init__(self, run: Run, kept: Sequence[tuple[Ask, Admission]]) -> None:
        self._run = run
        self._kept = {ask.gang.key: (ask, before) for ask, before in kept}
        self._amounts: Ints | None = None
        self._begun: list[tuple[Ask, Admission]] = []
        """Gangs whose turn has come and whose place is in `_amounts` still."""

    def begin(self, gang: GangKey) -> None:
        """The turn of `gang` has come: its former place is no longer one of a later gang."""
        known = self._kept.pop(gang, None)
        if known is not None and self._amounts is not None:
            self._begun.append(known)

    def tries(self) -> Iterator[int]:
        """How many of the last places to give up, try by try: none, 1, 2, 4, … but never all."""
        yield 0
        number = 1
        while number < len(self._kept):
            yield number
            number *= 2

    @contextmanager
    def spared(self, *, but_last: int) -> Iterator[None]:
        """Hide the room of these places for a while, except the last `but_last` ones."""
        if self._amounts is None:
            self._amounts = np.zeros_like(self._run.start)
            for known in self._kept.values():
                self._add(self._amounts, *known, sign=1)
        while self._begun:
            self._add(self._amounts, *self._begun.pop(), sign=-1)
        amounts = self._amounts.copy()
        for known in islice(reversed(self._kept.values()), but_last):
            self._add(amounts, *known, sign=-1)
        self._run.shift(amounts)
        try:
            yield
        finally:
            self._run.shift(-amounts)

    def _add(self, amounts: Ints, ask: Ask, before: Admission, *, sign: int) -> None:
        for _, rows, taken in self._run.footprint(ask, before) or ():
            amounts[rows] += sign * taken
