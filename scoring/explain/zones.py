"""What each zone has for a gang (room, what is short, how good, how far), and what network a gang has that has a place.

Rule: counted as if the gang were next in what is neither used nor committed, so a zone that the plan has given to a
gang ahead shows its room. What is short is found by placing members one after the other where they fit, the rest where
least is missing: so the amounts suffice, and on equal terms no smaller ones would. A network is computed with the data
of now; its score is that of a plan, the mean points of its pairs; each link in full is /v1/network/NODE/NODE.
"""

from collections.abc import Sequence
from operator import itemgetter
from typing import Final

import numpy as np
from msgspec.structs import replace

from scoring import NodeName
from scoring.model import Gang, MemberClass, Policy, Role, Snapshot
from scoring.model.pod import quantity
from scoring.model.snapshot import fit_counts
from scoring.network.matrix import METRICS, Ints
from scoring.plan import PlannerCache, Run, begin_run
from scoring.plan.capacity import When
from scoring.plan.demand import GangDemand, MemberSet
from scoring.plan.result import Plan
from scoring.records import GangNetwork, Shortage, WorstLink, ZoneVerdict
from scoring.score.pairs import pair_scores
from scoring.score.zone_distance import UNKNOWN_DISTANCE_MS, zone_distances


def verdicts(run: Run, ask: GangDemand, *, closest: int | None = None) -> tuple[ZoneVerdict, ...]:
    """All zones, by name; `closest`: what is short, and how good it would be, of so many with most room; `None`: all.

    Allowed ones first, of equals the last by name. Cost: as planning the gang, and O(nodes) for what is short.
    """
    members, allowed, score = run.view.member_set(ask.need, ask), run.view.candidate_zones(ask), run.view.score(ask)
    points_alone = replace(score, bad_pairs_first=False)  # what people see are points
    now, empty = run.capacity.zone_members(members), run.capacity.zone_members(members, When.EMPTY)
    near, pairs = ask.options.near, pairs_of(members)
    distances = zone_distances(near, run.table, run.snapshot.network, run.policy) if near is not None else {}
    order = sorted(range(len(run.zones)), key=lambda i: (run.zones[i] not in allowed, -int(now[i]), -i))
    looked_at = frozenset(order[:closest])
    zone_verdicts: list[ZoneVerdict] = []
    for i, zone in enumerate(run.zones):
        look = members.size and i in looked_at
        short, homeless = _lack_of(run, members.classes, run.table.zones[zone]) if look else ((), 0)
        fits = look and not short and not homeless and pairs > 0 and zone in allowed
        total = run.search.estimate(members, zone, score=points_alone) if fits else None
        distance = distances.get(zone, UNKNOWN_DISTANCE_MS)
        zone_verdicts.append(
            ZoneVerdict(
                zone=zone,
                allowed=zone in allowed,
                nodes=len(run.table.zones[zone]),
                room=int(now[i]),
                room_when_empty=int(empty[i]),
                wanted=members.size,
                short=short,
                homeless=homeless,
                score=None if total is None else round(min(total / pairs, 100.0), 3),
                distance_ms=distance if distance < UNKNOWN_DISTANCE_MS else None,
            )
        )
    return tuple(zone_verdicts)


def pairs_of(member_set: MemberSet) -> int:
    """Pairs of members that exchange data: with a ps those with it, else all; those with placed siblings included.

    >>> from scoring.model import Constraints, MemberClass
    >>> from scoring.model.policy import ScorePolicy, Selection
    >>> from scoring.model.pod import NO_RESOURCES
    >>> ps, worker = (MemberClass(role, NO_RESOURCES, Constraints()) for role in (Role.PS, Role.WORKER))
    >>> rest = (Selection.SUBSET, ScorePolicy(), (), np.array([]), frozenset())
    >>> pairs_of(MemberSet(((worker, 4),), (), True, 4, *rest))
    6
    >>> pairs_of(MemberSet(((ps, 1), (worker, 3)), (), False, 4, *rest))
    3
    """
    size, placed = member_set.size, len(member_set.siblings)
    if member_set.all_reduce:
        return size * (size - 1) // 2 + size * placed
    leads = sum(count for member_class, count in member_set.classes if member_class.role is Role.PS)
    placed_leads = sum(role is Role.PS for role, _ in member_set.siblings)
    return leads * (size - leads + placed - placed_leads) + (size - leads) * placed_leads


