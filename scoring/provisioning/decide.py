"""Which waiting gangs ask an autoscaler for nodes, for which pods of theirs, in which zone, and when no more.

Why at all (docs/safety.md S17): an autoscaler adds nodes for pods that kube-scheduler calls unschedulable. It does not
see pods at a gate, and of pods that are refused until the whole gang fits it sees each for itself. A
ProvisioningRequest names all of them at once: all or none. Rules:

- A gang asks that waits for want of room, for what its minimum still needs, after it has waited for a while.
- One request for each gang; few at a time, and one new one at a time, in the planner's order.
- A gang that must be in one zone asks for one zone: the first that it allows, or that with most room for it now. What
  was refused there is asked for in the next one.
- A refused, lapsed or revoked request is left to be seen until its back-off is over; it doubles with each attempt. How
  many there were is written on the request, so that a restart forgets nothing.
- A request goes when its gang has started, waits for something else, is gone, or needs other pods; while the gang is
  being started it stays, for with it goes what an autoscaler keeps for it.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from hashlib import sha256
from itertools import groupby
from typing import Final

from scoring.ids import NO_ZONE, GangKey, ZoneName
from scoring.model import Constraints, Pod, Policy, Reason, Resources, Snapshot
from scoring.model.policy import ZonePolicy
from scoring.plan import Plan, PlannerCache, Run, begin_run, take_commitments
from scoring.plan.demand import GangDemand
from scoring.provisioning.requests import OVER, AskingLimits, Create, Delete, Request, Step
from scoring.queue.states import waiting_since_s

_PASSES: Final = frozenset({Reason.NOT_PLANNED, Reason.BACKING_OFF, Reason.SPILL_WAIT})
"""Reasons that pass by themselves: a request that is there stays"""
MOST_KINDS: Final = 32  # Kinds of pods in one request; the API takes no more
WANTS_NODES: Final = frozenset(  # Reasons that more nodes would take away
    {Reason.NO_ROOM, Reason.BEHIND, Reason.FILTERED, Reason.IMPOSSIBLE, Reason.NO_ALLOWED_ZONE}
)


class Hindrance(StrEnum):
    """Why a gang that waits for room asks for no nodes; the value completes "no nodes can be asked for: …"."""

    KINDS = "its pods are of more kinds than a request may name"
    GATES_OPENED = "the gates of its pods were opened for nodes that exist"
    NO_ZONES = "the cluster's nodes have no zones, and the gang must be in one"


@dataclass(frozen=True, slots=True)
class NodeDemand:
    """What a gang that waits for room still needs."""

    ask: GangDemand
    sets: tuple[tuple[Pod, ...], ...]
    fingerprint: str


def steps_of(
    snapshot: Snapshot,
    plan: Plan,
    policy: Policy,
    requests: Iterable[Request],
    *,
    limits: AskingLimits,
    now_s: float,
    cache: PlannerCache | None = None,
    besides: frozenset[GangKey] = frozenset(),
) -> tuple[Step, ...]:
    """What is to be done now, at most one Create among it, in the order in which it is to be done.

    `besides`: gangs that do not ask now, whatever they wait for. Cost: O(waiting gangs and requests), and a look at the
    zones' room for the gang that asks. Taken twice from the same objects it is the same.
    """
    run = begin_run(snapshot, policy, cache or PlannerCache())
    standing: dict[GangKey, Request] = {}  # The latest of each gang
    ordered = sorted(requests, key=lambda one: (one.gang, -one.attempt, one.name))
    older = [one for one in ordered if standing.setdefault(one.gang, one) is not one]
    steps: list[Step] = [Delete(one, "a later one has taken its place") for one in older]
    gone = {key: why for key, request in standing.items() if (why := _why_gone(run, plan, request)) is not None}
    steps.extend(Delete(standing[key], why) for key, why in gone.items())
    full = len(standing) - len(gone) >= limits.most
    for key in sorted(plan.waiting, key=lambda one: (plan.waiting[one].rank, one)):
        before = standing.get(key)
        if key in besides or key in gone or (before is None and full):
            continue
        if before is not None and not (
            before.outcome in OVER and now_s - before.since_s >= limits.backoff_of(before.attempt)
        ):
            continue
        demand = node_demand(run, plan, key)
        since_s = waiting_since_s(demand.ask.gang) if isinstance(demand, NodeDemand) else None
        if not isinstance(demand, NodeDemand) or since_s is None or now_s - since_s < limits.after_s:
            continue
        attempt = before.attempt + 1 if before is not None else 1
        choice = zones_to_ask(run, demand.ask)
        if not choice:
            continue
        steps.append(Create(key, demand.sets, demand.fingerprint, attempt, choice[(attempt - 1) % len(choice)]))
        if before is not None:
            steps.append(Delete(before, f"attempt {attempt} takes its place"))
        break
    return tuple(steps)


def _why_gone(run: Run, plan: Plan, request: Request) -> str | None:
    """Why a request is to be taken back; `None`: it stays, or is replaced."""
    gang, waiting = run.snapshot.gangs.get(request.gang), plan.waiting.get(request.gang)
    if gang is None or not gang.own:
        return "its gang is gone"
    if not run.view.demand(gang).need:
        return "its gang has started"
    if waiting is None or waiting.reason in _PASSES:
        return None
    if waiting.reason not in WANTS_NODES:
        return "its gang does not wait for room any more"
    demand = node_demand(run, plan, request.gang)
    if not isinstance(demand, NodeDemand) or demand.fingerprint != request.fingerprint:
        return "its gang needs something else now"
    return None


def node_demand(run: Run, plan: Plan, key: GangKey) -> NodeDemand | Hindrance | None:
    """What the gang would ask for, if nodes are what it waits for; Hindrance: no request could say it, or help it."""
    waiting, gang = plan.waiting.get(key), run.snapshot.gangs.get(key)
    if waiting is None or gang is None or waiting.reason not in WANTS_NODES or not gang.own:
        return None
    ask = run.view.demand(gang)
    needed = [pod for _, pods in ask.need for pod in pods]
    if not needed or ask.incomplete is not None:
        return None
    if any(pod.admitted_to is not None for pod in needed):
        return Hindrance.GATES_OPENED
    needed.sort(key=lambda pod: (repr(_kind(pod)), pod.name))
    sets = tuple(tuple(alike) for _, alike in groupby(needed, key=_kind))
    return NodeDemand(ask, sets, fingerprint_of(sets)) if len(sets) <= MOST_KINDS else Hindrance.KINDS


def hindrance_of(snapshot: Snapshot, plan: Plan, policy: Policy, key: GangKey) -> Hindrance | None:
    """Why a gang that waits for room does not ask; `None`: it does, in its turn. Cost: as a look at the zones' room."""
    run = begin_run(snapshot, policy, PlannerCache())
    demand = node_demand(run, plan, key)
    if isinstance(demand, NodeDemand):
        return None if zones_to_ask(run, demand.ask) else Hindrance.NO_ZONES
    return demand


def fingerprint_of(sets: Sequence[Sequence[Pod]]) -> str:
    """Short text that is the same for the same kinds of pods in the same numbers."""
    kinds = [(*_kind(pods[0]), len(pods)) for pods in sets]
    return sha256(repr(sorted(kinds, key=repr)).encode()).hexdigest()[:10]


def _kind(pod: Pod) -> tuple[Resources, Constraints]:
    return pod.requests, pod.member_class.constraints


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
