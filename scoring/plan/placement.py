"""Find a place for one gang in the room that is left, or keep the one that it has in the previous plan (PAPERS N1, N3).

Steps for a gang's minimum set:
1. Candidate zones: those its placed members are in; else (and with zone policy `preferred`) those it allows.
2. Those with room for all of it, in order: where placed members are, nearest to the users, the gang's own order, best
   achievable network, least fragmentation, name. Found zone by zone, because mostly the first one is the answer.
3. The first zone where the selection method finds nodes for all members.
4. Otherwise, with zone policy `preferred` and after the wait: the fewest zones that hold it together, of equally few
   the best connected ones.

A former place stands if, in its gang's turn, the whole minimum set still fits its nodes, all at once, and may go there.
The places of later gangs are spared while a displaced gang is placed, so that it does not push the next one out of its
own while there is room elsewhere; the last ones are given up first. They keep no gang ahead from being admitted.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cache, partial
from itertools import islice

import msgspec
import numpy as np
from msgspec.structs import replace

from scoring import GangKey, NodeName, PodUid, ZoneName
from scoring.model import MemberClass, Role
from scoring.model.pod import DEVICE_CLAIMS
from scoring.model.policy import ScorePolicy, Selection, ZonePolicy
from scoring.model.reasons import Reason
from scoring.model.snapshot import remember, scatter_add
from scoring.network.matrix import Ints
from scoring.plan.capacity import When
from scoring.plan.demand import ByClass, GangDemand, MemberSet, countable
from scoring.plan.result import Admission, NoPlace, Placed
from scoring.plan.run import Run
from scoring.queue.states import waiting_since_s
from scoring.score.zone_distance import Between, fewest_zones, mean_between, rank_zones, zone_distances

_SPREADS_TRIED = 16  # Sets of zones that are searched for one gang; classes rarely compete so that the first one fails
_MOST_TOGETHER = 4_000  # Nodes of all allowed zones up to which they are tried together as the last resort


def kind_of(run: Run, demand: GangDemand) -> MemberSet:
    """The gang's minimum set, one object for all gangs that ask for the same; made when it is asked for first."""
    seen = run.kinds.by_demand.get(id(demand))
    if seen is not None:
        return seen[1]
    classes = tuple([(member_class, len(pods)) for member_class, pods in demand.need])
    key = (classes, demand.siblings, demand.all_reduce, demand.options)
    kind = remember(run.kinds.by_content, key, lambda: run.view.member_set(demand.need, demand), limit=2**16)
    run.kinds.by_demand[id(demand)] = (demand, kind)
    return kind


def place_anywhere(run: Run, demand: GangDemand, *, now_s: float) -> Placed | NoPlace:
    """Place the gang where there is room: its minimum set, or, if that runs, as many further members as fit."""
    if not demand.need:
        zones = run.view.zones_of(node for _, node in demand.siblings)
        more = place_more(run, demand, zones, ()) if zones else _place_rest(run, demand)
        return more or NoPlace(Reason.SURPLUS, "the minimum runs; more members start when there is room")
    kind = kind_of(run, demand)
    refusal = kind.refused
    if refusal is not None and refusal[0] is run.capacity.room and refusal[1] in (None, run.capacity.room.moment):
        return refusal[2]
    outcome = place_anew(run, demand, now_s=now_s)
    if isinstance(outcome, NoPlace) and outcome.reason is not Reason.SPILL_WAIT:  # which only a clock decides
        kind.refused = (run.capacity.room, run.capacity.room.moment if countable(demand) else None, outcome)
    return outcome


def place_anew(run: Run, demand: GangDemand, *, now_s: float) -> Placed | NoPlace:
    """Place the gang's whole minimum set and as many members more as fit beside it, or say why not."""
    outcome = place_minimum(run, demand, now_s=now_s)
    return with_more(run, demand, outcome) if isinstance(outcome, Placed) else outcome


