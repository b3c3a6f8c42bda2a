"""Find a place for one gang in the room that is left: which zone, then which nodes (PAPERS N1, N3).

Steps for a gang's minimum set:
1. Candidate zones: those its placed members are in; else (and with zone policy `preferred`) those it allows.
2. Drop zones without room for all of it.
3. Order the rest: where placed members are, nearest to the users, the gang's own order, best achievable network, least
   fragmentation, name.
4. In the first zone where the selection method finds nodes for all members, that is the answer.
5. Otherwise, with zone policy `preferred` and after the wait: the fewest zones that hold it together.
"""

from collections.abc import Sequence

import numpy as np

from scoring.ids import NodeName, PodUid, ZoneName
from scoring.model import Role
from scoring.model.policy import ZonePolicy
from scoring.model.reasons import Reason
from scoring.network.matrix import Ints
from scoring.plan.ask import Ask, ByClass
from scoring.plan.outcome import Placed, Refused
from scoring.plan.put import place_in
from scoring.plan.remembered import remember
from scoring.plan.run import Run, When, with_ratios
from scoring.plan.spread import spread
from scoring.plan.steps import Steps, finish
from scoring.plan.zones import Kind, common_reference, in_order, kind_of
from scoring.queue.states import waiting_since_s

__all__ = [
    "Placed", "Refused", "candidate_zones", "common_reference", "has_room", "impossible", "kind_of", "no_room",
    "place_minimum", "place_minimum_in_steps", "place_more", "place_rest", "possible",
]  # fmt: skip


def place_minimum(run: Run, ask: Ask, *, now_s: float) -> Placed | Refused:
    """Place the gang's whole minimum set, or say why not."""
    return finish(place_minimum_in_steps(run, ask, now_s=now_s))


def place_minimum_in_steps(run: Run, ask: Ask, *, now_s: float) -> Steps[Placed | Refused]:
    """The same in steps: a pair of zones compared, a zone estimated, a set of zones searched."""
    kind = kind_of(run, ask)
    wish, score, allowed = kind.wish, kind.score, kind.allowed
    if not allowed:
        return Refused(Reason.NO_ALLOWED_ZONE, _no_zone_detail(run, ask))
    rooms = run.zone_rooms(wish)
    enough = rooms[kind.columns] >= wish.size
    if not enough.any():
        known = rooms[kind.columns] if len(wish.classes) == 1 else None
        return (yield from _spread_or_wait(run, ask, kind, now_s=now_s, rooms=known))
    room = dict(zip(run.zones, rooms.tolist(), strict=True))
    feasible = tuple([zone for zone, fits in zip(allowed, enough.tolist(), strict=True) if fits])
    for zone in in_order(run, ask, kind, feasible, room):
        if zone is None:
            yield from run.pause()
            continue
        placed = place_in(run, ask, ask.need, wish, (zone,), score=score)
        if placed is not None:
            return placed
    return (yield from _spread_or_wait(run, ask, kind, now_s=now_s))


def has_room(run: Run, ask: Ask) -> bool:
    """Whether looking for a place of the minimum set can succeed at all, as far as counting shows."""
    kind = kind_of(run, ask)
    if ask.options.zone_policy is ZonePolicy.PREFERRED:
        return True
    return bool((run.zone_rooms(kind.wish)[kind.columns] >= kind.wish.size).any())


def place_more(run: Run, ask: Ask, zones: Sequence[ZoneName], ends: Sequence[tuple[Role, NodeName]]) -> Placed | None:
    """Place as many members beyond the minimum as fit into `zones`, class by class, beside siblings and `ends`."""
    nodes: dict[PodUid, NodeName] = {}
    near = list(ends)
    score = with_ratios(run.policy, ask)
    for member_class, pods in ask.more:
        one: ByClass = ((member_class, pods[:1]),)
        fits = run.zone_fits(run.wish(one, ask))[0]
        count = min(len(pods), int(sum(fits[run.zones.index(zone)] for zone in zones)))
        if not count:
            continue
        members: ByClass = ((member_class, pods[:count]),)
        wish = run.wish(members, ask, near)
        placed = place_in(run, ask, members, wish, tuple(zones), score=score)
        nodes |= placed.nodes if placed is not None else {}
        near.extend(placed.ends if placed is not None else ())
    return Placed(tuple(zones), nodes, tuple(near), None) if nodes else None


def place_rest(run: Run, ask: Ask) -> Placed | None:
    """Place members beyond the minimum of a gang that has no member on a node (all have succeeded, say).

    They go together, into the zone that takes most of them.
    """
    wish = run.wish(ask.more, ask)
    held = dict(zip(run.zones, run.zone_members(wish).tolist(), strict=True))
    allowed = run.candidate_zones(ask)
    most = max((held[zone] for zone in allowed), default=0)
    if not most:
        return None
    room = dict(zip(run.zones, run.zone_rooms(wish).tolist(), strict=True))
    kind = Kind(wish, with_ratios(run.policy, ask), allowed, run.columns(allowed), frozenset())
    order = in_order(run, ask, kind, tuple(zone for zone in allowed if held[zone] == most), room)
    best = next(zone for zone in order if zone is not None)
    return place_more(run, ask, (best,), ())


