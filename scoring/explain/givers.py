"""The gangs that would make room for a gang by ending or shrinking, by counting: the fewest pods first.

Rule: counting looks at each kind of member for itself, in the room that no gang ahead gets and that is not reserved; it
proposes, and a trial plan decides (`scoring.explain.unblock`).
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from scoring.feasibility.room import fit_counts
from scoring.ids import GangKey, ZoneName
from scoring.model import Gang, Pod
from scoring.model.policy import ZonePolicy
from scoring.network.matrix import Ints
from scoring.plan import Plan, Run, take_admissions, take_commitments
from scoring.plan.demand import ByClass, GangDemand
from scoring.plan.steps import Steps
from scoring.what_if.changes import Change, JobEnds, JobShrinks
from scoring.what_if.jobs import workers_of

MOST_LOOKED_AT: Final = 400
"""Gangs whose end is counted through, those with the fewest pods first."""
MOST_ALONE: Final = 16
"""Jobs that suffice alone, after which no larger ones are looked at."""
MOST_SHRUNK: Final = 64
"""Workers of one job that are counted away one by one."""
_GANGS_A_STEP: Final = 16


@dataclass(frozen=True, slots=True)
class Giver:
    """A change that would make room, and how many members would still have none."""

    missing: int
    pods: int
    """Pods that would go"""
    change: Change


class Room:
    """The room that one waiting gang may count on, beside those ahead of it."""

    def __init__(self, run: Run, plan: Plan, ask: GangDemand) -> None:
        """`run`: one whose room is that beside those ahead, except for what is held; see `room_in_steps`."""
        key = ask.gang.key
        self.run = run
        self.ask = ask
        self.wanted: ByClass = ask.need or tuple((mc, pods[:1]) for mc, pods in ask.more[:1])
        """What one would like to place: the missing minimum, or one more of those beyond it"""
        ahead = [reserved for reserved in plan.reservations.values() if reserved.gang != key]
        held = [run.table.index[node] for reserved in ahead for node in reserved.nodes if node in run.table.index]
        run.capacity.take_nodes(held)
        self.held = np.zeros(len(run.table.nodes), np.bool_)
        self.held[held] = True
        self.groups = _groups(run, ask)

    def rows(self, zones: tuple[ZoneName, ...]) -> Ints:
        """Rows of the zones' nodes that are not held for others."""
        rows = self.run.view.rows(zones)
        return rows[~self.held[rows]]


def room_in_steps(run: Run, plan: Plan, ask: GangDemand) -> Steps[Room]:
    """The room for `ask` beside all that is ahead of it; `run`: a fresh one, whose room is taken here.

    Cost: O(members of gangs ahead), in steps.
    """
    mine = plan.waiting[ask.gang.key].rank
    take_commitments(run, besides=ask.gang.key)
    ahead = [one for one in plan.admitted.values() if one.rank < mine]
    for begin in range(0, len(ahead), _GANGS_A_STEP):
        take_admissions(run, ahead[begin : begin + _GANGS_A_STEP])
        yield
    return Room(run, plan, ask)


def givers_in_steps(room: Room, gangs: Iterable[Gang]) -> Steps[list[Giver]]:
    """Jobs whose shrinking or end would make room, those that suffice alone first, then by how many pods go.

    Cost: O(gangs · nodes of the zones they are in), in steps.
    """
    counts = _Counts(room)
    running = [(gang, _on_nodes(gang)) for gang in gangs if gang.key != room.ask.gang.key]
    listed = sorted(((len(pods), gang.key, gang, pods) for gang, pods in running if pods), key=lambda one: one[:2])
    found: list[Giver] = []
    alone = 0
    for number, (size, key, gang, pods) in enumerate(listed[:MOST_LOOKED_AT]):
        missing = counts.missing_without(pods)
        if missing < counts.missing:
            found.append(Giver(missing, size, JobEnds(key)))
            if missing == 0:
                alone += 1
                found.extend(_shrunk(counts, gang, key))
        if alone == MOST_ALONE:
            break
        if number % _GANGS_A_STEP == _GANGS_A_STEP - 1:
            yield
    return sorted(found, key=lambda one: (one.missing, one.pods, repr(one.change)))


