"""The cluster as one planner run sees it: the snapshot by zones, and what gangs ask of it. Nothing here changes."""

from collections.abc import Hashable, Iterable, Iterator, Sequence

import numpy as np

from scoring.ids import NO_ZONE, NodeName, ZoneName
from scoring.model import Gang, MemberClass, Role
from scoring.model.policy import Policy, ZonePolicy
from scoring.model.snapshot import Snapshot
from scoring.network.matrix import Ints
from scoring.plan.cache import PlannerCache, remember
from scoring.plan.demand import ByClass, GangDemand, MemberSet


class ClusterView:
    """A snapshot under a policy; what later runs can reuse is in the cache."""

    def __init__(self, snapshot: Snapshot, policy: Policy, cache: PlannerCache) -> None:
        self.snapshot = snapshot
        self.policy = policy
        self.cache = cache
        cache.renew(snapshot.network.version)
        self.table = snapshot.table
        self.layout = cache.layout(snapshot.table)
        """Stands for the nodes and their zones in the cache's keys."""
        self.axis = (self.table.axis, self.table.uncounted)
        """The resources that there are columns for, and those that no allocatable counts"""
        self.zones: tuple[ZoneName, ...] = tuple(self.table.zones)
        self.number_of = {zone: number for number, zone in enumerate(self.zones)}
        """zone → its place in `zones`"""
        self._vectors: dict[Hashable, Ints | None] = {}
        """class number → request over the table's axis"""
        self._names: dict[Hashable, tuple[NodeName, ...]] = {}
        self._columns: dict[tuple[ZoneName, ...], Ints] = {}
        self.named_zones = tuple(zone for zone in self.zones if zone != NO_ZONE)
        self.zone_number = np.zeros(len(self.table.nodes), np.int64)
        """(nodes,): index of each node's zone in `zones`"""
        for number, rows in enumerate(self.table.zones.values()):
            self.zone_number[rows] = number

    def demand(self, gang: Gang) -> GangDemand:
        """What the gang asks of the planner now."""
        return self.cache.demands.of(gang, self.policy, self.table.index)

    def member_set(self, members: ByClass, demand: GangDemand, near: Sequence[tuple[Role, NodeName]] = ()) -> MemberSet:
        """`members`, to be placed beside the gang's placed ones and those of `near`."""
        classes = tuple((member_class, len(pods)) for member_class, pods in members)
        siblings = tuple(sorted((*demand.siblings, *near)))
        numbers = tuple((self.cache.number(member_class), count) for member_class, count in classes)
        return MemberSet(classes, siblings, demand.all_reduce, (numbers, siblings, demand.all_reduce))

    def candidate_zones(self, demand: GangDemand) -> tuple[ZoneName, ...]:
        """Zones the gang may use: its placed members' (it stays whole), else those it allows, else all with a name."""
        table = self.table
        at = {table.nodes[table.index[node]].zone for _, node in demand.siblings if node in table.index}
        preferred = demand.options.zone_policy is ZonePolicy.PREFERRED
        if at and not preferred:
            return tuple(sorted(at))
        if demand.options.zones is not None:
            return tuple(zone for zone in self.zones if zone in demand.options.zones)
        return self.zones if preferred else self.named_zones

    def vector(self, member_class: MemberClass) -> Ints | None:
        """The class's request over the table's axis; `None` when no node has one of its resources."""
        number = self.cache.number(member_class)
        return remember(self._vectors, number, lambda: self.table.vector(member_class.requests))

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
        return remember(self._names, zones, lambda: tuple([names[row] for row in self.rows(zones).tolist()]))

    def zones_of(self, nodes: Iterable[NodeName]) -> tuple[ZoneName, ...]:
        """Zones of those of `nodes` that exist, sorted."""
        index = self.table.index
        return tuple(sorted({self.table.nodes[index[node]].zone for node in nodes if node in index}))

    def pause(self) -> Iterator[None]:
        """A moment in which others may have their turn, and plan with the cache from other network data.

        docs/safety.md S15.
        """
        yield
        self.cache.renew(self.snapshot.network.version)  # theirs would be taken for ours
