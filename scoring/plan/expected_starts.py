"""When gangs end and free their room, and when those that wait can start: one by promise, and all, as people see it.

The earliest moment with room for all of a minimum on some nodes is found by halving, as room only comes free as gangs
end. Room that is promised to others while the gang would run counts as taken for all of that time; then later moments
are looked at too.

`expected_starts` plays the queue forward, gang by gang in the order of the plan: the earliest moment with room in one
zone, beside those ahead, which then take it for as long as they run. It decides nothing. Rules: what is not known is
said, with the reason, and is never a made-up time. A gang of unknown length never ends here; one whose start is not
known is taken to have started just now, which is late at worst. Committed gangs, and those just admitted, end too.
"""

from bisect import bisect_left
from collections.abc import Iterable, Mapping, Sequence
from math import isfinite
from typing import Any, Final

import msgspec
import numpy as np
from msgspec.structs import replace
from numpy.typing import NDArray

from scoring import GangKey, NodeName, PodUid, ZoneName
from scoring.model import Gang, Reason, Reservation, Snapshot
from scoring.model.gang import remaining_s
from scoring.model.policy import Policy
from scoring.model.snapshot import scatter_add
from scoring.network.matrix import Floats, Ints
from scoring.plan.cache import PlannerCache
from scoring.plan.capacity import When
from scoring.plan.demand import GangDemand, MemberSet
from scoring.plan.placement import kind_of
from scoring.plan.result import WANTS_ROOM, Admission, Plan, Waiting
from scoring.plan.run import Run, begin_run, take_admissions, take_commitments
from scoring.queue.states import running_since_s
from scoring.records import ExpectedStart, Unknown
from scoring.selection.demand import Demand, at_rows, rooms
from scoring.selection.greedy import fit

_ROUNDING_S: Final = 0.001  # What ends are rounded to: the same end, found at two moments, is the same number
MOST: Final = 64  # Gangs in the order of the queue; of those behind them it is not known
_MOST_TRIES: Final = 64  # Moments that are looked at beside promises to others


def rounded(at_s: float) -> float:
    """A moment in whole milliseconds."""
    return round(at_s * 1e3) / 1e3 if isfinite(at_s) else at_s  # what `np.round` gives, in a tenth of its time


class Endings:
    """What comes free, entry by entry, by rows: a row, an amount, and when; Unix seconds."""

    def __init__(self, run: Run, admissions: Iterable[Admission], *, now_s: float) -> None:
        """Of what runs, is committed, or was admitted by this run; some gangs in a step."""
        self._run, self.now_s, snapshot = run, now_s, run.snapshot
        running = run.cache.running.read(snapshot.gangs.values(), run.table, (run.view.layout, run.table.axis))
        self._gangs = list(running.gangs)
        self._rows, self._amounts, self._owner = running.rows, running.amounts, running.owner
        self._ends_s = self._ends(running.since_s, running.length_s)[running.owner]
        self._believed = np.array([snapshot.gangs[key].believed for key in running.gangs], np.bool_)[running.owner]
        self._added: list[tuple[NDArray[Any], ...]] = []  # More of these five, gang by gang
        starts = {key: commitment.assignment for key, commitment in snapshot.commitments.items()}
        for key, members in {**starts, **{admission.gang: admission.members for admission in admissions}}.items():
            if key in snapshot.gangs:
                self.add(snapshot.gangs[key], members)

    def add(self, gang: Gang, members: Mapping[PodUid, NodeName]) -> tuple[Ints, Ints, Floats]:
        """The pending members of a gang start on these nodes; gives the new entries: rows, amounts, ends."""
        rows, amounts = self._run.table.footprint(gang.pending if gang.length_s is not None else (), members)
        if gang.length_s is None or not len(rows):
            return rows, amounts, self._ends_s[:0]
        since_s = running_since_s(gang)
        ends_s = self._ends(np.array([self.now_s if since_s is None else since_s]), np.array([gang.length_s]))
        ends_s = ends_s.repeat(len(rows))
        owner, believed = np.full(len(rows), len(self._gangs)), np.full(len(rows), gang.believed)
        self._added.append((rows, amounts, owner, ends_s, believed))
        self._gangs.append(gang.key)
        return rows, amounts, ends_s

    def freed_before(self, before_s: float, *, believed: bool = False) -> Ints:
        """What comes free on all nodes before this moment (for sure); (nodes, resources). Cost: O(nodes + entries)."""
        self._take_in()
        total = np.zeros_like(self._run.capacity.start)
        some = self._ends_s < before_s
        if believed:
            some &= self._believed
        scatter_add(total, self._rows[some], self._amounts[some])
        return total

    def over(self, rows: Ints) -> tuple[Ints, Ints, Floats]:
        """Entries on `rows`, ascending: places among them, amounts, ends; in the order of their ends."""
        place, entries = self._on(rows)
        order = np.argsort(self._ends_s[entries], kind="stable")
        entries = entries[order]
        return place[order], self._amounts[entries], self._ends_s[entries]

    def ends_before(self, rows: Ints, until_s: float) -> tuple[GangKey | None, frozenset[GangKey]]:
        """The gang whose end on these rows is the last up to this moment, and all that surely end by then."""
        _, some = self._on(rows)
        some = some[self._ends_s[some] <= until_s]
        ends_s = self._ends_s[some]
        last, sure = some[ends_s == ends_s.max(initial=-np.inf)], some[self._believed[some]]
        names, all_sure = ({self._gangs[number] for number in self._owner[at].tolist()} for at in (last, sure))
        return min(names, default=None), frozenset(all_sure)

    def _take_in(self) -> None:
        """Put what was added among the rest. Many gangs may be added before anything is looked up again."""
        if not self._added:
            return
        before = self._rows, self._amounts, self._owner, self._ends_s, self._believed
        entries = [np.concatenate(parts) for parts in zip(before, *self._added, strict=True)]
        by_row = np.argsort(entries[0], kind="stable")
        self._rows, self._amounts, self._owner, self._ends_s, self._believed = (part[by_row] for part in entries)
        self._added.clear()

    def _on(self, rows: Ints) -> tuple[Ints, Ints]:
        """The entries on `rows`: places of their rows among these, and which entries. Cost: O(rows · log entries)."""
        self._take_in()
        begins = np.searchsorted(self._rows, rows, side="left")
        counts = np.searchsorted(self._rows, rows, side="right") - begins
        place = np.repeat(np.arange(len(rows)), counts)
        return place, np.arange(len(place)) + (begins - np.cumsum(counts) + counts)[place]

    def _ends(self, since_s: Floats, length_s: Floats) -> Floats:
        """(gangs,): the ends of gangs that run since then (NaN: it is not known)."""
        ran_s = np.where(np.isnan(since_s), 0.0, self.now_s - since_s)
        return np.asarray(np.round(self.now_s + remaining_s(length_s, ran_s), 3), np.float64)


