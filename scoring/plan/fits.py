"""How many members of a wish fit, node by node and zone by zone.

Rule: counting is without regard to the wish's other classes, so too few is a sure "no" and enough is a "perhaps".
"""

from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from scoring.feasibility.filters import allowed_nodes, ports_conflict
from scoring.feasibility.room import Room, ZoneFits, fit_counts
from scoring.model import HostPort, MemberClass
from scoring.network.matrix import Ints
from scoring.plan.board import Board
from scoring.plan.ground import Ground
from scoring.plan.remembered import remember
from scoring.plan.slots import Places
from scoring.plan.taken import Taken
from scoring.plan.wish import When, Wish


@dataclass(frozen=True, slots=True)
class _Known:
    """What a board is told of a class."""

    member_class: MemberClass
    number: int
    request: Ints
    """Over the table's axis"""
    key: Hashable
    """Stands for its filter"""
    mask: NDArray[np.bool_]
    """Nodes that it may go to now"""
    allowed: NDArray[np.bool_]
    """Nodes that it may go to if none has refused it"""


class Fits:
    """Counts of one run; those of now are kept up to date with the room."""

    def __init__(self, ground: Ground, taken: Taken, board: Board) -> None:
        self._ground = ground
        self._taken = taken
        self.board = board
        """Of the room there is; it shows this run's after `rows` and the like, until another run uses it"""
        self._masks: dict[int, NDArray[np.bool_]] = {}
        self._fits_of: dict[int, ZoneFits] = {}
        """class number → how many of its members fit; not for classes with host ports"""
        self._empty: Room | None = None
        """All that the nodes have; made when it is asked for first"""
        self._classes: dict[int, _Known] = {}
        """id(member class) → what the board knows it by; the class is kept alive"""
        self._filters: dict[int, NDArray[np.bool_]] = {}
        """number of a filter → nodes that it lets through, where none of them refused the class"""
        self._allowed: dict[int, NDArray[np.bool_]] = {}
        """The same whoever refused"""
        memo = ground.memo
        self._refused = frozenset([memo.number(refused) for refused in ground.snapshot.exclusions])
        """Numbers of classes, without their node affinity, that nodes refused"""
        self._places = Places(ground.layout, ground.table.axis, ground.table.names, ground.zones, ground.zone_number)

    def mask(self, member_class: MemberClass, when: When = When.NOW) -> NDArray[np.bool_]:
        """Nodes (nodes,) that the class may go to: modelled filters, learned refusals, host ports."""
        ground = self._ground
        number, constraints = ground.memo.number(member_class), member_class.constraints
        if when is not When.EMPTY and number in self._masks and not constraints.host_ports:
            return self._masks[number]
        table, exclusions = ground.table, ground.snapshot.exclusions
        key = (table.version, ground.memo.filter_number(member_class))
        mask = remember(ground.memo.masks, key, lambda: allowed_nodes(table, constraints))
        if when is not When.EMPTY and (exclusions or constraints.host_ports):
            return self._without_refusals(member_class, mask, when)
        if when is not When.EMPTY:
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
        self._masks[ground.memo.number(member_class)] = mask
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

    def row(self, member_class: MemberClass, when: When = When.NOW) -> int | None:
        """The class's row on the board of that moment; `None`: no board can count it."""
        known = self._known_class(member_class)
        if known is None or (self._taken.spared and when is When.NOW):
            return None
        if when is When.EMPTY:
            key = self._ground.memo.filter_number(member_class)
            return self.shown(when).row(known.number, known.request, key, known.allowed)
        return self.shown(when).row(known.number, known.request, known.key, known.mask)

    def rows(
        self, classes: Sequence[MemberClass], numbers: Sequence[int], filters: Sequence[int], *, when: When
    ) -> list[int | None]:
        """`row` of many classes; at hand are the memo's numbers of these and of their filters."""
        refused = self.refused(numbers, when)
        shown = {}
        for member_class, key, one in zip(classes, filters, refused, strict=True):
            if key not in shown and not one:
                shown[key] = self.filter(key, member_class, when)
        found = self.shown(when).rows(numbers, [shown.get(key, -1) for key in filters])
        for place, row in enumerate(found):
            if row is None or refused[place]:
                found[place] = self.row(classes[place], when)
        return found

    def filter(self, key: int, member_class: MemberClass, when: When) -> int:
        """The board's number, in this run, of the filter `key` (the memo's number); `member_class` is one that has it.

        Not for classes that are `refused` somewhere.
        """
        known = self._allowed if when is When.EMPTY else self._filters
        mask = known.get(key)
        if mask is None:
            mask = known[key] = self.mask(member_class, when)
        return self.shown(when).put(key, mask)

    def any_refused(self, when: When) -> bool:
        """Whether nodes have refused any class."""
        return when is not When.EMPTY and bool(self._refused)

    def refused(self, numbers: Sequence[int], when: When) -> list[bool]:
        """Which of these classes some node has refused; at hand are the memo's numbers of them."""
        if not self.any_refused(when):
            return [False] * len(numbers)
        narrowed = self._ground.memo.narrowed
        return [narrowed.get(one, one) in self._refused for one in numbers]

    def shown(self, when: When) -> Board:
        """The board of the room of now, or, for `EMPTY`, of all that the nodes have."""
        if when is not When.EMPTY:
            self.board.show(self._taken.room, self._places)
            return self.board
        if self._empty is None:
            self._empty = Room(self._ground.table.allocatable)
        board = self._ground.memo.empty_board
        board.show(self._empty, self._places)
        return board

    def fits_empty(self, classes: Sequence[tuple[MemberClass, int]], columns: Ints) -> bool | None:
        """Whether classes with their counts would fit one of the zones if no pod ran; `None`: counting does not tell.

        `columns`: of the zones, among all.
        """
        if len(classes) != 1:
            return None
        sums = self._known_sums(classes[0][0], When.EMPTY)
        return None if sums is None else bool((np.asarray(sums)[columns] >= classes[0][1]).any())

    def _known_class(self, member_class: MemberClass) -> _Known | None:
        """What a board is told of the class; `None`: its nodes change during a run, or no node has what it asks for."""
        found = self._classes.get(id(member_class))
        if found is not None and found.member_class is member_class:
            return found
        memo = self._ground.memo
        request = self._ground.vector(member_class)
        if request is None or member_class.constraints.host_ports:
            return None
        number, key = memo.number(member_class), memo.filter_number(member_class)
        allowed, mask = self.mask(member_class, When.EMPTY), self.mask(member_class)
        made = _Known(member_class, number, request, key if mask is allowed else (key, number), mask, allowed)
        self._classes[id(member_class)] = made
        return made

    def _known_sums(self, member_class: MemberClass, when: When) -> Ints | Sequence[int] | None:
        """Members of the class that fit each zone, where they need not be counted."""
        if when is When.NOW and self._ground.memo.number(member_class) in self._fits_of:
            placed = self.kept(member_class)  # members were placed in this run: following few nodes is cheaper
            return placed.sums if placed is not None else None
        row = self.row(member_class, When.EMPTY if when is When.EMPTY else When.NOW)
        sums: Ints | None = None
        if row is not None and when is not When.AT_START:
            sums = self.shown(when).sums(np.array([row]))[0]
        elif row is not None:
            sums = self.board.sums_if(np.array([row]), *self._taken.taken_from(), When.AT_START)[0]
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

    def zones_for(self, classes: Iterable[tuple[MemberClass, int]], *, refusals: bool = True) -> NDArray[np.bool_]:
        """Zones (zones,) with room now for each class, whatever the others take; or if no node had refused any."""
        zones = len(self._ground.zones)
        able = np.ones(zones, np.bool_)
        for member_class, count in classes:
            request = self._ground.vector(member_class)
            if request is None:
                return np.zeros(zones, np.bool_)
            mask = self.mask(member_class, When.NOW if refusals else When.EMPTY)
            fits = np.where(mask, self._taken.room.counts(request), 0)
            able &= np.bincount(self._ground.zone_number, weights=fits, minlength=zones) >= count
        return able

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
