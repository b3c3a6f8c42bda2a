"""Report of every gang what it is, its weight, how long it has waited; and of one the gangs ahead and what it holds.

A pure function of snapshot, plan, policy and moment, so that /v1/queue, `netgang plan` and tests say the same. Rule:
states, clocks and order come from API objects and the moment alone; reasons, places, reservations from the plan.
"""

from collections import Counter
from collections.abc import Mapping
from operator import itemgetter

import msgspec
from msgspec.structs import replace

from scoring.feasibility.quorum import quorum_of
from scoring.ids import GangKey, Namespace, NodeName, PodUid, ZoneName
from scoring.model import Gang, GangSource, Phase, Policy, Reason, Snapshot
from scoring.model.policy import Order, QueuePolicy
from scoring.model.resources import CPU, MEMORY
from scoring.plan import Plan, PlannerCache, Run, begin_run, take_commitments
from scoring.plan.demand import GangDemand
from scoring.plan.queue_order import QueueOrder, SortKey, namespace_of
from scoring.queue.states import HOLD_S, QUEUE_OF, JobState, Transitions, period, state_of, transitions_of
from scoring.queue.weights import Weight

_ORDER = {JobState.STARVING: 0, JobState.WAITING: 0, JobState.RUNNING: 1, JobState.COMPLETED: 2}  # state → place
_NEVER_STARVE = frozenset(  # They could not start even if they were first (docs/safety.md S14)
    {
        *(Reason.INCOMPLETE, Reason.IMPOSSIBLE, Reason.NO_ALLOWED_ZONE, Reason.OVER_SHARE, Reason.BACKING_OFF),
        *(Reason.INVALID_GROUP, Reason.MIXED_SCHEDULERS, Reason.MIXED_PRIORITIES),
    }
)


class Members(msgspec.Struct, frozen=True):
    """How many pods of a gang there are, by what they do."""

    least: int  # min-available
    pending: int
    running: int  # On a node and not ended
    succeeded: int
    failed: int


class Entry(msgspec.Struct, frozen=True):
    """One gang in the queue."""

    gang: GangKey
    queue: str  # WQ, RQ or FQ
    state: JobState
    rank: int | None  # Place among the gangs that still want nodes, 1 first; `None`: it wants none
    priority: int
    weight: Weight
    created_s: float
    times: Transitions
    waited_s: float | None  # How long it has waited; `None`: it does not wait, or cannot start as it is
    starves_in_s: float | None  # How long until it is STARVING; 0 when it is, `None` when it never will be as it is
    members: Members
    admitted: bool  # The plan has places for it
    zones: tuple[ZoneName, ...]  # Of its places, held for it, or where it runs
    held_nodes: tuple[NodeName, ...]  # Kept free for it
    reason: Reason | None
    detail: str
    makes_room: tuple[GangKey, ...] = ()  # Gangs that leave, or have left, for it
    leaves_for: GangKey | None = None  # It leaves, or has left, for that gang, which has not started yet


class NamespaceShare(msgspec.Struct, frozen=True):
    """What the gangs of a limited namespace have, in the cluster's shares."""

    namespace: Namespace
    cap: float
    cpu: float
    memory: float


class QueueReport(msgspec.Struct, frozen=True):
    """All gangs, those that wait first, in the order of their turns."""

    at_s: float
    order: Order
    entries: tuple[Entry, ...]
    counts: Mapping[JobState, int]
    shares: tuple[NamespaceShare, ...]