class Promised(msgspec.Struct, frozen=True):
    """Room that a gang is promised: for it alone from `start_s` to `end_s`."""

    rows: Ints  # (k,), ascending
    counts: Ints  # (classes, k): members
    amounts: Ints  # (k, resources): what they ask for, or more
    start_s: float
    end_s: float

    def used(self) -> "Promised | None":
        """The same on the rows of which it has something; `None`: it asks for nothing that is counted."""
        used = np.flatnonzero(self.amounts.any(axis=1))
        rows, counts, amounts = self.rows[used], self.counts[:, used], self.amounts[used]
        return replace(self, rows=rows, counts=counts, amounts=amounts) if len(used) else None

    def on(self, rows: Ints) -> Ints | None:
        """The amounts on other rows, ascending; (rows, resources). `None`: none are there."""
        if not len(rows) or not len(self.rows) or rows[-1] < self.rows[0] or rows[0] > self.rows[-1]:
            return None
        place = np.minimum(np.searchsorted(rows, self.rows), len(rows) - 1)
        some = rows[place] == self.rows
        if not some.any():
            return None
        amounts = np.zeros((len(rows), self.amounts.shape[1]), np.int64)
        amounts[place[some]] = self.amounts[some]
        return amounts


def earliest(
    run: Run,
    kind: MemberSet,
    rows: Ints,
    endings: Endings,
    promised: Sequence[Promised] = (),
    *,
    runs_s: float = float("inf"),
    before_s: float = float("inf"),
) -> Promised | None:
    """The first moment with room for all members on `rows` (k,), ascending; `None`: there is none before `before_s`.

    `runs_s`: how long the gang would run. Cost: O(log ends · k), and O(promises · k) for each moment beside these.
    """
    demand, free = at_rows(run.capacity.demand(kind, When.AT_START), rows), run.capacity.room.free[rows]
    place, amounts, ends_s = endings.over(rows)
    beside = [(promise, there) for promise in promised if (there := promise.on(rows)) is not None]
    now_s = endings.now_s
    moments = np.unique(np.concatenate([[now_s], np.maximum(ends_s, now_s), [promise.end_s for promise, _ in beside]]))
    at_s = moments[(moments >= now_s) & (moments < before_s)].tolist()

    def room(number: int) -> Ints:
        """(k, resources) at a moment, if nothing is promised to others."""
        until = int(np.searchsorted(ends_s, at_s[number], side="right"))
        total = free.copy()
        scatter_add(total, place[:until], amounts[:until])
        return total

    if not at_s or _fit(demand, room(len(at_s) - 1)) is None:
        return None
    low = bisect_left(range(len(at_s) - 1), True, key=lambda number: _fit(demand, room(number)) is not None)
    for number in range(low, min(len(at_s), low + _MOST_TRIES)):
        begin_s, left = at_s[number], room(number)
        for promise, there in beside:
            if promise.start_s < begin_s + runs_s and promise.end_s > begin_s:
                left -= there
        if (counts := _fit(demand, left)) is not None:
            return Promised(rows, counts, _amounts(demand, counts), begin_s, begin_s + runs_s)
    return None


