"""Why a gang waits, in a sentence for people: what for, how much is missing, in which zone, behind whom.

Why not the plan's own detail: that is one fact for logs; who waits wants to know what would help. Rule: only from the
explanation and the plan, so the sentence and `/v1/explain` cannot differ; names are few, the rest is counted.
"""

from collections.abc import Iterable, Mapping

from scoring.explain import Explanation, ZoneVerdict
from scoring.ids import GangKey
from scoring.model import Gang
from scoring.plan import Plan
from scoring.reasons import Reason
from scoring.resources import CPU, MEMORY, PODS, Resources
from scoring.snapshot import Snapshot

NEVER = frozenset({Reason.IMPOSSIBLE, Reason.NO_ALLOWED_ZONE})
"""Reasons that neither time nor the end of other jobs can take away."""
_NAMED = 2
_BINARY: Mapping[str, int] = {"Ti": 2**40, "Gi": 2**30, "Mi": 2**20, "Ki": 2**10}
"""suffix → factor, the largest first"""


def why_it_waits(explanation: Explanation, gang: Gang, plan: Plan, snapshot: Snapshot) -> str:
    """The sentence; empty when the gang does not wait. Cost: O(gangs)."""
    waiting = explanation.waiting
    if waiting is None:
        return ""
    match waiting.reason:
        case Reason.INCOMPLETE:
            return f"The gang waits for pods: {waiting.detail}."
        case Reason.NO_ROOM:
            return f"{_missing(explanation, gang)}{_queue(plan, gang.key)}{_room_is_made(snapshot, gang.key)}"
        case Reason.BEHIND:
            ahead = _ahead(explanation, gang.key, plan, snapshot)
            made = _room_is_made(snapshot, gang.key)
            return f"{_missing(explanation, gang)} Planned ahead of it: {ahead}.{made}"
        case Reason.IMPOSSIBLE:
            return f"{_never(explanation, gang)} More or larger nodes, smaller requests or a lower minimum would help."
        case Reason.NO_ALLOWED_ZONE:
            return f"The gang has no zone to go to: {waiting.detail}."
        case Reason.BACKING_OFF:
            return f"The gang was let in and did not come to start; it waits before the next try, {waiting.detail}."
        case Reason.SPILL_WAIT:
            return f"{_missing(explanation, gang)} It waits for one zone; it {waiting.detail}."
        case other:
            return f"{other}{f' ({waiting.detail})' if waiting.detail else ''}"


def _missing(explanation: Explanation, gang: Gang) -> str:
    """How much room is needed, and how much of it the best zone has."""
    zones = _allowed(explanation)
    wanted = zones[0].wanted if zones else len(gang.pending)
    needed = f"The gang needs room for {_count(wanted, 'pod')} at once in one zone{_each(gang)}"
    if not zones:
        return f"{needed}."
    best = max(zones, key=lambda zone: (min(zone.room, zone.wanted), zone.zone))
    if best.room >= best.wanted:
        return f"{needed}; {_zone(best)} has enough that is neither used nor promised."
    others = len(zones) - 1
    more = f" and the other {_count(others, 'zone')} no more" if others else ""
    return f"{needed}; {_zone(best)} has room for {best.room}, {best.wanted - best.room} too few{more}."


def _never(explanation: Explanation, gang: Gang) -> str:
    zones = _allowed(explanation)
    wanted = zones[0].wanted if zones else len(gang.pending)
    best = max(zones, key=lambda zone: (zone.room_when_empty, zone.zone), default=None)
    where = "" if best is None else f"; even empty, {_zone(best)} takes at most {best.room_when_empty} of them"
    return f"The gang cannot start: it needs room for {_count(wanted, 'pod')} at once in one zone{_each(gang)}{where}."


def _queue(plan: Plan, key: GangKey) -> str:
    rank = plan.waiting[key].rank
    ahead = sum(other.rank < rank for other in plan.waiting.values())
    return f" {_count(ahead, 'gang')} {'waits' if ahead == 1 else 'wait'} ahead of it." if ahead else ""


def _room_is_made(snapshot: Snapshot, key: GangKey) -> str:
    """Who leaves for it."""
    claim = snapshot.claims.get(key)
    if claim is None or not claim.givers:
        return ""
    leave = "leaves" if len(claim.givers) == 1 else "leave"
    return f" {_some(claim.givers)} {leave} for it, and the room is kept."


def _ahead(explanation: Explanation, key: GangKey, plan: Plan, snapshot: Snapshot) -> str:
    """Gangs that were given room in the zones that this one may use, the first in the order first."""
    rank = plan.waiting[key].rank
    allowed = {zone.zone for zone in _allowed(explanation)}
    given = [one for one in plan.admitted.values() if one.rank < rank and allowed.intersection(one.zones)]
    names = [str(one.gang) for one in sorted(given, key=lambda one: one.rank)]
    names += [str(other) for other in sorted(snapshot.commitments) if other != key and str(other) not in names]
    return _some(names) or "gangs that are being started"


def _allowed(explanation: Explanation) -> list[ZoneVerdict]:
    return [zone for zone in explanation.zones if zone.allowed]


def _zone(verdict: ZoneVerdict) -> str:
    return f"zone {verdict.zone}" if verdict.zone else "the nodes without a zone"


def _some(names: Iterable[str]) -> str:
    """The first names, and how many more.

    >>> _some(["a", "b"]), _some("abcd"), _some([])
    ('a, b', 'a, b and 2 more', '')
    """
    listed = list(names)
    more = len(listed) - _NAMED
    return ", ".join(listed[:_NAMED]) + (f" and {more} more" if more > 0 else "")


def _count(count: int, what: str) -> str:
    """One of them, or several.

    >>> _count(1, "pod"), _count(2, "pod")
    ('1 pod', '2 pods')
    """
    return f"{count} {what}{'' if count == 1 else 's'}"


def _each(gang: Gang) -> str:
    """What one member asks for, when all that wait ask for the same."""
    asked = {pod.requests for pod in gang.pending}
    if len(asked) != 1:
        return ""
    text = request_text(asked.pop())
    return f" ({text} each)" if text else ""


def request_text(request: Resources) -> str:
    """A pod's request as its owner would write it; the place in the node's list of pods is not asked for.

    >>> request_text(Resources.parse({"cpu": "1500m", "memory": "2Gi", "nvidia.com/gpu": 1, "pods": 1}))
    'cpu 1500m, memory 2Gi, nvidia.com/gpu 1'
    >>> request_text(Resources.parse({"cpu": 2, "memory": 1000}))
    'cpu 2, memory 1000'
    """
    return ", ".join(f"{name} {_quantity(name, amount)}" for name, amount in request if name != PODS)


def _quantity(name: str, amount: int) -> str:
    if name == CPU:
        return f"{amount // 1000}" if amount % 1000 == 0 else f"{amount}m"
    if name == MEMORY or amount >= _BINARY["Mi"]:
        for suffix, factor in _BINARY.items():
            if amount and amount % factor == 0:
                return f"{amount // factor}{suffix}"
    return str(amount)
