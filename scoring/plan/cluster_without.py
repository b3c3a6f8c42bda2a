"""The cluster as it would be with some pods gone: a count that can say "no" quickly, and a real placement.

Rule: what runs, is committed, or is given to gangs that keep it stays taken; pods that go anyway count as gone.
Counting is class by class, as if the others were not there: too few is a sure "no", enough a "perhaps"; only a
placement says "yes". Which pods go, gangs (`scoring.preempt`) or workers (`scoring.scaling.shrink`), others decide.
"""

from collections.abc import Iterable, Sequence
from typing import TypeAlias

import msgspec
import numpy as np
from msgspec.structs import replace
from numpy.typing import NDArray

from scoring import NodeName
from scoring.model import MemberClass, Pod
from scoring.model.policy import Policy, ZonePolicy
from scoring.model.snapshot import Snapshot, fit_counts
from scoring.network.matrix import Ints
from scoring.plan import Admission, PlannerCache, Run, begin_run, take_admissions, take_commitments, take_members
from scoring.plan.demand import GangDemand
from scoring.plan.placement import place_minimum
from scoring.plan.result import Placed

Group: TypeAlias = tuple[int, ...]  # Zones, by number, in which a gang would be placed together


class CountedClass(msgspec.Struct, frozen=True):
    """Interchangeable members of the gang, counted before any pod leaves."""

    wanted: int
    request: Ints
    allowed: NDArray[np.bool_]  # (nodes,): where they may go
    fits: Ints  # (nodes,): how many fit each
    sums: Ints  # (zones,)


class Without:
    """What one waiting gang would find if pods were not there. Never written after it is made."""

    def __init__(
        self,
        snapshot: Snapshot,
        policy: Policy,
        ask: GangDemand,
        cache: PlannerCache,
        *,
        now_s: float,
        planned: Iterable[Admission],
        leaving: Sequence[Pod] = (),
        claimed: Iterable[tuple[MemberClass, NodeName]] = (),
        held: Sequence[int] = (),
        ports: bool = False,
    ) -> None:
        """`leaving`: pods that go anyway. Others have `planned` and `claimed`, and all room on the rows `held`.

        `ports`: host ports become free as well, and counting looks at all as free.
        """
        self.ask, self.now_s = ask, now_s
        self._snapshot, self._policy, self._cache, self._leaving = snapshot, policy, cache, leaving
        self._planned, self._claimed, self._held, self._ports = tuple(planned), tuple(claimed), held, ports
        self.run = run = self._run(())
        self.free: Ints = np.array(run.capacity.room.free)
        self.zone_of: Ints = run.view.zone_number
        self.classes: list[CountedClass] = []
        for member_class, pods in ask.need:
            bare = replace(member_class, constraints=replace(member_class.constraints, host_ports=()))
            request, allowed = run.view.vector(member_class), run.capacity.mask(bare if ports else member_class).copy()
            allowed[np.array(held, np.int64)] = False
            fits = np.where(allowed, fit_counts(self.free, request), 0)
            self.classes.append(CountedClass(len(pods), request, allowed, fits, run.view.by_zone(fits)))
        zones: Group = tuple(run.view.columns(run.view.candidate_zones(ask)).tolist())
        self.spread = ask.options.zone_policy is ZonePolicy.PREFERRED and len(zones) > 1
        self.groups: list[Group] = [*((zone,) for zone in zones), *([zones] if self.spread else [])]
        able = np.logical_or.reduce([part.allowed for part in self.classes])
        self.reached: NDArray[np.bool_] = np.isin(self.zone_of, zones) & able  # where some member could go

    def row(self, pod: Pod) -> int | None:
        """The row of the pod's node."""
        return self.run.table.index.get(pod.node) if pod.node is not None else None

    def sums(self, rows: Ints, amounts: Ints) -> list[Ints]:
        """How many members of each class fit each zone once `amounts` are free on `rows`, which are all different."""
        free, by_zone = self.free[rows] + amounts, self.run.view.by_zone
        there = [np.where(part.allowed[rows], fit_counts(free, part.request), 0) for part in self.classes]
        counted = zip(self.classes, there, strict=True)
        return [part.sums + by_zone(fits - part.fits[rows], rows) for part, fits in counted]

    def missing(self, group: Group, sums: Sequence[Ints]) -> int:
        """How many members of the gang would have no place in these zones together, at least."""
        counted = zip(self.classes, sums, strict=True)
        return sum(max(part.wanted - sum(int(fits[zone]) for zone in group), 0) for part, fits in counted)

    def may_fit(self, gone: Sequence[Pod]) -> bool:
        """Whether counting leaves it possible that the gang fits somewhere. Cost: O(pods + zones)."""
        sums = self.sums(*self.run.table.footprint(gone))
        return any(not self.missing(group, sums) for group in self.groups)

    def place(self, gone: Sequence[Pod]) -> Placed | None:
        """Where the whole minimum set would go without these pods; `None`: nowhere. Cost: as planning one gang."""
        outcome = place_minimum(self._run(gone), self.ask, now_s=self.now_s)
        return outcome if isinstance(outcome, Placed) else None

    def _run(self, gone: Sequence[Pod]) -> Run:
        """A planner run in which all is taken but what these, and those on their way out, have."""
        then = self._snapshot.without([*self._leaving, *gone], ports=self._ports)
        run = begin_run(then, self._policy, self._cache)
        take_commitments(run, besides=self.ask.gang.key)
        take_admissions(run, self._planned)
        take_members(run, self._claimed)
        run.capacity.take_nodes(self._held)  # What is, or becomes, free there as well
        return run
