"""What a waiting gang would ask an autoscaler for: which pods of it, and in which zones; or why that cannot be said."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from hashlib import sha256
from itertools import groupby
from typing import Final

from scoring.ids import NO_ZONE, GangKey, ZoneName
from scoring.model import Constraints, Pod
from scoring.model.policy import Policy, ZonePolicy
from scoring.model.reasons import Reason
from scoring.model.resources import Resources
from scoring.model.snapshot import Snapshot
from scoring.plan import Plan, PlannerCache, Run, begin_run, take_commitments
from scoring.plan.demand import GangDemand

MOST_KINDS: Final = 32
"""Kinds of pods in one request; the API takes no more."""
WANTS_NODES: Final = frozenset(
    {Reason.NO_ROOM, Reason.BEHIND, Reason.FILTERED, Reason.IMPOSSIBLE, Reason.NO_ALLOWED_ZONE}
)
"""Reasons that more nodes would take away"""


class Hindrance(StrEnum):
    """Why a gang that waits for room asks for no nodes; the value completes "no nodes can be asked for: …"."""

    KINDS = "its pods are of more kinds than a request may name"
    GATES_OPENED = "the gates of its pods were opened for nodes that exist"
    NO_ZONES = "the cluster's nodes have no zones, and the gang must be in one"


@dataclass(frozen=True, slots=True)
class Wish:
    """What a gang that waits for room still needs."""

    ask: GangDemand
    sets: tuple[tuple[Pod, ...], ...]
    fingerprint: str


def wish_of(run: Run, plan: Plan, key: GangKey) -> Wish | Hindrance | None:
    """What the gang would ask for; a Hindrance: no request could say it; `None`: nodes are not what it waits for.

    Pods whose gate was opened once are bound to nodes that exist, so new ones would not help them.
    """
    waiting, gang = plan.waiting.get(key), run.snapshot.gangs.get(key)
    if waiting is None or gang is None or waiting.reason not in WANTS_NODES or not gang.own:
        return None
    ask = run.view.demand(gang)
    needed = [pod for _, pods in ask.need for pod in pods]
    if not needed or ask.incomplete is not None:
        return None
    if any(pod.admitted_to is not None for pod in needed):
        return Hindrance.GATES_OPENED
    sets = _sets(needed)
    return Wish(ask, sets, fingerprint_of(sets)) if len(sets) <= MOST_KINDS else Hindrance.KINDS


def hindrance_of(snapshot: Snapshot, plan: Plan, policy: Policy, key: GangKey) -> Hindrance | None:
    """Why a gang that waits for room does not ask; `None`: it does, in its turn. Cost: as a look at the zones' room.

    >>> from tests.builders import gang, node, snapshot
    >>> from scoring.plan import plan
    >>> cluster = snapshot([node("n1", zone="", cpu="1")], [gang("g", 2)])
    >>> hindrance_of(cluster, plan(cluster, Policy(), now_s=0.0), Policy(), GangKey("default/g")).name
    'NO_ZONES'
    """
    run = begin_run(snapshot, policy, PlannerCache())
    wish = wish_of(run, plan, key)
    if isinstance(wish, Wish):
        return None if zones_to_ask(run, wish.ask) else Hindrance.NO_ZONES
    return wish


def fingerprint_of(sets: Sequence[Sequence[Pod]]) -> str:
    """Short text that is the same for the same kinds of pods in the same numbers.

    >>> from tests.builders import pod
    >>> few, many = [pod("a"), pod("b")], [pod("c"), pod("d"), pod("e")]
    >>> fingerprint_of([few]) == fingerprint_of([many[:2]]), fingerprint_of([few]) == fingerprint_of([many])
    (True, False)
    """
    kinds = [(*_kind(pods[0]), len(pods)) for pods in sets]
    return sha256(repr(sorted(kinds, key=repr)).encode()).hexdigest()[:10]


def _kind(pod: Pod) -> tuple[Resources, Constraints]:
    return pod.requests, pod.member_class.constraints


def _sets(pods: Iterable[Pod]) -> tuple[tuple[Pod, ...], ...]:
    """Pods that are alike to a node, together; by kind and name."""
    ordered = sorted(pods, key=lambda pod: (repr(_kind(pod)), pod.name))
    return tuple(tuple(alike) for _, alike in groupby(ordered, key=_kind))


def zones_to_ask(run: Run, ask: GangDemand) -> tuple[tuple[ZoneName, ...], ...]:
    """The zones of the first attempt, of the second, and so on; an attempt without zones takes any.

    A gang that must be in one zone: where members run already, there; else in those that it names, in its order, with
    or without nodes; else in those of the cluster, most room for it first. One that may be spread: in all that it
    names, or in any. Empty: its nodes have no zones, and no further node would have one.
    """
    named = tuple(zone for zone in ask.options.zones or () if zone != NO_ZONE)
    if ask.options.zone_policy is ZonePolicy.PREFERRED:
        return (named,)
    runs_in = {run.table.nodes[run.table.index[node]].zone for _, node in ask.siblings if node in run.table.index}
    if runs_in:
        return () if NO_ZONE in runs_in else (tuple(sorted(runs_in)),)
    if ask.options.zones is not None:
        return tuple((zone,) for zone in named)
    if not run.zones:
        return ((),)
    take_commitments(run, besides=ask.gang.key)
    rooms = dict(zip(run.zones, run.capacity.zone_members(run.view.member_set(ask.need, ask)).tolist(), strict=True))
    known = [zone for zone in run.zones if zone != NO_ZONE]
    return tuple((zone,) for zone in sorted(known, key=lambda zone: (-rooms[zone], zone)))
