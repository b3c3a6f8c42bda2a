"""What each zone has for a gang: room for how many, which resource is short by how much, how good and how far it is.

Rule: counted as if the gang were next in what is neither used nor committed, so a zone that the plan has given to a
gang ahead shows its room; which gang that is stands elsewhere in the explanation. What is short is found by placing
members one after the other where they fit, the rest where least is missing: so the amounts suffice, and on equal terms
no smaller ones would.
"""

from collections.abc import Mapping, Sequence
from operator import itemgetter

import msgspec
import numpy as np

from scoring.explain.words import quantity
from scoring.feasibility.room import fit_counts
from scoring.ids import NodeName, ResourceName, ZoneName
from scoring.model import MemberClass, Role
from scoring.network.matrix import Ints
from scoring.plan import Run
from scoring.plan.capacity import When
from scoring.plan.demand import GangDemand, MemberSet
from scoring.score.zone_distance import UNKNOWN_DISTANCE_MS, zone_distances


class Shortage(msgspec.Struct, frozen=True):
    """How much of a resource is missing in a zone; amounts are Kubernetes quantities."""

    resource: ResourceName
    amount: str  # A Kubernetes quantity.
    nodes: Mapping[NodeName, str]  # node → how much of it is missing there.


class ZoneVerdict(msgspec.Struct, frozen=True):
    """What a zone has for the gang, as if it were next."""

    zone: ZoneName
    allowed: bool  # Whether the gang may go there.
    nodes: int  # Nodes of the zone.
    room: int  # How many of the wanted members fit into what is neither used nor committed.
    room_when_empty: int  # The same, if nothing ran there.
    wanted: int  # Members that must start at once.
    short: tuple[Shortage, ...] = ()  # What is missing for all wanted.
    homeless: int = 0  # Members that may go to none of its nodes.
    score: float | None = None  # Mean points (0 to 100) that its links would have there.
    distance_ms: float | None = None  # One-way delay from where its users are.


def verdicts(run: Run, ask: GangDemand, *, closest: int | None = None) -> tuple[ZoneVerdict, ...]:
    """All zones, by name. Cost: as planning the gang, and O(nodes) for what is short.

    `closest`: what is short, and how good it would be, is said of so many zones only, those with most room among the
    allowed, of equals the last by name; `None`: of all.
    """
    members = run.view.member_set(ask.need, ask)
    allowed = run.view.candidate_zones(ask)
    now, empty = run.capacity.zone_members(members), run.capacity.zone_members(members, When.EMPTY)
    score = run.view.score(ask)
    near = ask.options.near
    distances = zone_distances(near, run.table, run.snapshot.network, run.policy) if near is not None else {}
    pairs = pairs_of(members)
    order = sorted(range(len(run.zones)), key=lambda i: (run.zones[i] not in allowed, -int(now[i]), -i))
    looked_at = frozenset(order[:closest])
    found: list[ZoneVerdict] = []
    for i, zone in enumerate(run.zones):
        look = members.size and i in looked_at
        short, homeless = _lack_of(run, members.classes, run.table.zones[zone]) if look else ((), 0)
        fits = look and not short and not homeless and pairs > 0 and zone in allowed
        total = run.search.estimate(members, zone, score=score) if fits else None
        distance = distances.get(zone, UNKNOWN_DISTANCE_MS)
        found.append(
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
    return tuple(found)


def pairs_of(member_set: MemberSet) -> int:
    """Pairs of members that exchange data: with a ps those with it, else all; those with placed siblings included.

    >>> from scoring.model import Constraints, MemberClass
    >>> from scoring.model.policy import ScorePolicy, Selection
    >>> from scoring.model.resources import NO_RESOURCES
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
    """What `rows` lack for these members in the run's room, and how many members may go to none of them.

    Cost: O(nodes · resources) per class and time round.
    """
    asked = {name for member_class, _ in classes for name, _ in member_class.requests}
    axis = (*run.table.axis, *sorted(asked.difference(run.table.axis)))  # what no node has comes last
    free = np.zeros((len(rows), len(axis)), np.int64)
    free[:, : len(run.table.axis)] = run.capacity.room.free[rows]
    more = np.zeros_like(free)
    ports = np.zeros(len(rows), np.bool_)  # A member with host ports is there: the next one needs another node
    homeless = 0
    for member_class, count in classes:
        request = np.zeros(len(axis), np.int64)
        for name, amount in member_class.requests:
            request[axis.index(name)] = amount
        allowed = run.capacity.mask(member_class)[rows]
        single = bool(member_class.constraints.host_ports)
        left = count
        counts = np.where(allowed & ~(ports & single), fit_counts(free, request), 0)
        for i in np.lexsort((np.arange(len(rows)), -counts)).tolist():
            here = min(int(counts[i]), 1 if single else left, left)
            if not here:
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
    found: list[Shortage] = []
    for column, resource in sorted(enumerate(axis), key=itemgetter(1)):
        if at := np.flatnonzero(more[:, column]).tolist():
            nodes = {run.table.names[int(rows[i])]: quantity(resource, int(more[i, column])) for i in at}
            found.append(Shortage(resource, quantity(resource, int(more[:, column].sum())), nodes))
    return tuple(found), homeless