def _amounts(demand: Demand, counts: Ints) -> Ints:
    """What members by class and row take; (rows, resources)."""
    return np.asarray(sum(counts[c][:, None] * part.request for c, part in enumerate(demand.classes)))


def _fit(demand: Demand, free: Ints) -> Ints | None:
    """Members by class and row; `None`: there is no room. Counting comes first, as it is quick."""
    if any(int(rooms(part, free).sum()) < part.count for part in demand.classes):
        return None
    return fit(demand, free)


def promised_start(
    run: Run, demand: GangDemand, endings: Endings, before: Reservation | None
) -> tuple[Reservation, Promised] | None:
    """When and where one gang can start at the earliest, and the room for it. Cost: O(nodes + ends) a zone.

    The nodes of the promise `before`, if there is one, are kept, unless another zone is sooner than was promised first.
    One count over all nodes shows which zones can be sooner at all; only in these the moment is searched.
    """
    kind, table = kind_of(run, demand), run.table
    if not kind.classes:
        return None
    former: Promised | None = None
    first_s, limit_s = float("nan"), float("inf")
    if before is not None and before.zones[0] in kind.allowed:
        rows = np.array(sorted({table.index[name] for name in before.nodes if name in table.index}), np.int64)
        if len(rows) and (former := earliest(run, kind, rows, endings)) is not None:
            first_s = before.first_s
            limit_s = min(former.start_s, float(np.nextafter(first_s, np.inf)))
    best = former
    for zone in _likely(run, kind, endings, limit_s):
        if (room := earliest(run, kind, table.zones[zone], endings, before_s=limit_s)) is not None:
            best, limit_s = room, room.start_s
    if best is not None and best is former and best.start_s > first_s + _ROUNDING_S:
        # It is late: all that the members could take there is kept. Fewer of its nodes, or other places on them, may do
        # at last, and what others were given of the rest would make it later when that moment is late as well.
        sizes, over = table.allocatable[best.rows], at_rows(run.capacity.demand(kind, When.AT_START), best.rows)
        most = np.minimum(_amounts(over, np.stack([rooms(part, sizes) for part in over.classes])), sizes)
        best = replace(best, amounts=most)
    at = best.used() if best is not None else None
    if at is None:
        return None
    first_s = first_s if former is not None else at.start_s
    nodes, assignment = tuple(table.names[row] for row in at.rows.tolist()), dict[PodUid, NodeName]()
    after, ending = endings.ends_before(at.rows, at.start_s)
    for (_, pods), counts in zip(demand.need, at.counts, strict=True):
        assignment.update(zip((pod.uid for pod in pods), np.repeat(nodes, counts).tolist(), strict=True))
    promise = Reservation(
        demand.gang.key,
        assignment,
        zones=run.view.zones_of(nodes[:1]),
        nodes=frozenset(nodes),
        start_s=at.start_s,
        first_s=first_s,
        after=after,
        ending=ending,
    )
    return promise, replace(at, start_s=min(at.start_s, first_s))


def _likely(run: Run, kind: MemberSet, endings: Endings, before_s: float) -> list[ZoneName]:
    """The allowed zones with room before this moment, as far as counting shows."""
    free, able = run.capacity.room.free + endings.freed_before(before_s), np.ones(len(run.zones), np.bool_)
    for part in run.capacity.demand(kind, When.AT_START).classes:
        able &= run.view.by_zone(rooms(part, free)) >= part.count
    return [zone for zone, at in zip(kind.allowed, kind.columns, strict=True) if able[at]]


def expected_starts(
    snapshot: Snapshot, plan: Plan, policy: Policy, *, now_s: float, cache: PlannerCache | None = None
) -> dict[GangKey, ExpectedStart]:
    """Of each gang that waits in `plan`, in its order; a step is a gang in a zone. Empty if no gang has a length.

    `plan` was made from `snapshot`. Cost: O(gangs), and O(zones · nodes of a zone · log ends) for each looked at.
    """
    ends_are_known = any(gang.length_s is not None for gang in snapshot.gangs.values())
    if not (plan.waiting and policy.queue.backfill and ends_are_known):
        return {}
    forward = _Forward(snapshot, plan, policy, cache or PlannerCache(), now_s=now_s)
    in_order = sorted(plan.waiting.values(), key=lambda waiting: waiting.rank)
    return {waiting.gang: forward.start(waiting) for waiting in in_order}


