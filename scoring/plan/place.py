"""Find a place for one gang in the room that is left: which zone, then which nodes (PAPERS N1, N3; DESIGN §4).

Steps for a gang's minimum set:
1. Candidate zones: those its placed members are in; else (and with zone policy `preferred`) those it allows.
2. Drop zones without room for all of it.
3. Order the rest: where placed members are, nearest to the users, the gang's own order, best achievable network, least
   fragmentation, name.
4. In the first zone where the selection method finds nodes for everybody, that is the answer.
5. Otherwise, with zone policy `preferred` and after the wait: the fewest zones that hold it together.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from itertools import islice

import numpy as np
from numpy.typing import NDArray

from scoring.ids import NodeName, PodUid, ZoneName
from scoring.model import Role
from scoring.network import Ints
from scoring.plan.ask import Ask, ByClass
from scoring.plan.memo import Links, remember
from scoring.plan.run import Run, When, Wish, with_ratios
from scoring.policy import ScorePolicy, ZonePolicy
from scoring.reasons import Reason
from scoring.select import Selected
from scoring.zone import fewest_zones, rank_zones, zone_distances

_SPREADS_TRIED = 16
"""Sets of zones that are searched for one gang; classes rarely compete so that the first one fails."""


@dataclass(frozen=True, slots=True)
class Placed:
    """Where the members of a wish go."""

    zones: tuple[ZoneName, ...]
    nodes: Mapping[PodUid, NodeName]
    ends: tuple[tuple[Role, NodeName], ...]
    """The same as (role, node), for members placed later that want to be near."""
    score: float | None


@dataclass(frozen=True, slots=True)
class Refused:
    """Why there is no place, with particulars for people."""

    reason: Reason
    detail: str = ""


@dataclass(slots=True)
class Kind:
    """What gangs that ask for the same share in one run. Not shared between runs."""

    wish: Wish
    score: ScorePolicy
    allowed: tuple[ZoneName, ...]
    home: frozenset[ZoneName]
    """Zones of members that have a node."""
    refused: Refused | None = None
    """The answer to the one before, which is that to all after it: room only shrinks during a run."""
    tiers: dict[tuple[ZoneName, ...], tuple[ScorePolicy, list[ZoneName], list[ZoneName]]] = field(default_factory=dict)
    """feasible zones → score policy to compare them by, those that only the network decides between, and the others"""


def kind_of(run: Run, ask: Ask) -> Kind:
    """The kind of the gang's minimum set, made when it is asked for first."""
    number = run.memo.number
    key = (tuple([(number(mc), len(pods)) for mc, pods in ask.need]), ask.siblings, ask.all_reduce, ask.options)
    known = run.kinds.get(key)
    if not isinstance(known, Kind):
        home = frozenset(run.zones_of(node for _, node in ask.siblings))
        wish = run.wish(ask.need, ask)
        known = run.kinds[key] = Kind(wish, with_ratios(run.policy, ask), run.candidate_zones(ask), home)
    return known


def place_minimum(run: Run, ask: Ask, *, now_s: float) -> Placed | Refused:
    """Place the gang's whole minimum set, or say why not."""
    kind = kind_of(run, ask)
    wish, score, allowed = kind.wish, kind.score, kind.allowed
    if not allowed:
        return Refused(Reason.NO_ALLOWED_ZONE, _no_zone_detail(run, ask))
    room = dict(zip(run.zones, run.zone_rooms(wish).tolist(), strict=True))
    size = wish.size
    feasible = tuple([zone for zone in allowed if room[zone] >= size])
    for zone in _in_order(run, ask, kind, feasible, room):
        placed = _place_in(run, ask, ask.need, wish, (zone,), score)
        if placed is not None:
            return placed
    return _spread_or_wait(run, ask, wish, allowed, room, now_s=now_s)


def has_room(run: Run, ask: Ask) -> bool:
    """Whether looking for a place of the minimum set can succeed at all, as far as counting tells."""
    kind = kind_of(run, ask)
    if ask.options.zone_policy is ZonePolicy.PREFERRED:
        return True
    room, size = run.zone_rooms(kind.wish).tolist(), kind.wish.size
    return any(there >= size and zone in kind.allowed for zone, there in zip(run.zones, room, strict=True))


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
        placed = _place_in(run, ask, members, wish, tuple(zones), score)
        nodes |= placed.nodes if placed is not None else {}
        near.extend(placed.ends if placed is not None else ())
    return Placed(tuple(zones), nodes, tuple(near), None) if nodes else None


