"""Whole gangs leave for a gang that then fits, by priority or level (docs/how-to/preemption-and-suspension.md).

Why whole gangs: a member that is taken away stops all others and frees a fraction of the room that they go on using.
Rules: no gang leaves unless the waiting gang's minimum set then has a place. Room that comes by itself (members that
are being deleted) is waited for, and a start that is promised within `RESTART_S`. In doubt a gang stays: while it
starts (docs/safety.md S4), while a member of it is going, once one has succeeded, while it gives room to another gang.

The smallest set is exact within `SearchLimits`: sets of one gang, then of two, and so on; of each size those that
suffice by counting, in the order of `set_key`, until one suffices by real placement. Beyond that gangs are added, the
one that frees most members' places first, until the rest has a place, and every gang that is then not needed stays.

Cost: a count is O(nodes of the set); a placement is as planning one gang. Beyond the limits: O(candidates) counts for
each zone, and about one placement for each gang that leaves.
"""

from bisect import bisect_left
from collections.abc import Iterable, Mapping, Sequence, Set
from itertools import combinations
from math import comb
from typing import Final, TypeAlias

import msgspec
import numpy as np
from msgspec.structs import replace

from scoring import GangKey, NodeName, PodUid, ZoneName
from scoring.model import Gang, Phase, Pod
from scoring.model.policy import Policy, Preempting, gang_options
from scoring.model.snapshot import NodeTable, Snapshot, scatter_add
from scoring.network.matrix import Ints
from scoring.plan import Plan, PlannerCache, begin_run
from scoring.plan.cluster_without import Group, Without
from scoring.plan.demand import GangDemand
from scoring.plan.placement import kind_of
from scoring.plan.queue_order import QueueOrder
from scoring.plan.result import WANTS_ROOM, Placed
from scoring.queue.weights import hours_of, level, level_of_waiting

SetKey: TypeAlias = tuple[object, ...]


class Candidate(msgspec.Struct, frozen=True):
    """A gang that may be made to leave."""

    gang: GangKey
    priority: int  # The highest of its members'
    pods: tuple[Pod, ...]  # Members on nodes: all of them leave, or none
    rows: Ints  # (k,) rows of the node table where they are, all different, ascending
    amounts: Ints  # (k, resources) that becomes free there
    started_s: float  # When the last of its members got its node, Unix seconds; creation where that is not known
    attained_h: float = 0.0  # Cluster-hours that it has had, if it leaves because of them, not of its priority


def candidates(
    snapshot: Snapshot,
    policy: Policy,
    gang: Gang,
    freed: dict[GangKey, Candidate | None],
    *,
    now_s: float,
    spared: Set[GangKey] = frozenset(),
    by_level: bool,
) -> list[Candidate]:
    """Gangs that may leave for `gang`, those preferred first; `spared`: may not. `now_s`: Unix time.

    They have less priority and may be suspended (with `Preempting.GANGS`: or not); if it is `by_level`, also those of
    the same priority that may be, are of a higher service level, and started `min_run_s` ago. `freed`: what is known
    by now of each gang of this snapshot. Cost: O(gangs), and O(members) of those that are not in `freed`.
    """
    service, total = policy.service, snapshot.table.allocatable.sum(axis=0)
    mine = level_of_waiting(gang.key, snapshot, service)
    busy = {*spared, *snapshot.commitments, *snapshot.claims}
    busy.update(key for claim in snapshot.claims.values() for key in claim.givers)
    leavers: list[Candidate] = []
    for key, other in snapshot.gangs.items():
        if other.priority > gang.priority or key in busy or other is gang:
            continue
        if key not in freed:
            freed[key] = _candidate(other, snapshot.table, policy)
        if (candidate := freed[key]) is None or candidate.priority > gang.priority:
            continue
        suspendable = gang_options(dict(other.options), policy).suspendable
        if not suspendable and (candidate.priority == gang.priority or policy.preemption is not Preempting.GANGS):
            continue
        if candidate.priority == gang.priority:
            if not by_level or now_s < candidate.started_s + policy.min_run_s:
                continue
            hours = hours_of(other, snapshot, now_s=now_s, total=total)
            if level(hours, service) <= mine:
                continue
            candidate = replace(candidate, attained_h=hours)
        leavers.append(candidate)
    return sorted(leavers, key=lambda candidate: set_key((candidate,)))


def set_key(some: Iterable[Candidate]) -> SetKey:
    """Which of two sets leaves, the smaller key first.

    Fewest gangs; then the lowest priority, the highest ones compared first; then those that have had most of the
    cluster; then fewest pods lost; then those that started last; then by name.
    """
    listed = tuple(some)
    return (
        len(listed),
        tuple(sorted((candidate.priority for candidate in listed), reverse=True)),
        tuple(sorted(-candidate.attained_h for candidate in listed)),
        sum(len(candidate.pods) for candidate in listed),
        tuple(sorted(-candidate.started_s for candidate in listed)),
        tuple(sorted(candidate.gang for candidate in listed)),
    )


