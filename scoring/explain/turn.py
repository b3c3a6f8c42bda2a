"""The gangs ahead of a gang, and what is reserved for it, by which rule, until when."""

from collections.abc import Mapping
from dataclasses import dataclass

from scoring.explain.queue_report import Entry, entry_of
from scoring.ids import GangKey, NodeName, PodUid, ZoneName
from scoring.model import Snapshot
from scoring.model.policy import QueuePolicy
from scoring.plan import Plan, Run
from scoring.plan.demand import GangDemand
from scoring.plan.queue_order import QueueOrder
from scoring.queue.states import HOLD_S, period, waiting_since_s


@dataclass(frozen=True, slots=True)
class Ahead:
    """Gangs that are planned before this one, first come first."""

    waiting: tuple[GangKey, ...]  # Those that wait, too
    admitted: tuple[GangKey, ...]  # Those that were given room in zones that this one may use
    starting: tuple[GangKey, ...]  # Those whose start is under way: their room is committed


@dataclass(frozen=True, slots=True)
class Reservation:
    """Room that no other gang is given."""

    kind: str
    """Why: "committed" (its start is under way), "planned" (may be planned again), "held" (for a STARVING gang) or
    "claimed" (other gangs leave for it)."""
    zones: tuple[ZoneName, ...]
    nodes: Mapping[str, NodeName]  # pod → node; empty for a starving gang, whose reservation is of whole nodes
    held_nodes: tuple[NodeName, ...] = ()
    until_s: float | None = None  # When it ends by itself (Unix seconds); `None`: the snapshot does not say


@dataclass(frozen=True, slots=True)
class Turn:
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
    starves_s = entry.times.starving_s if entry.starves_in_s is not None and mine is not None else None
    return Turn(
        entry=entry,
        of=len(plan.admitted) + len(plan.waiting),
        ahead=_ahead(run.snapshot, plan, key, allowed, rank=mine.rank if mine else 0),
        reservation=_reservation(run.snapshot, plan, ask, starves_s, run.policy.queue, now_s=now_s),
    )


def _ahead(snapshot: Snapshot, plan: Plan, key: GangKey, allowed: tuple[ZoneName, ...], *, rank: int) -> Ahead:
    zones = set(allowed)
    waiting = sorted((one.rank, one.gang) for one in plan.waiting.values() if one.rank < rank)
    given = [one for one in plan.admitted.values() if one.rank < rank and zones.intersection(one.zones)]
    admitted = sorted((one.rank, one.gang) for one in given)
    starting = sorted(other for other in snapshot.commitments if other != key)
    return Ahead(tuple(gang for _, gang in waiting), tuple(gang for _, gang in admitted), tuple(starting))


def _reservation(
    snapshot: Snapshot, plan: Plan, ask: GangDemand, starves_s: float | None, policy: QueuePolicy, *, now_s: float
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
    waiting_s = waiting_since_s(ask.gang)
    if starves_s is not None and waiting_s is not None:
        reserves_s = max(starves_s, waiting_s + policy.reserve_after_s)
        until_s = reserves_s + max(period(starves_s, reserves_s, now_s=now_s), 1) * HOLD_S
    return Reservation("held", reserved.zones, {}, reserved.nodes, until_s)
