"""The cluster in our own words: nodes, pods, gangs.

Why not the API's objects: 50,000 pods as generated models take 3 GB; a decision reads about fifteen fields. These
records share equal parts and cannot change. Rule: what is ambiguous in an API object is settled where it is converted
(`extender.convert`), never here.
"""

from scoring.model.gang import Gang, GroupStatus, JobSays, PodGroup
from scoring.model.pod import (
    GATE,
    Constraints,
    Controller,
    GangSource,
    GroupRef,
    HostPort,
    MemberClass,
    NodeSelectorTerm,
    Phase,
    Pod,
    Requirement,
    Resources,
    Role,
    RunRef,
    Taint,
    Toleration,
    counts,
)  # fmt: skip
from scoring.model.policy import Policy
from scoring.model.reasons import Reason
from scoring.model.snapshot import DaemonSet, Node, NodeTable, Reservation, Snapshot

__all__ = [
    "GATE", "Constraints", "Controller", "DaemonSet", "Gang", "GangSource", "GroupRef", "GroupStatus", "HostPort",
    "JobSays", "MemberClass", "Node", "NodeSelectorTerm", "NodeTable", "Phase", "Pod", "PodGroup", "Policy",
    "Reason", "Requirement", "Reservation", "Resources", "Role", "RunRef", "Snapshot", "Taint", "Toleration",
    "counts",
]  # fmt: skip
