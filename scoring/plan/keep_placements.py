"""The places of the previous plan: which of them still stand for sure, and what those of later gangs take.

Why together: after one event nearly all gangs keep their places. Checked one by one that is half of the time a plan
takes; checked together it is one sum over the nodes. Rules: a place stands for sure when everything that all places of
the previous plan take fits its nodes at once, and no other gang has been given room there during the run; else it is
checked by itself, when it is next. The room of places that stand is taken from the run when another gang is about to
look at it (`settle`).

The places of later gangs are spared while a displaced gang is placed, so that it does not push the next one out of its
own while there is room elsewhere; the last ones are given up first. They never keep a gang from being admitted that is
ahead in the order. What each place takes is kept from run to run: finding it again costs a run 14 ms for 800 gangs
(docs/adr/0006-planner-caches.md).
"""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager

import numpy as np

from scoring.feasibility.room import scatter_add
from scoring.ids import GangKey, NodeName, PodUid
from scoring.model import MemberClass
from scoring.model.reasons import Reason
from scoring.network.matrix import Ints
from scoring.plan.cache import Footprint
from scoring.plan.demand import GangDemand
from scoring.plan.placement import has_room, place_beside, place_minimum, with_more
from scoring.plan.result import Admission, Placed, Refused
from scoring.plan.run import Run


class KeptPlacements:
    """Places given by the previous plan, of gangs in the order of their turns."""

    def __init__(self, run: Run, kept: Sequence[tuple[GangDemand, Admission]]) -> None:
        self._run = run
        self._prints = [_footprint(run, demand, before) for demand, before in kept]
        self._turn = {demand.gang.key: turn for turn, (demand, _) in enumerate(kept)}
        self._next = 0
        """Places before this one are of gangs that have been looked at."""
        self._amounts: Ints | None = None
        """(nodes, resources) that places from `_counted` on take; computed when first needed."""
        self._counted = 0
        self._doubtful = self._crowded_rows()
        """Rows of places that must be checked one by one."""
        self._unsettled: list[Footprint] = []

    def begin(self, gang: GangKey) -> None:
        """`gang`, which had a place, is next: this is no longer one of a later gang."""
        self._next = self._turn[gang] + 1

    def stands(self, gang: GangKey) -> bool:
        """Whether the place of `gang`, the next one, stands for sure, as it was; if so its room is taken."""
        known = self._prints[self._turn[gang]]
        if known is None or not known.simple or not self._doubtful.isdisjoint(known.row_set):
            return False
        self._unsettled.append(known)
        return True

    def settle(self) -> None:
        """Take the room of all places that stood since the last time, before a gang looks at the run's room."""
        if self._unsettled:
            self._run.capacity.take_places(self._unsettled)
            self._unsettled = []

    def doubt(self, gang: GangKey, nodes: Mapping[PodUid, NodeName]) -> None:
        """`gang` was given these nodes: those that it had not before are no longer sure to hold what is kept there."""
        turn, commitment = self._turn.get(gang), self._run.snapshot.commitments.get(gang)
        known = self._prints[turn] if turn is not None else None
        had: Mapping[PodUid, NodeName] = {}  # what is counted: in the room that was left at first, or in the sum
        if commitment is not None:
            had = commitment.assignment
        elif known is not None:
            had = known.members
        index = self._run.table.index
        new = {node for uid, node in nodes.items() if had.get(uid) != node}
        self._doubtful.update(index[node] for node in new if node in index)

    def distrust(self, rows: frozenset[int]) -> None:
        """Places on these rows are checked one by one from now on: their room is reserved."""
        self._doubtful.update(rows)

    def tries(self) -> Iterator[int]:
        """How many of the last places to give up, try by try: none, 1, 2, 4, … but never all."""
        yield 0
        number = 1
        while number < len(self._prints) - self._next:
            yield number
            number *= 2

    @contextmanager
    def spared(self, *, but_last: int) -> Iterator[None]:
        """Hide the room of these places for a while, except the last `but_last` ones."""
        if self._amounts is None:
            self._amounts, self._counted = self._sum(self._prints[self._next :]), self._next
        elif self._counted < self._next:
            self._amounts = self._amounts - self._sum(self._prints[self._counted : self._next])
            self._counted = self._next
        amounts = self._amounts - self._sum(self._prints[len(self._prints) - but_last :])
        self._run.capacity.room.shift(amounts)
        try:
            yield
        finally:
            self._run.capacity.room.shift(-amounts)

    def _crowded_rows(self) -> set[int]:
        """Rows where not all places fit together, or where a class may not go any more."""
        run = self._run
        known = [one for one in self._prints if one is not None and one.demand.gang.key not in run.snapshot.commitments]
        free = np.maximum(run.capacity.room.free, 0)
        rows: set[int] = set(np.flatnonzero((self._sum(known) > free).any(axis=1)).tolist())
        rows_of: dict[MemberClass, list[Ints]] = {}  # class → rows that its members are on
        for one in known:
            for member_class, at, _ in one.parts if one.simple else ():
                rows_of.setdefault(member_class, []).append(at)
        for member_class, parts in rows_of.items():
            everywhere = np.concatenate(parts)
            rows.update(everywhere[~run.capacity.mask(member_class)[everywhere]].tolist())
        return rows

    def _sum(self, places: Sequence[Footprint | None]) -> Ints:
        """What the places take together, (nodes, resources)."""
        total = np.zeros_like(self._run.capacity.start)
        if known := [one for one in places if one is not None]:
            rows, amounts = [one.rows for one in known], [one.amounts for one in known]
            scatter_add(total, np.concatenate(rows), np.concatenate(amounts))
        return total


