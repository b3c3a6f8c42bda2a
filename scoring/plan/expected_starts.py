"""When a gang that waits can start, by the ends of what runs: one that is promised a start, and all, as people see it.

The earliest moment at which a gang has room for all members of its minimum on some nodes: room only comes free as gangs
end, so it is found by halving. Room that is promised to others while the gang would run counts as taken for all of that
time; then later moments are looked at too.

`expected_starts` plays the queue forward: gang by gang, in the order of the plan, the earliest moment with room for its
minimum in one zone, beside those ahead, which then take it for as long as they run. The promised gang has its promised
nodes. Why beside the plan's promise: one gang has that, and this is said of many, and decides nothing. Rules: what is
not known is said, with the reason, and is never a made-up time. A gang of unknown length never ends here. At most
`MOST` gangs are looked at.
"""

from collections.abc import Iterable, Sequence
from enum import StrEnum
from typing import Final

import msgspec
import numpy as np

from scoring.feasibility.room import scatter_add
from scoring.ids import GangKey, ZoneName
from scoring.model import Gang, Reason, Snapshot
from scoring.model.policy import Policy
from scoring.network.matrix import Ints
from scoring.plan.cache import PlannerCache
from scoring.plan.capacity import When
from scoring.plan.demand import GangDemand
from scoring.plan.endings import ROUNDING_S, Endings
from scoring.plan.placement import kind_of
from scoring.plan.result import WANTS_ROOM, Plan, Reservation, Waiting
from scoring.plan.run import Run, begin_run, take_admissions, take_commitments
from scoring.selection.demand import ClassDemand, Demand, rooms
from scoring.selection.greedy import fit

MOST: Final = 64
"""Gangs in the order of the queue; of those behind them it is not known"""
_FOR_ROOM: Final = WANTS_ROOM | {Reason.RESERVED}
_NEVER: Final = frozenset({Reason.IMPOSSIBLE, Reason.NO_ALLOWED_ZONE})
_MOST_TRIES: Final = 64
"""Moments that are looked at beside promises to others"""


class Promised(msgspec.Struct):
    """Room that a gang is promised: for it alone from `start_s` to `end_s`."""

    rows: Ints
    """(k,), ascending"""
    amounts: Ints
    """(k, resources)"""
    start_s: float
    end_s: float

    def on(self, rows: Ints) -> Ints | None:
        """The amounts on other rows, ascending; (rows, resources). `None`: none are there."""
        if not len(rows) or not len(self.rows) or rows[-1] < self.rows[0] or rows[0] > self.rows[-1]:
            return None
        place = np.minimum(np.searchsorted(rows, self.rows), len(rows) - 1)
        some = rows[place] == self.rows
        if not some.any():
            return None
        found = np.zeros((len(rows), self.amounts.shape[1]), np.int64)
        found[place[some]] = self.amounts[some]
        return found


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
) -> tuple[float, Ints] | None:
    """The moment, Unix seconds, and the members by class and row (classes, k); `None`: none before `before_s`.

    `rows` (k,), ascending, with room `free` (k, resources) now; `demand` is over these rows; `runs_s`: how long the
    gang would run. Cost: O(log ends · k), and O(promises · k) for each moment beside these.
    """
    place, amounts, ends_s = endings.over(rows)
    beside = [(one, there) for one in promised if (there := one.on(rows)) is not None]
    moments = np.unique(np.concatenate([[now_s], np.maximum(ends_s, now_s), [one.end_s for one, _ in beside]]))
    at_s = moments[(moments >= now_s) & (moments < before_s)].tolist()

    def room(number: int) -> Ints:
        """(k, resources) at a moment, if nothing is promised to others."""
        until = int(np.searchsorted(ends_s, at_s[number], side="right"))
        total = free.copy()
        scatter_add(total, place[:until], amounts[:until])
        return total

    if not at_s or _fit(demand, room(len(at_s) - 1)) is None:
        return None
    low, high = 0, len(at_s) - 1
    while low < high:
        middle = (low + high) // 2
        if _fit(demand, room(middle)) is None:
            low = middle + 1
        else:
            high = middle
    for number in range(low, min(len(at_s), low + _MOST_TRIES)):
        begin_s, left = at_s[number], room(number)
        for one, there in beside:
            if one.start_s < begin_s + runs_s and one.end_s > begin_s:
                left -= there
        if (found := _fit(demand, left)) is not None:
            return begin_s, found
    return None


