"""What one planner run may reuse of earlier ones.

Why: after one pod's event nearly everything a full plan computes is as before. Rule: every entry's key holds the whole
content it was computed from (versions, names, free amounts), so a run with a memo and a run without give the same plan,
and dropping the memo costs time only. Bounded: a table that grows past its limit is emptied, scores count by pairs, and
what belongs to an older network version goes when a newer one comes.
"""

from collections.abc import Callable, Hashable
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from scoring.ids import GangKey, NodeName, ZoneName
from scoring.model import Constraints, MemberClass
from scoring.model.snapshot import NodeTable
from scoring.network.matrix import Floats, Ints
from scoring.plan.fit_counts import Counting, FitCounts
from scoring.plan.footprints import Footprint
from scoring.plan.standings import Standings
from scoring.plan.wishes import Wishes
from scoring.score.between_zones import Crossings
from scoring.score.links import LinkPoints, Links
from scoring.selection import Selected, on_grid

MOST_PAIRS = 32_000_000
"""Pairs whose scores are kept: half a gigabyte. A single larger zone is kept alone."""

_CLASSES = 20_000
"""Classes of members whose numbers are kept."""
_TABLES = 32
"""Node tables after which what belongs to older ones is dropped."""
_LAYOUTS = 4
"""Layouts remembered: plans of two snapshots may take turns."""


