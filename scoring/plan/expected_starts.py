"""When each waiting gang is expected to start: the queue played forward over the ends of what runs.

Why beside the plan's promise: one gang has that, and this is said of many, and decides nothing.

Gang by gang, in the order of the plan: the earliest moment with room for its minimum in one zone, beside those ahead,
which then take it for as long as they run. The promised gang has its promised nodes.

Rules: what is not known is said, with the reason, and is never a made-up time. A gang of unknown length never ends
here. At most `MOST` gangs are looked at.
"""

from enum import StrEnum
from typing import Final

import msgspec
import numpy as np

from scoring.ids import GangKey, ZoneName
from scoring.model import Gang, Reason, Snapshot
from scoring.model.policy import Policy
from scoring.network.matrix import Ints
from scoring.plan.backfill.earliest import Promised, amounts_of, demand_over, earliest
from scoring.plan.backfill.endings import Endings
from scoring.plan.backfill.start_search import classes_of
from scoring.plan.cache import PlannerCache
from scoring.plan.demand import GangDemand
from scoring.plan.result import Plan, Waiting
from scoring.plan.run import Run, begin_run, take_admissions, take_commitments
from scoring.plan.starvation_reservations import WANTS_ROOM
from scoring.plan.zone_order import kind_of
from scoring.selection import ClassDemand

MOST: Final = 64
"""Gangs in the order of the queue; of those behind them it is not known"""
_FOR_ROOM: Final = WANTS_ROOM | {Reason.RESERVED}
_NEVER: Final = frozenset({Reason.IMPOSSIBLE, Reason.NO_ALLOWED_ZONE})


class Unknown(StrEnum):
    """Why it is not known when a gang starts; the sentences are in `scoring.explain.words`."""

    NEVER = "NEVER"
    NOT_FOR_ROOM = "NOT_FOR_ROOM"
    LENGTH = "LENGTH"
    RESERVED = "RESERVED"
    OTHERS = "OTHERS"
    FAR = "FAR"


class ExpectedStart(msgspec.Struct, frozen=True):
    """When a gang is expected to start, or why that is not known."""

    start_s: float | None = None  # Unix seconds; null: it is not known.
    after: GangKey | None = None
    """The gang whose end it waits for last; where nothing is known, the gang that is in the way."""
    promised: bool = False  # The plan has promised it a start: gangs that come later do not delay it.
    unknown: str | None = None  # NEVER, NOT_FOR_ROOM, LENGTH, RESERVED, OTHERS or FAR (docs/explanation/queue.md).
    text: str = ""  # The same as a sentence.


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
            return ExpectedStart(unknown=Unknown.NEVER)
        if waiting.reason not in _FOR_ROOM or waiting.gang not in self._run.snapshot.gangs:
            return ExpectedStart(unknown=Unknown.NOT_FOR_ROOM)
        if self._looked_at >= MOST:
            return ExpectedStart(unknown=Unknown.FAR)
        return None

    def start(self, key: GangKey) -> ExpectedStart:
        """When the gang starts."""
        run, demand = self._run, self._run.view.demand(self._run.snapshot.gangs[key])
        self._looked_at += 1
        classes = classes_of(run, demand)
        if not demand.need or demand.siblings:
            return ExpectedStart(unknown=Unknown.NOT_FOR_ROOM)
        if self._reserving not in (None, key) and key != self._promised:
            return ExpectedStart(unknown=Unknown.RESERVED, after=self._reserving)
        found = self._earliest(demand, classes)
        if found is None:
            return self._in_the_way(demand)
        after = self._after(found.rows, found.start_s)
        self._ahead.append((key, found))
        if demand.gang.length_s is None and self._ahead_unknown is None:
            self._ahead_unknown = key
        return ExpectedStart(found.start_s, after, promised=key == self._promised)

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
                return ExpectedStart(unknown=Unknown.LENGTH, after=other.key)
        if self._ahead_unknown is not None:
            return ExpectedStart(unknown=Unknown.LENGTH, after=self._ahead_unknown)
        return ExpectedStart(unknown=Unknown.OTHERS)

    def _zones_of(self, gang: Gang) -> set[ZoneName]:
        """Where it runs, or is about to."""
        table, admission = self._run.table, self._plan.admitted.get(gang.key)
        nodes = {pod.node for pod in gang.members if pod.node is not None and not pod.terminal}
        rows = [table.index[node] for node in nodes if node in table.index]
        return {table.nodes[row].zone for row in rows} | set(admission.zones if admission is not None else ())
