"""What one planner run may reuse of earlier ones.

Why: after one pod's event nearly everything a full plan computes is as before. Rule: every entry's key holds the whole
content it was computed from (versions, names, free amounts), so a run with a memo and a run without give the same plan,
and dropping the memo costs time only. Bounded: a table that grows past its limit is emptied, scores count by pairs, and
what belongs to an older network version goes when a newer one comes.
"""

from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass, field
from typing import TypeAlias, TypeVar

import numpy as np
from numpy.typing import NDArray

from scoring.ids import GangKey, NodeName, ZoneName
from scoring.model import Gang, MemberClass
from scoring.network import Floats, Ints
from scoring.plan.ask import Ask, ask_of
from scoring.policy import Policy
from scoring.score import PairScores
from scoring.select import Selected

T = TypeVar("T")

MOST_PAIRS = 32_000_000
"""Pairs whose scores are kept: half a gigabyte. A single larger zone is kept alone."""

Footprint: TypeAlias = tuple[tuple[MemberClass, Ints, Ints], ...]
"""Per class: rows (different ones) and the amounts (rows, resources) that the class's members take there."""


@dataclass(frozen=True, slots=True)
class Links:
    """What the planner reads of pair scores; the other parts take four times the memory."""

    points: Floats
    rank: Floats
    reference_bps: float | None

    @classmethod
    def of(cls, scores: PairScores) -> "Links":
        """Let go of the parts."""
        return cls(scores.points, scores.rank, scores.reference_bps)


@dataclass(slots=True)
class Memo:
    """Tables of reusable results. Not shared between threads."""

    asks: dict[GangKey, tuple[Gang, Policy, Mapping[NodeName, int], Ask]] = field(default_factory=dict)
    """gang → its wish, valid while gang and policy are the same objects and the same members' nodes are gone"""
    footprints: dict[GangKey, tuple[Ask, object, object, Footprint]] = field(default_factory=dict)
    """gang → what its members take, valid while wish, members' nodes and the node table's rows are the same objects"""
    masks: dict[Hashable, NDArray[np.bool_]] = field(default_factory=dict)
    """(node table version, constraints) → allowed nodes"""
    scores: dict[Hashable, Links] = field(default_factory=dict)
    """(network version, node names, score policy) → pair scores"""
    pairs: int = 0
    """Pairs in `scores`."""
    network_version: int = 0
    """Version that `scores`, `distances`, `selections` and `values` belong to."""
    distances: dict[Hashable, dict[ZoneName, float]] = field(default_factory=dict)
    """(network version, node table version, near, configured distances) → distance of each zone"""
    selections: dict[Hashable, Selected | None] = field(default_factory=dict)
    """(demand, scores, free amounts, method, size searched exactly) → chosen rows"""
    values: dict[Hashable, float | None] = field(default_factory=dict)
    """(demand, scores, free amounts) → quick estimate of the best value"""
    possible: dict[Hashable, bool] = field(default_factory=dict)
    """(node table version, demand) → whether it fits the empty cluster"""
    next_number: int = 0
    """A class's number is never given again, so that what is keyed by it cannot be mistaken for another class's."""
    numbers: dict[MemberClass, int] = field(default_factory=dict)
    """member class → a number that stands for it in keys"""
    number_of_object: dict[int, tuple[MemberClass, int]] = field(default_factory=dict)
    """id(member class) → (the object, kept alive; its number): saves hashing the same object again"""
    vectors: dict[Hashable, Ints | None] = field(default_factory=dict)
    """(node table version, class number) → request over the table's axis"""

    def ask(self, gang: Gang, policy: Policy, nodes: Mapping[NodeName, int]) -> Ask:
        """`ask_of`, once per gang object and set of its nodes that are not in `nodes`."""
        known = self.asks.get(gang.key)
        same = known is not None and known[0] is gang and known[1] is policy
        if known is not None and same and known[2] is nodes:
            return known[3]
        lost = frozenset(pod.node for pod in gang.members if pod.node is not None and pod.node not in nodes)
        made = known[3] if known is not None and same and known[3].lost == lost else ask_of(gang, policy, lost=lost)
        if len(self.asks) >= 20_000:
            self.asks.clear()
        self.asks[gang.key] = (gang, policy, nodes, made)
        return made

    def renew(self, network_version: int) -> None:
        """Drop what was computed from other network data."""
        if network_version != self.network_version:
            self.network_version = network_version
            self.pairs = 0
            for table in (self.scores, self.distances, self.selections, self.values):
                table.clear()

    def take_over(self, warmed: "Memo") -> None:
        """Use the pair scores of `warmed`, and drop what was computed from other network data."""
        self.renew(warmed.network_version)
        self.scores, self.pairs = warmed.scores, warmed.pairs

    def links(self, key: Hashable, make: Callable[[], PairScores]) -> Links:
        """Look pair scores up, or make and keep them."""
        known = self.scores.get(key)
        if known is None:
            known = Links.of(make())
            if self.pairs + known.points.size > MOST_PAIRS:
                self.scores.clear()
                self.pairs = 0
            self.scores[key] = known
            self.pairs += known.points.size
        return known

    def number(self, member_class: MemberClass) -> int:
        """A number that equal classes share and different ones do not."""
        known = self.number_of_object.get(id(member_class))
        if known is not None and known[0] is member_class:
            return known[1]
        if len(self.numbers) >= 100_000 or len(self.number_of_object) >= 100_000:
            self.numbers.clear()
            self.number_of_object.clear()
        number = self.numbers.setdefault(member_class, self.next_number)
        self.next_number = max(self.next_number, number + 1)
        self.number_of_object[id(member_class)] = (member_class, number)
        return number


def remember(table: dict[Hashable, T], key: Hashable, make: Callable[[], T], *, limit: int = 4096) -> T:
    """Look `key` up, or make and keep its value; the table is emptied when it holds `limit` entries."""
    if key in table:
        return table[key]
    value = make()
    if len(table) >= limit:
        table.clear()
    table[key] = value
    return value
