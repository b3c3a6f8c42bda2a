"""Queue order: which gang is planned when in one run.

The order: gangs that run, or are committed, in part; then by priority; STARVING before WAITING; the heavier
before the lighter; the older before the younger; by name. Among STARVING gangs the one that starves longest is first:
were it the heaviest, an endless stream of heavy gangs, which starve in their turn, would keep a light one waiting
without end.

A STARVING gang for which room may be reserved leads for `HOLD_S`, then goes as long behind the other STARVING ones,
which then get reservations before it may, then in front again. The times count from when room may be reserved for it,
so they outlive a restart; before that there is no turn to pass on: a gang without a reservation keeps nobody waiting.
"""

from collections.abc import Collection
from itertools import accumulate
from typing import Any, Final, TypeAlias

from scoring import GangKey
from scoring.feasibility.quorum import quorum_of
from scoring.model.policy import Order, Repair
from scoring.network.matrix import Ints
from scoring.plan.cache import Urgency
from scoring.plan.demand import GangDemand
from scoring.plan.placement import could_ever_start
from scoring.plan.run import Run
from scoring.queue.states import leads, period, starving_from
from scoring.queue.weights import Scale, Weight, is_wide

Turn: TypeAlias = tuple[int, float]
"""-1: others leave for it; 0: STARVING; 1: STARVING, its time is up; 2: WAITING. Then since when it starves."""
_WAITS: Turn = (2, 0.0)

_MANY: Final = 32  # So many members, or host ports of its kinds of members, take as long to place as another gang


class QueueOrder:
    """The queue in one run."""

    def __init__(self, run: Run, *, now_s: float) -> None:
        self._run, self._now_s = run, now_s
        self.policy = run.policy.queue
        table, scale = run.cache.scale
        if table is not run.table:
            new = Scale.from_table(run.table)
            scale = scale if new == scale else new  # the same object while the totals are the same
            run.cache.scale = run.table, scale
        self._scale = scale
        self.aged: set[GangKey] = set()  # Gangs whose clock has reached STARVELIMIT; after `in_order`

    def later(self, demands: list[GangDemand], planned: Collection[GangKey], most_new: float) -> frozenset[GangKey]:
        """Gangs that nobody has `planned` before, beyond the `most_new` first ones; large ones count more than once.

        The first one, what runs in part, and what has room, is never among them. Cost: O(new gangs · log).
        """
        apart, urgency = {*planned, *self._run.snapshot.commitments, *self._run.snapshot.claims}, self._urgency
        new = [demand for demand in demands if demand.gang.key not in apart and not demand.gang.placed]
        new.sort(key=lambda d: (self._now_s < urgency(d).starving_s, -d.gang.priority, *urgency(d).tail))
        cost = [1 + (len(d.gang.pending) + sum(len(c.constraints.host_ports) for c, _ in d.need)) // _MANY for d in new]
        sums = zip(new, accumulate(cost, initial=0), strict=False)
        return frozenset(demand.gang.key for demand, before in sums if before >= most_new)

    def in_order(self, demands: list[GangDemand]) -> list[GangDemand]:
        """Sort demands into the order in which they are planned."""
        self.aged.update(demand.gang.key for demand in demands if self._now_s >= self._urgency(demand).starving_s)
        return sorted(demands, key=self.key)

    def key(self, demand: GangDemand) -> tuple[Any, ...]:
        """Sort key of a gang; smaller is planned first."""
        urgency, snapshot, gang, turn = self._urgency(demand), self._run.snapshot, demand.gang, _WAITS
        if demand.need and gang.key in snapshot.claims:
            turn = (-1, 0.0)
        elif self._now_s >= urgency.starving_s:
            turn = self.turn(demand)
        # What runs or is committed in part comes first (S4); with `repair: none`, one that had started takes turns.
        had, quick = snapshot.commitments.get(gang.key), demand.options.repair is not Repair.NONE
        first = demand.partial and (quick or not quorum_of(gang, lost_nodes=demand.lost).started)
        first = first or (had is not None and any(p.uid not in had.assignment for _, pods in demand.need for p in pods))
        if self.policy.order is Order.FIFO:
            return (not first, -gang.priority, turn[0] >= 0, *urgency.tail)
        return (not first, -gang.priority, *turn, *urgency.tail)

    def turn(self, demand: GangDemand) -> Turn:
        """Whether and since when the gang is STARVING: (0, …) in front, (1, …) while others are.

        Only one that could start as it is, were there room (docs/safety.md S14). Cost: O(nodes) for a new one.
        """
        urgency, snapshot, key = self._urgency(demand), self._run.snapshot, demand.gang.key
        number = period(urgency.starving_s, urgency.reserves_s, now_s=self._now_s)
        if number < 0 or not demand.need or demand.siblings or demand.gang.problem is not None:
            return _WAITS
        backs_off = snapshot.backing_off_until_s.get(key, float("-inf")) > self._now_s
        if key in snapshot.commitments or demand.incomplete is not None or backs_off:
            return _WAITS
        return (int(not leads(number)), urgency.starving_s) if could_ever_start(self._run, demand) else _WAITS

    def starving(self, demand: GangDemand) -> bool:
        """Whether the gang is STARVING."""
        return self.turn(demand) is not _WAITS

    def takes_by_level(self, demand: GangDemand, *, total: Ints | None = None) -> bool:
        """Whether others leave or shrink for the gang by service level. `total`, cost: as of `is_wide`."""
        wide = is_wide(demand.gang, self._run.table, self._run.policy.service, total=total)
        return not wide or (self.waits_long(demand) and self.starving(demand))

    def waits_long(self, demand: GangDemand) -> bool:
        """Whether its clock has reached STARVELIMIT long ago."""
        return self._now_s >= self._urgency(demand).starving_s + self._run.policy.service.long_s

    def may_reserve(self, demand: GangDemand) -> bool:
        """Whether the gang is STARVING and has waited for long enough that room may be reserved for it."""
        return self._now_s >= self._urgency(demand).reserves_s and self.starving(demand)

    def weight(self, demand: GangDemand) -> Weight:
        """What the gang weighs."""
        return self._urgency(demand).weight

    def _urgency(self, demand: GangDemand) -> Urgency:
        """Of a gang, whether it waits or runs."""
        policy, gang = self._run.policy, demand.gang
        entry = self._run.cache.urgencies.get(gang.key)
        if entry is None or entry.demand is not demand or entry.scale is not self._scale or entry.policy is not policy:
            word = demand.options.weight
            given = None if word is None else Weight(word.numerator, word.denominator, given=True)
            weight = given or self._scale.weight(gang)
            heaviest_first = () if self.policy.order is Order.FIFO else weight.key
            tail = (*heaviest_first, gang.created_s, gang.key)
            entry = Urgency(demand, policy, self._scale, weight, *starving_from(gang, self.policy), tail)
            self._run.cache.urgencies[gang.key] = entry
        return entry
