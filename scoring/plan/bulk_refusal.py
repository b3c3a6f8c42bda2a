"""Refuse many gangs at once, where counting shows that no zone has room for them.

Why: in a full cluster nearly every gang of a long queue is refused, and after each event again. One by one through
all that may be different about a gang, a thousand gangs cost a run 80 ms; together they cost 3 ms
(docs/adr/0006-planner-caches.md). Rules: only room decides about these gangs; their answers, to the word, are those of
`scoring.plan.placement` and `scoring.plan.planner`, which are asked about all others. Gangs that ask for the same get
the same answer. What was found ahead holds until room is taken: so it is looked further ahead the longer none was, and
not at all right after some was.
"""

from collections.abc import Sequence, Set
from functools import lru_cache
from typing import Final, TypeAlias

import numpy as np
from numpy.typing import NDArray

from scoring.feasibility.fit_counts import FitCounts
from scoring.ids import NO_ZONE, GangKey
from scoring.model import MemberClass
from scoring.model.reasons import Reason
from scoring.network.matrix import Ints
from scoring.plan.backfill import KeptRoom
from scoring.plan.capacity import When
from scoring.plan.demand import Counting, GangDemand, countable
from scoring.plan.keep_placements import KeptPlacements
from scoring.plan.placement import asks_uncounted, impossible, no_room, possible
from scoring.plan.result import Refused
from scoring.plan.run import Run
from scoring.plan.starvation_reservations import StarvationReservations
from scoring.plan.zone_order import kind_of

MOST_CLASSES: Final = 4
"""Classes of members of a gang that are counted here; gangs with more are looked at one by one."""
_FIRST: Final = 64
"""Gangs looked at together at first: a look costs as much as about so many more gangs in it"""
_MOST: Final = 256
"""And at most"""
_NEW: Final = 16
"""Gangs of several classes among them that are new to these nodes, at most: each costs as much as a hundred others"""
_MOST_CELLS: Final = 400_000
"""Gangs times nodes whose room has changed during the run: what is counted in one step"""
Bools: TypeAlias = NDArray[np.bool_]


