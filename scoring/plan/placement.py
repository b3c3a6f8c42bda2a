"""Find a place for one gang in the room that is left: which zone, then which nodes (PAPERS N1, N3).

Steps for a gang's minimum set:
1. Candidate zones: those its placed members are in; else (and with zone policy `preferred`) those it allows.
2. Drop zones without room for all of it.
3. Order the rest (`scoring.plan.zone_order`).
4. In the first zone where the selection method finds nodes for all members, that is the answer.
5. Otherwise, with zone policy `preferred` and after the wait: the fewest zones that hold it together.
"""

from collections.abc import Iterable, Sequence

import numpy as np
from msgspec.structs import replace

from scoring.ids import NodeName, PodUid, ZoneName
from scoring.model import Role
from scoring.model.pod import DEVICE_CLAIMS
from scoring.model.policy import ScorePolicy, ZonePolicy
from scoring.model.reasons import Reason
from scoring.network.matrix import Ints
from scoring.plan.capacity import When
from scoring.plan.demand import ByClass, GangDemand, Kind, MemberSet, countable
from scoring.plan.result import Placed, Refused
from scoring.plan.run import Run
from scoring.plan.zone_order import in_order, kind_of, sets_to_try
from scoring.queue.states import waiting_since_s


def place_anywhere(run: Run, demand: GangDemand, *, now_s: float) -> Placed | Refused:
    """Place the gang where there is room: its minimum set, or, if that runs, as many further members as fit."""
    if not demand.need:
        zones = run.view.zones_of(node for _, node in demand.siblings)
        more = place_more(run, demand, zones, ()) if zones else place_rest(run, demand)
        return more or Refused(Reason.SURPLUS, "the minimum runs; more members start when there is room")
    kind = kind_of(run, demand)
    known = kind.refused
    if known is not None and known[0] is run.capacity.room and known[1] in (None, run.capacity.room.moment):
        return known[2]
    outcome = place_minimum(run, demand, now_s=now_s)
    if isinstance(outcome, Refused):
        if outcome.reason is not Reason.SPILL_WAIT:  # which only a clock decides
            kind.refused = (run.capacity.room, run.capacity.room.moment if countable(demand) else None, outcome)
        return outcome
    return with_more(run, demand, outcome)


def place_beside(run: Run, demand: GangDemand, placed: Placed) -> Placed:
    """Add members that have no node in `placed`, as many as fit, near those that have."""
    rest = tuple(
        (member_class, left)
        for member_class, pods in (*demand.need, *demand.more)
        if (left := tuple(pod for pod in pods if pod.uid not in placed.nodes))
    )
    late = replace(demand, need=(), more=rest)
    return with_more(run, late, placed) if rest and placed.zones else placed


def with_more(run: Run, demand: GangDemand, placed: Placed) -> Placed:
    """The same and as many members beyond the minimum as fit beside it."""
    if not demand.more:
        return placed
    near = [(pod.role, placed.nodes[pod.uid]) for pod in demand.gang.pending if pod.uid in placed.nodes]
    more = place_more(run, demand, placed.zones, near)
    return placed if more is None else replace(placed, nodes={**placed.nodes, **more.nodes})


def place_minimum(run: Run, demand: GangDemand, *, now_s: float) -> Placed | Refused:
    """Place the gang's whole minimum set, or say why not."""
    kind = kind_of(run, demand)
    member_set, score, allowed = kind.members, kind.score, kind.allowed
    if not allowed:
        return Refused(Reason.NO_ALLOWED_ZONE, _no_zone_detail(run, demand))
    rooms = run.capacity.zone_rooms(member_set)
    enough = rooms[kind.columns] >= member_set.size
    if not enough.any():
        known = rooms[kind.columns] if len(member_set.classes) == 1 else None
        return _spread_or_wait(run, demand, kind, now_s=now_s, rooms=known)
    room = dict(zip(run.zones, rooms.tolist(), strict=True))
    feasible = tuple([zone for zone, fits in zip(allowed, enough.tolist(), strict=True) if fits])
    for zone in in_order(run, demand, kind, feasible, room):
        placed = place_in(run, demand, demand.need, member_set, (zone,), score=score)
        if placed is not None:
            return placed
    return _spread_or_wait(run, demand, kind, now_s=now_s)


