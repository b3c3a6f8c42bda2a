"""What people are told about one gang. Imported from here by everybody else."""

from scoring.explain.gang import Explanation, MemberState, ZoneVerdict, explain
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

__all__ = [
    "Explanation",
    "GangLinks",
    "LinkVerdict",
    "MemberState",
    "MetricVerdict",
    "PartVerdict",
    "ZoneVerdict",
    "counted",
    "explain",
    "gang_links",
    "hard_ttl_of",
    "part_of",
]
