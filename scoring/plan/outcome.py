"""What looking for a place comes to: a node for each member, or the reason why not."""

from collections.abc import Mapping
from dataclasses import dataclass

from scoring.ids import NodeName, PodUid, ZoneName
from scoring.model import Role
from scoring.model.reasons import Reason


@dataclass(frozen=True, slots=True)
class Placed:
    """Where the members of a demand go."""

    zones: tuple[ZoneName, ...]
    nodes: Mapping[PodUid, NodeName]
    ends: tuple[tuple[Role, NodeName], ...]
    """The same as (role, node), for members placed later that want to be near."""
    score: float | None


@dataclass(frozen=True, slots=True)
class Refused:
    """Why there is no place, with particulars for people."""

    reason: Reason
    detail: str = ""