def place_rest(run: Run, ask: Ask) -> Placed | None:
    """Place members beyond the minimum of a gang that has nobody on a node (all have succeeded, say).

    They go together, into the zone that takes most of them.
    """
    wish = run.wish(ask.more, ask)
    held = dict(zip(run.zones, run.zone_members(wish).tolist(), strict=True))
    allowed = run.candidate_zones(ask)
    most = max((held[zone] for zone in allowed), default=0)
    if not most:
        return None
    room = dict(zip(run.zones, run.zone_rooms(wish).tolist(), strict=True))
    kind = Kind(wish, with_ratios(run.policy, ask), allowed, frozenset())
    best = _in_order(run, ask, kind, tuple(zone for zone in allowed if held[zone] == most), room)
    return place_more(run, ask, tuple(islice(best, 1)), ())


def candidate_zones(run: Run, ask: Ask) -> tuple[ZoneName, ...]:
    """Step 1: zones the gang may use."""
    return run.candidate_zones(ask)


def _in_order(
    run: Run, ask: Ask, kind: Kind, zones: tuple[ZoneName, ...], room: Mapping[ZoneName, int]
) -> Iterator[ZoneName]:
    """Feasible zones in the order of step 3, found one by one: mostly the first one is the answer."""
    if kind.home:
        yield from _ordered(run, ask, kind, tuple(zone for zone in zones if zone in kind.home), room)
        zones = tuple(zone for zone in zones if zone not in kind.home)
    yield from _ordered(run, ask, kind, zones, room)


def _ordered(
    run: Run, ask: Ask, kind: Kind, zones: tuple[ZoneName, ...], room: Mapping[ZoneName, int]
) -> Iterator[ZoneName]:
    if len(zones) < 2:
        yield from zones
        return
    known = kind.tiers.get(zones)
    if known is None:
        known = kind.tiers[zones] = _tiers(run, ask, kind, zones)
    common, best, others = known
    if len(best) > 1:
        estimates = run.estimates(kind.wish, best, score=common)
        keys = [
            (np.inf if value is None else -value, room[zone], zone) for zone, value in zip(best, estimates, strict=True)
        ]
        first = min(keys)
        yield first[2]
        yield from (zone for _, _, zone in sorted(keys)[1:])
    else:
        yield from best
    yield from others


def _tiers(
    run: Run, ask: Ask, kind: Kind, zones: tuple[ZoneName, ...]
) -> tuple[ScorePolicy, list[ZoneName], list[ZoneName]]:
    near = ask.options.near
    distances = None
    if near is not None:
        network = run.snapshot.network
        distances = remember(
            run.memo.distances,
            (network.version, run.table.version, near, run.policy.zone_distance_ms),
            lambda: zone_distances(near, run.table, network, run.policy),
        )
    ranks = rank_zones(zones, options=ask.options, distances=distances)
    tier = (ranks[0].distance_ms, ranks[0].preference)
    best = [rank.zone for rank in ranks if (rank.distance_ms, rank.preference) == tier]
    common = common_reference(run, best, kind.score) if len(best) > 1 else kind.score
    return common, best, [rank.zone for rank in ranks[len(best) :]]


def common_reference(run: Run, zones: Sequence[ZoneName], score: ScorePolicy) -> ScorePolicy:
    """One reference rate for all zones compared: by its own best, a slow zone would look as good as a fast one."""
    if score.reference_bps is not None:
        return score
    key = (tuple(zones), score)
    if key not in run.common_scores:
        rates = [run.scores((zone,), score).reference_bps for zone in zones]
        known = [rate for rate in rates if rate is not None]
        run.common_scores[key] = replace(score, reference_bps=max(known)) if known else score
    return run.common_scores[key]


def _place_in(
    run: Run,
    ask: Ask,
    members: ByClass,
    wish: Wish,
    zones: tuple[ZoneName, ...],
    score: ScorePolicy,
) -> Placed | None:
    rows = run.rows(zones)
    selected = run.place(wish, zones, method=ask.options.selection, score=score)
    if selected is None:
        return None
    all_rows: list[int] = rows.tolist()
    nodes: dict[PodUid, NodeName] = {}
    ends: list[tuple[Role, NodeName]] = []
    used: set[ZoneName] = set()
    for (member_class, pods), chosen in zip(members, selected.rows, strict=True):
        at = [all_rows[i] for i in chosen]
        names = [run.table.names[row] for row in at]
        used |= run.take_rows(member_class, at)
        nodes.update(zip([pod.uid for pod in pods], names, strict=True))
        ends.extend([(member_class.role, name) for name in names])
    points = mean_points(run.scores(zones, score), wish, selected, _sibling_rows(run, wish, rows))
    return Placed(tuple(sorted(used)), nodes, tuple(ends), points)


