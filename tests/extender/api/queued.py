"""Entries of /v1/queue as JSON, for those that read them."""

from typing import Any


def entry(**fields: Any) -> dict[str, Any]:
    usual = {"gang": "a/g", "queue": "WQ", "state": "WAITING", "rank": 1, "priority": 0, "admitted": False}
    weight = {"omega": 0.5, "omega_prime": 2.0, "exact": "2", "given": False}
    members = {"min_available": 2, "pending": 2, "running": 0, "succeeded": 0, "failed": 0}
    nothing = dict.fromkeys(("code", "reason", "zone", "leaves_for"))
    clock = dict.fromkeys(("waiting_since_s", "waited_s", "starves_in_s", "running_since_s"))
    rest = {"created_s": 0.0, "held_nodes": [], "makes_room": [], "detail": "", "network": None}
    return {**usual, "weight": weight, "members": members, **nothing, **clock, **rest, **fields}


EMPTY: dict[str, Any] = {"at_s": 1.0, "order": "weight", "counts": {}, "gangs": [], "shares": []}
