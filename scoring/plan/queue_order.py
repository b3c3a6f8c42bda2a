"""Queue order: which gang is planned when in one run.

The order: gangs that run, or are committed, in part; then by priority; STARVING before WAITING; the heavier
before the lighter; the older before the younger; by name. Among STARVING gangs the one that starves longest is first:
were it the heaviest, an endless stream of heavy gangs, which starve in their turn, would keep a light one waiting
without end.

A STARVING gang for which room may be reserved leads for `HOLD_S`, two hours; for as long again it goes behind the other
STARVING ones, which then get reservations before it may, then in front again, and so on. These times count from the
moment from which room may be reserved for it, so that they are the same after a restart; until then there is no turn to
pass on, because a gang without a reservation keeps no other from starting.
"""

from scoring.ids import GangKey
from scoring.plan.demand import GangDemand
from scoring.plan.namespace_quota import NamespaceQuota
from scoring.plan.order_keys import CLAIMS, WAITS, SortKey, Standing, Turn, sort_key
from scoring.plan.placement import could_ever_start
from scoring.plan.run import Run
from scoring.queue.states import leads, period
from scoring.queue.weights import Weight


class QueueOrder:
    """The queue in one run."""

    def __init__(self, run: Run, *, now_s: float, quota: NamespaceQuota | None = None) -> None:
        """`quota`: what namespaces may have; gangs over it never starve."""
        self._run = run
        self._now_s = now_s
        self._quota = quota if quota is not None or run.policy.queue.share_cap is None else NamespaceQuota(run)
        self.policy = run.policy.queue
        self._keys = run.cache.order_keys
        self.aged: set[GangKey] = set()
        """Gangs whose clock has reached STARVELIMIT; after `in_order`"""

    def in_order(self, demands: list[GangDemand]) -> list[GangDemand]:
        """Sort demands into the order in which they are planned."""
        run = self._run
        special = {*run.snapshot.commitments, *run.snapshot.claims}
        self._keys.renew(run.table, run.policy)
        known = self._keys.keys(demands, self._now_s)
        self.aged.update([one.gang.key for one, key in zip(demands, known, strict=True) if key is None])
        keys = [
            key if key is not None and one.gang.key not in special else self.key(one)
            for one, key in zip(demands, known, strict=True)
        ]
        return [demands[number] for number in sorted(range(len(demands)), key=keys.__getitem__)]

    def key(self, demand: GangDemand) -> SortKey:
        """Sort key of a gang; smaller is planned first."""
        standing = self._standing(demand)
        if demand.need and demand.gang.key in self._run.snapshot.claims:
            key = sort_key(demand, CLAIMS, standing.tail, self.policy)
        elif self._now_s < standing.starving_s:
            key = standing.waits
        else:
            key = sort_key(demand, self.turn(demand), standing.tail, self.policy)
        return (False, *key[1:]) if self._begun(demand) else key

    def turn(self, demand: GangDemand) -> Turn:
        """Whether and since when the gang is STARVING: (0, …) in front, (1, …) while others are."""
        standing = self._standing(demand)
        number = period(standing.starving_s, standing.reserves_s, now_s=self._now_s)
        if number < 0 or not self._may_starve(demand, standing):
            return WAITS
        return int(not leads(number)), standing.starving_s

    def starving(self, demand: GangDemand) -> bool:
        """Whether the gang is STARVING."""
        return self.turn(demand) is not WAITS

    def may_reserve(self, demand: GangDemand) -> bool:
        """Whether the gang is STARVING and has waited for long enough that room may be reserved for it."""
        return self._now_s >= self._standing(demand).reserves_s and self.starving(demand)

    def weight(self, demand: GangDemand) -> Weight:
        """What the gang weighs. Cost: a few fractions, for people and for single comparisons."""
        self._keys.renew(self._run.table, self._run.policy)
        return self._keys.weight(demand)

    def _standing(self, demand: GangDemand) -> Standing:
        self._keys.renew(self._run.table, self._run.policy)
        return self._keys.of(demand)

    def _begun(self, demand: GangDemand) -> bool:
        """Whether some of the missing minimum are committed and others are not: it must be completed first.

        docs/safety.md S4.
        """
        commitment = self._run.snapshot.commitments.get(demand.gang.key)
        return commitment is not None and any(
            p.uid not in commitment.assignment for _, pods in demand.need for p in pods
        )

    def _may_starve(self, demand: GangDemand, standing: Standing) -> bool:
        """Only a gang that could start as it is, were there room, ever starves. Cost: O(nodes) for a new one.

        docs/safety.md S14.
        """
        gang, run = demand.gang, self._run
        if not demand.need or demand.siblings or gang.problem is not None or standing.waiting_s is None:
            return False
        if gang.key in run.snapshot.commitments or demand.blocked or demand.incomplete is not None:
            return False
        until_s = run.snapshot.backing_off_until_s.get(gang.key)
        if until_s is not None and until_s > self._now_s:
            return False
        within = self._quota is None or self._quota.over(demand) is None
        return within and could_ever_start(run, demand)
