"""Refuse many gangs at once, where counting tells that no zone has room for them.

Why: in a full cluster nearly every gang of a long queue is refused, and after each event again: one by one that is most
of what a run costs. Rules: the answer, and its words, are those of `scoring.plan.place`; gangs of which counting alone
does not tell are left to it. What was found ahead holds until room is taken; so it is looked further ahead the longer
nobody took any, and not at all right after somebody did.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from scoring.ids import NO_ZONE, ZoneName
from scoring.network.matrix import Ints
from scoring.plan.ask import Ask
from scoring.plan.columns import COUNTABLE, MOST_CLASSES, NOBODY, NOT_COUNTED, OTHERWISE, UNKNOWN
from scoring.plan.place import asks_devices, possible
from scoring.plan.refusals import countable
from scoring.plan.run import Run, When
from scoring.plan.zones import kind_of

_FIRST = 16
"""Gangs looked at together at first"""
_MOST = 256
_NEW = 16
"""Gangs seen for the first time among them, at most: each of them costs as much as a hundred known ones"""
Bools: TypeAlias = NDArray[np.bool_]
StillShort: TypeAlias = Callable[[Ints, Ints], Bools]
"""Rows (gangs, classes) on the board, members of each → which gangs would have no room if nothing were held either"""
LOOK, IMPOSSIBLE = -3, -2
"""In place of a code: somebody must look for a place; no room would ever do"""


class Counted:
    """What counting says of the gangs of one run, by their places in its order."""

    def __init__(self, run: Run, asks: Sequence[Ask], *, still_short: StillShort) -> None:
        self._run, self._still_short = run, still_short
        self.columns = run.memo.columns = run.memo.columns.arranged(asks)
        self.begin, self.end = 0, 0
        """Places that were looked at"""
        self.codes: Ints = np.zeros(0, np.int64)
        """Of the gangs from `begin` on: `LOOK`, `IMPOSSIBLE`, or ((members · zones) + zone) · 2 + 1 if there was room
        before gangs ahead were given theirs: the zone that has most room, and the members that it has room for"""
        self.last_word: Bools = np.zeros(0, np.bool_)
        """Whether they would be told the same if nothing were held for others"""
        self._moment: object = run.room.moment
        """Of the room that they are about"""
        self._width = _FIRST
        self._allowed: dict[int, Bools] = {}
        """number of a set of zones → (zones,): those that who names them may use"""

    def looked_at(self, place: int) -> bool:
        """Count, unless it is done already; false right after room was taken: who comes next may be given some too."""
        moment = self._run.room.moment
        if moment != self._moment:
            self._moment, self._width, self.begin, self.end = moment, 0, place, place
            return False
        if not self.begin <= place < self.end:
            self._width = min(max(4 * self._width, 4), _MOST) if self.end or not self._width else self._width
            self._look(place, min(place + self._width, len(self.columns.asks)))
        return True

    def ahead_of(self, place: int) -> Iterator[None]:
        """Have the board count what `looked_at` would ask it for, where that is much; a block of classes at a time."""
        run = self._run
        if run.room.moment != self._moment or self.begin <= place < self.end:
            return
        board = run.fits.shown(When.NOW)
        rows = self.columns.rows_on(board, empty=False)[place : place + _MOST]
        for block in board.behind(rows[rows >= 0]):
            run.fits.shown(When.NOW).catch_up(block)
            yield from run.pause()

    def _look(self, begin: int, end: int) -> None:
        """Count for the first of some gangs. Cost: O(classes · zones), besides what the boards count anew."""
        run, lines = self._run, self.columns
        board = run.fits.shown(When.NOW)
        lines.renew(run.table, run.zones)
        end = self._learned(begin, end)
        some, many = slice(begin, end), end - begin
        rows = self._rows(some, When.NOW)
        counts, allowed = lines.counts[some, : rows.shape[1]], self._zones(lines.zone_set[some])
        counted = (lines.state[some] == COUNTABLE) & (rows != NOT_COUNTED).all(axis=1)
        if run.fits.any_refused(When.NOW):  # whether that is all that is in the way is not for counting to say
            counted &= ~self._refused(lines.numbers[some, : rows.shape[1]]).any(axis=1)
        taken = run.taken.zones_taken()
        short, was_short = np.zeros(allowed.shape, np.bool_), np.zeros(allowed.shape, np.bool_)
        held = np.zeros(allowed.shape, np.int64)
        for row, count in zip(rows.T, counts.T, strict=True):
            at = np.flatnonzero(row >= 0)
            if not len(at):
                continue
            members, now = count[at][:, None], board.sums(row[at])
            short[at] |= now < members
            held[at] += np.minimum(now, members)
            if run.taken.any_taken:
                was_short[at] |= board.sums_if(row[at], *run.taken.taken_from(), When.AT_START) < members
        held = np.where(allowed, held, -1)
        best = len(run.zones) - 1 - held[:, ::-1].argmax(axis=1) if run.zones else np.zeros(many, np.int64)
        most = held.max(axis=1, initial=-1)  # the last by name among equals
        refused: Bools = counted & (short | ~allowed).all(axis=1) & (most >= 0)
        behind = (~was_short & allowed & taken).any(axis=1) & run.taken.any_taken
        self._learn_could(some, refused, allowed)
        could = lines.could[some] == 1
        codes = np.where(could, (most * len(run.zones) + best) * 2 + behind, IMPOSSIBLE)
        self.codes = np.where(refused, codes, LOOK)
        self.last_word = self._still_short(rows, counts)
        self.begin, self.end = begin, end

    def _learned(self, begin: int, end: int) -> int:
        """Look at gangs that were not looked at before, but not at too many; gives where to end."""
        lines = self.columns
        some = slice(begin, end)
        several = (lines.numbers[some, 1] >= 0) & (lines.could[some] < 0)
        costly = np.flatnonzero((lines.state[some] == UNKNOWN) | several)
        if len(costly) > _NEW:
            end = begin + int(costly[_NEW])
        for place in (begin + np.flatnonzero(lines.state[begin:end] == UNKNOWN)).tolist():
            self._learn(place)
        return end

    def _learn(self, place: int) -> None:
        """Write the gang's line."""
        memo, lines = self._run.memo, self.columns
        ask = lines.asks[place]
        lines.keys[place], lines.state[place] = ask.gang.key, OTHERWISE
        if not countable(ask) or len(ask.need) > MOST_CLASSES or asks_devices(self._run, ask):
            return
        lines.state[place] = COUNTABLE
        lines.zone_set[place] = lines.set_number(ask.options.zones)
        wish = kind_of(self._run, ask).wish
        lines.classes[place] = tuple([member_class for member_class, _ in wish.classes])
        for at, (member_class, count) in enumerate(wish.classes):
            lines.numbers[place, at] = memo.number(member_class)
            lines.filters[place, at] = memo.filter_number(member_class)
            lines.counts[place, at] = count

    def _rows(self, some: slice, when: When) -> Ints:
        """Rows of the classes of some gangs on the board of that moment: (gangs, classes), as in the columns."""
        fits, lines = self._run.fits, self.columns
        board = fits.shown(when)
        there = lines.used(some)
        width = there.shape[1]
        rows = lines.rows_on(board, empty=when is When.EMPTY)[some, :width]
        numbers, filters = lines.numbers[some, :width], lines.filters[some, :width]
        common = there
        if fits.any_refused(when):
            common = there & ~self._refused(numbers)
        wanted = np.zeros(rows.shape, np.int64)
        for key in set(filters[common].tolist()):
            alike = common & (filters == key)
            gang, at = np.unravel_index(int(alike.argmax()), alike.shape)
            wanted[alike] = fits.filter(key, lines.classes[some.start + int(gang)][int(at)], when)
        known = common & (rows >= 0)
        known[known] = board.use(rows[known], wanted[known])
        new = there & ~known
        if new.any():
            classes = [lines.classes[some.start + gang][at] for gang, at in np.argwhere(new).tolist()]
            found = fits.rows(classes, numbers[new].tolist(), filters[new].tolist(), when=when)
            rows[new] = [NOT_COUNTED if row is None else row for row in found]
        return rows

    def _refused(self, numbers: Ints) -> Bools:
        """Which of the classes some node has refused."""
        refused = self._run.fits.refused(numbers.ravel().tolist(), When.NOW)
        return np.array(refused, np.bool_).reshape(numbers.shape)

    def _learn_could(self, some: slice, refused: Bools, allowed: Bools) -> None:
        """Find out which of the refused would fit one of its zones if no pod ran, where that is not known yet."""
        run, lines = self._run, self.columns
        could = lines.could[some]
        unknown = refused & (could < 0)
        if not unknown.any():
            return
        rows = self._rows(some, When.EMPTY)
        board = run.fits.shown(When.EMPTY)
        short = np.zeros(allowed.shape, np.bool_)
        for row, count in zip(rows.T, lines.counts[some, : rows.shape[1]].T, strict=True):
            at = np.flatnonzero(unknown & (row >= 0))
            if len(at):
                short[at] |= board.sums(row[at]) < count[at][:, None]
        enough = np.asarray((~short & allowed).any(axis=1))
        sure = ~enough | ((rows != NOT_COUNTED).all(axis=1) & (lines.numbers[some, 1] == NOBODY))
        could[unknown] = enough[unknown]
        for place in (some.start + np.flatnonzero(unknown & ~sure)).tolist():
            ask = lines.asks[place]
            lines.could[place] = possible(run, ask, kind_of(run, ask))

    def _zones(self, sets: Ints) -> Bools:
        """(gangs, zones): those that each may use."""
        known = self._allowed
        wanted = set(sets.tolist())
        if not wanted <= known.keys():
            for named, number in self.columns.sets.items():
                if number in wanted:
                    known[number] = np.array([_may_use(zone, named) for zone in self._run.zones], np.bool_)
        if len(wanted) == 1:
            return np.repeat(known[int(sets[0])][None, :], len(sets), axis=0)
        return np.array([known[number] for number in sets.tolist()])


def _may_use(zone: ZoneName, named: tuple[ZoneName, ...] | None) -> bool:
    """Whether a gang that names these zones, or none, may use the zone: as `Ground.candidate_zones` has it."""
    return zone != NO_ZONE if named is None else zone in named
