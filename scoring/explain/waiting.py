"""Why a gang waits, in a sentence for people: what for, how much is missing, in which zone, behind which gangs.

Why not the plan's own detail: that is one fact for logs; its owner wants to know what would help. Rule: only from the
explanation and the plan, so the sentence and `/v1/explain` cannot differ; names are few, the rest is counted.
"""

from scoring.explain.gang import Explanation
from scoring.explain.words import counted, quantity, request_text, some, zone_text
from scoring.explain.zones import ZoneVerdict
from scoring.ids import GangKey
from scoring.model import Gang, Reason, Snapshot
from scoring.plan import Plan

NEVER = frozenset({Reason.IMPOSSIBLE, Reason.NO_ALLOWED_ZONE})  # Neither time nor the end of jobs helps
_NAMED = 2


def why_it_waits(explanation: Explanation, gang: Gang, plan: Plan, snapshot: Snapshot) -> str:
    """The sentence; empty when the gang does not wait. Cost: O(gangs)."""
    waiting = explanation.waiting
    if waiting is None:
        return ""
    match waiting.reason:
        case Reason.INCOMPLETE:
            return f"The gang waits for pods: {waiting.detail}."
        case Reason.NO_ROOM:
            count = explanation.turn.ahead.waiting_count
            queue = f" {counted(count, 'gang')} {'waits' if count == 1 else 'wait'} ahead of it." if count else ""
            return f"{_missing(explanation, gang)}{queue}{_room_is_made(snapshot, gang.key)}"
        case Reason.BEHIND:
            ahead = _ahead(explanation, gang.key, plan, snapshot)
            made = _room_is_made(snapshot, gang.key)
            return f"{_missing(explanation, gang)} Planned ahead of it: {ahead}.{made}"
        case Reason.FILTERED:
            return (
                f"{_needed(explanation, gang)}, and there is room, but filters of kube-scheduler that netgang does not "
                "know (volumes, affinity between pods, spreading, plugins) refuse nodes that it needs: the Event "
                "FailedScheduling of its pods says which."
            )
        case Reason.DEVICES:
            return (
                "The gang waits for devices of Dynamic Resource Allocation, which netgang cannot count: the Event "
                "FailedScheduling of its pods says what kube-scheduler found."
            )
        case Reason.IMPOSSIBLE:
            return f"{_never(explanation, gang)} More or larger nodes, smaller requests or a lower minimum would help."
        case Reason.NO_ALLOWED_ZONE:
            return f"The gang may use no zone: {waiting.detail}."
        case Reason.BACKING_OFF:
            return f"The gang was admitted and did not come to start; it waits before the next try, {waiting.detail}."
        case Reason.SPILL_WAIT:
            return f"{_missing(explanation, gang)} It waits for one zone; it {waiting.detail}."
        case other:
            return f"{other}{f' ({waiting.detail})' if waiting.detail else ''}"


def _missing(explanation: Explanation, gang: Gang) -> str:
    """How much room is needed, and how much of it the best zone has."""
    zones = _allowed(explanation)
    needed = _needed(explanation, gang)
    if not zones:
        return f"{needed}."
    best = max(zones, key=lambda zone: (min(zone.room, zone.wanted), zone.zone))
    if best.room >= best.wanted:
        return f"{needed}; {zone_text(best.zone)} has enough that is neither used nor reserved."
    others = len(zones) - 1
    more = f" and the other {counted(others, 'zone')} no more" if others else ""
    short = some([f"{quantity(one.resource, one.amount)} {one.resource}" for one in best.short], _NAMED)
    few = f"{best.wanted - best.room} too few{f' (short of {short})' if short else ''}"
    return f"{needed}; {zone_text(best.zone)} has room for {best.room}, {few}{more}."


def _needed(explanation: Explanation, gang: Gang) -> str:
    zones = _allowed(explanation)
    wanted = zones[0].wanted if zones else len(gang.pending)
    return f"The gang needs room for {counted(wanted, 'pod')} at once in one zone{_each(gang)}"


def _never(explanation: Explanation, gang: Gang) -> str:
    best = max(_allowed(explanation), key=lambda zone: (zone.room_when_empty, zone.zone), default=None)
    where = "" if best is None else f"; even empty, {zone_text(best.zone)} takes at most {best.room_when_empty} of them"
    return f"The gang cannot start: it {_needed(explanation, gang).removeprefix('The gang ')}{where}."


def _room_is_made(snapshot: Snapshot, key: GangKey) -> str:
    claim = snapshot.claims.get(key)
    if claim is None or not claim.givers:
        return ""
    leave = "leaves" if len(claim.givers) == 1 else "leave"
    return f" {some(claim.givers, _NAMED)} {leave} for it, and the room is reserved."


def _ahead(explanation: Explanation, key: GangKey, plan: Plan, snapshot: Snapshot) -> str:
    """Gangs that were given room in the zones that this one may use, the first in the order first."""
    rank = plan.waiting[key].rank
    allowed = {zone.zone for zone in _allowed(explanation)}
    given = [one for one in plan.admitted.values() if one.rank < rank and allowed.intersection(one.zones)]
    names = [str(one.gang) for one in sorted(given, key=lambda one: one.rank)]
    names += [str(other) for other in sorted(snapshot.commitments) if other != key and str(other) not in names]
    return some(names, _NAMED) or "gangs that are being started"


def _allowed(explanation: Explanation) -> list[ZoneVerdict]:
    return [zone for zone in explanation.zones if zone.allowed]


def _each(gang: Gang) -> str:
    """What one member asks for, when all that wait ask for the same."""
    asked = {pod.requests for pod in gang.pending}
    if len(asked) != 1:
        return ""
    text = request_text(asked.pop())
    return f" ({text} each)" if text else ""