def keep_commitment(run: Run, demand: GangDemand) -> Placed | Refused:
    """A committed gang keeps its nodes (their room is taken already); members that came later go beside them."""
    assignment = run.snapshot.commitments[demand.gang.key].assignment
    nodes = {pod.uid: assignment[pod.uid] for pod in demand.gang.pending if pod.uid in assignment}
    zones = run.view.zones_of([*nodes.values(), *(node for _, node in demand.siblings)])
    placed = place_beside(run, demand, Placed(zones, nodes, None))
    if placed.nodes:
        return placed
    return Refused(Reason.SURPLUS, "the minimum is under way; more start when there is room")


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


def move_aside(run: Run, demand: GangDemand, kept: KeptPlacements, *, now_s: float) -> Placed | None:
    """A gang that lost its place takes another one that no gang has, else that of as few and as late gangs as suffice.

    Otherwise each gang that is moved would move the next, and one pod's event would cost a full plan.
    """
    if not demand.need:
        return None
    for left_out in kept.tries():
        with kept.spared(but_last=left_out):
            if not has_room(run, demand):
                continue
            outcome = place_minimum(run, demand, now_s=now_s)
        if isinstance(outcome, Placed):
            return with_more(run, demand, outcome)
    return None


def _footprint(run: Run, demand: GangDemand, before: Admission) -> Footprint | None:
    """What the pending members of `before` take; `None` when a node or a resource is gone."""
    layout = run.view.layout
    known = run.cache.footprints.get(demand.gang.key)
    same = known is not None and known.demand is demand and known.members is before.members
    if known is not None and same and known.layout == layout and known.zones == before.zones:
        return known
    made = _measured(run, demand, before)
    if made is not None:
        run.cache.footprints[demand.gang.key] = made
    return made


def _take_again(run: Run, demand: GangDemand, before: Admission) -> bool:
    """Take the room of a place given earlier, if all of the gang's minimum set still fits there; else nothing."""
    if any(pod.uid not in before.members for _, pods in demand.need for pod in pods):
        return False
    known = _footprint(run, demand, before)
    if known is None or not known.used.issubset(before.zones):
        return False  # where a node's zone has changed the gang would not be together any more
    if not all(run.capacity.mask(member_class)[rows].all() for member_class, rows, _ in known.parts):
        return False
    rows = np.array(sorted(known.row_set), np.int64)
    asked = np.zeros((len(rows), known.amounts.shape[1]), np.int64)
    scatter_add(asked, np.searchsorted(rows, known.rows), known.amounts)  # classes may share nodes
    # An over-full node has room for what asks for nothing.
    if (asked > np.maximum(run.capacity.room.free[rows], 0)).any():
        return False
    run.capacity.take_places([known])
    for member_class, at, _ in known.parts:
        run.capacity.ports_taken(member_class, at)
    return True


def _measured(run: Run, demand: GangDemand, before: Admission) -> Footprint | None:
    view = run.view
    index, members = view.table.index, before.members
    parts: list[tuple[MemberClass, Ints, Ints]] = []
    pending, placed = 0, 0
    for member_class, pods in (*demand.need, *demand.more):
        nodes = [members[pod.uid] for pod in pods if pod.uid in members]
        pending, placed = pending + len(pods), placed + len(nodes)
        if not nodes:
            continue  # members beyond the minimum that had no place, perhaps for want of a resource
        request = view.vector(member_class)
        if any(node not in index for node in nodes):
            return None
        count = Counter(index[node] for node in nodes)
        rows = np.array(sorted(count), np.int64)
        parts.append((member_class, rows, np.array([count[row] for row in sorted(count)])[:, None] * request))
    every = [rows for _, rows, _ in parts]
    row_set = frozenset(row for rows in every for row in rows.tolist())
    ported = any(member_class.constraints.host_ports for member_class, _, _ in parts)
    whole = pending == placed == len(members) and not ported
    used = frozenset(view.zones[view.zone_number[row]] for row in row_set)
    nothing = np.zeros((0, len(view.table.axis)), np.int64)
    return Footprint(
        demand,
        members,
        before.zones,
        view.layout,
        tuple(parts),
        np.concatenate(every) if every else np.zeros(0, np.int64),
        np.concatenate([amounts for _, _, amounts in parts]) if parts else nothing,
        row_set,
        used,
        whole and used <= set(before.zones) <= set(view.candidate_zones(demand)),
    )