class BulkRefusals:
    """Answers to the gangs of one run that counting refuses, by their places in its order."""

    def __init__(
        self, run: Run, demands: Sequence[GangDemand], *, apart: Set[GangKey], promised: KeptRoom | None = None
    ) -> None:
        """`apart`: gangs that must be looked at one by one; `promised`: room that is kept by end times."""
        self._run, self._demands = run, demands
        self._promised = promised
        self.reserved: StarvationReservations | None = None
        """Made for the first gang that room is kept for"""
        self._counts, self._empty_counts = run.cache.fit_counts, run.cache.empty_counts
        snapshot = run.snapshot
        self._apart = {*apart, *snapshot.commitments, *snapshot.claims, *snapshot.backing_off_until_s}
        """Gangs about which more than room decides"""
        self._moment: object = run.capacity.room.moment
        """Of the room that the following are about"""
        self._width = _FIRST
        self._begin, self._end = 0, 0
        """Places that were looked at"""
        self._answers: dict[Counting, tuple[Refused | None, bool]] = {}
        """What gangs ask for → the refusal, if counting is enough, and whether it would be the same if nothing were
        reserved; of this moment"""
        self._found: list[tuple[Refused | None, bool]] = []
        """The answers to the places that were looked at"""
        self._asked = -1
        """Place about which `refused_from` was asked last"""

    def refused_from(self, place: int, kept: KeptPlacements | None) -> list[Refused]:
        """The refusals of the gangs from `place` on, in order, up to the first that must be looked at by itself."""
        if self._demands[place].gang.key in self._apart:
            return []
        if kept is not None:
            kept.settle()
        self._asked = place
        if not self._looked_at(place):
            return []
        answers: list[Refused] = []
        promised = self._promised
        found, demands = self._found[place - self._begin :], self._demands[place : self._end]
        for (refused, unreserved), demand in zip(found, demands, strict=True):
            if refused is None or demand.gang.key in self._apart:
                break
            if promised is not None and (promised.wants(demand) or (not unreserved and promised.fills(demand))):
                break
            if self.reserved is not None and not unreserved:
                refused = self.reserved.explained(demand, refused)
            if promised is not None and not unreserved:
                refused = promised.explained(demand, refused)
            answers.append(refused)
        return answers

    def refusal(self, place: int) -> Refused | None:
        """Why the gang is refused, whatever else there is about it, if counting is enough and was not asked in vain."""
        if place == self._asked or not self._looked_at(place):
            return None
        return self._found[place - self._begin][0]

    def is_final(self, place: int) -> bool:
        """Whether counting showed that the gang's refusal would be the same if nothing were reserved for others."""
        if not self._begin <= place < self._end or self._moment != self._run.capacity.room.moment:
            return False
        refused, unreserved = self._found[place - self._begin]
        return refused is not None and unreserved

    def _looked_at(self, place: int) -> bool:
        """Count, unless it is done already; false right after room was taken: the next gang may be given some too."""
        run, moment = self._run, self._run.capacity.room.moment
        if moment != self._moment:
            self._moment, self._width, self._begin, self._end = moment, 0, place, place
            self._answers.clear()
            return False
        if not self._begin <= place < self._end:
            self._width = min(max(4 * self._width, 4), _MOST) if self._end or not self._width else self._width
            most = _MOST_CELLS // max(len(run.capacity.rows_taken()), 1)
            end = min(place + max(min(self._width, most), 1), len(self._demands))
            asked = self._not_too_new([self._counting(one) for one in self._demands[place:end]])
            new = [one for one in dict.fromkeys(asked) if one not in self._answers]
            if new:
                self._answers |= self._look(new)
            self._found = [self._answers[one] for one in asked]
            self._begin, self._end = place, place + len(asked)
        return True

    def _not_too_new(self, asked: list[Counting]) -> list[Counting]:
        """The first of them, up to so many of which it must be searched whether they fit the empty cluster."""
        table = self._run.table
        costly = [at for at, one in enumerate(asked) if len(one.classes) > 1 and one.fits_empty[0] is not table]
        return asked[: costly[_NEW]] if len(costly) > _NEW else asked

    def _count(self, asked: Sequence[Counting], when: When) -> tuple[Ints, Ints]:
        """As `_rows`, once what is not counted yet of these classes is counted, some classes in a step."""
        rows, members = self._rows(asked, when)
        missing = self._shown(when).uncounted(rows[rows >= 0])
        for some in missing:
            self._shown(when).count(some)
        return self._rows(asked, when) if missing else (rows, members)  # another run may have used the counts meanwhile

    def _look(self, asked: Sequence[Counting]) -> dict[Counting, tuple[Refused | None, bool]]:
        """The refusals of gangs that ask for this, if counting is enough; whether they hold without reservations."""
        run = self._run
        rows, members = self._count(asked, When.AT_START)
        asks: Bools = members > 0
        counted: Bools = np.asarray(asks.any(axis=1) & ~(asks & (rows < 0)).any(axis=1))
        if run.snapshot.exclusions:  # whether room is all that is in the way is not for counting to say
            counted &= ~np.array([any(run.snapshot.excluded(cls) for cls, _ in one.classes) for one in asked])
        allowed = self._allowed(asked)
        at_row = np.unique(rows[rows >= 0])
        start, now, given = self._sums(at_row)
        short, was_short, held = np.zeros_like(allowed), np.zeros_like(allowed), np.zeros(allowed.shape, np.int64)
        unreserved = [np.zeros(len(asked), np.bool_) for _ in given]
        for column in range(rows.shape[1]):
            row, count = rows[:, column], members[:, column]
            at = np.flatnonzero(row >= 0)
            one, wanted = np.searchsorted(at_row, row[at]), count[at][:, None]
            short[at] |= now[one] < wanted
            was_short[at] |= start[one] < wanted
            held[at] += np.minimum(now[one], wanted)
            for less, most in zip(unreserved, given, strict=True):
                less[at] |= most[one] < count[at]
        held = np.where(allowed, held, -1)
        best = len(run.zones) - 1 - held[:, ::-1].argmax(axis=1) if run.zones else np.zeros(len(asked), np.int64)
        most = held.max(axis=1, initial=-1)  # the last by name among equals
        refused: Bools = counted & (short | ~allowed).all(axis=1) & (most >= 0)
        behind: Bools = np.asarray((~was_short & allowed & run.capacity.zones_taken()).any(axis=1))
        could: list[bool] = self._could(asked, refused, allowed)
        alone: Bools = np.all(unreserved, axis=0) if unreserved else np.ones(len(asked), np.bool_)
        facts = (could, behind.tolist(), best.tolist(), most.tolist(), members.sum(axis=1).tolist())
        said = lru_cache(maxsize=None)(self._said)  # many are refused in the same words
        answers = [(said(*fact) if no else None) for no, *fact in zip(refused.tolist(), *facts, strict=True)]
        return dict(zip(asked, zip(answers, alone.tolist(), strict=True), strict=True))

    def _said(self, could: bool, behind: bool, zone: int, members: int, size: int) -> Refused:
        if not could:
            return impossible(size)
        return no_room(Reason.BEHIND if behind else Reason.NO_ROOM, self._run.zones[zone], members, size)

    def _sums(self, rows: Ints) -> tuple[Ints, Ints, list[Ints]]:
        """Members of classes that fit: (classes, zones) before the run and now, and for each reservation (classes,).

        The latter: most that one of its zones would have room for if what is held were free.
        """
        run, counts = self._run, self._shown(When.AT_START)
        start = counts.sums(rows)
        taken, free = run.capacity.rows_taken(), run.capacity.room.free
        there = counts.counts_if(rows, taken, free[taken])
        now = start + counts.by_zone(there - counts.counts(rows, taken), taken) if len(taken) else start
        given = []
        held_back = self.reserved.held_back() if self.reserved is not None else []
        held_back += self._promised.held_back() if self._promised is not None else []
        for nodes, room, zones in held_back:
            some = (room != free[nodes]).any(axis=1)  # there was more at the start: these are among `taken`
            nodes, room = nodes[some], room[some]
            more = counts.counts_if(rows, nodes, room) - there[:, np.searchsorted(taken, nodes)]
            given.append((now + counts.by_zone(more, nodes))[:, zones].max(axis=1, initial=0))
        return start, now, given

    def _could(self, asked: Sequence[Counting], refused: Bools, allowed: Bools) -> list[bool]:
        """Which of the refused would fit one of its zones if no pod ran."""
        run = self._run
        table = run.table
        unknown = np.array([one.fits_empty[0] is not table for one in asked]) & refused
        if unknown.any():
            new = [asked[at] for at in np.flatnonzero(unknown).tolist()]
            rows, members = self._count(new, When.EMPTY)
            sums = self._shown(When.EMPTY)
            short = np.zeros((len(new), len(run.zones)), np.bool_)
            for column in range(rows.shape[1]):
                row, count = rows[:, column], members[:, column]
                at = np.flatnonzero(row >= 0)
                short[at] |= sums.sums(row[at]) < count[at][:, None]
            enough: Bools = np.asarray((~short & allowed[unknown]).any(axis=1))
            for place, one in enumerate(new):
                sure = len(one.classes) == 1 and rows[place, 0] >= 0
                fits = bool(enough[place]) and (sure or possible(run, one.demand, kind_of(run, one.demand)))
                one.fits_empty = (table, fits)
        return [one.fits_empty[1] for one in asked]

    def _counting(self, demand: GangDemand) -> Counting:
        """What counting needs of the gang; one object for all that ask for the same."""
        run, known = self._run, self._run.cache.countings.get(demand.gang.key)
        if known is not None and known[0] is demand and known[1].axis == run.view.axis:
            return known[1]
        classes: tuple[tuple[MemberClass, int], ...] = ()
        able = countable(demand) and len(demand.need) <= MOST_CLASSES and not asks_uncounted(run, demand)
        if able:
            classes = tuple([(one, len(pods)) for one, pods in demand.need])
        made = Counting(demand, run.view.axis, classes, demand.options.zones)
        if classes:
            made = run.cache.same_counting.setdefault((made.axis, classes, made.zones), made)
        run.cache.countings[demand.gang.key] = demand, made
        return made

    def _shown(self, when: When) -> FitCounts:
        """The counts of the room before the run, or of all that the nodes have."""
        run = self._run
        counts = self._empty_counts if when is When.EMPTY else self._counts
        free = run.table.allocatable if when is When.EMPTY else run.capacity.start
        counts.show(run.token, run.nodes, free, lambda one: run.capacity.mask(one, When.EMPTY))
        return counts

    def _rows(self, asked: Sequence[Counting], when: When) -> tuple[Ints, Ints]:
        """(demands, classes): rows of their classes, -1 where there is none, and members of each."""
        counts = self._shown(when)
        classes = [pair for line in asked for pair in line.classes]
        found = [counts.row_of.get(one, -1) for one, _ in classes]
        if -1 in found:
            self._add([one for (one, _), row in zip(classes, found, strict=True) if row < 0], counts)
            found = [counts.row_of.get(one, -1) for one, _ in classes]
        lengths = np.array([len(line.classes) for line in asked], np.int64)
        there = np.arange(lengths.max(initial=0)) < lengths[:, None]
        rows, members = np.full(there.shape, -1, np.int64), np.zeros(there.shape, np.int64)
        rows[there], members[there] = found, [count for _, count in classes]
        counts.use(rows[rows >= 0])
        return rows, members

    def _add(self, classes: Sequence[MemberClass], counts: FitCounts) -> None:
        """Have these counted, too, as far as there is place."""
        run, added = self._run, []
        for one in dict.fromkeys(classes):
            request = run.view.vector(one)
            added.append((one, request, run.capacity.mask(one, When.EMPTY)))
        counts.add(added)

    def _allowed(self, asked: Sequence[Counting]) -> Bools:
        """(demands, zones): those that each may use, as `candidate_zones` has it."""
        zones = self._run.zones
        number = {named: at for at, named in enumerate(dict.fromkeys([one.zones for one in asked]))}
        lines = [[zone != NO_ZONE if named is None else zone in named for zone in zones] for named in number]
        allowed = np.array(lines, np.bool_).reshape(len(number), len(zones))
        return np.asarray(allowed[np.array([number[one.zones] for one in asked], np.int64)])
