"""Why a gang is where it is: the same for /v1/explain, the page and `netgang explain`."""

from collections import Counter
from typing import Final

from extender.api.documents.queue import weight_document
from extender.schemas import explain as schema
from scoring.explain.gang import Explanation
from scoring.explain.queue_report import Turn
from scoring.explain.words import quantity
from scoring.explain.zones import ZoneVerdict
from scoring.ids import GangKey
from scoring.model import Snapshot

_MOST_NAMED: Final = 10  # Gangs ahead; the others are counted


def explain_document(explanation: Explanation, preemption: schema.Preemption) -> schema.Explained:
    """An explanation as it is served."""
    admission, waiting = explanation.admission, explanation.waiting
    return schema.Explained.copied(
        explanation,
        state="admitted" if admission else "waiting" if waiting else "running",
        rank=admission.rank if admission else waiting.rank if waiting else None,
        zone=",".join(admission.zones) if admission else None,
        score=admission.score if admission else None,
        code=waiting.reason.name if waiting else None,
        reason=str(waiting.reason) if waiting else None,
        detail=waiting.detail if waiting else "",
        counts=_counts(explanation),
        turn=_turn(explanation.turn),
        zones=tuple(_zone(zone) for zone in explanation.zones),
        preemption=preemption,
    )


def preemption_document(snapshot: Snapshot, gang: GangKey, *, blocked: str | None) -> schema.Preemption:
    """Which gangs leave for the gang, for which it leaves, and why one that would make room stays."""
    claim = snapshot.claims.get(gang)
    return schema.Preemption(
        makes_room=claim.givers if claim is not None else (),
        leaves_for=next((key for key, one in sorted(snapshot.claims.items()) if gang in one.givers), None),
        blocked=blocked,
    )


def _counts(explanation: Explanation) -> dict[str, int]:
    count = Counter(member.state for member in explanation.members)
    return {
        "exist": count.total(),
        "needed": explanation.min_member,
        "on_nodes": count["running"] + count["bound"],
        "held": count["held"],
        "planned": count["planned"],
        "waiting": count["pending"] + count["gated"],
        "ended": count["succeeded"] + count["failed"],
        "missing": explanation.missing,
    }


def _turn(turn: Turn) -> schema.Turn:
    entry = turn.entry
    return schema.Turn.copied(
        entry,
        of=turn.of,
        weight=weight_document(entry.weight),
        waiting_since_s=entry.times.waiting_s,
        ahead=schema.Ahead(
            waiting=turn.ahead.waiting[:_MOST_NAMED],
            waiting_count=len(turn.ahead.waiting),
            admitted=turn.ahead.admitted[:_MOST_NAMED],
            admitted_count=len(turn.ahead.admitted),
            starting=turn.ahead.starting[:_MOST_NAMED],
        ),
        reservation=None
        if (kept := turn.reservation) is None
        else schema.Reservation.copied(kept, zone=",".join(kept.zones) if kept.zones else None, nodes=dict(kept.nodes)),
    )


def _zone(zone: ZoneVerdict) -> schema.Zone:
    short = tuple(
        schema.Short(
            resource=one.resource,
            amount=quantity(one.resource, one.amount),
            nodes={str(node): quantity(one.resource, amount) for node, amount in one.nodes},
        )
        for one in zone.short
    )
    score = None if zone.score is None else round(zone.score, 3)
    return schema.Zone.copied(zone, short=short, score=score)