def has_room(run: Run, demand: GangDemand) -> bool:
    """Whether looking for a place of the minimum set can succeed at all, as far as counting shows."""
    kind = kind_of(run, demand)
    if demand.options.zone_policy is ZonePolicy.PREFERRED:
        return True
    return bool((run.capacity.zone_rooms(kind.members)[kind.columns] >= kind.members.size).any())


def place_more(
    run: Run, demand: GangDemand, zones: Sequence[ZoneName], near: Iterable[tuple[Role, NodeName]]
) -> Placed | None:
    """Place as many members beyond the minimum as fit into `zones`, class by class, beside siblings and `near`."""
    nodes: dict[PodUid, NodeName] = {}
    beside, score = list(near), run.view.score(demand)
    for member_class, pods in demand.more:
        fits = run.capacity.zone_fits(run.view.member_set(((member_class, pods[:1]),), demand))[0]
        count = min(len(pods), int(sum(fits[run.zones.index(zone)] for zone in zones)))
        members: ByClass = ((member_class, pods[:count]),)
        member_set = run.view.member_set(members, demand, beside)
        placed = place_in(run, demand, members, member_set, tuple(zones), score=score) if count else None
        if placed is not None:
            nodes |= placed.nodes
            beside.extend((member_class.role, node) for node in placed.nodes.values())
    return Placed(tuple(zones), nodes, None) if nodes else None


def place_rest(run: Run, demand: GangDemand) -> Placed | None:
    """Place members beyond the minimum of a gang that has no member on a node (all have succeeded, say).

    They go together, into the zone that takes most of them.
    """
    member_set = run.view.member_set(demand.more, demand)
    held = dict(zip(run.zones, run.capacity.zone_members(member_set).tolist(), strict=True))
    allowed = run.view.candidate_zones(demand)
    most = max((held[zone] for zone in allowed), default=0)
    if not most:
        return None
    room = dict(zip(run.zones, run.capacity.zone_rooms(member_set).tolist(), strict=True))
    kind = Kind(member_set, run.view.score(demand), allowed, run.view.columns(allowed), frozenset())
    order = in_order(run, demand, kind, tuple(zone for zone in allowed if held[zone] == most), room)
    best = next(zone for zone in order if zone is not None)
    return place_more(run, demand, (best,), ())


def _spread_or_wait(
    run: Run, demand: GangDemand, kind: Kind, *, now_s: float, rooms: Ints | None = None
) -> Placed | Refused:
    """Step 5, or the reason to wait. `rooms`: how many members fit each allowed zone, if that is known."""
    member_set, allowed = kind.members, kind.allowed
    preferred = demand.options.zone_policy is ZonePolicy.PREFERRED
    uncounted = asks_uncounted(run, demand)
    if not possible(run, demand, kind):
        return impossible(member_set.size)
    if preferred and not demand.siblings:
        since_s = max(waiting_since_s(demand.gang) or 0.0, demand.gang.created_s)
        if (left_s := run.policy.spill_wait_s - (now_s - since_s)) > 0.0:
            return Refused(Reason.SPILL_WAIT, f"may be spread over zones in {left_s:.0f} s")
    if preferred and (placed := _spread(run, demand, kind)) is not None:
        return placed
    if run.snapshot.exclusions and run.capacity.zones_for(member_set.classes, refusals=False)[kind.columns].any():
        return Refused(Reason.UNCOUNTED if uncounted else Reason.FILTERED, _FILTERED)
    held = run.capacity.zone_members(member_set)[kind.columns] if rooms is None else np.minimum(rooms, member_set.size)
    best = len(allowed) - 1 - int(held[::-1].argmax())  # the last by name among equals
    reason = Reason.BEHIND if _was_there(run, kind, together=preferred) else Reason.NO_ROOM
    reason = Reason.UNCOUNTED if uncounted else reason  # nobody leaves for what may not exist
    return no_room(reason, allowed[best], int(held[best]), member_set.size)


def _spread(run: Run, demand: GangDemand, kind: Kind) -> Placed | None:
    """Place the gang's minimum set over some of the zones it may use; `None`: it finds no place."""
    sets = sets_to_try(run, demand, kind.members, kind.allowed)
    for zones in sets:
        run.scores.compare(zones, kind.score)
        placed = place_in(run, demand, demand.need, kind.members, zones, score=kind.score)
        if placed is not None:
            return placed
    return None


