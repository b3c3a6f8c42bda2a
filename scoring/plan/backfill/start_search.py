"""When and where a gang can start by end times: the earliest moment over its zones, and the nodes for it there.

Rules: the nodes of the promise before are kept, unless another zone is sooner than was promised first. One count over
all nodes shows which zones can be sooner at all; only in these the moment is searched (`earliest`).
"""

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from scoring.ids import ZoneName
from scoring.network.matrix import Ints
from scoring.plan.backfill.earliest import Promised, amounts_of, demand_over, earliest
from scoring.plan.backfill.endings import ROUNDING_S, Endings
from scoring.plan.capacity import When
from scoring.plan.demand import GangDemand
from scoring.plan.result import Promise
from scoring.plan.run import Run
from scoring.plan.steps import Steps
from scoring.plan.zone_order import kind_of
from scoring.selection import ClassDemand
from scoring.selection.demand import rooms


def runs_s(run: Run, demand: GangDemand) -> float:
    """How long the gang runs at the level that counts; infinity: it is not known."""
    length = demand.gang.length
    return float("inf") if length is None else length.at_s(run.policy.queue.backfill_quantile)


def classes_of(run: Run, demand: GangDemand) -> tuple[ClassDemand, ...] | None:
    """Classes of the gang's minimum over all nodes; `None`: a resource that no node has."""
    classes: list[ClassDemand] = []
    for member_class, pods in demand.need:
        request = run.view.vector(member_class)
        if request is None:
            return None
        allowed = run.capacity.mask(member_class, When.AT_START)
        classes.append(ClassDemand(member_class.role, request, allowed, len(pods)))
    return tuple(classes)


def zones_with_room(run: Run, classes: Sequence[ClassDemand], free: Ints) -> NDArray[np.bool_]:
    """Zones (zones,) with room for each class by itself, if `free` (nodes, resources) is free."""
    able = np.ones(len(run.zones), np.bool_)
    for one in classes:
        sums = np.bincount(run.view.zone_number, weights=rooms(one, free), minlength=len(run.zones))
        able &= sums >= one.count
    return able


class StartSearch:
    """The search for one gang: `taken` (nodes, resources) is kept of the room, `promised` to others, by zones."""

    def __init__(
        self,
        run: Run,
        endings: Endings,
        demand: GangDemand,
        taken: Ints,
        promised: Mapping[ZoneName, Sequence[Promised]],
        *,
        now_s: float,
    ) -> None:
        self._run, self._endings, self._demand, self._now_s = run, endings, demand, now_s
        self._taken, self._promised = taken, promised
        self._classes = classes_of(run, demand) or ()
        self._runs_s = runs_s(run, demand)

    def find(self, before: Promise | None, *, moves: bool) -> Steps[tuple[Promise, Promised] | None]:
        """The promise, and the room for it; `before`: the one before, if there is any; `moves`: it may go elsewhere.

        Cost: O(nodes + ends) a zone.
        """
        if not self._classes:
            return None
        run, allowed = self._run, kind_of(self._run, self._demand).allowed
        best: tuple[float, Ints, Ints] | None = None  # start, rows, amounts
        first_s = None
        if before is not None and before.zone in allowed:
            rows = np.array(sorted({run.table.index[name] for name in before.nodes if name in run.table.index}), int)
            if len(rows):
                best = self._earliest(before.zone, rows)
                first_s = before.first_s if best is not None else None
        kept = best
        limit_s = float("inf") if best is None or first_s is None else min(best[0], np.nextafter(first_s, np.inf))
        zones = self._likely(allowed, limit_s) if best is None or moves else []
        if best is None:
            zones = [*(soonest := self._soonest(allowed)), *(zone for zone in zones if zone not in soonest)]
        while zones:
            zone = zones.pop(0)
            found = self._earliest(zone, run.table.zones[zone], before_s=limit_s)
            if found is not None:
                best, limit_s = found, found[0]
                sooner = self._likely(allowed, limit_s)
                zones = [zone for zone in zones if zone in sooner]
            yield
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

    def _promise(self, start_s: float, rows: Ints, amounts: Ints, first_s: float) -> tuple[Promise, Promised]:
        run = self._run
        zone = run.table.nodes[int(rows[0])].zone
        low_s, high_s = self._interval(zone, start_s)
        promise = Promise(
            gang=self._demand.gang.key,
            start_s=start_s,
            low_s=low_s,
            high_s=high_s,
            first_s=first_s,
            zone=zone,
            nodes=tuple(run.table.names[row] for row in rows.tolist()),
            after=self._endings.last_before(rows, start_s),
        )
        return promise, Promised(rows, amounts, min(start_s, first_s), start_s + self._runs_s)

    def _interval(self, zone: ZoneName, start_s: float) -> tuple[float, float]:
        """The start if all that runs there ends early, or late."""
        if self._endings.certain:
            return start_s, start_s
        found = [self._earliest(zone, self._run.table.zones[zone], which=which) for which in (1, 2)]
        low_s, high_s = (start_s if one is None else one[0] for one in found)
        return min(low_s, start_s), max(high_s, start_s)

    def _soonest(self, allowed: Sequence[ZoneName]) -> list[ZoneName]:
        """The zones that have room first, as far as counting shows at some moments: where to look first."""
        steps_s = self._endings.steps_s()
        low, high = 0, len(steps_s) - 1
        while low < high:
            middle = (low + high) // 2
            if self._likely(allowed, float(steps_s[middle])):
                high = middle
            else:
                low = middle + 1
        return self._likely(allowed, float(steps_s[low]))

    def _likely(self, allowed: Sequence[ZoneName], before_s: float) -> list[ZoneName]:
        """The zones with room before this moment, as far as counting shows."""
        run, now_s = self._run, self._now_s
        free = run.capacity.room.free + self._taken + self._endings.freed_at_most(before_s)
        for one in (one for promised in self._promised.values() for one in promised):
            if one.start_s < now_s + self._runs_s and one.end_s >= before_s:  # whenever it starts before, they meet
                free[one.rows] -= one.amounts
        able = zones_with_room(run, self._classes, free)
        return [zone for zone, at in zip(allowed, run.view.columns(tuple(allowed)), strict=True) if able[at]]

    def _free(self, rows: Ints) -> Ints:
        """Room now, (rows, resources), with what is kept."""
        return np.asarray(self._run.capacity.room.free[rows] + self._taken[rows])

    def _earliest(
        self, zone: ZoneName, rows: Ints, *, before_s: float = float("inf"), which: int = 0
    ) -> tuple[float, Ints, Ints] | None:
        over = demand_over(self._classes, rows, self._demand.all_reduce)
        found = earliest(
            over,
            rows,
            self._free(rows),
            self._endings,
            self._promised.get(zone, ()),
            now_s=self._now_s,
            runs_s=self._runs_s,
            before_s=before_s,
            which=which,
        )
        return None if found is None else (found[0], rows, amounts_of(over, found[1]))