def _shrunk(counts: "_Counts", gang: Gang, key: GangKey) -> list[Giver]:
    """The least number of workers beyond the gang's minimum that would have to go; empty: not even all of them."""
    workers = workers_of(gang.members)
    live = sum(not pod.terminal and not pod.deleting for pod in gang.members)
    spare = min(live - gang.min_member, len(workers) - 1, MOST_SHRUNK)
    for by in range(1, spare + 1):
        gone = [pod for pod in workers[-by:] if pod.node is not None]
        if counts.missing_without(gone) == 0:
            return [Giver(0, by, JobShrinks(key, by))]
    return []


class _Counts:
    """How many members would find no room without some pods."""

    def __init__(self, room: Room) -> None:
        run = room.run
        self._run = run
        self._kinds: list[tuple[Ints, NDArray[np.bool_], Ints, int]] = []
        """request, allowed nodes, members that fit each node, members wanted"""
        self._alien = 0
        """Members that ask for what no node has"""
        for member_class, pods in room.wanted:
            request = run.view.vector(member_class)
            if request is None:
                self._alien += len(pods)
                continue
            allowed = run.capacity.mask(member_class) & ~room.held
            fits = np.where(allowed, fit_counts(run.capacity.room.free, request), 0)
            self._kinds.append((request, allowed, fits, len(pods)))
        self._groups = [self._mask(room.rows(zones)) for zones in room.groups]
        self._there = [[int(fits[inside].sum()) for _, _, fits, _ in self._kinds] for inside in self._groups]
        """group → members of each kind that fit there now"""
        self._of_zone: dict[int, list[int]] = {}
        """number of a zone → groups that it is in"""
        for number, zones in enumerate(room.groups):
            for column in run.view.columns(zones).tolist():
                self._of_zone.setdefault(column, []).append(number)
        self.missing = min((self._lacking(there) for there in self._there), default=self._lacking([]))

    def _mask(self, rows: Ints) -> NDArray[np.bool_]:
        mask = np.zeros(len(self._run.table.nodes), np.bool_)
        mask[rows] = True
        return mask

    def _lacking(self, there: Sequence[int]) -> int:
        """Members without room, where so many of each kind fit; without a group all."""
        counts = [count for *_, count in self._kinds]
        fits = there or [0] * len(counts)
        return self._alien + sum(max(count - fit, 0) for count, fit in zip(counts, fits, strict=True))

    def missing_without(self, pods: Sequence[Pod]) -> int:
        """In the best group of zones. Cost: O(nodes where the pods are) for each kind of member."""
        rows, amounts = self._run.table.footprint(pods)
        if not len(rows):
            return self.missing
        free = self._run.capacity.room.free[rows] + amounts
        gains = [
            np.where(allowed[rows], fit_counts(free, request), 0) - fits[rows] * allowed[rows]
            for request, allowed, fits, _ in self._kinds
        ]
        zones = set(self._run.view.zone_number[rows].tolist())
        least = self.missing
        for number in sorted({group for zone in zones for group in self._of_zone.get(zone, ())}):
            inside = self._groups[number][rows]
            there = [now + int(gain[inside].sum()) for now, gain in zip(self._there[number], gains, strict=True)]
            least = min(least, self._lacking(there))
        return least


def _groups(run: Run, ask: GangDemand) -> list[tuple[ZoneName, ...]]:
    """Sets of zones in which the gang would be placed together: mostly single ones."""
    allowed = run.view.candidate_zones(ask)
    if ask.options.zone_policy is ZonePolicy.PREFERRED and len(allowed) > 1:
        return [*((zone,) for zone in allowed), allowed]
    return [(zone,) for zone in allowed]


def _on_nodes(gang: Gang) -> list[Pod]:
    return [pod for pod in gang.members if pod.node is not None and not pod.terminal]
