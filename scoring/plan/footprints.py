"""What a gang takes at the place it has, as it is kept from one run to the next."""

from collections.abc import Mapping
from dataclasses import dataclass

from scoring.ids import NodeName, PodUid, ZoneName
from scoring.model import MemberClass
from scoring.network.matrix import Ints
from scoring.plan.ask import Ask


@dataclass(frozen=True, slots=True)
class Footprint:
    """What a gang's pending members take at the place they have; valid for the very objects it was made from."""

    ask: Ask
    members: Mapping[PodUid, NodeName]
    zones: tuple[ZoneName, ...]
    layout: int
    """Of the nodes (`Memo.layout`): not the nodes themselves, which would live as long as this"""
    parts: tuple[tuple[MemberClass, Ints, Ints], ...]
    """Per class: rows (different ones) and the amounts (rows, resources) that the class's members take there."""
    rows: Ints
    """Those of all parts, one after another; also in the next."""
    amounts: Ints
    row_set: frozenset[int]
    used: frozenset[ZoneName]
    """Zones of the rows."""
    simple: bool
    """The place is that of exactly the pending members, in zones the gang may use, without host ports: as long as room
    and nodes do, it can be kept as it is."""