def amounts_of(demand: Demand, counts: Ints) -> Ints:
    """What members by class and row take; (rows, resources)."""
    return np.asarray(sum(counts[c][:, None] * one.request for c, one in enumerate(demand.classes)))


def _fit(demand: Demand, free: Ints) -> Ints | None:
    """Members by class and row; `None`: there is no room. Counting comes first, as it is quick."""
    if any(int(rooms(one, free).sum()) < one.count for one in demand.classes):
        return None
    return fit(demand, free)


def demand_over(classes: Iterable[ClassDemand], rows: Ints, all_reduce: bool) -> Demand:
    """The demand with its classes' allowed nodes cut to `rows`."""
    cut = [ClassDemand(one.role, one.request, one.allowed[rows], one.count) for one in classes]
    return Demand(tuple(cut), all_reduce)


def classes_of(run: Run, demand: GangDemand) -> tuple[ClassDemand, ...]:
    """Classes of the gang's minimum over all nodes."""
    return tuple(
        ClassDemand(one.role, run.view.vector(one), run.capacity.mask(one, When.AT_START), len(pods))
        for one, pods in demand.need
    )


class StartSearch:
    """When and where one gang can start at the earliest, and the nodes for it there.

    The nodes of the promise before are kept, unless another zone is sooner than was promised first. One count over all
    nodes shows which zones can be sooner at all; only in these the moment is searched (`earliest`).
    """

    def __init__(self, run: Run, endings: Endings, demand: GangDemand, *, now_s: float) -> None:
        self._run, self._endings, self._demand, self._now_s = run, endings, demand, now_s
        self._classes = classes_of(run, demand)

    def find(self, before: Reservation | None) -> tuple[Reservation, Promised] | None:
        """The promise, and the room for it; `before`: the one before, if there is any. Cost: O(nodes + ends) a zone."""
        if not self._classes:
            return None
        run, allowed = self._run, kind_of(self._run, self._demand).allowed
        best: tuple[float, Ints, Ints] | None = None  # start, rows, amounts
        first_s = None
        if before is not None and before.zones[0] in allowed:
            rows = np.array(sorted({run.table.index[name] for name in before.nodes if name in run.table.index}), int)
            if len(rows):
                best = self._earliest(rows)
                first_s = before.first_s if best is not None else None
        kept = best
        limit_s = float("inf") if best is None or first_s is None else min(best[0], np.nextafter(first_s, np.inf))
        zones = self._likely(allowed, limit_s)
        while zones:
            found = self._earliest(run.table.zones[zones.pop(0)], before_s=limit_s)
            if found is not None:
                best, limit_s = found, found[0]
                sooner = self._likely(allowed, limit_s)
                zones = [zone for zone in zones if zone in sooner]
        if best is None:
            return None
        start_s, rows, amounts = best
        if best is kept and first_s is not None and start_s > first_s + ROUNDING_S:
            amounts = self._most(rows)
        used = np.flatnonzero(amounts.any(axis=1))
        if not len(used):
            return None  # it asks for nothing that is counted
        return self._promise(start_s, rows[used], amounts[used], start_s if first_s is None else first_s)

    def _most(self, rows: Ints) -> Ints:
        """All that the members could take on each of these nodes: what is kept of them while the promise is late.

        Why: as it is late, fewer of its nodes or other places on them may do at last, and what others were given of the
        rest would make it later when that moment is late as well.
        """
        sizes, over = self._run.table.allocatable[rows], demand_over(self._classes, rows, self._demand.all_reduce)
        return np.minimum(amounts_of(over, np.stack([rooms(one, sizes) for one in over.classes])), sizes)

    def _promise(self, start_s: float, rows: Ints, amounts: Ints, first_s: float) -> tuple[Reservation, Promised]:
        run, length_s = self._run, self._demand.gang.length_s
        nodes = tuple(run.table.names[row] for row in rows.tolist())
        zones, after = run.view.zones_of(nodes[:1]), self._endings.last_before(rows, start_s)
        promise = Reservation(self._demand.gang.key, zones, nodes, start_s, first_s, after)
        ends_s = float("inf") if length_s is None else start_s + length_s
        return promise, Promised(rows, amounts, min(start_s, first_s), ends_s)

    def _likely(self, allowed: Sequence[ZoneName], before_s: float) -> list[ZoneName]:
        """The zones with room before this moment, as far as counting shows."""
        run = self._run
        free, able = run.capacity.room.free + self._endings.freed_before(before_s), np.ones(len(run.zones), np.bool_)
        for one in self._classes:
            sums = np.bincount(run.view.zone_number, weights=rooms(one, free), minlength=len(run.zones))
            able &= sums >= one.count
        return [zone for zone, at in zip(allowed, run.view.columns(tuple(allowed)), strict=True) if able[at]]

    def _earliest(self, rows: Ints, *, before_s: float = float("inf")) -> tuple[float, Ints, Ints] | None:
        over, free = demand_over(self._classes, rows, self._demand.all_reduce), self._run.capacity.room.free[rows]
        found = earliest(over, rows, free, self._endings, now_s=self._now_s, before_s=before_s)
        return None if found is None else (found[0], rows, amounts_of(over, found[1]))