def mean_points(scores: Links, wish: Wish, selected: Selected, siblings: Sequence[tuple[Role, int]]) -> float | None:
    """Mean points over the pairs that talk, placed siblings included; `None` when there is no such pair."""
    at = [row for rows in selected.rows for row in rows]
    ps = [mc.role is Role.PS for (mc, _), rows in zip(wish.classes, selected.rows, strict=True) for _ in rows]
    fresh = len(at)
    at.extend([row for _, row in siblings])
    ps.extend([role is Role.PS for role, _ in siblings])
    counted, total = _counted_pairs(None if wish.all_reduce else tuple(ps), len(at), fresh)
    if not total:
        return None
    where = np.array(at, np.int64)
    return float(scores.points.take(where, axis=0).take(where, axis=1)[counted].sum() / total)


@lru_cache(maxsize=64)
def _counted_pairs(ps: tuple[bool, ...] | None, ends: int, fresh: int) -> tuple[NDArray[np.bool_], int]:
    """Which of the pairs (ends, ends) count, each once, those among siblings not; and how many. `ps`: `None`: all."""
    counted = np.tri(ends, k=-1, dtype=np.bool_).T
    if ps is not None:
        is_ps = np.array(ps, np.bool_)
        counted = counted & (is_ps[:, None] != is_ps)
    counted = np.array(counted)
    counted[fresh:] = False
    return counted, int(counted.sum())


def _sibling_rows(run: Run, wish: Wish, rows: Ints) -> list[tuple[Role, int]]:
    if not wish.siblings:
        return []
    local = {int(row): i for i, row in enumerate(rows)}
    found = ((role, run.table.index.get(node)) for role, node in wish.siblings)
    return [(role, local[row]) for role, row in found if row is not None and row in local]


def _spread_or_wait(
    run: Run,
    ask: Ask,
    wish: Wish,
    allowed: Sequence[ZoneName],
    room: dict[ZoneName, int],
    *,
    now_s: float,
) -> Placed | Refused:
    """Step 5, or the reason to wait."""
    preferred = ask.options.zone_policy is ZonePolicy.PREFERRED
    if not _possible(run, ask, wish, allowed):
        return Refused(Reason.IMPOSSIBLE, f"{wish.size} members at once fit in no allowed zone, even when it is empty")
    waited_s = now_s - ask.gang.created_s
    if preferred and waited_s < run.policy.spill_wait_s and not ask.siblings:
        left_s = run.policy.spill_wait_s - waited_s
        return Refused(Reason.SPILL_WAIT, f"may be spread over zones in {left_s:.0f} s")
    if preferred:
        spread = _spread(run, ask, wish, allowed)
        if spread is not None:
            return spread
    held = dict(zip(run.zones, run.zone_members(wish).tolist(), strict=True))
    best = max(allowed, key=lambda zone: (held[zone], zone))
    detail = f"most room in zone {best or '(none)'}: {held[best]} of {wish.size} members"
    return Refused(Reason.BEHIND if _was_there(run, wish, allowed, together=preferred) else Reason.NO_ROOM, detail)


def _was_there(run: Run, wish: Wish, allowed: Sequence[ZoneName], *, together: bool) -> bool:
    """Whether there was room, in one allowed zone or in all `together`, before gangs ahead were given theirs."""
    at_start = run.zone_fits(wish, When.AT_START)
    counts = [count for _, count in wish.classes]
    single = [(run.zones.index(zone),) for zone in allowed if run.taken_in(zone)]
    sets = [*single, tuple(run.zones.index(zone) for zone in allowed)] if together and single else single
    return any((at_start[:, list(some)].sum(axis=1) >= counts).all() for some in sets)


def _spread(run: Run, ask: Ask, wish: Wish, allowed: Sequence[ZoneName]) -> Placed | None:
    score = with_ratios(run.policy, ask)
    known: dict[tuple[ZoneName, ZoneName], float] = {}

    def between(one: ZoneName, other: ZoneName) -> float:
        pair = (one, other) if one < other else (other, one)
        if pair not in known:
            one_names, other_names = run.names(pair[:1]), run.names(pair[1:])
            known[pair] = run.memo.mean_between(run.snapshot.network, one_names, other_names, score)
        return known[pair]

    fits = run.zone_fits(wish)
    rooms = {zone: fits[:, run.zones.index(zone)].tolist() for zone in allowed}
    counts = [count for _, count in wish.classes]
    home = run.zones_of(node for _, node in ask.siblings)
    sets = list(islice(fewest_zones(rooms, counts, between=between, home=home), _SPREADS_TRIED))
    # Counts per class do not see that classes compete for the same nodes: all zones together are the last try.
    for zones in (*sets, tuple(allowed)) if sets else ():
        placed = _place_in(run, ask, ask.need, wish, zones, score)
        if placed is not None:
            return placed
    return None


def _possible(run: Run, ask: Ask, wish: Wish, allowed: Sequence[ZoneName]) -> bool:
    """Whether the wish would fit an empty cluster: in one allowed zone, or over all of them with `preferred`."""
    preferred = ask.options.zone_policy is ZonePolicy.PREFERRED
    if ask.siblings:
        return True  # it ran here before; what is missing is room or a node, and both may come back

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
