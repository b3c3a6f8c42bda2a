"""Each gang's weight and clock, computed once for as long as the gang and the cluster's totals stay the same.

Why: a plan sorts a thousand gangs within milliseconds, of which one event changes one or two. Rule: everything here
depends on API objects and the policy alone; the moment comes in only when a clock is compared (`scoring.plan.turns`).
Equal weights share one sort key, so that comparing them costs no arithmetic with fractions.
"""

from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass
from fractions import Fraction

from scoring.ids import GangKey
from scoring.model import MemberClass
from scoring.plan.ask import Ask
from scoring.plan.order import WAITS, OrderKey, order_key
from scoring.policy import Algorithm, Order, Policy, QueuePolicy
from scoring.snapshot import NodeTable
from scoring.waits import starve_limit_s, waiting_since_s
from scoring.weights import Totals, Weight, totals_of, weight_of

_KEPT = 50_000
_NEVER_S = float("inf")


@dataclass(frozen=True, slots=True)
class Standing:
    """What decides a gang's turn, apart from the moment."""

    ask: Ask
    weight: Weight
    waiting_s: float | None
    """When its clock started; `None`: too few pods exist."""
    starving_s: float
    """When its clock reaches STARVELIMIT; infinite: it has none."""
    tail: tuple[object, ...]
    """End of its sort key: weight, creation, name, as the policy's order has them."""
    waits: OrderKey
    """Its sort key until it starves."""


class Standings:
    """The standings of gangs, by their wishes. Not shared between threads."""

    def __init__(self) -> None:
        self._known: dict[GangKey, Standing] = {}
        self._weights: dict[object, Weight] = {}
        """minimum, and (number of the class, members) → the weight"""
        self._number: Callable[[MemberClass], int] = id
        self._same: dict[Weight, Weight] = {}
        self._keys: dict[Weight, tuple[float, Fraction]] = {}
        self._table: NodeTable | None = None
        self._policy: Policy | None = None
        self._totals: Totals = ()

    def renew(self, table: NodeTable, policy: Policy, number: Callable[[MemberClass], int]) -> None:
        """Use the totals of `table` from now on; `number` is the same for equal classes, and never given again.

        Cost: O(nodes) for another table, else nothing.
        """
        self._number = number
        if table is self._table and policy is self._policy:
            return
        totals = totals_of(table, policy.queue)
        if totals != self._totals or policy is not self._policy:
            for known in (self._known, self._weights, self._same, self._keys):
                known.clear()
        self._table, self._policy, self._totals = table, policy, totals

    def keep_only(self, gangs: Collection[GangKey]) -> None:
        """Forget the others."""
        self._known = {key: known for key, known in self._known.items() if key in gangs}

    def keys(self, asks: Iterable[Ask], now_s: float) -> list[OrderKey | None]:
        """Sort keys of gangs that do not starve; `None`: whether this one does must be looked at."""
        found: list[OrderKey | None] = []
        known = self._known
        for ask in asks:
            standing = known.get(ask.gang.key)
            if standing is None or standing.ask is not ask:
                standing = self.of(ask)
            found.append(standing.waits if now_s < standing.starving_s else None)
        return found

    def of(self, ask: Ask) -> Standing:
        """The standing of a gang, whether it waits or runs."""
        key = ask.gang.key
        known = self._known.get(key)
        if known is not None and known.ask is ask:
            return known
        if len(self._known) >= _KEPT:
            self._known.clear()
        made = self._known[key] = self._make(ask)
        return made

    @property
    def _queue(self) -> QueuePolicy:
        return self._policy.queue if self._policy is not None else QueuePolicy()

    def _make(self, ask: Ask) -> Standing:
        gang, policy = ask.gang, self._queue
        weight = self._weigh(ask)
        since_s = waiting_since_s(gang)
        end: tuple[object, ...] = (gang.created_s, gang.key)
        if policy.order is Order.WEIGHT or policy.algorithm is Algorithm.LITERAL:
            heaviest_first = self._keys.get(weight)
            if heaviest_first is None:
                heaviest_first = self._keys[weight] = weight.key(policy.weight)
            end = (*heaviest_first, *end)
        limit_s = _NEVER_S if since_s is None else since_s + starve_limit_s(gang, policy)
        return Standing(ask, weight, since_s, limit_s, end, order_key(ask, WAITS, end, policy))

    def _weigh(self, ask: Ask) -> Weight:
        """Gangs none of whose members are placed weigh what their kinds of members weigh: most share one."""
        gang, given = ask.gang, ask.options.weight
        parts = (*ask.need, *ask.more)
        if given is not None or sum([len(pods) for _, pods in parts]) != len(gang.members):
            return weight_of(gang, self._totals, self._queue, given=given)
        content = (gang.min_member, len(ask.need), *[(self._number(mc), len(pods)) for mc, pods in parts])
        known = self._weights.get(content)
        if known is None:
            if len(self._weights) >= _KEPT:
                self._weights.clear()
            made = weight_of(gang, self._totals, self._queue)
            known = self._weights[content] = self._same.setdefault(made, made)
        return known
