"""The places of the previous plan: which of them still stand, and what those of later gangs take.

Rule: a place stands if, in its gang's turn, the whole minimum set still fits its nodes, all at once, and may go there.
The places of later gangs are spared while a displaced gang is placed, so that it does not push the next one out of its
own while there is room elsewhere; the last ones are given up first. They keep no gang ahead from being admitted.
"""

from collections.abc import Mapping, Sequence

import msgspec
import numpy as np

from scoring import GangKey, NodeName, PodUid
from scoring.feasibility.room import scatter_add
from scoring.model import MemberClass
from scoring.model.reasons import Reason
from scoring.network.matrix import Ints
from scoring.plan.demand import GangDemand
from scoring.plan.placement import has_room, place_beside, place_minimum, with_more
from scoring.plan.result import Admission, NoPlace, Placed
from scoring.plan.run import Run


class _Footprint(msgspec.Struct, frozen=True):
    parts: tuple[tuple[MemberClass, list[int]], ...]  # Class and the row of each of its members
    rows: Ints  # Those of all members, one after another
    amounts: Ints  # (members, resources)


class LaterPlaces:
    """Places given by the previous plan, of gangs in the order of their turns."""

    def __init__(self, run: Run, places: Sequence[tuple[GangDemand, Admission]]) -> None:
        self._run, self._places = run, places
        self._turn = {demand.gang.key: turn for turn, (demand, _) in enumerate(places)}
        self._next = 0  # Places before this one are of gangs that have been looked at
        self._footprints: list[_Footprint | None] | None = None  # Made when first needed: mostly nobody has to move

    def begin(self, gang: GangKey) -> None:
        """`gang`, which had a place, is next: this is no longer one of a later gang."""
        self._next = self._turn[gang] + 1

    def move_aside(self, demand: GangDemand, *, now_s: float) -> Placed | None:
        """A gang that lost its place takes one that no gang has, else that of as few and as late gangs as suffice.

        Else each that is moved would move the next, and one pod's event would cost a full plan.
        """
        if self._footprints is None:
            self._footprints = [_footprint(self._run, one, before.members) for one, before in self._places]
        room, last = self._run.capacity.room, 0  # So many of the last places are given up: none, 1, 2, 4, … never all
        while demand.need and (not last or last < len(self._places) - self._next):
            spared = np.zeros_like(room.free)
            for one in self._footprints[self._next : len(self._footprints) - last]:
                if one is not None:
                    scatter_add(spared, one.rows, one.amounts)
            room.shift(spared)
            outcome = place_minimum(self._run, demand, now_s=now_s) if has_room(self._run, demand) else None
            room.shift(-spared)
            if isinstance(outcome, Placed):
                return with_more(self._run, demand, outcome)
            last = 2 * last or 1
        return None


def keep_commitment(run: Run, demand: GangDemand) -> Placed | NoPlace:
    """A committed gang keeps its nodes (their room is taken already); members that came later go beside them."""
    assignment = run.snapshot.commitments[demand.gang.key].assignment
    nodes = {pod.uid: assignment[pod.uid] for pod in demand.gang.pending if pod.uid in assignment}
    zones = run.view.zones_of([*nodes.values(), *(node for _, node in demand.siblings)])
    placed = place_beside(run, demand, Placed(zones, nodes, None))
    if placed.nodes:
        return placed
    return NoPlace(Reason.SURPLUS, "the minimum is under way; more start when there is room")


def keep_place(run: Run, demand: GangDemand, before: Admission) -> Placed | None:
    """The gang's place in the previous plan, if it still stands for the whole minimum set and in zones it may use."""
    if not set(before.zones).issubset(run.view.candidate_zones(demand)) or not _take_again(run, demand, before):
        return None
    pending = [pod.uid for _, pods in (*demand.need, *demand.more) for pod in pods]
    nodes = {uid: before.members[uid] for uid in pending if uid in before.members}
    if len(nodes) == len(pending):
        return Placed(before.zones, before.members if len(nodes) == len(before.members) else nodes, before.score)
    placed = place_beside(run, demand, Placed(before.zones, nodes, before.score))
    return placed if placed.nodes else None  # those that had a place run by now, the rest is looked at again


def _footprint(run: Run, demand: GangDemand, members: Mapping[PodUid, NodeName]) -> _Footprint | None:
    """What the pending members take on these nodes; `None` when a node is gone."""
    index, parts = run.table.index, []
    for member_class, pods in (*demand.need, *demand.more):
        nodes = [members[pod.uid] for pod in pods if pod.uid in members]
        if any(node not in index for node in nodes):
            return None
        if nodes:  # members beyond the minimum may have had no place
            parts.append((member_class, [index[node] for node in nodes]))
    amounts = np.zeros((0, len(run.table.axis)), np.int64)
    if parts:
        amounts = np.repeat([run.view.vector(one) for one, _ in parts], [len(rows) for _, rows in parts], axis=0)
    return _Footprint(tuple(parts), np.array([row for _, rows in parts for row in rows], np.int64), amounts)


def _take_again(run: Run, demand: GangDemand, before: Admission) -> bool:
    """Take the room of a place given earlier, if all of the gang's minimum set still fits there; else nothing."""
    if any(pod.uid not in before.members for _, pods in demand.need for pod in pods):
        return False
    known = _footprint(run, demand, before.members)
    if known is None or any(run.table.nodes[row].zone not in before.zones for row in known.rows.tolist()):
        return False  # where a node's zone has changed the gang would not be together any more
    if not all(run.capacity.mask(member_class)[rows].all() for member_class, rows in known.parts):
        return False
    rows, place = np.unique(known.rows, return_inverse=True)
    asked = np.zeros((len(rows), known.amounts.shape[1]), np.int64)
    scatter_add(asked, place, known.amounts)  # members may share nodes
    # An over-full node has room for what asks for nothing.
    if (asked > np.maximum(run.capacity.room.free[rows], 0)).any():
        return False
    run.capacity.room.take_places(rows, asked)
    for member_class, at in known.parts:
        run.capacity.ports_taken(member_class, at)
    return True