def candidate_zones(run: Run, ask: Ask) -> tuple[ZoneName, ...]:
    """Step 1: zones the gang may use."""
    return run.candidate_zones(ask)


def _spread_or_wait(
    run: Run, ask: Ask, kind: Kind, *, now_s: float, rooms: Ints | None = None
) -> Steps[Placed | Refused]:
    """Step 5, or the reason to wait. `rooms`: how many members fit each allowed zone, if that is known."""
    wish, allowed = kind.wish, kind.allowed
    preferred = ask.options.zone_policy is ZonePolicy.PREFERRED
    devices = asks_devices(run, ask)
    if not possible(run, ask, kind):
        return Refused(Reason.DEVICES, _NOT_COUNTED) if devices else impossible(wish.size)
    waited_s = now_s - max(waiting_since_s(ask.gang) or 0.0, ask.gang.created_s)
    if preferred and waited_s < run.policy.spill_wait_s and not ask.siblings:
        left_s = run.policy.spill_wait_s - waited_s
        return Refused(Reason.SPILL_WAIT, f"may be spread over zones in {left_s:.0f} s")
    if preferred:
        placed = yield from spread(run, ask, wish, allowed)
        if placed is not None:
            return placed
    if run.fits.any_refused and run.fits.zones_for(wish.classes, refusals=False)[kind.columns].any():
        return Refused(Reason.DEVICES, _NOT_COUNTED) if devices else Refused(Reason.FILTERED, _FILTERED)
    held = run.zone_members(wish)[kind.columns] if rooms is None else np.minimum(rooms, wish.size)
    best = len(allowed) - 1 - int(held[::-1].argmax())  # the last by name among equals
    reason = Reason.BEHIND if _was_there(run, kind, together=preferred) else Reason.NO_ROOM
    return no_room(reason, allowed[best], int(held[best]), wish.size)


def asks_devices(run: Run, ask: Ask) -> bool:
    """Whether the gang asks for devices that no allocatable shows, or may show only in part: a claim, a resource."""
    return any(
        run.table.asks_uncounted(member_class.requests) or any("resourceClaims" in pod.unmodelled for pod in pods)
        for member_class, pods in ask.need
    )


_NOT_COUNTED = "kube-scheduler counts them; its Event FailedScheduling says what it found"
_FILTERED = "kube-scheduler's Event FailedScheduling says which filter"


def impossible(size: int) -> Refused:
    """The answer to a gang of `size` that would not fit the empty cluster."""
    return Refused(Reason.IMPOSSIBLE, f"{size} members at once fit in no allowed zone, even when it is empty")


def no_room(reason: Reason, zone: ZoneName, members: int, size: int) -> Refused:
    """The answer to a gang of `size`, of which so many `members` would fit the zone with most room for it."""
    return Refused(reason, f"most room in zone {zone or '(none)'}: {members} of {size} members")


def _was_there(run: Run, kind: Kind, *, together: bool) -> bool:
    """Whether there was room, in one allowed zone or in all `together`, before gangs ahead were given theirs."""
    taken = kind.columns[run.taken.zones_taken()[kind.columns]]
    if not len(taken):
        return False
    at_start = run.zone_fits(kind.wish, When.AT_START)
    counts = np.array([count for _, count in kind.wish.classes], np.int64)
    if bool((at_start[:, taken] >= counts[:, None]).all(axis=0).any()):
        return True
    return together and bool((at_start[:, kind.columns].sum(axis=1) >= counts).all())


def possible(run: Run, ask: Ask, kind: Kind) -> bool:
    """Whether the demand would fit an empty cluster: in one allowed zone, or over all of them with `preferred`."""
    preferred = ask.options.zone_policy is ZonePolicy.PREFERRED
    if ask.siblings:
        return True  # it ran here before; what is missing is room or a node, and both may come back
    wish, allowed = kind.wish, kind.allowed

    def look() -> bool:
        rooms = dict(zip(run.zones, run.zone_rooms(wish, When.EMPTY).tolist(), strict=True))
        single = [(zone,) for zone in allowed if rooms[zone] >= wish.size]
        sets: list[tuple[ZoneName, ...]] = [tuple(allowed)] if preferred else list(single)
        return any(run.fits_empty(wish, zones) for zones in sets)

    key = (run.table.version, wish.key, tuple(allowed), preferred)
    return remember(run.memo.possible, key, look, limit=20_000)


def _no_zone_detail(run: Run, ask: Ask) -> str:
    if ask.options.zones is not None:
        names = ", ".join(run.zones) or "none"
        return f"netgang.io/zones names {', '.join(ask.options.zones)}; the cluster has {names}"
    return "no node has the zone label; set it, or use netgang.io/zone-policy: preferred"