def _candidate(gang: Gang, table: NodeTable, policy: Policy) -> Candidate | None:
    """What the gang would free; `None`: nothing, or it stays, as far as its own record says. Cost: O(members)."""
    if not gang.actionable or not gang_options(dict(gang.options), policy).preemptible:
        return None
    if any(pod.phase is Phase.SUCCEEDED or (pod.deleting and pod.node is not None) for pod in gang.members):
        return None
    pods = tuple(pod for pod in gang.members if pod.node is not None and not pod.terminal)
    rows, amounts = table.footprint(pods)
    if not len(rows):
        return None
    priority = max(gang.priority, *(pod.priority for pod in gang.members))
    started_s = max((pod.scheduled_s for pod in pods if pod.scheduled_s is not None), default=gang.created_s)
    return Candidate(gang.key, priority, pods, rows, amounts, started_s)


Some: TypeAlias = tuple[Candidate, ...]
Chosen: TypeAlias = tuple[Some, Placed]  # The gangs that leave, and where the waiting gang then goes


class SearchLimits(msgspec.Struct, frozen=True):
    """How much is spent on one waiting gang before a set need not be the smallest any more."""

    sets: int = 4096
    placed: int = 64


def smallest(without: Without, candidates: Sequence[Candidate], limits: SearchLimits) -> Chosen | None:
    """The gangs that leave; `None`: not even all together would suffice, or none has to."""
    if without.may_fit(()) and without.place(()) is not None:
        return None
    groups: list[tuple[Group, list[Candidate]]] = []
    for group in without.groups[-1:] if without.spread else without.groups:
        reached = without.reached & np.isin(without.zone_of, group)
        able = [candidate for candidate in candidates if reached[candidate.rows].any()]
        if able and not _missing(without, group, able):
            groups.append((group, able))
    all_able = {candidate.gang: candidate for _, able in groups for candidate in able}
    if not groups or _chosen(without, tuple(all_able.values())) is None:
        return None
    sets, placed = limits.sets, limits.placed
    for size in range(1, max(len(able) for _, able in groups) + 1):
        sets -= sum(comb(len(able), size) for _, able in groups)
        if sets < 0 or placed <= 0:
            break
        by_count: dict[SetKey, Some] = {}  # a gang that is in two zones may be counted in both
        for group, able in groups:
            enough = (some for some in combinations(able, size) if not _missing(without, group, some))
            by_count |= {set_key(some): some for some in enough}
        best = sorted(by_count)[:placed]
        for key in best:
            if (chosen := _chosen(without, by_count[key])) is not None:
                return chosen
        placed -= len(best)
    ways = ((group, _added(without, group, able)) for group, able in groups)
    choices = [(group, way) for group, way in ways if way is not None]
    if not choices:
        return None
    group, least = min(choices, key=lambda choice: set_key(choice[1][0]))
    # the least preferred may stay first
    for candidate in sorted(least[0], key=lambda candidate: set_key((candidate,)), reverse=True):
        rest = tuple(other for other in least[0] if other.gang != candidate.gang)
        if rest and not _missing(without, group, rest):
            least = _chosen(without, rest) or least
    return least


def _added(without: Without, group: Group, candidates: Sequence[Candidate]) -> Chosen | None:
    """Gangs are added, those first that alone leave the fewest members without a place, until all have one.

    While counting says "perhaps" and no place is found the number of gangs is doubled, so that few are tried.
    """
    order = sorted(candidates, key=lambda candidate: _missing(without, group, (candidate,)))
    sizes = range(1, len(order) + 1)  # more gangs free more: the first size that counting allows is looked up
    most = 1 + bisect_left(sizes, True, key=lambda size: not _missing(without, group, order[:size]))
    while (chosen := _chosen(without, tuple(order[:most]))) is None and most < len(order):
        most = min(2 * most, len(order))
    return chosen


def _missing(without: Without, group: Group, some: Sequence[Candidate]) -> int:
    """How many members would have no place in the group without these, at least. Cost: O(nodes of theirs)."""
    rows, amounts = (np.concatenate([getattr(candidate, what) for candidate in some]) for what in ("rows", "amounts"))
    if len(some) > 1:
        rows, at = np.unique(rows, return_inverse=True)
        apart, amounts = amounts, np.zeros((len(rows), amounts.shape[1]), np.int64)
        scatter_add(amounts, at, apart)
    return without.missing(group, without.sums(rows, amounts))


def _chosen(without: Without, some: Some) -> Chosen | None:
    placed = without.place([pod for candidate in some for pod in candidate.pods])
    return None if placed is None else (some, placed)


RESTART_S: Final = 41.0
"""What a job that leaves and comes back stands still for at least (PAPERS E3), as of `elastic.metrics.stall_s`"""


