"""How many members of a demand fit, node by node and zone by zone.

Rule: counting is without regard to the wish's other classes, so too few is a sure "no" and enough is a "perhaps".
"""

from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray

from scoring.feasibility.filters import allowed_nodes, ports_conflict
from scoring.feasibility.room import fit_counts
from scoring.model import HostPort, MemberClass
from scoring.network.matrix import Ints
from scoring.plan.ground import Ground
from scoring.plan.remembered import remember
from scoring.plan.taken import Taken
from scoring.plan.wish import When, Wish


class Fits:
    """Counts of one run; those of now are kept up to date with the room."""

    def __init__(self, ground: Ground, taken: Taken) -> None:
        self._ground = ground
        self._taken = taken
        self._masks: dict[int, NDArray[np.bool_]] = {}
        """class number → nodes that it may go to now; not for classes with host ports"""
        self._now: dict[int, tuple[object, Ints, Ints]] = {}
        """class number → a moment of the room, how many of its members fit each node and each zone then"""
        memo = ground.memo
        self._refused = frozenset([memo.number(refused) for refused in ground.snapshot.exclusions])
        """Numbers of classes, without their node affinity, that nodes refused"""

    def mask(self, member_class: MemberClass, when: When = When.NOW) -> NDArray[np.bool_]:
        """Nodes (nodes,) that the class may go to: modelled filters, learned refusals, host ports."""
        ground = self._ground
        number, constraints = ground.memo.number(member_class), member_class.constraints
        if when is not When.EMPTY and number in self._masks and not constraints.host_ports:
            return self._masks[number]
        table, exclusions = ground.table, ground.snapshot.exclusions
        key = (table.version, ground.memo.filter_number(member_class))
        mask = remember(ground.memo.masks, key, lambda: allowed_nodes(table, constraints))
        if when is When.EMPTY:
            return mask
        if exclusions or constraints.host_ports:
            mask = self._without_refusals(member_class, mask, when)
        self._masks[number] = mask
        return mask

    def _without_refusals(self, member_class: MemberClass, mask: NDArray[np.bool_], when: When) -> NDArray[np.bool_]:
        """`mask` without nodes that refused the class, or whose ports it wants are taken."""
        ground, constraints = self._ground, member_class.constraints
        index = ground.table.index
        refused = [index[node] for node in ground.snapshot.excluded(member_class) if node in index]
        if constraints.host_ports:
            refused.extend(self._rows_with_conflict(constraints.host_ports, when))
        if refused:
            mask = mask.copy()
            mask[refused] = False
        return mask

    @property
    def any_refused(self) -> bool:
        """Whether nodes have refused any class."""
        return bool(self._refused)

    def refused(self, number: int) -> bool:
        """Whether some node has refused the class of this number."""
        return self._ground.memo.narrowed.get(number, number) in self._refused

    def counts(self, member_class: MemberClass, when: When = When.NOW) -> Ints:
        """Members of the class that fit each node (nodes,). Not to be written."""
        return self._counted(member_class, when)[0]

    def zone_fits(self, wish: Wish, when: When = When.NOW) -> Ints:
        """Members of each class that each zone could hold without regard to other classes; shape (classes, zones)."""
        sums = [self._counted(member_class, when)[1] for member_class, _ in wish.classes]
        return np.array(sums, np.int64).reshape(len(wish.classes), len(self._ground.zones))

    def zones_for(self, classes: Iterable[tuple[MemberClass, int]], *, refusals: bool = True) -> NDArray[np.bool_]:
        """Zones (zones,) with room now for each class, whatever the others take; or if no node had refused any."""
        zones = len(self._ground.zones)
        able = np.ones(zones, np.bool_)
        for member_class, count in classes:
            request = self._ground.vector(member_class)
            if request is None:
                return np.zeros(zones, np.bool_)
            mask = self.mask(member_class, When.NOW if refusals else When.EMPTY)
            able &= self._by_zone(np.where(mask, self._taken.room.counts(request), 0)) >= count
        return able

    def zone_rooms(self, wish: Wish, when: When = When.NOW) -> Ints:
        """By how much each zone could take the demand: its size plus the smallest surplus over the classes; (zones,).

        Below `wish.size` there is for sure no room; from it on there is, unless classes compete for the same nodes.
        """
        counts = np.array([count for _, count in wish.classes], np.int64)
        surplus = self.zone_fits(wish, when) - counts[:, None]
        return np.asarray(surplus.min(axis=0, initial=np.iinfo(np.int64).max - wish.size) + wish.size)

    def zone_members(self, wish: Wish, when: When = When.NOW) -> Ints:
        """Members of the demand that fit into each zone, each class for itself, at most all of them; (zones,)."""
        counts = np.array([count for _, count in wish.classes], np.int64)
        return np.asarray(np.minimum(self.zone_fits(wish, when), counts[:, None]).sum(axis=0))

    def _counted(self, member_class: MemberClass, when: When) -> tuple[Ints, Ints]:
        """Members that fit each node and each zone. Cost: O(nodes), of now only after a change."""
        number, moment = self._ground.memo.number(member_class), self._taken.room.moment
        known = self._now.get(number) if when is When.NOW else None
        if known is not None and known[0] == moment:
            return known[1:]
        fits = self._fits(member_class, when)
        sums = self._by_zone(fits)
        if when is When.NOW:
            self._now[number] = (moment, fits, sums)
        return fits, sums

    def _fits(self, member_class: MemberClass, when: When) -> Ints:
        ground, taken = self._ground, self._taken
        request = ground.vector(member_class)
        if request is None:
            return np.zeros(len(ground.table.nodes), np.int64)
        if when is When.NOW:
            counts = taken.room.counts(request)
        else:
            counts = fit_counts(taken.start if when is When.AT_START else ground.table.allocatable, request)
        fits = np.where(self.mask(member_class, when), counts, 0)
        return np.minimum(fits, 1) if member_class.constraints.host_ports else fits

    def _by_zone(self, fits: Ints) -> Ints:
        ground = self._ground
        return np.bincount(ground.zone_number, weights=fits, minlength=len(ground.zones)).astype(np.int64)

    def _rows_with_conflict(self, wanted: tuple[HostPort, ...], when: When) -> list[int]:
        given = self._taken.ports if when is When.NOW else {}
        taken: dict[int, set[HostPort]] = {row: set(ports) for row, ports in given.items()}
        index = self._ground.table.index
        for node, ports in self._ground.snapshot.host_ports.items():
            if node in index:
                taken.setdefault(index[node], set()).update(ports)
        return [row for row, ports in taken.items() if ports_conflict(wanted, ports)]
