"""When each waiting gang is expected to start: the queue played forward over the ends of what runs.

Why beside the plan's promises: a promise is what others must not take from a gang, so few gangs have one and it takes
late ends; this decides nothing, is said of many gangs, and is as often too early as too late.

Steps:
1. What is free now: less commitments, and what the plan admits.
2. Ends of what runs, in three courses of things: each gang ends at its median, early (10 %), or late (90 %).
3. Gang by gang, in the order of the plan: the earliest moment with room for its minimum in one zone, beside those
   ahead, which then take it for as long as they run. Once in each course: the middle and both ends of an interval.
4. The ends are moved by what earlier intervals were worth (`interval`).

Rules: what is not known is said, with the reason, and is never a made-up time. A gang of unknown length never ends
here. At most `MOST` gangs are looked at.
"""

from dataclasses import dataclass, field, replace
from typing import Final, TypeAlias

import numpy as np

from scoring.ids import GangKey, ZoneName
from scoring.model import Gang, Reason, Snapshot
from scoring.model.policy import Backfill, Policy
from scoring.network.matrix import Ints
from scoring.plan.backfill.earliest import Promised, amounts_of, demand_over, earliest
from scoring.plan.backfill.endings import Endings
from scoring.plan.backfill.start_search import classes_of
from scoring.plan.cache import PlannerCache
from scoring.plan.demand import GangDemand
from scoring.plan.expected.interval import Calibration
from scoring.plan.expected.outlived import with_outlived
from scoring.plan.expected.result import AnyStart, ExpectedStart, NotKnown, Unknown
from scoring.plan.planner import begin_run, take_admissions, take_commitments
from scoring.plan.result import Plan, Waiting
from scoring.plan.run import Run
from scoring.plan.starvation_reservations import WANTS_ROOM
from scoring.plan.steps import Steps, at_once
from scoring.plan.zone_order import kind_of
from scoring.selection import ClassDemand

MOST: Final = 64
"""Gangs in the order of the queue; of those behind them it is not known"""
_LEVELS: Final = (0.5, 0.1, 0.9)
"""Share of runs that have ended, in each course of things, in the order of `Endings.freed`"""
_FOR_ROOM: Final = WANTS_ROOM | {Reason.RESERVED}
_NEVER: Final = frozenset({Reason.IMPOSSIBLE, Reason.NO_ALLOWED_ZONE})

_Place: TypeAlias = tuple[float, Ints, Ints]
"""When, on which rows, and what is taken there"""


@dataclass(slots=True)
class _Course:
    """One course of things: which waiting gang has which room, from when to when."""

    which: int
    promised: list[Promised] = field(default_factory=list)
    gangs: list[GangKey] = field(default_factory=list)


def expected_starts_in_steps(
    snapshot: Snapshot,
    plan: Plan,
    policy: Policy,
    *,
    now_s: float,
    calibration: Calibration | None = None,
    cache: PlannerCache | None = None,
) -> Steps[dict[GangKey, AnyStart]]:
    """Of each gang that waits in `plan`, in its order; a step is a gang in a zone, in one course of things.

    `plan` was made from `snapshot`. Cost: O(gangs), and for each gang that is looked at O(zones · nodes of a zone · log
    ends), three times.
    """
    waiting = sorted(plan.waiting.values(), key=lambda one: one.rank)
    if policy.queue.backfill is Backfill.NONE:
        return {one.gang: NotKnown(one.gang, Unknown.OFF) for one in waiting}
    if not waiting:
        return {}
    forward = _Forward(with_outlived(snapshot, now_s), plan, policy, cache or PlannerCache(), now_s=now_s)
    yield from forward.endings.read(plan.admitted)
    scales = (calibration or Calibration()).scales
    found: dict[GangKey, AnyStart] = {}
    for one in waiting:
        if (why_not := forward.not_looked_at(one)) is not None:
            found[one.gang] = why_not
            continue
        start = yield from forward.start(one.gang)
        if isinstance(start, ExpectedStart):
            scale = scales[start.promised]
            low_s, high_s = scale.interval(start.low_s, start.start_s, start.high_s, now_s=now_s)
            start = replace(start, low_s=low_s, high_s=high_s)
        found[one.gang] = start
    return found


expected_starts = at_once(expected_starts_in_steps)


