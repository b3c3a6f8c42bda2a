"""Queue order: which gang is planned when in one run; and how much of the cluster the gangs of one namespace may have.

The order: gangs that run, or are committed, in part; then by priority; STARVING before WAITING; the heavier
before the lighter; the older before the younger; by name. Among STARVING gangs the one that starves longest is first:
were it the heaviest, an endless stream of heavy gangs, which starve in their turn, would keep a light one waiting
without end.

A STARVING gang for which room may be reserved leads for `HOLD_S`, then goes as long behind the other STARVING ones,
which then get reservations before it may, then in front again. The times count from when room may be reserved for it,
so they outlive a restart; before that there is no turn to pass on: a gang without a reservation keeps nobody waiting.

Namespace quota: without one, a team's jobs fill every zone, and weights only say which of them is next. Rules:

- A share is of each resource's total over all nodes, compared with what the namespace's gangs have been admitted with:
  unfinished members on a node, committed ones, and those that the run has admitted.
- Gangs that run in part, and committed ones, are completed whatever their share, and count.
- A gang whose minimum would go over waits with `Reason.OVER_SHARE`; it keeps no other gang waiting and never starves.
  Members beyond the minimum join as far as the share goes.
"""

from collections.abc import Iterable
from fractions import Fraction
from typing import Any, TypeAlias

import numpy as np
from msgspec.structs import replace

from scoring import GangKey, Namespace
from scoring.feasibility.quorum import quorum_of
from scoring.model import Gang, MemberClass, Pod
from scoring.model.policy import Order, Repair
from scoring.network.matrix import Ints
from scoring.plan.cache import Urgency
from scoring.plan.demand import ByClass, GangDemand
from scoring.plan.placement import could_ever_start
from scoring.plan.run import Run
from scoring.queue.states import leads, period, starving_from
from scoring.queue.weights import Scale, Weight

Turn: TypeAlias = tuple[int, float]
"""-1: others leave for it; 0: STARVING; 1: STARVING, its time is up; 2: WAITING. Then since when it starves."""
_WAITS: Turn = (2, 0.0)


def namespace_of(gang: Gang) -> Namespace:
    """The namespace in which the gang's pods are."""
    return Namespace(gang.key.partition("/")[0])


class NamespaceQuota:
    """What each limited namespace has during one run. Free of cost when no share is set."""

    def __init__(self, run: Run) -> None:
        self._run = run
        self.limit: Ints | None = None  # (resources,) of the axis that a namespace may have at most; `None`: all
        self._had: dict[Namespace, Ints] = {}
        if run.policy.queue.share_cap is None:
            return
        share = Fraction(run.policy.queue.share_cap).limit_denominator(10_000)
        totals = run.table.allocatable.sum(axis=0).tolist()
        self.limit = np.array([total * share.numerator // share.denominator for total in totals], np.int64)
        for gang in run.snapshot.gangs.values():
            if gang.own:
                held = run.snapshot.commitments.get(gang.key)
                committed = held.assignment if held is not None else {}
                pods = [p for p in gang.members if not p.terminal and (p.node is not None or p.uid in committed)]
                self._add(gang, ((pod.member_class, (pod,)) for pod in pods))

    def over(self, demand: GangDemand) -> str | None:
        """Why the gang's missing minimum would be too much, for people; `None`: it is not."""
        limit = self.limit
        if limit is None or demand.partial or demand.gang.key in self._run.snapshot.commitments:
            return None
        asked = self._requests(demand.need or [(mc, pods[:1]) for mc, pods in demand.more])
        after = self._has(demand.gang) + asked
        over = (after > limit) & (asked > 0)
        if not over.any():
            return None
        column = int(over.argmax())
        most, name, namespace = limit[column], self._run.table.axis[column], namespace_of(demand.gang)
        return f"namespace {namespace} may have {most} of {name}, with the gang it would have {after[column]}"

    def trimmed(self, demand: GangDemand) -> GangDemand:
        """The same demand without the members beyond the minimum for which the share does not suffice."""
        limit = self.limit if demand.more else None
        if limit is None:
            return demand
        left = limit - self._has(demand.gang) - self._requests(demand.need)
        more: list[tuple[MemberClass, tuple[Pod, ...]]] = []
        for member_class, pods in demand.more:
            request = self._requests(((member_class, pods[:1]),))
            wanted = request > 0
            fits = int((np.maximum(left[wanted], 0) // request[wanted]).min(initial=len(pods)))
            left = left - min(fits, len(pods)) * request
            if fits:
                more.append((member_class, pods[:fits]))
        return demand if tuple(more) == demand.more else replace(demand, more=tuple(more))

    def admit(self, demand: GangDemand, uids: Iterable[str]) -> None:
        """The run gives places to these members of the gang."""
        if self.limit is None or demand.gang.key in self._run.snapshot.commitments:
            return  # committed members are counted from the start
        chosen = set(uids)
        given = ((mc, tuple(p for p in pods if p.uid in chosen)) for mc, pods in (*demand.need, *demand.more))
        self._add(demand.gang, given)

    def _has(self, gang: Gang) -> Ints:
        return self._had.get(namespace_of(gang), np.zeros(len(self._run.table.axis), np.int64))

    def _add(self, gang: Gang, members: Iterable[tuple[MemberClass, tuple[Pod, ...]]]) -> None:
        self._had[namespace_of(gang)] = self._has(gang) + self._requests(members)

    def _requests(self, members: Iterable[tuple[MemberClass, tuple[Pod, ...]]] | ByClass) -> Ints:
        total = np.zeros(len(self._run.table.axis), np.int64)
        for member_class, pods in members:
            total = total + len(pods) * self._run.view.vector(member_class)
        return total


class QueueOrder:
    """The queue in one run."""

    def __init__(self, run: Run, *, now_s: float) -> None:
        self._run, self._now_s, self.quota = run, now_s, NamespaceQuota(run)
        self.policy = run.policy.queue
        table, scale = run.cache.scale
        if table is not run.table:
            new = Scale.from_table(run.table)
            scale = scale if new == scale else new  # the same object while the totals are the same
            run.cache.scale = run.table, scale
        self._scale = scale
        self.aged: set[GangKey] = set()  # Gangs whose clock has reached STARVELIMIT; after `in_order`

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
        held, quick = snapshot.commitments.get(gang.key), demand.options.repair is not Repair.NONE
        first = demand.partial and (quick or not quorum_of(gang, lost_nodes=demand.lost).started)
        first = first or (
            held is not None and any(p.uid not in held.assignment for _, pods in demand.need for p in pods)
        )
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
        if self.quota.over(demand) is not None or not could_ever_start(self._run, demand):
            return _WAITS
        return int(not leads(number)), urgency.starving_s

    def starving(self, demand: GangDemand) -> bool:
        """Whether the gang is STARVING."""
        return self.turn(demand) is not _WAITS

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
