"""Refuse many gangs at once, where counting tells that no zone has room for them.

Why: in a full cluster nearly every gang of a long queue is refused, and after each event again: one by one that is most
of what a run costs. Rules: the answer, and its words, are those of `scoring.plan.place`; gangs of which counting alone
does not tell are left to it. What was found ahead holds until room is taken; so it is looked further ahead the longer
nobody took any, and not at all right after somebody did.
"""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from scoring.ids import ZoneName
from scoring.network import Ints
from scoring.plan.ask import Ask
from scoring.plan.outcome import Refused
from scoring.plan.place import impossible, no_room, possible
from scoring.plan.refusals import Prospect, countable
from scoring.plan.run import Run, When
from scoring.plan.zones import kind_of
from scoring.reasons import Reason

_FIRST = 16
"""Gangs looked at together at first"""
_MOST = 256
_NEW = 16
"""Gangs seen for the first time among them, at most: each of them costs as much as a hundred known ones"""
_WORDS = 4
"""Answers kept of each gang: a full cluster, some room that others were given, and full again"""


class Counted:
    """Answers to the gangs of one run, by their places in its order."""

    def __init__(self, run: Run, asks: Sequence[Ask]) -> None:
        self._run, self._asks = run, asks
        self._begin = 0
        self._answers: list[tuple[int, Refused] | None] = []
        """Number of the kind and answer of the gangs from `_begin` on"""
        self._moment: object = run.room.moment
        """Of the room that they are about"""
        self._width = _FIRST
        self._allowed: dict[tuple[ZoneName, ...] | None, NDArray[np.bool_]] = {}
        """zones that a gang names → (zones,): those that it may use"""

    def refusal(self, place: int) -> Refused | None:
        """Why the gang is refused; `None`: somebody must look for a place for it."""
        moment = self._run.room.moment
        if moment != self._moment:
            self._moment, self._answers, self._width = moment, [], 0
            return None  # whoever comes after somebody that was given room may well be given room too
        at = place - self._begin
        if not 0 <= at < len(self._answers):
            self._width = min(max(4 * self._width, 4), _MOST) if self._answers or not self._width else self._width
            self._begin, at = place, 0
            self._answers = self._look(self._asks[place : place + self._width])
        found = self._answers[at]
        # The first of a kind, in its turn, answers for all that ask for the same: room only shrinks during a run.
        return None if found is None else self._run.refused.setdefault(*found)

    def _look(self, asks: Sequence[Ask]) -> list[tuple[int, Refused] | None]:
        """The answers to the first of some gangs. Cost: O(classes · zones), besides what the boards count anew."""
        run = self._run
        answers: list[tuple[int, Refused] | None] = []
        found: list[tuple[int, Prospect]] = []
        left = _NEW
        for place, ask in enumerate(asks):
            one, is_new = self._prospect(ask)
            answer = run.refused.get(one.kind) if one is not None else None
            answers.append((one.kind, answer) if one is not None and answer is not None else None)
            if one is not None and answer is None:
                found.append((place, one))
                left -= is_new or (len(one.classes) > 1 and one.could[0] is not run.table)
            if not left:
                break
        for (place, one), answer in self._answered(found):
            answers[place] = (one.kind, answer)
        return answers

    def _rows(self, found: Sequence[Prospect], when: When) -> list[list[int] | None]:
        """The rows of each one's classes on the board of that moment; `None`: the board does not count it."""
        rows = iter(
            self._run.fits.rows(
                [one for each in found for one in each.classes],
                [one for each in found for one in each.numbers],
                [one for each in found for one in each.filters],
                when=when,
            )
        )
        listed = [[row for _ in each.counts if (row := next(rows)) is not None] for each in found]
        return [at if len(at) == len(each.counts) else None for at, each in zip(listed, found, strict=True)]

    def _answered(self, found: Sequence[tuple[int, Prospect]]) -> list[tuple[tuple[int, Prospect], Refused]]:
        """Those of the gangs that are refused by counting, with the answer."""
        run, board = self._run, self._run.fits.board
        rows = self._rows([one for _, one in found], When.NOW)
        counted = [(one, at) for one, at in zip(found, rows, strict=True) if at is not None]
        if not counted:
            return []
        gangs = [one for (_, one), _ in counted]
        at, first, counts = _flat([at for _, at in counted], gangs)
        allowed = np.array([self._zones(one) for one in gangs])
        now = board.sums(at)
        closed = ~((np.minimum.reduceat(now - counts, first) >= 0) & allowed).any(axis=1)
        held = np.where(allowed, np.add.reduceat(np.minimum(now, counts), first), -1)
        best = held.shape[1] - 1 - held[:, ::-1].argmax(axis=1)  # the last by name among equals
        most = held[np.arange(len(gangs)), best]
        behind = np.zeros(len(gangs), np.bool_)
        taken = run.taken.zones_taken()
        if run.taken.any_taken:
            start = board.sums_if(at, *run.taken.taken_from(), When.AT_START)
            behind = ((np.minimum.reduceat(start - counts, first) >= 0) & allowed & taken).any(axis=1)
        self._learn_could(gangs, allowed)
        told = zip(counted, (closed & (most >= 0)).tolist(), best.tolist(), most.tolist(), behind.tolist(), strict=True)
        return [
            (one, self._said(one[1], Reason.BEHIND if was_there else Reason.NO_ROOM, zone, members))
            for (one, _), refused, zone, members, was_there in told
            if refused
        ]

    def _learn_could(self, gangs: Sequence[Prospect], allowed: NDArray[np.bool_]) -> None:
        """Find out who would fit one of its zones if no pod ran, where that is not known of these nodes."""
        run = self._run
        table = run.table
        if all(one.could[0] is table for one in gangs):
            return
        rows = self._rows(gangs, When.EMPTY)
        places = [place for place, at in enumerate(rows) if at is not None]
        some = [gangs[place] for place in places]
        enough = np.ones(len(gangs), np.bool_)
        if some:
            at, first, counts = _flat([at for at in rows if at is not None], some)
            sums = run.memo.empty_board.sums(at)
            enough[places] = ((np.minimum.reduceat(sums - counts, first) >= 0) & allowed[places]).any(axis=1)
        for one, at_rows, may in zip(gangs, rows, enough.tolist(), strict=True):
            if one.could[0] is not table:
                sure = not may or (at_rows is not None and len(one.classes) == 1)
                one.could = (table, may if sure else possible(run, one.ask, kind_of(run, one.ask)))

    def _said(self, one: Prospect, reason: Reason, zone: int, members: int) -> Refused:
        """The refusal in words, the same ones for as long as they are right."""
        name = self._run.zones[zone]
        key = (reason, name, members) if one.could[1] else Reason.IMPOSSIBLE
        known = one.said.get(key)
        if known is None:
            known = no_room(reason, name, members, one.size) if one.could[1] else impossible(one.size)
            if len(one.said) >= _WORDS:
                one.said.pop(next(iter(one.said)))
            one.said[key] = known
        return known

    def _prospect(self, ask: Ask) -> tuple[Prospect | None, bool]:
        """The gang's prospect, and whether it was made just now."""
        memo = self._run.memo
        seen = memo.refusals.seen(ask)
        if seen is not None:
            return seen[1], False
        if not countable(ask):
            return memo.refusals.note(ask, None), False
        kind = kind_of(self._run, ask)
        classes, counts = zip(*kind.wish.classes, strict=True)
        made = Prospect(
            ask=ask,
            kind=memo.refusals.tell(ask, kind.key),
            classes=classes,
            numbers=tuple([memo.number(one) for one in classes]),
            filters=tuple([memo.filter_number(one) for one in classes]),
            counts=counts,
            size=kind.wish.size,
            zones=ask.options.zones,
        )
        return memo.refusals.note(ask, made), True

    def _zones(self, one: Prospect) -> NDArray[np.bool_]:
        known = self._allowed.get(one.zones)
        if known is None:
            known = self._allowed[one.zones] = np.zeros(len(self._run.zones), np.bool_)
            known[self._run.columns(self._run.candidate_zones(one.ask))] = True
        return known


def _flat(rows: Sequence[Sequence[int]], gangs: Sequence[Prospect]) -> tuple[Ints, Ints, Ints]:
    """Rows of all classes of all gangs, where each gang's begin, and each class's members as a column."""
    lengths = [len(at) for at in rows]
    counts = np.array([count for one in gangs for count in one.counts], np.int64)
    at = np.array([row for some in rows for row in some], np.int64)
    return at, np.cumsum([0, *lengths[:-1]]), counts[:, None]