@dataclass(slots=True, weakref_slot=True)
class Memo:
    """Tables of reusable results. Not shared between threads."""

    standings: Standings = field(default_factory=Standings)
    fit_counts: FitCounts = field(default_factory=FitCounts)
    """Of the room before a run"""
    empty_counts: FitCounts = field(default_factory=FitCounts)
    """Of the room there would be if no pod ran"""
    countings: dict[GangKey, Counting] = field(default_factory=dict)
    """gang → what counting needs of it"""
    wishes: Wishes = field(default_factory=Wishes)
    footprints: dict[GangKey, Footprint] = field(default_factory=dict)
    """gang → what its members take at the place it had last"""
    masks: dict[Hashable, NDArray[np.bool_]] = field(default_factory=dict)
    """(node table version, number of a filter) → allowed nodes"""
    scores: dict[Hashable, Links] = field(default_factory=dict)
    """(network version, node names, score policy) → pair scores, ranks on the grid (`scoring.selection.on_grid`)"""
    toward: dict[Hashable, LinkPoints] = field(default_factory=dict)
    """(network version, node names, ends, score policy) → the same from nodes to a few others"""
    ranks: dict[int, Floats] = field(default_factory=dict)
    """number of surroundings → rank of all pairs of their nodes"""
    pairs: int = 0
    """Pairs in `scores`, `toward` and `ranks`."""
    network_version: int = 0
    """Version that `scores` and all other results of measurements belong to."""
    distances: dict[Hashable, dict[ZoneName, float]] = field(default_factory=dict)
    """(network version, node table version, near, configured distances) → distance of each zone"""
    selections: dict[Hashable, Selected | None] = field(default_factory=dict)
    """(demand, surroundings, room, method, size searched exactly) → chosen rows"""
    values: dict[Hashable, float | None] = field(default_factory=dict)
    """(demand, surroundings, room) → quick estimate of the best value"""
    surroundings: dict[Hashable, int] = field(default_factory=dict)
    """(network version, node names, score policy, resource axis) → a number that stands for it in keys"""
    outlooks: dict[Hashable, Floats] = field(default_factory=dict)
    """(network version, layout, score policy) → mean points of each node towards its zone's others"""
    means: dict[Hashable, float] = field(default_factory=dict)
    """(surroundings of a zone, those of another one) → mean points between them"""
    crossings: dict[Hashable, Crossings] = field(default_factory=dict)
    """layout → which endpoints lead from zone to zone"""
    measured: dict[Hashable, NDArray[np.bool_]] = field(default_factory=dict)
    """layout → which nodes are measured anywhere"""
    layouts: dict[int, tuple[object, object]] = field(default_factory=dict)
    """layout → the names and zones of a node table that it stands for, kept alive"""
    names: dict[Hashable, tuple[NodeName, ...]] = field(default_factory=dict)
    """(layout, zones) → names of their nodes"""
    possible: dict[Hashable, bool] = field(default_factory=dict)
    """(node table version, demand) → whether it fits the empty cluster"""
    table_version: int = 0
    """The node table that was seen last"""
    tables_seen: int = 0
    suppositions: int = 0
    """Versions given to what is only supposed"""
    next_number: int = 0
    """A number is never given again, so that what is keyed by it cannot be mistaken for another's."""
    numbers: dict[MemberClass, int] = field(default_factory=dict)
    """member class → a number that stands for it in keys"""
    number_of_object: dict[int, tuple[MemberClass, int]] = field(default_factory=dict)
    """id(member class) → (the object, kept alive; its number): saves hashing the same object again"""
    narrowed: dict[int, int] = field(default_factory=dict)
    """number of a class with required node affinity → number of the class without it"""
    asked_for: set[int] | None = None
    """Numbers of classes given out since forgetting them started (`scoring.plan.forgetting`); else `None`"""
    filters: dict[int, int] = field(default_factory=dict)
    """class number → number of its filter"""
    filter_numbers: dict[Constraints, int] = field(default_factory=dict)
    """constraints → a number that stands for them in keys"""
    axes: dict[Hashable, int] = field(default_factory=dict)
    """resources of a node table → a number that stands for them in keys; there are a few"""
    vectors: dict[Hashable, Ints | None] = field(default_factory=dict)
    """(number of the axis, class number) → request over that axis"""

    def renew(self, network_version: int) -> None:
        """Drop what was computed from other network data."""
        if network_version != self.network_version:
            self.network_version = network_version
            self.pairs = 0
            tables = (
                self.scores,
                self.toward,
                self.ranks,
                self.distances,
                self.selections,
                self.values,
                self.surroundings,
            )
            for table in (*tables, self.outlooks, self.means, self.crossings, self.measured):
                table.clear()

    def seen(self, table: NodeTable) -> None:
        """Drop what was computed from the nodes of long ago, now and then: it is not asked for again."""
        if table.version != self.table_version:
            self.tables_seen, self.table_version = self.tables_seen + 1, table.version
            if self.tables_seen % _TABLES == 0:
                for one in (self.masks, self.possible, self.distances):
                    one.clear()

    def supposition(self) -> int:
        """A version for what is only supposed: negative, which no other has, and never given again."""
        self.suppositions += 1
        return -1 - self.suppositions

    def take_over(self, warmed: "Memo") -> None:
        """Use the pair scores of `warmed`, and drop what was computed from other network data."""
        self.renew(warmed.network_version)
        self.scores, self.toward, self.ranks, self.pairs = warmed.scores, warmed.toward, {}, warmed.pairs
        for layout, (names, zones) in warmed.layouts.items():
            if layout in warmed.crossings:
                self.crossings[self._layout(names, zones)] = warmed.crossings[layout]

    def links(self, key: Hashable, make: Callable[[], Links]) -> Links:
        """Look pair scores up, or make and keep them."""
        known = self.scores.get(key)
        if known is None:
            made = make()
            known = replace(made, kind_rank=on_grid(made.kind_rank))
            self._make_place(known.held)
            self.scores[key] = known
        return known

    def links_toward(self, key: Hashable, make: Callable[[], LinkPoints]) -> LinkPoints:
        """The same towards a few nodes."""
        known = self.toward.get(key)
        if known is None:
            made = make()
            known = replace(made, rank=on_grid(made.rank))
            self._make_place(known.held)
            self.toward[key] = known
        return known

    def whole_rank(self, number: int, links: Links) -> Floats:
        """The rank of all pairs of `links`; `number` stands for them. Not to be written."""
        known = self.ranks.get(number)
        if known is None:
            known = links.rank_among(None)
            if known is not links.kind_rank:
                self._make_place(known.size)
            self.ranks[number] = known
        return known

    def _make_place(self, pairs: int) -> None:
        if self.pairs + pairs > MOST_PAIRS:
            for table in (self.scores, self.toward, self.ranks):
                table.clear()
            self.pairs = 0
        self.pairs += pairs

    def surroundings_number(self, key: Hashable) -> int:
        """A number for `key`, which takes long to hash; it is never given to another one."""
        known = self.surroundings.get(key)
        if known is None:
            if len(self.surroundings) >= 20_000:
                self.surroundings.clear()
            known = self.surroundings[key] = self.next_number
            self.next_number += 1
        return known

    def axis_number(self, axis: Hashable) -> int:
        """A number for the resources that there are columns for."""
        known = self.axes.get(axis)
        if known is None:
            known = self.axes[axis] = self.next_number
            self.next_number += 1
        return known

    def layout(self, table: NodeTable) -> int:
        """A number for which nodes there are, in which zones; most events change neither."""
        return self._layout(table.names, table.zones)

    def _layout(self, names: object, zones: object) -> int:
        for number, known in self.layouts.items():
            if known[0] is names and known[1] is zones:
                return number
        if len(self.layouts) >= _LAYOUTS:
            self.layouts.pop(next(iter(self.layouts)))
        number = self.next_number
        self.next_number += 1
        self.layouts[number] = (names, zones)
        return number

    def number(self, member_class: MemberClass) -> int:
        """A number that equal classes share and different ones do not."""
        known = self.number_of_object.get(id(member_class))
        if known is not None and known[0] is member_class:
            self._asked_for(known[1])
            return known[1]
        if len(self.numbers) >= _CLASSES or len(self.number_of_object) >= _CLASSES:
            self.numbers.clear()
            self.number_of_object.clear()
            self.narrowed.clear()
            self.countings.clear()  # they have the old ones
        number = self.numbers.setdefault(member_class, self.next_number)
        self.next_number = max(self.next_number, number + 1)
        self.number_of_object[id(member_class)] = (member_class, number)
        if member_class.constraints.affinity is not None and number not in self.narrowed:
            self.narrowed[number] = self.number(member_class.anywhere)
        self._asked_for(number)
        return number

    def _asked_for(self, number: int) -> None:
        """Note what is asked for, if a caller wants to know."""
        if self.asked_for is not None:
            self.asked_for.add(number)
            self.asked_for.add(self.narrowed.get(number, number))

    def filter_number(self, member_class: MemberClass) -> int:
        """A number that classes with equal constraints share and others do not."""
        number = self.number(member_class)
        known = self.filters.get(number)
        if known is None:
            if len(self.filters) >= _CLASSES:
                self.filters.clear()
                self.filter_numbers.clear()
            known = self.filter_numbers.setdefault(member_class.constraints, self.next_number)
            self.next_number = max(self.next_number, known + 1)
            self.filters[number] = known
        return known