# -- of all gangs that wait --------------------------------------------------------------------------------------------


class Unknown(StrEnum):
    """Why it is not known when a gang starts."""

    NEVER = "it would not fit the empty cluster"
    NOT_FOR_ROOM = "it does not wait for the end of other gangs"
    LENGTH = "how long a gang that is in its way runs is not known"
    RESERVED = "room is reserved for a gang of which it is not known when it starts"
    OTHERS = "the room that it needs is not held by gangs whose end is known"
    FAR = "too many gangs wait before it"


class ExpectedStart(msgspec.Struct, frozen=True):
    """When gang `gang` is expected to start, or why that is not known."""

    gang: GangKey
    start_s: float | None = None
    """Unix seconds; `None`: not known"""
    after: GangKey | None = None
    """The gang whose end it waits for last; of a start that is not known the gang that is in the way"""
    promised: bool = False
    """The plan has promised it a start: later arrivals do not delay it."""
    unknown: Unknown | None = None
    """Why it is not known"""


def expected_starts(
    snapshot: Snapshot, plan: Plan, policy: Policy, *, now_s: float, cache: PlannerCache | None = None
) -> dict[GangKey, ExpectedStart]:
    """Of each gang that waits in `plan`, in its order; a step is a gang in a zone. Empty if no gang has a length.

    `plan` was made from `snapshot`. Cost: O(gangs), and for each gang that is looked at O(zones · nodes of a zone · log
    ends).
    """
    ends_are_known = any(gang.length_s is not None for gang in snapshot.gangs.values())
    if not (plan.waiting and policy.queue.backfill and ends_are_known):
        return {}
    forward = _Forward(snapshot, plan, policy, cache or PlannerCache(), now_s=now_s)
    forward.endings.read(plan.admitted.values())
    found: dict[GangKey, ExpectedStart] = {}
    for one in sorted(plan.waiting.values(), key=lambda one: one.rank):
        why_not = forward.not_looked_at(one)
        found[one.gang] = forward.start(one.gang) if why_not is None else why_not
    return found