def _lack_of(run: Run, classes: Sequence[tuple[MemberClass, int]], rows: Ints) -> tuple[tuple[Shortage, ...], int]:
    """What `rows` lack for these members, and how many may go to none of them. Cost: O(nodes · resources) per class."""
    axis, free = run.table.axis, run.capacity.room.free[rows]
    more = np.zeros_like(free)
    ports = np.zeros(len(rows), np.bool_)  # A member with host ports is there: the next one needs another node
    homeless = 0
    for member_class, count in classes:
        request = run.view.vector(member_class)
        allowed = run.capacity.mask(member_class)[rows]
        single = bool(member_class.constraints.host_ports)
        left = count
        counts = np.where(allowed & ~(ports & single), fit_counts(free, request), 0)
        for i in np.lexsort((np.arange(len(rows)), -counts)).tolist():
            if not (here := min(int(counts[i]), 1 if single else left, left)):
                break
            free[i] -= here * request
            ports[i] |= single
            left -= here
        while left:
            open_rows = np.flatnonzero(allowed & ~(ports & single))
            if not len(open_rows):
                homeless += left
                break
            short = np.maximum(request - free[open_rows], 0)
            short[:, request == 0] = 0
            cost = (short / np.maximum(request, 1)).sum(axis=1)
            for at in np.lexsort((open_rows, cost))[:left].tolist():
                i = int(open_rows[at])
                more[i] += short[at]
                free[i] += short[at] - request
                ports[i] |= single
                left -= 1
    shortages: list[Shortage] = []
    for column, resource in sorted(enumerate(axis), key=itemgetter(1)):
        if at := np.flatnonzero(more[:, column]).tolist():
            nodes = {run.table.names[int(rows[i])]: quantity(resource, int(more[i, column])) for i in at}
            shortages.append(Shortage(resource, quantity(resource, int(more[:, column].sum())), nodes))
    return tuple(shortages), homeless


MOST_NODES: Final = 64  # Of a gang on more nodes the first ones by name are looked at: 2,016 links are about 10 ms


def gang_network(run: Run, plan: Plan, gang: Gang) -> GangNetwork | None:
    """The network that the gang has, or has by `plan`; `None`: no member has a known node. Cost: O(nodes²)."""
    places: dict[NodeName, list[int]] = {}  # node → how many of its members are a ps, and how many are not
    for pod in gang.members:
        node = pod.node or plan.node_of.get(pod.uid)
        if node is not None and node in run.table.index and not pod.terminal:
            places.setdefault(node, [0, 0])[pod.member_class.role is not Role.PS] += 1
    if not places:
        return None
    # 1. which pairs of nodes count: those over which members talk
    names = sorted(places)[:MOST_NODES]
    ps, others = np.array([places[name] for name in names], np.int64).T
    all_reduce = not any(pod.role is Role.PS for pod in gang.members)
    pairs = np.triu(np.outer(others, others) if all_reduce else np.outer(ps, others) + np.outer(others, ps), 1)
    alone = others * (others - 1) // 2 if all_reduce else ps * others  # pairs of members on the same node
    # 2. what they are worth
    network, score = run.snapshot.network, run.view.score(run.view.demand(gang))
    zones = {run.table.nodes[run.table.index[name]].zone for name in names}
    best = run.scores.links((next(iter(zones)),), score) if len(zones) == 1 else None
    reference = (best.reference_bps or None) if best is not None else None  # 0: every known rate is none
    scores = pair_scores(network.block(names, names), None, score, reference_bps=reference)
    points = scores.points
    if best is not None:
        at = {name: i for i, name in enumerate(run.view.names(tuple(zones)))}
        points = best.points_among(np.array([at[name] for name in names], np.int64))
    weights = pairs + np.diag(alone)
    mean = round(float((points * weights).sum() / weights.sum()), 3) if weights.any() else None
    worst = None
    # 3. the worst link, bad ones first: of equals the one over which most pairs of members talk, then the first by name
    froms, tos = np.nonzero(pairs)
    if len(froms):
        first = np.lexsort((tos, froms, -pairs[froms, tos], points[froms, tos], ~scores.bad[froms, tos]))[0]
        i, j = int(froms[first]), int(tos[first])
        both = ((names[i], names[j]), (names[j], names[i]))
        readings = [network.known(*ends, metric) for metric in METRICS for ends in both]
        oldest_s = max((reading.age_s for reading in readings if reading is not None), default=None)
        values = (float(scores.values[metric][i, j]) for metric in METRICS)
        loss_ratio, delay_ms, rate_bps = (None if np.isnan(value) else value for value in values)
        age_s = None if oldest_s is None else round(oldest_s, 1)
        worst_points = round(float(points[i, j]), 3)
        bad = scores.bad_text(i, j)
        worst = WorstLink(names[i], names[j], worst_points, loss_ratio, delay_ms, rate_bps, age_s, bad)
    return GangNetwork(tuple(sorted(zones)), tuple(names), len(places), mean, worst)


def worst_links(
    snapshot: Snapshot, plan: Plan, gangs: Sequence[Gang], policy: Policy, *, cache: PlannerCache | None = None
) -> list[WorstLink | None]:
    """The worst link between the nodes of each gang, if it was ever measured. Cost: O(nodes²) for each."""
    run = begin_run(snapshot, policy, cache or PlannerCache())
    worst = [network.worst if (network := gang_network(run, plan, gang)) is not None else None for gang in gangs]
    return [link if link is not None and link.oldest_s is not None else None for link in worst]


def bad_link(run: Run, plan: Plan, gang: Gang) -> str:
    """The worst link in words if it is bad; else empty. Cost: O(members) where no node of the gang has a bad link."""
    nodes = {pod.node or plan.node_of.get(pod.uid) for pod in gang.members if not pod.terminal}
    network = gang_network(run, plan, gang) if nodes & run.scores.nodes_with_bad_links() else None
    return network.worst.text if network is not None and network.worst is not None and network.worst.bad else ""