def place_beside(run: Run, demand: GangDemand, placed: Placed) -> Placed:
    """Add members that have no node in `placed`, as many as fit, near those that have."""
    asked, given = (*demand.need, *demand.more), placed.nodes
    left = ((member_class, tuple(pod for pod in pods if pod.uid not in given)) for member_class, pods in asked)
    rest = tuple((member_class, pods) for member_class, pods in left if pods)
    return with_more(run, replace(demand, need=(), more=rest), placed) if placed.zones else placed


def with_more(run: Run, demand: GangDemand, placed: Placed) -> Placed:
    """The same and as many members beyond the minimum as fit beside it."""
    if not demand.more:
        return placed
    near = [(pod.role, placed.nodes[pod.uid]) for pod in demand.gang.pending if pod.uid in placed.nodes]
    more = place_more(run, demand, placed.zones, near)
    return placed if more is None else replace(placed, nodes={**placed.nodes, **more.nodes})


def place_minimum(run: Run, demand: GangDemand, *, now_s: float) -> Placed | NoPlace:
    """Place the gang's whole minimum set, or say why not."""
    kind = kind_of(run, demand)
    if not kind.allowed:
        names = ", ".join(filter(None, run.zones)) or "none"
        detail = f"no node has zone label {run.policy.zone_label}"
        if (wanted := demand.options.zones) is not None:
            detail = f"netgang.io/zones names {', '.join(wanted)}; the cluster has {names}"
        return NoPlace(Reason.NO_ALLOWED_ZONE, detail)
    rooms = run.capacity.zone_rooms(kind)
    enough = rooms[kind.columns] >= kind.size
    if not enough.any():
        exact = rooms[kind.columns] if len(kind.classes) == 1 else None
        return _spread_or_wait(run, demand, kind, now_s=now_s, rooms=exact)
    room = dict(zip(run.zones, rooms.tolist(), strict=True))
    feasible = tuple([zone for zone, fits in zip(kind.allowed, enough.tolist(), strict=True) if fits])
    refused: NoPlace | None = None
    for zone in _in_order(run, demand, kind, feasible, room):
        outcome: Placed | NoPlace | None = _place_in(run, demand.need, kind, (zone,))
        if isinstance(outcome, Placed):
            return outcome
        refused = refused or outcome
    outcome = _spread_or_wait(run, demand, kind, now_s=now_s)
    waits = isinstance(outcome, NoPlace) and outcome.reason is not Reason.SPILL_WAIT
    return refused if refused is not None and waits else outcome


def has_room(run: Run, demand: GangDemand) -> bool:
    """Whether looking for a place of the minimum set can succeed at all, as far as counting shows."""
    kind = kind_of(run, demand)
    spreads = demand.options.zone_policy is ZonePolicy.PREFERRED
    return spreads or bool((run.capacity.zone_rooms(kind)[kind.columns] >= kind.size).any())


def place_more(
    run: Run, demand: GangDemand, zones: Sequence[ZoneName], near: Iterable[tuple[Role, NodeName]]
) -> Placed | None:
    """Place as many members beyond the minimum as fit into `zones`, class by class, beside siblings and `near`."""
    nodes: dict[PodUid, NodeName] = {}
    beside = list(near)
    for member_class, pods in demand.more:
        fits = run.capacity.zone_counts(member_class)
        count = min(len(pods), int(sum(fits[run.zones.index(zone)] for zone in zones)))
        members: ByClass = ((member_class, pods[:count]),)
        placed = _place_in(run, members, run.view.member_set(members, demand, beside), tuple(zones)) if count else None
        if isinstance(placed, Placed):
            nodes |= placed.nodes
            beside.extend((member_class.role, node) for node in placed.nodes.values())
    return Placed(tuple(zones), nodes, None) if nodes else None


def _place_rest(run: Run, demand: GangDemand) -> Placed | None:
    """Members beyond the minimum of a gang without one on a node (all have succeeded, say) go together to one zone."""
    kind = run.view.member_set(demand.more, demand)
    held = dict(zip(run.zones, run.capacity.zone_members(kind).tolist(), strict=True))
    most = max((held[zone] for zone in kind.allowed), default=0)
    if not most:
        return None
    room = dict(zip(run.zones, run.capacity.zone_rooms(kind).tolist(), strict=True))
    order = _in_order(run, demand, kind, tuple(zone for zone in kind.allowed if held[zone] == most), room)
    return place_more(run, demand, (next(order),), ())


