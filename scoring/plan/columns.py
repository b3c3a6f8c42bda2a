"""What counting needs of the gangs that wait, as columns in the order of their turns, and what each was told last.

Why columns: a run looks at every gang of a long queue, of which an event concerns a few. Going through a thousand
objects, each somewhere else in memory, is what takes the time then; arrays are gathered and compared at once. Rule: a
line belongs to one wish (`Ask`) and follows from it alone, or says what it is valid for; lines are carried over to the
next run by the identity of the wish. The columns of a run are its own: others may use the memo between its steps.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from scoring.ids import GangKey, ZoneName
from scoring.model import MemberClass
from scoring.network.matrix import Ints
from scoring.plan.ask import Ask
from scoring.plan.board import Board
from scoring.plan.result import Waiting

T = TypeVar("T")
_SETS = 64
"""Sets of zones that are kept beside two for each wish, before all is found anew"""
UNKNOWN, COUNTABLE, OTHERWISE = 0, 1, 2
"""State of a line: not looked at yet; counting can tell; somebody must look each time"""
MOST_CLASSES = 4
"""Classes of members of a gang that are counted here; those with more are looked at one by one."""
NOBODY, NOT_COUNTED = -1, -2
"""In place of a row of the board: there is no such class; the board cannot count it"""
NOTHING = -1
"""In place of a code: nothing is known to have been told"""


@dataclass(slots=True)
class Columns:
    """Lines of one run, one for each wish. Not shared between threads."""

    asks: Sequence[Ask]
    keys: list[GangKey | None]
    classes: list[tuple[MemberClass, ...]]
    state: Ints
    zone_set: Ints
    """Number of the zones that the gang names; 0: it names none"""
    numbers: Ints
    """(lines, MOST_CLASSES) that stand for its classes, `NOBODY` beyond"""
    filters: Ints
    """The same for their constraints"""
    counts: Ints
    """Members of each class"""
    rows: Ints
    """Of each class on the board of the room there is; `NOBODY`: not known, or no class"""
    empty_rows: Ints
    """The same on the board of empty nodes"""
    could: Ints
    """Whether the gang would fit the nodes `table` if no pod ran: 1, 0, or -1 for not known"""
    codes: Ints
    """What it was told last (`scoring.plan.crowd`), with names of `zones`"""
    ranks: Ints
    waits: list[Waiting | None]
    """The same in words"""
    epoch: int = -1
    """Of the board that `rows` are of"""
    empty_epoch: int = -1
    table: object = None
    zones: tuple[ZoneName, ...] = ()
    sets: dict[tuple[ZoneName, ...] | None, int] = field(default_factory=lambda: {None: 0})
    """zones that gangs name → a number that stands for them in `zone_set`"""
    place: dict[int, int] = field(default_factory=dict)
    """id of a wish → its line"""

    @classmethod
    def none(cls) -> "Columns":
        """Without any line."""
        some = [np.zeros((0, MOST_CLASSES), np.int64) for _ in range(5)]
        flat = [np.zeros(0, np.int64) for _ in range(5)]
        state, zone_set, could, codes, ranks = flat
        numbers, filters, counts, rows, empty_rows = some
        return cls((), [], [], state, zone_set, numbers, filters, counts, rows, empty_rows, could, codes, ranks, [])

    def arranged(self, asks: Sequence[Ask]) -> "Columns":
        """Lines for these wishes, in their order; what is known of those that are here comes along."""
        if len(self.sets) > 2 * len(asks) + _SETS:
            return Columns.none().arranged(asks)
        place = {id(ask): at for at, ask in enumerate(asks)}
        known = self.place
        at = np.array([known.get(number, -1) for number in place], np.int64)
        fresh = np.flatnonzero(at < 0)
        old = at.tolist()

        def lines(column: Ints, value: int) -> Ints:
            if not len(column):
                return np.full((len(at), *column.shape[1:]), value)
            made = column[at]
            made[fresh] = value
            return made

        return Columns(
            asks=asks,
            keys=_listed(self.keys, old),
            classes=[self.classes[one] if one >= 0 else () for one in old],
            state=lines(self.state, UNKNOWN),
            zone_set=lines(self.zone_set, 0),
            numbers=lines(self.numbers, NOBODY),
            filters=lines(self.filters, NOBODY),
            counts=lines(self.counts, 0),
            rows=lines(self.rows, NOBODY),
            empty_rows=lines(self.empty_rows, NOBODY),
            could=lines(self.could, -1),
            codes=lines(self.codes, NOTHING),
            ranks=lines(self.ranks, 0),
            waits=_listed(self.waits, old),
            epoch=self.epoch,
            empty_epoch=self.empty_epoch,
            table=self.table,
            zones=self.zones,
            sets=self.sets,
            place=place,
        )

    def renew(self, table: object, zones: tuple[ZoneName, ...]) -> None:
        """Forget what is not valid for these nodes and zones."""
        if table is not self.table:
            self.could[:] = -1
        if zones != self.zones:
            self.codes[:] = NOTHING
        self.table, self.zones = table, zones

    def rows_on(self, board: Board, *, empty: bool) -> Ints:
        """`rows` or `empty_rows`, without those that the board may have given to others since."""
        if empty:
            if board.epoch != self.empty_epoch:
                self.empty_rows[:], self.empty_epoch = NOBODY, board.epoch
            return self.empty_rows
        if board.epoch != self.epoch:
            self.rows[:], self.epoch = NOBODY, board.epoch
        return self.rows

    def set_number(self, zones: tuple[ZoneName, ...] | None) -> int:
        """A number for zones that a gang names; `None`: it names none."""
        return self.sets.setdefault(zones, len(self.sets))

    def used(self, some: slice) -> NDArray[np.bool_]:
        """(lines, classes): where there is a class, as wide as the widest of these lines."""
        numbers = self.numbers[some]
        there = numbers >= 0
        return there[:, : max(int(there.sum(axis=1).max(initial=0)), 1)]


def _listed(values: list[T | None], places: list[int]) -> list[T | None]:
    return [values[one] if one >= 0 else None for one in places]
