"""Explanations of gangs for people. Other packages import from here."""

from scoring.explain.around import NOTHING_KNOWN, Around, Decision, Note, Topic, two_runs
from scoring.explain.gang import Explanation, MemberState, Missing, explain, explain_in_steps
from scoring.explain.links import (
    GangLinks,
    LinkVerdict,
    MetricVerdict,
    PartVerdict,
    counted,
    gang_links,
    hard_ttl_of,
    part_of,
)
from scoring.explain.shortage import Shortage
from scoring.explain.turn import Ahead, Reservation, Turn
from scoring.explain.unblock import NEVER, Suggestion, Unblocking, unblock, unblock_in_steps
from scoring.explain.zones import ZoneVerdict

__all__ = [
    "NEVER",
    "NOTHING_KNOWN",
    "Ahead",
    "Around",
    "Decision",
    "Explanation",
    "GangLinks",
    "LinkVerdict",
    "MemberState",
    "MetricVerdict",
    "Missing",
    "Note",
    "PartVerdict",
    "Reservation",
    "Shortage",
    "Suggestion",
    "Topic",
    "Turn",
    "Unblocking",
    "ZoneVerdict",
    "counted",
    "explain",
    "explain_in_steps",
    "gang_links",
    "hard_ttl_of",
    "part_of",
    "two_runs",
    "unblock",
    "unblock_in_steps",
]