def _spread_or_wait(
    run: Run, demand: GangDemand, kind: MemberSet, *, now_s: float, rooms: Ints | None = None
) -> Placed | NoPlace:
    """Step 4, or the reason to wait. `rooms`: how many members fit each allowed zone, if that is known."""
    if not possible(run, demand, kind):
        detail = f"{kind.size} members at once fit in no allowed zone, even when it is empty"
        shut = ~np.any([run.capacity.mask(member_class, When.EMPTY) for member_class, _ in kind.classes], axis=0)
        if left_out := int(run.view.by_zone(shut)[kind.columns].sum()):
            nodes = f"{left_out} of {sum(len(run.table.zones[zone]) for zone in kind.allowed)} nodes"
            detail += f"; {nodes} are left out: cordoned, not ready, with a taint, or without the pods' labels"
        return NoPlace(Reason.IMPOSSIBLE, detail)
    preferred, uncounted = demand.options.zone_policy is ZonePolicy.PREFERRED, asks_uncounted(run, demand)
    if preferred and not demand.siblings:
        since_s = max(waiting_since_s(demand.gang) or 0.0, demand.gang.created_s)
        if (left_s := run.policy.spill_wait_s - (now_s - since_s)) > 0.0:
            return NoPlace(Reason.SPILL_WAIT, f"may be spread over zones in {left_s:.0f} s")
    refused: NoPlace | None = None
    for zones in _sets_to_try(run, kind) if preferred else ():
        outcome = _place_in(run, demand.need, kind, zones)
        if isinstance(outcome, Placed):
            return outcome
        refused = refused or outcome
    if refused is not None:
        return refused
    if run.snapshot.exclusions and run.capacity.zones_for(kind.classes, refusals=False)[kind.columns].any():
        why = "kube-scheduler's Event FailedScheduling says which filter"
        return NoPlace(Reason.UNCOUNTED if uncounted else Reason.FILTERED, why)
    held = run.capacity.zone_members(kind)[kind.columns] if rooms is None else np.minimum(rooms, kind.size)
    best = len(kind.allowed) - 1 - int(held[::-1].argmax())  # the last by name among equals
    reason = Reason.BEHIND if _was_there(run, kind, together=preferred) else Reason.NO_ROOM
    reason = Reason.UNCOUNTED if uncounted else reason  # nobody leaves for what may not exist
    where = f"zone {kind.allowed[best] or '(none)'}"
    return NoPlace(reason, f"most room in {where}: {held[best]} of {kind.size} members")


def asks_uncounted(run: Run, demand: GangDemand) -> bool:
    """Whether the gang's minimum asks for what no node's allocatable shows: a resource, or devices by a claim."""
    return any(
        run.table.uncounted(member_class.requests) or any(DEVICE_CLAIMS in pod.unmodelled for pod in pods)
        for member_class, pods in demand.need
    )


def _was_there(run: Run, kind: MemberSet, *, together: bool) -> bool:
    """Whether there was room, in one allowed zone or in all `together`, before gangs ahead were given theirs."""
    given = np.zeros(len(run.zones), np.bool_)
    given[run.view.zone_number[run.capacity.rows_taken()]] = True
    taken = kind.columns[given[kind.columns]]
    if not len(taken):
        return False
    able, enough = np.ones(len(taken), np.bool_), together
    for member_class, count in kind.classes:
        at_start = run.capacity.zone_counts(member_class, When.AT_START)
        able &= at_start[taken] >= count
        enough = enough and bool(at_start[kind.columns].sum() >= count)
        if not (enough or able.any()):
            return False
    return True