def report(
    snapshot: Snapshot, plan: Plan, policy: Policy, *, now_s: float, cache: PlannerCache | None = None
) -> QueueReport:
    """The queue at `now_s`. Cost: O(members), about 0.1 ms a gang."""
    run = begin_run(snapshot, policy, cache or PlannerCache())
    take_commitments(run)
    turns = QueueOrder(run, now_s=now_s)
    gangs = [gang for gang in snapshot.gangs.values() if gang.own and gang.source is not GangSource.NATIVE]
    keyed: list[tuple[SortKey, int, GangDemand]] = []
    for number, gang in enumerate(gangs):
        ask = run.view.demand(gang)
        keyed.append((turns.key(ask), number, ask))
    asks = [ask for _, _, ask in sorted(keyed, key=itemgetter(0, 1))]
    ranks = {ask.gang.key: rank for rank, ask in enumerate((one for one in asks if one.pending), start=1)}
    claims = snapshot.claims
    leaves_for = {key: claim.gang for claim in claims.values() for key in claim.givers}
    entries: list[Entry] = []
    for ask in asks:
        key = ask.gang.key
        entry = entry_of(run, plan, turns, ask, ranks.get(key), now_s=now_s)
        if claims:
            makes_room = claims[key].givers if key in claims else ()
            entry = replace(entry, makes_room=makes_room, leaves_for=leaves_for.get(key))
        entries.append(entry)
    entries.sort(key=lambda one: (_ORDER[one.state], one.rank if one.rank is not None else len(asks), one.gang))
    counts = Counter(one.state for one in entries)
    return QueueReport(
        at_s=now_s,
        order=policy.queue.order,
        entries=tuple(entries),
        counts={state: counts[state] for state in JobState},
        shares=_shares(snapshot, gangs, policy),
    )


def entry_of(run: Run, plan: Plan, turns: QueueOrder, ask: GangDemand, rank: int | None, *, now_s: float) -> Entry:
    """One gang's entry, without the gangs that make room for it. Cost: O(members)."""
    gang = ask.gang
    waiting, admission = plan.waiting.get(gang.key), plan.admitted.get(gang.key)
    hold = plan.reservations.get(gang.key)
    reason = waiting.reason if waiting is not None and ask.pending else None
    able = reason not in _NEVER_STARVE and ask.incomplete is None and gang.problem is None
    state = state_of(gang, quorum_of(gang, lost_nodes=ask.lost), starving=able and turns.starving(ask))
    waits = QUEUE_OF[state] == "WQ"
    times = transitions_of(gang, turns.policy)
    clock = able and waits and times.waiting_s is not None and times.starving_s is not None
    return Entry(
        gang=gang.key,
        queue=QUEUE_OF[state],
        state=state,
        rank=rank,
        priority=gang.priority,
        weight=turns.weight(ask),
        created_s=gang.created_s,
        times=times,
        waited_s=max(now_s - times.waiting_s, 0.0) if clock and times.waiting_s is not None else None,
        starves_in_s=max(times.starving_s - now_s, 0.0) if clock and times.starving_s is not None else None,
        members=_members(gang),
        admitted=admission is not None,
        zones=admission.zones if admission is not None else hold.zones if hold is not None else _zones_of(gang, run),
        held_nodes=hold.nodes if hold is not None else (),
        reason=reason,
        detail=waiting.detail if waiting is not None and reason is not None else "",
    )


def _zones_of(gang: Gang, run: Run) -> tuple[ZoneName, ...]:
    """Where it runs."""
    return run.view.zones_of({pod.node for pod in gang.members if pod.node is not None and not pod.terminal})


def _members(gang: Gang) -> Members:
    phases = Counter(pod.phase for pod in gang.members)
    return Members(
        least=gang.min_member,
        pending=len(gang.pending),
        running=sum(pod.node is not None and not pod.terminal for pod in gang.members),
        succeeded=phases[Phase.SUCCEEDED],
        failed=phases[Phase.FAILED],
    )


def _shares(snapshot: Snapshot, gangs: list[Gang], policy: Policy) -> tuple[NamespaceShare, ...]:
    """What each limited namespace has on nodes, committed members included."""
    cap, table = policy.queue.share_cap, snapshot.table
    if cap is None:
        return ()
    totals = {name: int(table.allocatable[:, i].sum()) for i, name in enumerate(table.axis)}
    had: dict[Namespace, Counter[str]] = {}
    for gang in gangs:
        commitment = snapshot.commitments.get(gang.key)
        committed = commitment.assignment if commitment is not None else {}
        amounts = had.setdefault(namespace_of(gang), Counter())
        for pod in gang.members:
            if not pod.terminal and (pod.node is not None or pod.uid in committed):
                amounts.update({CPU: pod.requests.get(CPU), MEMORY: pod.requests.get(MEMORY)})
    return tuple(
        NamespaceShare(
            namespace,
            cap,
            amounts[CPU] / totals[CPU] if totals.get(CPU) else 0.0,
            amounts[MEMORY] / totals[MEMORY] if totals.get(MEMORY) else 0.0,
        )
        for namespace, amounts in sorted(had.items())
    )