class _Forward:
    """Steps 1 to 3."""

    def __init__(self, snapshot: Snapshot, plan: Plan, policy: Policy, cache: PlannerCache, *, now_s: float) -> None:
        cache.keep_only(snapshot.gangs)
        self._run: Run = begin_run(snapshot, policy, cache)
        self._plan, self._now_s = plan, now_s
        take_commitments(self._run)
        take_admissions(self._run, plan.admitted.values())
        self.endings = Endings(self._run, now_s=now_s, level=_LEVELS[0])
        self._courses = [_Course(which) for which in range(len(_LEVELS))]
        self._looked_at = 0
        self._ahead_unknown: GangKey | None = None
        """The first gang ahead that never ends in the courses"""
        self._reserving = next((key for key in plan.reservations if key not in plan.promises), None)

    def not_looked_at(self, waiting: Waiting) -> NotKnown | None:
        """Why it is not tried; `None`: it is."""
        if waiting.reason in _NEVER:
            return NotKnown(waiting.gang, Unknown.NEVER)
        gang = self._run.snapshot.gangs.get(waiting.gang)
        if waiting.reason not in _FOR_ROOM or gang is None:
            return NotKnown(waiting.gang, Unknown.NOT_FOR_ROOM)
        if self._looked_at >= MOST:
            return NotKnown(waiting.gang, Unknown.FAR)
        return None

    def start(self, key: GangKey) -> Steps[AnyStart]:
        """When the gang starts, with the ends of the interval as the courses give them."""
        run, demand = self._run, self._run.view.demand(self._run.snapshot.gangs[key])
        self._looked_at += 1
        classes = classes_of(run, demand)
        if classes is None or not demand.need or demand.siblings:
            return NotKnown(key, Unknown.NOT_FOR_ROOM)
        if self._reserving is not None and self._reserving != key and key not in self._plan.promises:
            return NotKnown(key, Unknown.RESERVED, self._reserving)
        found: list[_Place | None] = [None] * len(self._courses)
        for course in self._courses:
            found[course.which] = yield from self._earliest(demand, classes, course)
        if (usual := found[0]) is None:
            return self._in_the_way(demand)
        start_s, rows, _ = usual
        after = self._after(rows, start_s)
        for course, one in zip(self._courses, found, strict=True):
            at_s, its_rows, its_amounts = one or usual
            runs_s = self._runs_s(demand.gang, _LEVELS[course.which])
            course.promised.append(Promised(its_rows, its_amounts, at_s, at_s + runs_s))
            course.gangs.append(key)
        if demand.gang.length is None and self._ahead_unknown is None:
            self._ahead_unknown = key
        starts_s = [one[0] for one in found if one is not None]
        return ExpectedStart(
            gang=key,
            start_s=start_s,
            low_s=min(starts_s),
            high_s=max(starts_s),
            zone=run.table.nodes[int(rows[0])].zone,
            after=after,
            promised=key in self._plan.promises,
        )

    def _earliest(self, demand: GangDemand, classes: tuple[ClassDemand, ...], course: _Course) -> Steps[_Place | None]:
        """Start, rows and what is taken there, of the zone that has room first."""
        run = self._run
        best: _Place | None = None
        free = run.capacity.room.free
        for zone in kind_of(run, demand).allowed:
            rows = run.table.zones[zone]
            over = demand_over(classes, rows, demand.all_reduce)
            found = earliest(
                over,
                rows,
                free[rows],
                self.endings,
                course.promised,
                now_s=self._now_s,
                runs_s=self._runs_s(demand.gang, _LEVELS[course.which]),
                before_s=best[0] if best is not None else float("inf"),
                which=course.which,
            )
            if found is not None:
                amounts = amounts_of(over, found[1])
                used = np.flatnonzero(amounts.any(axis=1))
                best = (found[0], rows[used], amounts[used]) if len(used) else best
            yield
        return best

    def _after(self, rows: Ints, start_s: float) -> GangKey | None:
        """The gang whose end on these rows is the last before the start: one that waits now, or one that runs."""
        if start_s <= self._now_s:
            return None
        usual = self._courses[0]
        for gang, one in zip(usual.gangs, usual.promised, strict=True):
            if one.end_s == start_s and np.isin(one.rows, rows).any():
                return gang
        return self.endings.last_before(rows, start_s)

    def _in_the_way(self, demand: GangDemand) -> NotKnown:
        """Which gang never ends, as far as is known: one that runs in the zones it may use, or waits ahead of it."""
        run, key = self._run, demand.gang.key
        zones = set(kind_of(run, demand).allowed)
        for other in sorted(run.snapshot.gangs.values(), key=lambda one: one.key):
            if other.length is None and other.key != key and self._zones_of(other) & zones:
                return NotKnown(key, Unknown.LENGTH, other.key)
        if self._ahead_unknown is not None:
            return NotKnown(key, Unknown.LENGTH, self._ahead_unknown)
        return NotKnown(key, Unknown.OTHERS)

    def _zones_of(self, gang: Gang) -> set[ZoneName]:
        """Where it runs, or is about to."""
        table, admission = self._run.table, self._plan.admitted.get(gang.key)
        nodes = {pod.node for pod in gang.members if pod.node is not None and not pod.terminal}
        rows = [table.index[node] for node in nodes if node in table.index]
        return {table.nodes[row].zone for row in rows} | set(admission.zones if admission is not None else ())

    @staticmethod
    def _runs_s(gang: Gang, level: float) -> float:
        return float("inf") if gang.length is None else gang.length.at_s(level)
