"""The closed set of causes for which a gang waits, as one word for programs, and a cause in words for people.

Why beside `scoring.model.reasons`: those are the planner's answers, constant because kube-scheduler repeats them. A
cause is found when /v1/explain is asked or an Event is written: it says which nodes, which label, which claim. Where
there is nothing more to say the planner's reason is the cause.
"""

from enum import StrEnum

import msgspec


class CauseReason(StrEnum):
    """What keeps a gang waiting, in CamelCase as conditions and Events have it."""

    CORDONED = "NodesCordoned"
    """Nodes that it needs are cordoned."""
    NOT_READY = "NodesNotReady"
    """Nodes that it needs are not ready."""
    LEAVING = "NodesLeaving"
    """Nodes that it needs are out of service, or about to be removed."""
    TAINT = "TaintNotTolerated"
    """Nodes that it needs have a taint that its pods do not tolerate."""
    LABEL = "NodeLabelMissing"
    """Too few nodes, or none, have the labels of its nodeSelector or node affinity."""
    REFUSED = "NodesRefused"
    """Filters of kube-scheduler that netgang does not model refuse nodes that it needs."""
    SPREAD = "PodsSpreadTooWide"
    """Its pods must be apart from one another, by anti-affinity or topology spread, on more nodes than there are."""
    PORT = "HostPortTaken"
    """Its host port is taken on nodes that it needs, or it has more pods than nodes."""
    TOO_LARGE = "RequestTooLarge"
    """One pod asks for more than the largest node has."""
    ZONE_TOO_SMALL = "ZoneTooSmall"
    """Its minimum is more than any zone that it may use has, even empty."""
    ZONES_EXCLUDED = "ZonesExcluded"
    """Annotation netgang.io/zones leaves out a zone that has room."""
    POD_LIMIT = "PodLimitReached"
    """Nodes have as many pods as they may have."""
    NO_ROOM = "InsufficientRoom"
    """Running pods, or what is kept for others, take the room."""
    SERVICE_LEVEL = "ServiceLevel"
    """There is no room, and it is too wide for gangs to leave for it by service level."""
    AHEAD = "RoomGivenAhead"
    """Gangs ahead of it in the queue were given the room."""
    COMMITTED = "RoomCommitted"
    """The room is committed to gangs that are starting."""
    CLAIM = "ClaimMissing"
    """kube-scheduler places its pods on no node, because a PersistentVolumeClaim or ResourceClaim is missing."""
    UNPLACEABLE = "PodNotPlaceable"
    """kube-scheduler places its pods on no node, for another reason of theirs."""
    GATE = "ForeignGate"
    """Its pods wait for another controller to remove a scheduling gate."""
    PODS_MISSING = "PodsMissing"
    """Fewer pods exist than its minimum."""
    QUOTA = "ResourceQuota"
    """A ResourceQuota of its namespace forbids the missing pods."""
    NODES_LOST = "NodesLost"
    """Members were on nodes that are gone, and were not made again."""


class Cause(msgspec.Struct, frozen=True):
    """Why it waits; the same words as in its Event, so no gang of another namespace is named."""

    reason: str  # NodesCordoned, NodeLabelMissing, PodsMissing and so on: docs/reference/reasons.md
    message: str  # One or two sentences
    suggestion: str = ""  # What its owner or an administrator can do; empty: nothing but wait