class Ahead(msgspec.Struct, frozen=True):
    """Gangs that are planned before this one, first come first."""

    waiting: tuple[GangKey, ...]  # Those that wait, too
    admitted: tuple[GangKey, ...]  # Those that were given room in zones that this one may use
    starting: tuple[GangKey, ...]  # Those whose start is under way: their room is committed


class Reservation(msgspec.Struct, frozen=True):
    """Room that no other gang is given."""

    kind: str
    """Why: "committed" (its start is under way), "planned" (may be planned again), "held" (for a STARVING gang) or
    "claimed" (other gangs leave for it)."""
    zones: tuple[ZoneName, ...]
    nodes: Mapping[str, NodeName]  # pod → node; empty for a starving gang, whose reservation is of whole nodes
    held_nodes: tuple[NodeName, ...] = ()
    until_s: float | None = None  # When it ends by itself (Unix seconds); `None`: the snapshot does not say


class Turn(msgspec.Struct, frozen=True):
    """One gang's place in the queue."""

    entry: Entry  # As /v1/queue has it; its rank is that of the plan
    of: int  # Gangs that have something to decide
    ahead: Ahead
    reservation: Reservation | None


def turn_of(run: Run, plan: Plan, ask: GangDemand, allowed: tuple[ZoneName, ...], *, now_s: float) -> Turn:
    """The gang's turn. Cost: O(gangs)."""
    key = ask.gang.key
    mine = plan.waiting.get(key) or plan.admitted.get(key)
    entry = entry_of(run, plan, QueueOrder(run, now_s=now_s), ask, mine.rank if mine else None, now_s=now_s)
    starves = entry.times if entry.starves_in_s is not None and mine is not None else None
    return Turn(
        entry=entry,
        of=len(plan.admitted) + len(plan.waiting),
        ahead=_ahead(run.snapshot, plan, key, allowed, rank=mine.rank if mine else 0),
        reservation=_reservation(run.snapshot, plan, ask, starves, run.policy.queue, now_s=now_s),
    )


def _ahead(snapshot: Snapshot, plan: Plan, key: GangKey, allowed: tuple[ZoneName, ...], *, rank: int) -> Ahead:
    zones = set(allowed)
    waiting = sorted((one.rank, one.gang) for one in plan.waiting.values() if one.rank < rank)
    given = [one for one in plan.admitted.values() if one.rank < rank and zones.intersection(one.zones)]
    admitted = sorted((one.rank, one.gang) for one in given)
    starting = sorted(other for other in snapshot.commitments if other != key)
    return Ahead(tuple(gang for _, gang in waiting), tuple(gang for _, gang in admitted), tuple(starting))


def _reservation(
    snapshot: Snapshot, plan: Plan, ask: GangDemand, starves: Transitions | None, policy: QueuePolicy, *, now_s: float
) -> Reservation | None:
    """What is reserved for the gang: what is committed first, then what is planned, then what starving gangs have."""
    key = ask.gang.key
    names = {pod.uid: str(pod.name) for pod in ask.gang.members}

    def by_name(places: Mapping[PodUid, NodeName]) -> dict[str, NodeName]:
        return {names.get(uid, str(uid)): node for uid, node in sorted(places.items())}

    commitment, admission = snapshot.commitments.get(key), plan.admitted.get(key)
    if commitment is not None:
        table = snapshot.table
        zones = {table.nodes[table.index[n]].zone for n in commitment.assignment.values() if n in table.index}
        return Reservation("committed", tuple(sorted(zones)), by_name(commitment.assignment))
    if admission is not None:
        return Reservation("planned", admission.zones, by_name(admission.members))
    reserved, claim = plan.reservations.get(key), snapshot.claims.get(key)
    if claim is not None:
        where, held = (reserved.zones, reserved.nodes) if reserved else ((), ())
        return Reservation("claimed", where, by_name(claim.assignment), held)
    if reserved is None:
        return None
    until_s = None
    if starves is not None and starves.starving_s is not None and starves.waiting_s is not None:
        reserves_s = max(starves.starving_s, starves.waiting_s + policy.reserve_after_s)
        until_s = reserves_s + max(period(starves.starving_s, reserves_s, now_s=now_s), 1) * HOLD_S
    return Reservation("held", reserved.zones, {}, reserved.nodes, until_s)
