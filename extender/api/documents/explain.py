"""Why a gang is where it is, as plain JSON values: the same for /v1/explain, the page and `netgang explain`."""

from dataclasses import asdict
from typing import Any

from extender.api.documents.changes import change_document
from extender.api.documents.plan import links_document
from extender.api.documents.queue import weight_document
from scoring.explain import Explanation, Reservation, Shortage, Suggestion, Turn, Unblocking, ZoneVerdict
from scoring.explain.words import quantity

Document = dict[str, Any]


def explain_document(explanation: Explanation) -> Document:
    """An explanation in JSON's words; what would change it is `unblocking_document`."""
    admission, waiting = explanation.admission, explanation.waiting
    state = "admitted" if admission else "waiting" if waiting else "running"
    return {
        "gang": explanation.gang,
        "state": state,
        "source": explanation.source,
        "min_member": explanation.min_member,
        "rank": admission.rank if admission else waiting.rank if waiting else None,
        "zone": ",".join(admission.zones) if admission else None,
        "score": admission.score if admission else None,
        "code": waiting.reason.name if waiting else None,
        "reason": str(waiting.reason) if waiting else None,
        "detail": waiting.detail if waiting else "",
        "counts": _counts(explanation),
        "members": [asdict(member) for member in explanation.members],
        "missing": asdict(explanation.missing),
        "turn": _turn(explanation.turn),
        "zones": [_zone(zone) for zone in explanation.zones],
        "links": None if explanation.links is None else links_document(explanation.links),
        "notes": [{"about": note.topic.value, "text": note.text} for note in explanation.notes],
        "decisions": [asdict(one) for one in explanation.decisions],
        "problems": list(explanation.problems),
    }


def unblocking_document(found: Unblocking | None) -> Document | None:
    """What would let the gang in; `None`: nobody had the time to find out."""
    if found is None:
        return None
    return {
        "text": found.text,
        "impossible": found.impossible,
        "trials": found.trials,
        "suggestions": [_suggestion(one) for one in found.suggestions],
    }


def _suggestion(one: Suggestion) -> Document:
    return {
        "text": one.text,
        "changes": [change_document(change) for change in one.changes],
        "also_admitted": list(one.also),
        "refused_instead": list(one.instead),
    }


def _counts(explanation: Explanation) -> Document:
    """Members by what they do."""
    states = [member.state for member in explanation.members]

    def count(*names: str) -> int:
        return sum(state in names for state in states)

    return {
        "exist": len(states),
        "needed": explanation.min_member,
        "on_nodes": count("running", "bound"),
        "held": count("held"),
        "planned": count("planned"),
        "waiting": count("pending", "gated"),
        "ended": count("succeeded", "failed"),
        "missing": explanation.missing.count,
    }


def _turn(turn: Turn) -> Document:
    entry, ahead = turn.entry, turn.ahead
    return {
        "state": entry.state.value,
        "queue": entry.queue,
        "rank": entry.rank,
        "of": turn.of,
        "priority": entry.priority,
        "weight": weight_document(entry.weight),
        "waiting_since_s": entry.times.waiting_s,
        "waited_s": entry.waited_s,
        "starves_in_s": entry.starves_in_s,
        "starves_at_s": turn.starves_at_s,
        "backs_off_until_s": turn.backs_off_until_s,
        "ahead": {
            "waiting": list(ahead.waiting),
            "waiting_count": ahead.waiting_count,
            "admitted": list(ahead.admitted),
            "admitted_count": ahead.admitted_count,
            "starting": list(ahead.starting),
        },
        "reservation": _reservation(turn.reservation),
    }


def _reservation(kept: Reservation | None) -> Document | None:
    if kept is None:
        return None
    return {
        "kind": kept.kind,
        "zone": ",".join(kept.zones) if kept.zones else None,
        "nodes": dict(kept.nodes),
        "held_nodes": list(kept.held_nodes),
        "until_s": kept.until_s,
        "givers": list(kept.givers),
    }


def _zone(zone: ZoneVerdict) -> Document:
    return {
        "zone": zone.zone,
        "allowed": zone.allowed,
        "nodes": zone.nodes,
        "room": zone.room,
        "room_when_empty": zone.room_when_empty,
        "wanted": zone.wanted,
        "reference_bps": zone.reference_bps,
        "short": [_short(one) for one in zone.short],
        "homeless": zone.homeless,
        "closed": dict(zone.closed),
        "score": None if zone.score is None else round(zone.score, 3),
        "distance_ms": zone.distance_ms,
    }


def _short(one: Shortage) -> Document:
    nodes = {node: quantity(one.resource, amount) for node, amount in one.nodes}
    return {"resource": one.resource, "amount": quantity(one.resource, one.amount), "nodes": nodes}