def possible(run: Run, demand: GangDemand, kind: MemberSet) -> bool:
    """Whether the gang would fit an empty cluster: in one allowed zone, or over all of them with `preferred`."""
    if demand.siblings:
        return True  # it ran here before; what is missing is room or a node, and both may come back
    if kind.could_fit is None:
        preferred = demand.options.zone_policy is ZonePolicy.PREFERRED
        kind.could_fit = run.search.fits(kind, kind.allowed) if preferred else _fits_one(run, kind)
    return kind.could_fit


def could_ever_start(run: Run, demand: GangDemand) -> bool:
    """Whether a gang without placed members would fit an empty cluster, however its members are spread."""
    kind, spreads = kind_of(run, demand), demand.options.zone_policy is ZonePolicy.PREFERRED
    return possible(run, demand, kind) or (spreads and _fits_one(run, kind))


def _fits_one(run: Run, kind: MemberSet) -> bool:
    rooms = zip(kind.allowed, run.capacity.zone_rooms(kind, When.EMPTY)[kind.columns].tolist(), strict=True)
    single = len(kind.classes) == 1
    return any(room >= kind.size and (single or run.search.fits(kind, (zone,))) for zone, room in rooms)


def _place_in(run: Run, members: ByClass, kind: MemberSet, zones: tuple[ZoneName, ...]) -> Placed | NoPlace | None:
    """Place `members`, of which `kind` was made, in `zones`, and take their room; `None`: they do not fit."""
    rows = run.view.rows(zones)
    selected = run.search.place(kind, zones)
    if selected is None:
        return None
    points, bad = run.search.network_of(kind, zones, selected)
    if bad and kind.method is Selection.PACK:  # fewest nodes first: with more of them none may be bad
        return _place_in(run, members, replace(kind, method=Selection.SUBSET), zones)
    if bad:
        return NoPlace(Reason.BAD_LINKS, bad)
    nodes: dict[PodUid, NodeName] = {}
    used: set[ZoneName] = set()
    for (member_class, pods), chosen in zip(members, selected, strict=True):
        at: list[int] = rows.take(chosen).tolist()
        used |= run.capacity.take_rows(member_class, at)
        nodes.update(zip([pod.uid for pod in pods], [run.table.names[row] for row in at], strict=True))
    return Placed(tuple(sorted(used)), nodes, points)


def _in_order(
    run: Run, demand: GangDemand, kind: MemberSet, zones: tuple[ZoneName, ...], room: Mapping[ZoneName, int]
) -> Iterator[ZoneName]:
    """`zones`, which all have `room`, in the order they are tried."""
    if kind.home:
        yield from _by_network(run, demand, kind, tuple(zone for zone in zones if zone in kind.home), room)
        zones = tuple(zone for zone in zones if zone not in kind.home)
    yield from _by_network(run, demand, kind, zones, room)


def _by_network(
    run: Run, demand: GangDemand, kind: MemberSet, zones: tuple[ZoneName, ...], room: Mapping[ZoneName, int]
) -> Iterator[ZoneName]:
    if len(zones) < 2:
        yield from zones
        return
    if zones not in kind.tiers:
        near, distances, network = demand.options.near, None, run.snapshot.network
        if near is not None:
            configured = tuple((zone, *row.items()) for zone, row in run.policy.zone_distance_ms.items())
            look = partial(zone_distances, near, run.table, network, run.policy)
            distances = remember(run.view.of_network.distances, (run.table.version, near, configured), look)
        ranks = rank_zones(zones, options=demand.options, distances=distances)
        best = [zone for *rank, zone in ranks if rank == [*ranks[0][:2]]]
        common = run.scores.common_reference(best, kind.score) if len(best) > 1 else kind.score
        kind.tiers[zones] = common, best, [zone for _, _, zone in ranks[len(best) :]]
    common, best, others = kind.tiers[zones]
    estimates = run.search.estimates(kind, best, score=common) if len(best) > 1 else {}
    keys = [(np.inf if (value := estimates.get(zone)) is None else -value, room[zone], zone) for zone in best]
    yield from (zone for _, _, zone in sorted(keys))
    yield from others


