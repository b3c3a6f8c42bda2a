"""Would a gang fit if these pods were gone? First by counting, which is quick, then by a real placement.

Counting is class by class, as if the others were not there: too few is a sure "no", enough a "perhaps"; only a
placement says "yes", beside what is committed and what gangs ahead are given. Host ports of pods that go stay taken.
"""

from collections.abc import Iterable, Sequence

import numpy as np

from scoring.model import Gang, MemberClass, Pod
from scoring.model.policy import Policy, ZonePolicy
from scoring.model.snapshot import Snapshot
from scoring.network.matrix import Ints
from scoring.plan import Plan, PlannerCache, Run, begin_run, plan, take_admissions, take_commitments
from scoring.plan.demand import GangDemand, whole_of
from scoring.plan.placement import place_minimum
from scoring.plan.result import Placed


class Trial:
    """One gang that waits, one snapshot; asked again and again with other pods gone."""

    def __init__(
        self,
        snapshot: Snapshot,
        plan: Plan,
        gang: Gang,
        policy: Policy,
        *,
        now_s: float,
        cache: PlannerCache,
        whole: bool = False,
    ) -> None:
        """`whole`: all members that the gang asks for must fit, not its minimum alone."""
        self._snapshot, self._plan, self._policy, self._cache = snapshot, plan, policy, cache
        self.now_s = now_s
        waiting = plan.waiting.get(gang.key)
        admitted = plan.admitted.values() if waiting is not None else ()
        self.ahead = [one for one in admitted if waiting is not None and one.rank < waiting.rank]
        """What gangs before it in the queue are given"""
        self.run = begin_run(snapshot, policy, cache)  # A run of now, in which what is committed is taken
        take_commitments(self.run)
        demand = self.run.view.demand(gang)
        self.ask = whole_of(demand) if whole else demand
        self.ledger = Ledger(self._beside_others(snapshot), self.ask)  # For counting

    def concerns(self, pod: Pod) -> bool:
        """Whether the pod is on a node that some member of the gang could go to."""
        row = self.ledger.row(pod)
        nodes = self._snapshot.table.nodes
        return (
            row is not None
            and nodes[row].zone in self.ledger.zones
            and any(one.mask[row] for one in self.ledger.classes)
        )

    def may_fit(self, gone: Iterable[Pod]) -> bool:
        """Whether counting leaves it possible that the gang fits. Cost: O(pods · classes)."""
        tally = Tally(self.ledger, gone)
        return any(not tally.lacking(group) for group in self.ledger.groups)

    def place(self, gone: Sequence[Pod]) -> Placed | None:
        """Where the gang's minimum set goes once the pods are gone; `None`: nowhere. Cost: one placement."""
        run = self._beside_others(self._snapshot.without(gone))
        outcome = place_minimum(run, self.ask, now_s=self.now_s)
        return outcome if isinstance(outcome, Placed) else None

    def plan(self, gone: Sequence[Pod]) -> Plan:
        """The plan that is made when the pods are gone."""
        then = self._snapshot.without(gone)
        return plan(then, self._policy, now_s=self.now_s, previous=self._plan, cache=self._cache)

    def _beside_others(self, snapshot: Snapshot) -> Run:
        run = begin_run(snapshot, self._policy, self._cache)
        take_commitments(run, besides=self.ask.gang.key)
        take_admissions(run, self.ahead)
        return run


class Ledger:
    """What all tallies of one gang share: what is free before a pod leaves. Never written after it is built."""

    def __init__(self, run: Run, ask: GangDemand) -> None:
        self._run = run
        self.classes = [_Class(run, member_class, len(pods)) for member_class, pods in ask.need]
        self.zone_of: Ints = run.view.zone_number
        self.free: Ints = np.array(run.capacity.room.free)
        allowed = run.view.candidate_zones(ask)
        self.zones = frozenset(allowed)
        numbers = [number for number, zone in enumerate(run.zones) if zone in self.zones]
        self.groups: tuple[tuple[int, ...], ...] = tuple((number,) for number in numbers)
        """Zones by number in which the gang must fit together: each for itself, and all if it may be spread."""
        if ask.options.zone_policy is ZonePolicy.PREFERRED and len(numbers) > 1:
            self.groups = (*self.groups, tuple(numbers))
        self._requests: dict[int, list[int]] = {}

    def row(self, pod: Pod) -> int | None:
        """The row of the pod's node."""
        return self._run.table.index.get(pod.node) if pod.node is not None else None

    def request(self, pod: Pod) -> list[int]:
        """What the pod leaves, over the table's axis."""
        key = id(pod.member_class)
        known = self._requests.get(key)
        if known is None:
            known = self._requests[key] = self._run.table.vector(pod.requests).tolist()
        return known


class Tally:
    """Members of each class that fit each zone, as pods leave and come back. Cost of each: O(classes)."""

    __slots__ = ("_free", "_ledger", "_sums")

    def __init__(self, ledger: Ledger, gone: Iterable[Pod]) -> None:
        """`gone` have left."""
        self._ledger = ledger
        self._free: dict[int, list[int]] = {}  # row → what is free there by now, for rows where a pod left
        self._sums = [list(one.sums) for one in ledger.classes]
        for pod in gone:
            self.leave(pod)

    def lacking(self, group: Sequence[int]) -> int:
        """Members for which there is no room in these zones together."""
        classes = zip(self._ledger.classes, self._sums, strict=True)
        return sum([max(one.wanted - sum([sums[zone] for zone in group]), 0) for one, sums in classes])

    def leave(self, pod: Pod, *, back: bool = False) -> None:
        """The pod is gone, or `back` after all."""
        ledger, sign = self._ledger, -1 if back else 1
        row = ledger.row(pod)
        if row is None:
            return
        before = self._free.get(row) or ledger.free[row].tolist()
        after = [a + sign * b for a, b in zip(before, ledger.request(pod), strict=True)]
        self._free[row] = after
        zone = int(ledger.zone_of[row])
        for one, sums in zip(ledger.classes, self._sums, strict=True):
            if one.mask[row]:
                sums[zone] += one.fits(after) - one.fits(before)


class _Class:
    """Interchangeable members: what one asks for, where they may go, and how many fit each zone."""

    def __init__(self, run: Run, member_class: MemberClass, wanted: int) -> None:
        self.wanted = wanted
        request = run.view.vector(member_class)
        self.mask = run.capacity.mask(member_class)
        self._asked = [(column, amount) for column, amount in enumerate(request.tolist()) if amount > 0]
        there = run.capacity.room.counts(request)
        sums = np.bincount(run.view.zone_number, weights=np.where(self.mask, there, 0), minlength=len(run.zones))
        self.sums: list[int] = sums.astype(np.int64).tolist()

    def fits(self, free: Sequence[int]) -> int:
        """Members that fit into `free`; one that asks for nothing changes nothing when a pod leaves."""
        return max(min([free[column] // amount for column, amount in self._asked], default=0), 0)
