"""Each gang's weight, clock and sort key, kept for as long as the gang asks for the same.

Why: a plan sorts a thousand gangs, of which one event changes one or two; weighing them all again takes a run 25 ms
(docs/adr/0006-planner-caches.md). Rule: everything here depends on API objects, the policy and the cluster's totals;
the moment comes in only when a clock is compared (`scoring.plan.queue_order`).
"""

from collections.abc import Collection, Iterable
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from scoring.feasibility.quorum import quorum_of
from scoring.ids import GangKey
from scoring.model.policy import Order, Policy, QueuePolicy, Repair
from scoring.model.snapshot import NodeTable
from scoring.plan.demand import GangDemand
from scoring.queue.states import waiting_since_s
from scoring.queue.weights import Load, Scale, Weight, load_of

Turn: TypeAlias = tuple[int, float]
"""-1: others leave for it; 0: STARVING; 1: STARVING, its time is up; 2: WAITING. Then since when it starves."""
SortKey: TypeAlias = tuple[Any, ...]
WAITS: Turn = (2, 0.0)
CLAIMS: Turn = (-1, 0.0)
_NEVER_S = float("inf")


@dataclass(slots=True)
class Standing:
    """What decides a gang's place in the queue, apart from the moment."""

    demand: GangDemand
    load: Load
    given: Weight | None
    """The operator's"""
    waiting_s: float | None
    """When its clock started; `None`: too few pods exist."""
    starving_s: float
    """When its clock reaches STARVELIMIT; infinite: it has none."""
    reserves_s: float
    """From when room may be reserved for it"""
    scale: Scale | None = None
    """The cluster's totals that the following are of"""
    tail: tuple[object, ...] = ()
    """End of its sort key: weight, creation, name, as the policy's order has them."""
    waits: SortKey = ()
    """Its sort key until it starves."""


@dataclass(slots=True)
class OrderKeys:
    """The standings of gangs. Not shared between threads."""

    _known: dict[GangKey, Standing] = field(default_factory=dict)
    _policy: Policy = field(default_factory=Policy)
    _table: NodeTable | None = None
    _scale: Scale = field(default_factory=lambda: Scale({}))
    _by_load: dict[Load, tuple[float, Weight]] = field(default_factory=dict)
    """load → its part of sort keys under the scale"""

    def renew(self, table: NodeTable, policy: Policy) -> None:
        """Use the totals of `table` from now on. Cost: O(nodes) for another table, else nothing."""
        if policy is not self._policy:
            self._policy = policy
            self._known.clear()
            self._by_load.clear()
        if table is not self._table:
            self._table = table
            scale = Scale.of(table)
            if scale != self._scale:
                self._scale, self._by_load = scale, {}

    def keep_only(self, gangs: Collection[GangKey]) -> None:
        """Forget the others, and what gangs weigh by."""
        self._known = {key: known for key, known in self._known.items() if key in gangs}
        self._by_load.clear()

    def keys(self, demands: Iterable[GangDemand], now_s: float) -> list[SortKey | None]:
        """Sort keys of gangs that do not starve; `None`: whether this one does must be looked at."""
        found: list[SortKey | None] = []
        known, scale = self._known, self._scale
        for demand in demands:
            standing = known.get(demand.gang.key)
            if standing is None or standing.demand is not demand or standing.scale is not scale:
                standing = self.of(demand)
            found.append(standing.waits if now_s < standing.starving_s else None)
        return found

    def of(self, demand: GangDemand) -> Standing:
        """The standing of a gang, whether it waits or runs."""
        key = demand.gang.key
        known = self._known.get(key)
        if known is None or known.demand is not demand:
            known = self._known[key] = self._make(demand)
        if known.scale is not self._scale:
            self._weigh(known)
        return known

    def weight(self, demand: GangDemand) -> Weight:
        """What the gang weighs. Cost: a few fractions, for people and for single comparisons."""
        known = self.of(demand)
        return known.given or self._scale.weight(known.load)

    def _make(self, demand: GangDemand) -> Standing:
        since_s = waiting_since_s(demand.gang)
        limit_s = _NEVER_S if since_s is None else since_s + self._policy.queue.starve_limit_s
        reserves_s = limit_s if since_s is None else max(limit_s, since_s + self._policy.queue.reserve_after_s)
        word = demand.options.weight
        given = None if word is None else Weight(word.numerator, word.denominator, given=True)
        return Standing(demand, load_of(demand.gang), given, since_s, limit_s, reserves_s)

    def _weigh(self, standing: Standing) -> None:
        """Give the standing its place in the order, under the totals of now."""
        demand, policy = standing.demand, self._policy.queue
        standing.scale, standing.tail = self._scale, (demand.gang.created_s, demand.gang.key)
        if policy.order is not Order.FIFO:
            if standing.given is not None:
                heaviest_first = standing.given.key
            else:
                known = self._by_load.get(standing.load)
                if known is None:
                    known = self._by_load[standing.load] = self._scale.weight(standing.load).key
                heaviest_first = known
            standing.tail = (*heaviest_first, *standing.tail)
        standing.waits = sort_key(demand, WAITS, standing.tail, policy)


def sort_key(demand: GangDemand, turn: Turn, tail: tuple[object, ...], policy: QueuePolicy) -> SortKey:
    """Sort key of a gang, smaller is planned first; `tail`: its weight, creation and name, as the order has them."""
    first, priority = not _is_completed_first(demand), -demand.gang.priority
    if policy.order is Order.FIFO:
        return (first, priority, turn[0] >= 0, *tail)
    return (first, priority, *turn, *tail)


def _is_completed_first(demand: GangDemand) -> bool:
    """Whether the gang runs in part; one that had started and asks for `repair: none` waits for its turn instead."""
    if not demand.partial:
        return False
    return demand.options.repair is not Repair.NONE or not quorum_of(demand.gang, lost_nodes=demand.lost).started
