"""The cluster as it would be without some gangs: a count that can say "no" quickly, and a real placement.

Rule: what runs, is committed, is planned for others, or is claimed by others stays taken; reservations of gangs ahead
stay; members that are being deleted anyway count as gone. The count looks at each kind of member for itself
and at all host ports as free, so its "no" is sure and its "yes" is not.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from scoring.feasibility.room import fit_counts, scatter_add
from scoring.ids import ZoneName
from scoring.model import MemberClass
from scoring.model.policy import Policy, ZonePolicy
from scoring.model.snapshot import Snapshot
from scoring.network.matrix import Ints
from scoring.plan import Plan, PlannerCache, Run, begin_run, take_admissions, take_commitments
from scoring.plan.demand import GangDemand
from scoring.plan.placement import place_minimum
from scoring.plan.result import Placed, Refused
from scoring.plan.run import take_members
from scoring.plan.zone_order import kind_of
from scoring.preempt.candidates import Candidate

_NO_ROWS: Ints = np.zeros(0, np.int64)


@dataclass(frozen=True, slots=True)
class _Kind:
    request: Ints
    allowed: NDArray[np.bool_]  # Nodes (nodes,) of the group's zones that it may go to
    fits: Ints  # How many of its members fit each node (nodes,)
    total: int


Group: TypeAlias = tuple[_Kind, ...]
"""Of zones in which the gang would be placed together, mostly one: each class whose resources some node has."""


class Without:
    """What one waiting gang would find if others were not there."""

    def __init__(
        self, snapshot: Snapshot, plan: Plan, policy: Policy, ask: GangDemand, cache: PlannerCache, *, now_s: float
    ) -> None:
        self._snapshot, self._plan, self._policy, self._cache = snapshot, plan, policy, cache
        self._ask, self._now_s = ask, now_s
        members = (pod for gang in snapshot.gangs.values() for pod in gang.members)
        self._leaving = [pod for pod in members if pod.deleting and pod.node is not None and not pod.terminal]
        index, mine = snapshot.table.index, plan.waiting[ask.gang.key].rank
        self._held = [  # Rows reserved for STARVING gangs ahead; what is claimed counts by itself
            index[name]
            for reserved in plan.reservations.values()
            if (owner := plan.waiting.get(reserved.gang)) is not None and owner.rank < mine
            for name in reserved.nodes
            if reserved.gang not in snapshot.claims and name in index
        ]
        base = self._run(())
        self._free = base.capacity.room.free
        classes = kind_of(base, ask).members.classes
        self._counts = [count for _, count in classes]
        allowed = base.view.candidate_zones(ask)
        together = ask.options.zone_policy is ZonePolicy.PREFERRED and len(allowed) > 1
        kinds = [(base.view.vector(one), self._allowed(base, one)) for one, _ in classes]
        self.groups = [
            self._group(base, zones, kinds)
            for zones in ([tuple(allowed)] if together else [(zone,) for zone in allowed])
        ]

    def useful(self, group: Group, some: Sequence[Candidate]) -> list[Candidate]:
        """Those that are where the gang could go in this group."""
        there = np.zeros(len(self._free), np.bool_)
        for kind in group:
            there |= kind.allowed
        return [one for one in some if there[one.rows].any()]

    def may_fit(self, group: Group, some: Sequence[Candidate]) -> bool:
        """Whether the gang could have a place in the group without these, as far as counting shows."""
        return self.missing(group, some) == 0

    def missing(self, group: Group, some: Sequence[Candidate]) -> int:
        """How many members of the gang would have no place there, at least. Cost: O(nodes of theirs)."""
        if len(some) == 1:
            touched, free = some[0].rows, self._free[some[0].rows] + some[0].amounts
        else:
            rows = np.concatenate([_NO_ROWS, *(one.rows for one in some)])
            touched, at = np.unique(rows, return_inverse=True)
            free = np.ascontiguousarray(self._free[touched])
            scatter_add(free, at, np.concatenate([self._free[_NO_ROWS], *(one.amounts for one in some)]))
        missing = 0
        for kind, count in zip(group, self._counts, strict=True):
            after = np.where(kind.allowed[touched], fit_counts(free, kind.request), 0)
            missing += max(count - kind.total - int((after - kind.fits[touched]).sum()), 0)
        return missing

    def place(self, some: Sequence[Candidate]) -> Placed | None:
        """Where the whole minimum set would go without these; `None`: nowhere. Cost: as planning one gang."""
        run = self._run(some)
        outcome = place_minimum(run, self._ask, now_s=self._now_s)
        return None if isinstance(outcome, Refused) else outcome

    def _run(self, some: Sequence[Candidate]) -> Run:
        """A planner run in which all is taken but what these, and those on their way out, have."""
        snapshot = self._snapshot
        gone = [*self._leaving, *(pod for one in some for pod in one.pods)]
        run = begin_run(snapshot.without(gone, ports=True), self._policy, self._cache)
        take_commitments(run)
        take_admissions(run, self._plan.admitted.values())
        claimed = (
            (pod.member_class, claim.assignment[pod.uid])
            for key, claim in sorted(snapshot.claims.items())
            if key in self._plan.waiting and key in snapshot.gangs
            for pod in snapshot.gangs[key].pending
            if pod.uid in claim.assignment
        )
        take_members(run, claimed)
        run.capacity.take_nodes(self._held)  # what is, or becomes, free there is for STARVING gangs ahead
        return run

    def _allowed(self, base: Run, member_class: MemberClass) -> NDArray[np.bool_]:
        """Nodes (nodes,) that it may go to and that are not reserved for others, as if it wanted no host ports."""
        constraints = replace(member_class.constraints, host_ports=())
        allowed = base.capacity.mask(replace(member_class, constraints=constraints)).copy()
        allowed[self._held] = False
        index = base.table.index
        allowed[[index[name] for name in self._snapshot.excluded(member_class) if name in index]] = False
        return allowed

    def _group(self, base: Run, zones: tuple[ZoneName, ...], kinds: Sequence[tuple[Ints, NDArray[np.bool_]]]) -> Group:
        inside = np.zeros(len(base.table.nodes), np.bool_)
        inside[base.view.rows(zones)] = True
        found: list[_Kind] = []
        for request, everywhere in kinds:
            allowed = everywhere & inside
            fits = np.where(allowed, fit_counts(self._free, request), 0)
            found.append(_Kind(request, allowed, fits, int(fits.sum())))
        return tuple(found)
