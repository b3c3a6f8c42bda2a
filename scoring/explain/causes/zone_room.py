"""Count what one zone has for members of one kind: their room, and the room behind what keeps them off its nodes."""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from scoring.explain.causes.barriers import Barrier, Kind, barriers
from scoring.explain.words import counted, request_text, zone_text
from scoring.feasibility.room import fit_counts
from scoring.ids import ZoneName
from scoring.model import MemberClass
from scoring.network.matrix import Ints
from scoring.plan import Run


@dataclass(frozen=True, slots=True)
class ZoneRoom:
    """What one zone has for members of one kind."""

    zone: ZoneName
    nodes: int
    wanted: int
    each: str  # What one of them asks for
    room: int
    barriers: tuple[tuple[Barrier, tuple[str, ...], int], ...]  # What, on which nodes, for how many members; most first

    @property
    def hidden(self) -> int:
        """Members for which there would be room without the barriers."""
        return sum(members for _, _, members in self.barriers)

    @property
    def labelled(self) -> int:
        """The same on nodes that have the labels which the pods ask for: those nodes are meant."""
        return sum(members for barrier, _, members in self.barriers if barrier.kind is not Kind.LABEL)

    @property
    def selected(self) -> bool:
        """Whether any node has these labels."""
        return sum(len(at) for barrier, at, _ in self.barriers if barrier.kind is Kind.LABEL) < self.nodes

    def text(self) -> str:
        """How many of the pods have room, as the end of a sentence."""
        each = f" ({self.each}{' each' if self.wanted > 1 else ''})" if self.each else ""
        pods = counted(self.wanted, "pod")
        return f"{zone_text(self.zone)} has room for {min(self.room, self.wanted)} of {pods}{each}"


def best_zone(
    run: Run, member_class: MemberClass, count: int, allowed: tuple[ZoneName, ...], *, empty: bool
) -> ZoneRoom:
    """The allowed zone that would hold most members if nothing kept them off. Cost: O(nodes).

    `empty`: as if nothing ran there.
    """
    request = run.view.vector(member_class)
    free = run.table.allocatable if empty else run.capacity.room.free
    fits = fit_counts(free, request)
    if member_class.constraints.host_ports:
        fits = np.minimum(fits, 1)
    best: ZoneRoom | None = None
    for zone in allowed:
        rows = run.table.zones[zone]
        found_there = barriers(run, member_class, rows.tolist())
        found = _zone_room(run, zone, rows, (member_class, count), fits, found_there)
        if best is None or _promise(found) >= _promise(best):
            best = found
    assert best is not None
    return best


def _zone_room(
    run: Run,
    zone: ZoneName,
    rows: Ints,
    wanted: tuple[MemberClass, int],
    fits: Ints,
    barriers: Mapping[Barrier, tuple[int, ...]],
) -> ZoneRoom:
    barred = [row for at in barriers.values() for row in at]
    listed = [
        (barrier, tuple(str(run.table.names[row]) for row in at), int(fits[list(at)].sum()))
        for barrier, at in barriers.items()
    ]
    listed.sort(key=lambda one: (-one[2], one[0].kind, one[0].what))
    each = request_text(wanted[0].requests)
    return ZoneRoom(zone, len(rows), wanted[1], each, int(fits[rows].sum() - fits[barred].sum()), tuple(listed))


def _promise(room: ZoneRoom) -> tuple[int, bool, int, int, ZoneName]:
    meant = min(room.room + room.labelled, room.wanted)
    return meant, room.selected, min(room.room + room.hidden, room.wanted), room.room, room.zone