def asks_uncounted(run: Run, demand: GangDemand) -> bool:
    """Whether the gang's minimum asks for what no node's allocatable shows: a resource, or devices by a claim."""
    return any(
        run.table.uncounted(member_class.requests) or any(DEVICE_CLAIMS in pod.unmodelled for pod in pods)
        for member_class, pods in demand.need
    )


_FILTERED = "kube-scheduler's Event FailedScheduling says which filter"


def impossible(size: int) -> Refused:
    """The answer to a gang of `size` that would not fit the empty cluster."""
    return Refused(Reason.IMPOSSIBLE, f"{size} members at once fit in no allowed zone, even when it is empty")


def no_room(reason: Reason, zone: ZoneName, members: int, size: int) -> Refused:
    """The answer to a gang of `size` of which so many `members` would fit the zone with most room for it."""
    return Refused(reason, f"most room in zone {zone or '(none)'}: {members} of {size} members")


def _was_there(run: Run, kind: Kind, *, together: bool) -> bool:
    """Whether there was room, in one allowed zone or in all `together`, before gangs ahead were given theirs."""
    given = np.zeros(len(run.zones), np.bool_)
    given[run.view.zone_number[run.capacity.rows_taken()]] = True
    taken = kind.columns[given[kind.columns]]
    if not len(taken):
        return False
    able, enough = np.ones(len(taken), np.bool_), together
    for member_class, count in kind.members.classes:
        at_start = run.capacity.zone_counts(member_class, When.AT_START)
        able &= at_start[taken] >= count
        enough = enough and bool(at_start[kind.columns].sum() >= count)
        if not (enough or able.any()):
            return False
    return True


def possible(run: Run, demand: GangDemand, kind: Kind) -> bool:
    """Whether the gang would fit an empty cluster: in one allowed zone, or over all of them with `preferred`."""
    if demand.siblings:
        return True  # it ran here before; what is missing is room or a node, and both may come back
    if kind.could_fit is None:
        preferred = demand.options.zone_policy is ZonePolicy.PREFERRED
        kind.could_fit = run.search.fits_empty(kind.members, kind.allowed) if preferred else _fits_one(run, kind)
    return kind.could_fit


def could_ever_start(run: Run, demand: GangDemand) -> bool:
    """Whether a gang without placed members would fit an empty cluster, however its members are spread."""
    kind = kind_of(run, demand)
    if possible(run, demand, kind):
        return True
    return demand.options.zone_policy is ZonePolicy.PREFERRED and _fits_one(run, kind)


def _fits_one(run: Run, kind: Kind) -> bool:
    """Whether the gang would fit one of its zones if no pod ran there."""
    rooms = run.capacity.zone_rooms(kind.members, When.EMPTY)[kind.columns].tolist()
    if len(kind.members.classes) == 1:
        return any(room >= kind.members.size for room in rooms)
    return any(
        room >= kind.members.size and run.search.fits_empty(kind.members, (zone,))
        for zone, room in zip(kind.allowed, rooms, strict=True)
    )


def _no_zone_detail(run: Run, demand: GangDemand) -> str:
    if demand.options.zones is not None:
        names = ", ".join(filter(None, run.zones)) or "none"
        return f"netgang.io/zones names {', '.join(demand.options.zones)}; the cluster has {names}"
    return "no node has the zone label; set it, or use netgang.io/zone-policy: preferred"


def place_in(
    run: Run,
    demand: GangDemand,
    members: ByClass,
    member_set: MemberSet,
    zones: tuple[ZoneName, ...],
    *,
    score: ScorePolicy,
) -> Placed | None:
    """Place `members`, of which `member_set` was made, in `zones`, and take their room; `None`: they do not fit."""
    rows = run.view.rows(zones)
    selected = run.search.place(member_set, zones, method=demand.options.selection, score=score)
    if selected is None:
        return None
    nodes: dict[PodUid, NodeName] = {}
    used: set[ZoneName] = set()
    for (member_class, pods), chosen in zip(members, selected.rows, strict=True):
        at: list[int] = rows.take(chosen).tolist() if chosen else []
        used |= run.capacity.take_rows(member_class, at)
        nodes.update(zip([pod.uid for pod in pods], [run.table.names[row] for row in at], strict=True))
    points = run.search.mean_points(member_set, zones, selected, score=score)
    return Placed(tuple(sorted(used)), nodes, points)
