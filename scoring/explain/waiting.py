"""Why a gang waits, in a sentence or two for people: its cause, what helps, behind which gangs, and which leave for it.

Why not the plan's own detail: that is one fact for logs; its owner wants to know what would help. Rule: only from the
explanation and the plan, so the sentence and `/v1/explain` cannot differ; names are few, the rest is counted.
Events and conditions carry it, which people of the gang's namespace read: gangs of others are not named.
"""

from scoring.explain.gang import Explanation
from scoring.explain.words import counted, gangs_seen_from
from scoring.ids import GangKey
from scoring.model import Reason, Snapshot

NEVER = frozenset({Reason.IMPOSSIBLE, Reason.NO_ALLOWED_ZONE})  # Neither time nor the end of jobs helps
_NAMED = 2


def why_it_waits(explanation: Explanation, snapshot: Snapshot) -> str:
    """The sentences; empty when the gang does not wait. Cost: O(gangs)."""
    waiting, cause = explanation.waiting, explanation.cause
    if waiting is None or cause is None:
        return ""
    parts, ahead, key = [cause.message, cause.suggestion], explanation.turn.ahead, explanation.gang
    if waiting.reason is Reason.NO_ROOM and (count := len(ahead.waiting)):
        parts.append(f"{counted(count, 'gang')} {'waits' if count == 1 else 'wait'} ahead of it.")
    if waiting.reason is Reason.BEHIND:
        names = dict.fromkeys((*ahead.admitted, *ahead.starting))
        named = gangs_seen_from(key.partition("/")[0], names, _NAMED) or "gangs that are being started"
        parts.append(f"Planned ahead of it: {named}.")
    return " ".join(filter(None, parts)) + _room_is_made(snapshot, key)


def _room_is_made(snapshot: Snapshot, key: GangKey) -> str:
    claim = snapshot.claims.get(key)
    if claim is None or not claim.givers:
        return ""
    leave = "leaves" if len(claim.givers) == 1 else "leave"
    return f" {gangs_seen_from(key.partition('/')[0], claim.givers, _NAMED)} {leave} for it, and the room is reserved."