class _Forward:
    def __init__(self, snapshot: Snapshot, plan: Plan, policy: Policy, cache: PlannerCache, *, now_s: float) -> None:
        cache.keep_only(snapshot.gangs)
        self._run: Run = begin_run(snapshot, policy, cache)
        self._plan, self._now_s = plan, now_s
        take_commitments(self._run)
        take_admissions(self._run, plan.admitted.values())
        self._endings = Endings(self._run, plan.admitted.values(), now_s=now_s)
        self._ahead: list[tuple[GangKey, Promised]] = []  # Gangs that wait, and the room that each then has
        self._looked_at = 0
        self._ahead_unknown: GangKey | None = None  # The first gang ahead that never ends
        self._promised = plan.promise.gang if plan.promise is not None else None
        self._reserving = next(iter(plan.reservations), None)

    def start(self, waiting: Waiting) -> ExpectedStart:
        """When the gang starts."""
        key, gang = waiting.gang, self._run.snapshot.gangs.get(waiting.gang)
        if waiting.reason in (Reason.IMPOSSIBLE, Reason.NO_ALLOWED_ZONE):
            return ExpectedStart(unknown=Unknown.NEVER)
        if waiting.reason not in WANTS_ROOM | {Reason.RESERVED} or gang is None:
            return ExpectedStart(unknown=Unknown.NOT_FOR_ROOM)
        if self._looked_at >= MOST:
            return ExpectedStart(unknown=Unknown.FAR)
        demand = self._run.view.demand(gang)
        self._looked_at += 1
        if not demand.need or demand.siblings:
            return ExpectedStart(unknown=Unknown.NOT_FOR_ROOM)
        if self._reserving not in (None, key) and key != self._promised:
            return ExpectedStart(unknown=Unknown.RESERVED, after=self._reserving)
        expected = self._earliest(demand)
        if expected is None:
            return self._in_the_way(demand)
        after = None  # The gang whose end on these rows is the last before the start: one that waits now, or runs
        if expected.start_s > self._now_s:
            ends_s, rows = expected.start_s, expected.rows
            ahead = (gang for gang, room in self._ahead if room.end_s == ends_s and room.on(rows) is not None)
            after = next(ahead, None) or self._endings.ends_before(expected.rows, expected.start_s)[0]
        self._ahead.append((key, expected))
        if demand.gang.length_s is None and self._ahead_unknown is None:
            self._ahead_unknown = key
        return ExpectedStart(expected.start_s, after, promised=key == self._promised)

    def _earliest(self, demand: GangDemand) -> Promised | None:
        """The room that it has first, from its start to its end: on the promised nodes, else in any of its zones."""
        run, promise, length_s = self._run, self._plan.promise, demand.gang.length_s
        kind, ahead = kind_of(run, demand), [room for _, room in self._ahead]
        places = [run.table.zones[zone] for zone in kind.allowed]
        if promise is not None and promise.gang == demand.gang.key:
            index = run.table.index
            places = [np.array(sorted(index[name] for name in promise.nodes if name in index), np.int64)]
        best: Promised | None = None
        runs_s = float("inf") if length_s is None else length_s
        for rows in places:
            before_s = best.start_s if best is not None else float("inf")
            expected = earliest(run, kind, rows, self._endings, ahead, runs_s=runs_s, before_s=before_s)
            best = (expected.used() if expected is not None else None) or best
        return best

    def _in_the_way(self, demand: GangDemand) -> ExpectedStart:
        """Which gang never ends, as far as is known: one that runs in the zones it may use, or waits ahead of it."""
        run, key = self._run, demand.gang.key
        zones = set(kind_of(run, demand).allowed)
        for other in sorted(run.snapshot.gangs.values(), key=lambda gang: gang.key):
            if other.length_s is None and other.key != key:
                admission = self._plan.admitted.get(other.key)
                nodes = [pod.node for pod in other.members if pod.node is not None and not pod.terminal]
                there = {*run.view.zones_of(nodes), *(admission.zones if admission is not None else ())}
                if there & zones:
                    return ExpectedStart(unknown=Unknown.LENGTH, after=other.key)
        if self._ahead_unknown is not None:
            return ExpectedStart(unknown=Unknown.LENGTH, after=self._ahead_unknown)
        return ExpectedStart(unknown=Unknown.OTHERS)
