"""The many who wait as they did: gangs that are refused one after the other without a look at each.

Why: of a thousand gangs that wait in a full cluster an event concerns a few; yet each must be told, in its turn, that
there is no room, and where most of it is. Asked one by one through everything that could be different about a gang,
that is most of what a run costs. Rule: a gang is one of the crowd only if nothing but counting decides about it; it is
told the very words that `scoring.plan.decide` and `scoring.plan.turns` would find.
"""

from collections.abc import Sequence

import numpy as np

from scoring.ids import GangKey
from scoring.model.reasons import Reason
from scoring.plan.ask import Ask
from scoring.plan.columns import NOTHING
from scoring.plan.counted import IMPOSSIBLE, LOOK, Bools, Counted
from scoring.plan.later import Later
from scoring.plan.outcome import Refused
from scoring.plan.place import impossible, no_room
from scoring.plan.result import Plan, Waiting
from scoring.plan.run import Run
from scoring.plan.steps import Steps
from scoring.plan.turns import Turns


class Crowd:
    """Answers to the gangs of one run that counting refuses, by their places in its order."""

    def __init__(self, run: Run, asks: Sequence[Ask], turns: Turns, later: Later, *, previous: Plan | None) -> None:
        self._run, self._turns, self._later = run, turns, later
        self._counted = Counted(run, asks, still_short=turns.still_short)
        self._lines = self._counted.columns
        self._words: dict[tuple[int, int], Refused] = {}
        """(code, members of the gang) → the refusal"""
        self._apart = self._apart_from(asks, previous)
        """(places,): gangs of which more than the room decides"""
        self._asked = NOTHING
        """Place about which counting was asked last"""

    def waiting(self, place: int) -> Steps[dict[GangKey, Waiting]]:
        """What the gangs from `place` on are told, in order, up to the first that somebody must look at."""
        if not self._turns.by_room_alone or self._apart[place]:
            return {}
        self._later.settle()
        yield from self._counted.ahead_of(place)
        self._asked = place
        counted, lines = self._counted, self._lines
        if not counted.looked_at(place):
            return {}
        some = slice(place - counted.begin, counted.end - counted.begin)
        stops = np.flatnonzero((counted.codes[some] == LOOK) | self._apart[place : counted.end])
        end = place + int(stops[0]) if len(stops) else counted.end
        self._tell(place, end)
        keys = lines.keys[place:end]
        return {key: told for key, told in zip(keys, lines.waits[place:end], strict=True) if key and told}

    def refusal(self, place: int) -> Refused | None:
        """Why the gang is refused, whatever else there is about it, if counting tells and was not asked in vain."""
        if place == self._asked or not self._counted.looked_at(place):
            return None
        code = int(self._counted.codes[place - self._counted.begin])
        return self._refused(code, int(self._lines.counts[place].sum())) if code != LOOK else None

    def _tell(self, begin: int, end: int) -> None:
        """Write into the columns what gangs are told; those that are told the same as before keep the same object."""
        counted, lines = self._counted, self._lines
        codes = counted.codes[begin - counted.begin : end - counted.begin]
        last_word = counted.last_word[begin - counted.begin : end - counted.begin]
        ranks = np.arange(begin + 1, end + 1)
        same = last_word & (lines.codes[begin:end] == codes) & (lines.ranks[begin:end] == ranks)
        others = np.flatnonzero(~same)
        sizes = lines.counts[begin:end].sum(axis=1)[others].tolist()
        for at, code, size in zip(others.tolist(), codes[others].tolist(), sizes, strict=True):
            place = begin + at
            ask = lines.asks[place]
            refused = self._refused(code, size)
            if not last_word[at]:
                refused = self._turns.explained(ask, refused)
            lines.waits[place] = still_waiting(lines.waits[place], ask.gang.key, place + 1, refused)
        lines.codes[begin:end], lines.ranks[begin:end] = np.where(last_word, codes, NOTHING), ranks

    def _refused(self, code: int, size: int) -> Refused:
        """A code in words, the same ones for all gangs of that size."""
        known = self._words.get((code, size))
        if known is None:
            known = self._words[code, size] = self._said(code, size)
        return known

    def _said(self, code: int, size: int) -> Refused:
        if code == IMPOSSIBLE:
            return impossible(size)
        there, was_room = divmod(code, 2)
        members, zone = divmod(there, len(self._run.zones))
        return no_room(Reason.BEHIND if was_room else Reason.NO_ROOM, self._run.zones[zone], members, size)

    def _apart_from(self, asks: Sequence[Ask], previous: Plan | None) -> Bools:
        snapshot = self._run.snapshot
        apart = {
            *(previous.admitted if previous is not None else ()),
            *snapshot.commitments,
            *snapshot.claims,
            *snapshot.backing_off_until_s,
            *self._turns.aged,
        }
        found = np.zeros(len(asks), np.bool_)
        gangs = [snapshot.gangs[key] for key in apart if key in snapshot.gangs]
        if gangs:
            place = {id(ask.gang): at for at, ask in enumerate(asks)}
            found[[place[id(gang)] for gang in gangs if id(gang) in place]] = True
        return found


def still_waiting(known: Waiting | None, key: GangKey, rank: int, refused: Refused) -> Waiting:
    """What a refused gang is told; the same object where it is what it was told before."""
    if known is not None and known.rank == rank and known.reason is refused.reason and known.detail == refused.detail:
        return known
    return Waiting(key, rank, refused.reason, refused.detail)
