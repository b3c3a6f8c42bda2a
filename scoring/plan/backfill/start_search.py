"""When and where a gang can start by end times: the earliest moment over its zones, and the nodes for it there.

Rules: the nodes of the promise before are kept, unless another zone is sooner than was promised first. One count over
all nodes shows which zones can be sooner at all; only in these the moment is searched (`earliest`).
"""

from collections.abc import Sequence

import numpy as np

from scoring.ids import ZoneName
from scoring.network.matrix import Ints
from scoring.plan.backfill.earliest import Promised, amounts_of, demand_over, earliest
from scoring.plan.backfill.endings import ROUNDING_S, Endings
from scoring.plan.capacity import When
from scoring.plan.demand import GangDemand
from scoring.plan.placement import kind_of
from scoring.plan.result import Promise
from scoring.plan.run import Run
from scoring.selection.demand import ClassDemand, rooms


def classes_of(run: Run, demand: GangDemand) -> tuple[ClassDemand, ...]:
    """Classes of the gang's minimum over all nodes."""
    return tuple(
        ClassDemand(one.role, run.view.vector(one), run.capacity.mask(one, When.AT_START), len(pods))
        for one, pods in demand.need
    )


class StartSearch:
    """The search for one gang."""

    def __init__(self, run: Run, endings: Endings, demand: GangDemand, *, now_s: float) -> None:
        self._run, self._endings, self._demand, self._now_s = run, endings, demand, now_s
        self._classes = classes_of(run, demand)

    def find(self, before: Promise | None) -> tuple[Promise, Promised] | None:
        """The promise, and the room for it; `before`: the one before, if there is any. Cost: O(nodes + ends) a zone."""
        if not self._classes:
            return None
        run, allowed = self._run, kind_of(self._run, self._demand).allowed
        best: tuple[float, Ints, Ints] | None = None  # start, rows, amounts
        first_s = None
        if before is not None and before.zone in allowed:
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

    def _promise(self, start_s: float, rows: Ints, amounts: Ints, first_s: float) -> tuple[Promise, Promised]:
        run, length_s = self._run, self._demand.gang.length_s
        promise = Promise(
            gang=self._demand.gang.key,
            start_s=start_s,
            first_s=first_s,
            zone=run.table.nodes[int(rows[0])].zone,
            nodes=tuple(run.table.names[row] for row in rows.tolist()),
            after=self._endings.last_before(rows, start_s),
        )
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
