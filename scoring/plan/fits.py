"""How many members of a wish fit, node by node and zone by zone.

Rule: counting is without regard to the wish's other classes, so too few is a sure "no" and enough is a "perhaps".
"""

from collections.abc import Hashable, Sequence

import numpy as np
from numpy.typing import NDArray

from scoring.feasible import allowed_nodes, ports_conflict
from scoring.model import HostPort, MemberClass
from scoring.network import Ints
from scoring.plan.board import Places
from scoring.plan.ground import Ground
from scoring.plan.memo import remember
from scoring.plan.taken import Taken
from scoring.plan.wish import When, Wish
from scoring.room import Room, ZoneFits, fit_counts

_Boarded = tuple[MemberClass, int, Ints, NDArray[np.bool_]]
"""A class, its number, its request over the table's axis, and the nodes it may go to."""


class Fits:
    """Counts of one run; those of now are kept up to date with the room."""

    def __init__(self, ground: Ground, taken: Taken) -> None:
        self._ground = ground
        self._taken = taken
        self._masks: dict[int, NDArray[np.bool_]] = {}
        self._fits_of: dict[int, ZoneFits] = {}
        """class number → how many of its members fit; not for classes with host ports"""
        self._empty: Room | None = None
        """All that the nodes have; made when it is asked for first"""
        self._classes: dict[int, _Boarded] = {}
        """id(member class) → the class, kept alive; what the board knows it by"""
        self._places = Places(ground.layout, ground.table.axis, ground.zone_number, len(ground.zones))

    def mask(self, member_class: MemberClass, when: When = When.NOW) -> NDArray[np.bool_]:
        """Nodes (nodes,) that the class may go to: modelled filters, learned refusals, host ports."""
        ground = self._ground
        number, constraints = ground.memo.number(member_class), member_class.constraints
        if when is not When.EMPTY and number in self._masks and not constraints.host_ports:
            return self._masks[number]
        table = ground.table
        mask = remember(ground.memo.masks, (table.version, constraints), lambda: allowed_nodes(table, constraints))
        if when is When.EMPTY:
            return mask
        refused = [table.index[n] for n in ground.snapshot.exclusions.get(member_class, ()) if n in table.index]
        if constraints.host_ports:
            refused.extend(self._rows_with_conflict(constraints.host_ports, when))
        if refused:
            mask = mask.copy()
            mask[refused] = False
        self._masks[number] = mask
        return mask

    def zone_fits(self, wish: Wish, when: When = When.NOW) -> Ints:
        """Members of each class that each zone could hold without regard to other classes; shape (classes, zones)."""
        zones = len(self._ground.zones)
        fits = np.zeros((len(wish.classes), zones), np.int64)
        for c, (member_class, _) in enumerate(wish.classes):
            known = self._known_sums(member_class, when)
            if known is not None:
                fits[c] = known
                continue
            there = self._fits(member_class, when)
            fits[c] = np.bincount(self._ground.zone_number, weights=there, minlength=zones).astype(np.int64)
        return fits

    def sums_if(self, member_class: MemberClass, rows: Ints, free: Ints, key: Hashable) -> Ints | None:
        """Members of the class that would fit each zone if `rows` had the room `free`; `None`: somebody has to count.

        `key` stands for rows and room until room is taken.
        """
        known = self._boarded(member_class)
        return known and self._ground.memo.board.sums_if(known[1], known[2], known[3], rows, free, key)

    def _empty_sums(self, member_class: MemberClass) -> Ints | None:
        """As if no pod ran; `None`: somebody has to count."""
        request, memo = self._ground.vector(member_class), self._ground.memo
        if request is None or member_class.constraints.host_ports:
            return None
        if self._empty is None:
            self._empty = Room(self._ground.table.allocatable)
        memo.empty_board.show(self._empty, self._places)
        return memo.empty_board.sums(memo.number(member_class), request, self.mask(member_class, When.EMPTY))

    def fits_empty(self, classes: Sequence[tuple[MemberClass, int]], columns: Ints) -> bool | None:
        """Whether classes with their counts would fit one of the zones if no pod ran; `None`: counting does not tell.

        `columns`: of the zones, among all.
        """
        if len(classes) != 1:
            return None
        sums = self._empty_sums(classes[0][0])
        return None if sums is None else bool((sums[columns] >= classes[0][1]).any())

    def state(self, classes: Sequence[MemberClass]) -> bytes:
        """All that a refusal of these classes follows from: equal states of the same nodes, equal answers.

        Empty: it cannot be told shortly.
        """
        if self._ground.snapshot.exclusions:
            return b""
        board, taken = self._ground.memo.board, self._taken
        zones = taken.zones_taken().tobytes()
        found: list[bytes] = []
        for member_class in classes:
            known = self._boarded(member_class)
            now = known and board.sums(known[1], known[2], known[3])
            if known is None or now is None:
                return b""
            found.append(now.tobytes())
            if taken.any_taken:
                rows, there = taken.taken_from()
                start = board.sums_if(known[1], known[2], known[3], rows, there, When.AT_START)
                found.append(zones if start is None else zones + start.tobytes())
        return b"".join(found)

    def _boarded(self, member_class: MemberClass) -> "_Boarded | None":
        """What the board knows the class by, when the board shows the room of now; `None`: it cannot count it."""
        found = self._classes.get(id(member_class))
        if found is None or found[0] is not member_class:
            request = self._ground.vector(member_class)
            if request is None or member_class.constraints.host_ports:
                return None
            number = self._ground.memo.number(member_class)
            found = self._classes[id(member_class)] = (member_class, number, request, self.mask(member_class))
        if self._taken.spared:
            return None
        self._ground.memo.board.show(self._taken.room, self._places)
        return found

    def _known_sums(self, member_class: MemberClass, when: When) -> Ints | Sequence[int] | None:
        """Members of the class that fit each zone, where they need not be counted."""
        if when is When.EMPTY:
            return self._empty_sums(member_class)
        if when is When.NOW and self._ground.memo.number(member_class) in self._fits_of:
            placed = self.kept(member_class)  # members were placed in this run: following few nodes is cheaper
            return placed.sums if placed is not None else None
        found, board = self._boarded(member_class), self._ground.memo.board
        sums: Ints | None = None
        if found is not None and when is When.NOW:
            sums = board.sums(found[1], found[2], found[3])
        elif found is not None:
            rows, there = self._taken.taken_from()
            sums = board.sums_if(found[1], found[2], found[3], rows, there, When.AT_START)
        if sums is not None or when is not When.NOW:
            return sums
        kept = self.kept(member_class)
        return kept.sums if kept is not None else None

    def kept(self, member_class: MemberClass) -> ZoneFits | None:
        """Fits of the class now; `None`: it has host ports, so that its nodes change during a run, or no node fits."""
        ground = self._ground
        number = ground.memo.number(member_class)
        known = self._fits_of.get(number)
        if known is not None:
            known.refresh()
            return known
        request = ground.vector(member_class)
        if member_class.constraints.host_ports or request is None:
            return None
        made = ZoneFits(self._taken.room, request, self.mask(member_class), ground.zone_number, len(ground.zones))
        self._fits_of[number] = made
        return made

    def zone_rooms(self, wish: Wish, when: When = When.NOW) -> Ints:
        """By how much each zone could hold the wish: its size plus the smallest surplus over the classes; (zones,).

        Below `wish.size` there is for sure no room; from it on there is, unless classes compete for the same nodes.
        """
        if len(wish.classes) == 1:
            return np.array(self.zone_fits(wish, when)[0])
        counts = np.array([count for _, count in wish.classes], np.int64)
        surplus = self.zone_fits(wish, when) - counts[:, None]
        return np.asarray(surplus.min(axis=0, initial=np.iinfo(np.int64).max - wish.size) + wish.size)

    def zone_members(self, wish: Wish, when: When = When.NOW) -> Ints:
        """Members of the wish that fit into each zone, each class for itself, at most all of them; (zones,)."""
        counts = np.array([count for _, count in wish.classes], np.int64)
        return np.asarray(np.minimum(self.zone_fits(wish, when), counts[:, None]).sum(axis=0))

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

    def _rows_with_conflict(self, wanted: tuple[HostPort, ...], when: When) -> list[int]:
        given = self._taken.ports if when is When.NOW else {}
        taken: dict[int, set[HostPort]] = {row: set(ports) for row, ports in given.items()}
        index = self._ground.table.index
        for node, ports in self._ground.snapshot.host_ports.items():
            if node in index:
                taken.setdefault(index[node], set()).update(ports)
        return [row for row, ports in taken.items() if ports_conflict(wanted, ports)]
