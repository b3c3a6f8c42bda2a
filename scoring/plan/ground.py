"""What one planner run stands on: the snapshot by zones, and what each gang asks of it. Nothing here changes."""

from collections.abc import Iterable

import numpy as np

from scoring.ids import NO_ZONE, NodeName, ZoneName
from scoring.model import Gang, MemberClass
from scoring.model.policy import Policy, ZonePolicy
from scoring.model.snapshot import Snapshot
from scoring.network.matrix import Ints
from scoring.plan.ask import Ask
from scoring.plan.memo import Memo
from scoring.plan.remembered import remember

_MOST_NAMED = 512
"""Sets of zones whose names are kept."""


class Ground:
    """The cluster as the run found it; what can be reused by later runs is in the memo."""

    def __init__(self, snapshot: Snapshot, policy: Policy, memo: Memo) -> None:
        self.snapshot = snapshot
        self.policy = policy
        self.memo = memo
        memo.renew(snapshot.network.version)
        memo.seen(snapshot.table)
        self.table = snapshot.table
        self.layout = memo.layout(snapshot.table)
        """Stands for the nodes and their zones in memo keys."""
        self.axis = memo.axis_number((snapshot.table.axis, snapshot.table.uncounted))
        """Stands for the resources that there are columns for."""
        self.zones: tuple[ZoneName, ...] = tuple(self.table.zones)
        self.number_of = {zone: number for number, zone in enumerate(self.zones)}
        """zone → its place in `zones`"""
        self._columns: dict[tuple[ZoneName, ...], Ints] = {}
        self.named_zones = tuple(zone for zone in self.zones if zone != NO_ZONE)
        self.zone_number = np.zeros(len(self.table.nodes), np.int64)
        """(nodes,): index of each node's zone in `zones`"""
        for number, rows in enumerate(self.table.zones.values()):
            self.zone_number[rows] = number

    def ask(self, gang: Gang) -> Ask:
        """What the gang asks of the planner now."""
        return self.memo.wishes.of(gang, self.policy, self.table.index)

    def candidate_zones(self, ask: Ask) -> tuple[ZoneName, ...]:
        """Zones the gang may use: its placed members' (it stays whole), else those it allows, else all with a name."""
        table = self.table
        at = {table.nodes[table.index[node]].zone for _, node in ask.siblings if node in table.index}
        preferred = ask.options.zone_policy is ZonePolicy.PREFERRED
        if at and not preferred:
            return tuple(sorted(at))
        if ask.options.zones is not None:
            return tuple(zone for zone in self.zones if zone in ask.options.zones)
        return self.zones if preferred else self.named_zones

    def vector(self, member_class: MemberClass) -> Ints | None:
        """The class's request over the table's axis; `None` when no node has one of its resources."""
        key = (self.axis, self.memo.number(member_class))
        return remember(self.memo.vectors, key, lambda: self.table.vector(member_class.requests), limit=50_000)

    def rows(self, zones: tuple[ZoneName, ...]) -> Ints:
        """Rows of the zones' nodes, ascending."""
        if len(zones) == 1:
            return self.table.zones[zones[0]]
        return np.sort(np.concatenate([self.table.zones[zone] for zone in zones]))

    def columns(self, zones: tuple[ZoneName, ...]) -> Ints:
        """Where these zones are among all, in their order."""
        known = self._columns.get(zones)
        if known is None:
            known = self._columns[zones] = np.array([self.number_of[zone] for zone in zones], np.int64)
        return known

    def names(self, zones: tuple[ZoneName, ...]) -> tuple[NodeName, ...]:
        """Names of the zones' nodes, in the order of `rows`."""
        names = self.table.names
        key = (self.layout, zones)
        return remember(
            self.memo.names, key, lambda: tuple([names[row] for row in self.rows(zones).tolist()]), limit=_MOST_NAMED
        )

    def zones_of(self, nodes: Iterable[NodeName]) -> tuple[ZoneName, ...]:
        """Zones of those of `nodes` that exist, sorted."""
        index = self.table.index
        return tuple(sorted({self.table.nodes[index[node]].zone for node in nodes if node in index}))
