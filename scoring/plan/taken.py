"""What one planner run gives away: room and host ports, and in which zones.

Rule: whatever takes room counts up the zone's takes, so that what was computed for a zone holds for as long as that
number is the same.
"""

from collections.abc import Iterable, Sequence

import numpy as np
from numpy.typing import NDArray

from scoring.feasibility.room import Room
from scoring.ids import NodeName, ZoneName
from scoring.model import HostPort, MemberClass
from scoring.network.matrix import Ints
from scoring.plan.footprints import Footprint
from scoring.plan.ground import Ground


class Taken:
    """The room that is left, and the host ports that went."""

    def __init__(self, ground: Ground) -> None:
        self._ground = ground
        self.start: Ints = ground.table.allocatable - ground.snapshot.used
        """(nodes, resources): free before the run"""
        self.room = Room(self.start)
        self.ports: dict[int, set[HostPort]] = {}
        """row → ports given away on that node"""
        self._zones_taken: tuple[object, NDArray[np.bool_]] = (None, np.zeros(0, np.bool_))
        self._rows_taken: tuple[object, Ints] = (None, np.zeros(0, np.int64))
        self.takes = dict.fromkeys(ground.zones, 0)
        """zone → times that room was taken in it"""

    def take(self, member_class: MemberClass, nodes: Iterable[NodeName]) -> None:
        """Take room for one member of the class on each node; unknown nodes and resources take nothing."""
        index = self._ground.table.index
        self.take_rows(member_class, [index[node] for node in nodes if node in index])

    def take_rows(self, member_class: MemberClass, rows: Sequence[int]) -> set[ZoneName]:
        """The same for rows of the node table; gives their zones."""
        request = self._ground.vector(member_class)
        if request is not None:
            self.room.take(rows, request)
        zones = {self._ground.table.nodes[row].zone for row in set(rows)}
        self.count(zones)
        self.ports_taken(member_class, rows)
        return zones

    def take_places(self, places: Sequence[Footprint]) -> None:
        """Take the room of places that are known to stand; none has host ports."""
        rows, amounts = (np.concatenate([getattr(one, what) for one in places]) for what in ("rows", "amounts"))
        self.room.take_places(rows, amounts)
        self.count(frozenset[ZoneName]().union(*(one.used for one in places)))

    def shift(self, amounts: Ints) -> None:
        """Take (negative: give back) amounts (nodes, resources) everywhere at once."""
        self.room.shift(amounts)
        self.count(self.takes)

    def count(self, zones: Iterable[ZoneName]) -> None:
        """Room was taken in these zones."""
        for zone in zones:
            self.takes[zone] += 1

    def ports_taken(self, member_class: MemberClass, rows: Iterable[int]) -> None:
        """Members of the class have these nodes' ports."""
        for row in rows if member_class.constraints.host_ports else ():
            self.ports.setdefault(int(row), set()).update(member_class.constraints.host_ports)

    def zones_taken(self) -> NDArray[np.bool_]:
        """Whether room was given away during this run, or is committed, in each zone. Cost: as `rows_taken`."""
        rows = self.rows_taken()
        if self._zones_taken[0] is not rows:
            found = np.zeros(len(self._ground.zones), np.bool_)
            found[self._ground.zone_number[rows]] = True
            self._zones_taken = (rows, found)
        return self._zones_taken[1]

    def rows_taken(self) -> Ints:
        """Rows of the nodes in question, ascending. Cost: O(nodes) after a change, else nothing."""
        moment = self.room.moment
        if self._rows_taken[0] != moment:
            rows = np.flatnonzero((self.room.free != self.start).any(axis=1))
            self._rows_taken = (moment, rows)
        return self._rows_taken[1]