class Preemption(msgspec.Struct, frozen=True):
    """Gangs `victims` leave, whole, for the waiting gang `gang`, which then goes where `assignment` says."""

    gang: GangKey
    priority: int
    victims: tuple[GangKey, ...]  # By name; at least one
    pods: frozenset[PodUid]  # Their members on nodes: all of them leave
    assignment: Mapping[PodUid, NodeName]  # Every missing member of the gang's minimum set → its node
    zones: tuple[ZoneName, ...]
    attained_h: Mapping[GangKey, float] = {}  # Of those that leave for it


def preemption(
    snapshot: Snapshot,
    plan: Plan,
    policy: Policy,
    *,
    now_s: float,
    spared: Set[GangKey] = frozenset(),
    passed_over: Set[GangKey] = frozenset(),
    continued: Set[GangKey] = frozenset(),
    cache: PlannerCache | None = None,
    limits: SearchLimits = SearchLimits(),
) -> Preemption | None:
    """Which gangs leave for which, by the plan of this snapshot; `None`: none.

    `spared` must stay (an owner or a disruption budget says so); none leaves for `passed_over`; those of `continued`
    are looked at although room is claimed for them, as if it were not. `now_s`: Unix time.
    """
    cache = cache or PlannerCache()
    if policy.preemption is Preempting.OFF:
        return None
    if policy.preemption is Preempting.LEVELS and not any(
        "suspendable" in dict(g.options) for g in snapshot.gangs.values()
    ):
        return None
    run = begin_run(snapshot, policy, cache)
    order, total = QueueOrder(run, now_s=now_s), run.table.allocatable.sum(axis=0)
    hopeless: set[object] = set()  # What gangs ask for, to which the answer was no
    freed: dict[GangKey, Candidate | None] = {}
    for waiting in sorted(plan.waiting.values(), key=lambda waiting: waiting.rank):
        gang, seen = snapshot.gangs.get(waiting.gang), snapshot
        if gang is None or not gang.actionable or gang.key in passed_over or waiting.reason not in WANTS_ROOM:
            continue
        if gang.key in continued:  # which gangs give it room now is to be found out
            seen = replace(snapshot, claims={key: claim for key, claim in snapshot.claims.items() if key != gang.key})
        if gang.key in seen.commitments or gang.key in seen.claims or any(pod.never_preempts for pod in gang.pending):
            continue
        if gang.key not in continued and plan.starts_in_s(gang.key, now_s=now_s) <= RESTART_S:
            continue
        ask = run.view.demand(gang)
        by_level = order.takes_by_level(ask, total=total)
        standing = (gang.priority, level_of_waiting(gang.key, seen, policy.service), by_level)
        kind = (id(kind_of(run, ask)), standing, seen is snapshot or gang.key)
        if kind in hopeless:
            continue
        able = candidates(seen, policy, gang, freed, now_s=now_s, spared=spared, by_level=by_level)
        chosen = smallest(_without_others(seen, plan, policy, ask, cache, now_s=now_s), able, limits) if able else None
        if chosen is not None:
            leaving, placed = chosen
            return Preemption(
                gang=gang.key,
                priority=gang.priority,
                victims=tuple(sorted(victim.gang for victim in leaving)),
                pods=frozenset(pod.uid for victim in leaving for pod in victim.pods),
                assignment=placed.nodes,
                zones=placed.zones,
                attained_h={victim.gang: victim.attained_h for victim in leaving if victim.attained_h > 0.0},
            )
        hopeless.add(kind)
    return None


def _without_others(
    snapshot: Snapshot, plan: Plan, policy: Policy, ask: GangDemand, cache: PlannerCache, *, now_s: float
) -> Without:
    """What the gang would find: what is planned for others or claimed by them is taken, and reservations ahead stay."""
    index, rank, gangs = snapshot.table.index, plan.waiting[ask.gang.key].rank, snapshot.gangs
    members, claims = (pod for gang in gangs.values() for pod in gang.members), dict(snapshot.claims)
    if (promise := plan.promise) is not None and plan.waiting[promise.gang].rank < rank:
        claims.setdefault(promise.gang, promise)  # its start would be later for as long as the gang runs
    return Without(
        *(snapshot, policy, ask, cache),
        now_s=now_s,
        planned=plan.admitted.values(),
        leaving=[pod for pod in members if pod.deleting and pod.node is not None and not pod.terminal],
        claimed=[
            (pod.member_class, claim.assignment[pod.uid])
            for key, claim in sorted(claims.items())
            if key in gangs and key in plan.waiting
            for pod in gangs[key].pending
            if pod.uid in claim.assignment
        ],
        held=[  # For STARVING gangs ahead; what is claimed counts by itself
            index[name]
            for reserved in plan.reservations.values()
            if (owner := plan.waiting.get(reserved.gang)) is not None and owner.rank < rank
            for name in reserved.nodes
            if reserved.gang not in snapshot.claims and name in index
        ],
        ports=True,
    )