class _Forward:
    def __init__(self, snapshot: Snapshot, plan: Plan, policy: Policy, cache: PlannerCache, *, now_s: float) -> None:
        cache.keep_only(snapshot.gangs)
        self._run: Run = begin_run(snapshot, policy, cache)
        self._plan, self._now_s = plan, now_s
        take_commitments(self._run)
        take_admissions(self._run, plan.admitted.values())
        self.endings = Endings(self._run, now_s=now_s)
        self._ahead: list[tuple[GangKey, Promised]] = []
        """Gangs that wait, and the room that each then has"""
        self._looked_at = 0
        self._ahead_unknown: GangKey | None = None
        """The first gang ahead that never ends"""
        promise = plan.promise
        self._promised = promise.gang if promise is not None else None
        self._reserving = next((key for key in plan.reservations if key != self._promised), None)

    def not_looked_at(self, waiting: Waiting) -> ExpectedStart | None:
        """Why it is not tried; `None`: it is."""
        if waiting.reason in _NEVER:
            return ExpectedStart(waiting.gang, unknown=Unknown.NEVER)
        if waiting.reason not in _FOR_ROOM or waiting.gang not in self._run.snapshot.gangs:
            return ExpectedStart(waiting.gang, unknown=Unknown.NOT_FOR_ROOM)
        if self._looked_at >= MOST:
            return ExpectedStart(waiting.gang, unknown=Unknown.FAR)
        return None

    def start(self, key: GangKey) -> ExpectedStart:
        """When the gang starts."""
        run, demand = self._run, self._run.view.demand(self._run.snapshot.gangs[key])
        self._looked_at += 1
        classes = classes_of(run, demand)
        if not demand.need or demand.siblings:
            return ExpectedStart(key, unknown=Unknown.NOT_FOR_ROOM)
        if self._reserving not in (None, key) and key != self._promised:
            return ExpectedStart(key, unknown=Unknown.RESERVED, after=self._reserving)
        found = self._earliest(demand, classes)
        if found is None:
            return self._in_the_way(demand)
        after = self._after(found.rows, found.start_s)
        self._ahead.append((key, found))
        if demand.gang.length_s is None and self._ahead_unknown is None:
            self._ahead_unknown = key
        return ExpectedStart(key, found.start_s, after, promised=key == self._promised)

    def _earliest(self, demand: GangDemand, classes: tuple[ClassDemand, ...]) -> Promised | None:
        """The room that it has first, from its start to its end: on the promised nodes, else in any of its zones."""
        run, promise, length_s = self._run, self._plan.promise, demand.gang.length_s
        runs_s = float("inf") if length_s is None else length_s
        places = [run.table.zones[zone] for zone in kind_of(run, demand).allowed]
        if promise is not None and promise.gang == demand.gang.key:
            index = run.table.index
            places = [np.array(sorted(index[name] for name in promise.nodes if name in index), np.int64)]
        best: Promised | None = None
        for rows in places:
            over = demand_over(classes, rows, demand.all_reduce)
            found = earliest(
                over,
                rows,
                run.capacity.room.free[rows],
                self.endings,
                [room for _, room in self._ahead],
                now_s=self._now_s,
                runs_s=runs_s,
                before_s=best.start_s if best is not None else float("inf"),
            )
            if found is not None:
                amounts = amounts_of(over, found[1])
                used = np.flatnonzero(amounts.any(axis=1))
                if len(used):
                    best = Promised(rows[used], amounts[used], found[0], found[0] + runs_s)
        return best

    def _after(self, rows: Ints, start_s: float) -> GangKey | None:
        """The gang whose end on these rows is the last before the start: one that waits now, or one that runs."""
        if start_s <= self._now_s:
            return None
        for gang, room in self._ahead:
            if room.end_s == start_s and np.isin(room.rows, rows).any():
                return gang
        return self.endings.last_before(rows, start_s)

    def _in_the_way(self, demand: GangDemand) -> ExpectedStart:
        """Which gang never ends, as far as is known: one that runs in the zones it may use, or waits ahead of it."""
        run, key = self._run, demand.gang.key
        zones = set(kind_of(run, demand).allowed)
        for other in sorted(run.snapshot.gangs.values(), key=lambda one: one.key):
            if other.length_s is None and other.key != key and self._zones_of(other) & zones:
                return ExpectedStart(key, unknown=Unknown.LENGTH, after=other.key)
        if self._ahead_unknown is not None:
            return ExpectedStart(key, unknown=Unknown.LENGTH, after=self._ahead_unknown)
        return ExpectedStart(key, unknown=Unknown.OTHERS)

    def _zones_of(self, gang: Gang) -> set[ZoneName]:
        """Where it runs, or is about to."""
        table, admission = self._run.table, self._plan.admitted.get(gang.key)
        nodes = {pod.node for pod in gang.members if pod.node is not None and not pod.terminal}
        rows = [table.index[node] for node in nodes if node in table.index]
        return {table.nodes[row].zone for row in rows} | set(admission.zones if admission is not None else ())