def _sets_to_try(run: Run, kind: MemberSet) -> list[tuple[ZoneName, ...]]:
    """Sets of the allowed zones that may hold the gang's minimum set together, in the order they are tried."""
    fits = run.capacity.zone_fits(kind)
    rooms = {zone: fits[:, run.zones.index(zone)].tolist() for zone in kind.allowed}
    counts = [count for _, count in kind.classes]
    candidates = fewest_zones(rooms, counts, between=_between(run, kind.score), home=tuple(sorted(kind.home)))
    sets = list(islice(candidates, _SPREADS_TRIED))
    # Counts per class do not see that classes compete for the same nodes: all zones together are the last try.
    return [*sets, _together(run, kind.allowed, fits)] if sets else []


def _together(run: Run, allowed: Sequence[ZoneName], fits: Ints) -> tuple[ZoneName, ...]:
    """All allowed zones; of more than `_MOST_TOGETHER` nodes those with most room, as many as stay below that."""
    size = {zone: len(run.table.zones[zone]) for zone in allowed}
    if sum(size.values()) <= _MOST_TOGETHER:
        return tuple(allowed)
    room = dict(zip(run.zones, fits.sum(axis=0).tolist(), strict=True))
    chosen: list[ZoneName] = []
    for zone in sorted(allowed, key=lambda zone: (-room[zone], zone)):
        if room[zone] and sum(size[other] for other in chosen) + size[zone] <= _MOST_TOGETHER:
            chosen.append(zone)
    return tuple(zone for zone in allowed if zone in chosen)


def _between(run: Run, score: ScorePolicy) -> Between:
    """Mean points between two zones; zones that nothing links are worth what any two nodes without data are."""
    network, means = run.snapshot.network, run.view.of_network.means
    links = None if network.estimates else run.scores.crossings()

    @cache
    def between(zone: ZoneName, other: ZoneName) -> float:
        low, high = sorted((run.zones.index(zone), run.zones.index(other)))
        names, ends = (run.view.names((run.zones[at],)) for at in (low, high))
        if links is not None and (low, high) not in links:
            return remember(means, score, partial(mean_between, network, names[:1], ends[:1], score, across={}))
        across = links[low, high] if links is not None else None
        look = partial(mean_between, network, names, ends, score, across=across)
        return remember(means, (names, ends, score), look, limit=2**16)

    return between


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
            self._footprints = [_footprint(self._run, later, before.members) for later, before in self._places]
        room, last = self._run.capacity.room, 0  # So many of the last places are given up: none, 1, 2, 4, … never all
        while demand.need and (not last or last < len(self._places) - self._next):
            spared = np.zeros_like(room.free)
            for footprint in self._footprints[self._next : len(self._footprints) - last]:
                if footprint is not None:
                    scatter_add(spared, footprint.rows, footprint.amounts)
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
        amounts = np.repeat([run.view.vector(mc) for mc, _ in parts], [len(rows) for _, rows in parts], axis=0)
    return _Footprint(tuple(parts), np.array([row for _, rows in parts for row in rows], np.int64), amounts)


def _take_again(run: Run, demand: GangDemand, before: Admission) -> bool:
    """Take the room of a place given earlier, if all of the gang's minimum set still fits there; else nothing."""
    if any(pod.uid not in before.members for _, pods in demand.need for pod in pods):
        return False
    footprint = _footprint(run, demand, before.members)
    if footprint is None or any(run.table.nodes[row].zone not in before.zones for row in footprint.rows.tolist()):
        return False  # where a node's zone has changed the gang would not be together any more
    if not all(run.capacity.mask(member_class)[rows].all() for member_class, rows in footprint.parts):
        return False
    rows, place = np.unique(footprint.rows, return_inverse=True)
    asked = np.zeros((len(rows), footprint.amounts.shape[1]), np.int64)
    scatter_add(asked, place, footprint.amounts)  # members may share nodes
    # An over-full node has room for what asks for nothing.
    if (asked > np.maximum(run.capacity.room.free[rows], 0)).any():
        return False
    run.capacity.room.take_places(rows, asked)
    for member_class, at in footprint.parts:
        run.capacity.ports_taken(member_class, at)
    return True
