"""Each gang's weight and clock, computed once for as long as the gang stays the same.

Why: a plan sorts a thousand gangs within milliseconds, of which one event changes one or two; and a node that comes or
goes changes the cluster's totals, and with them every weight. Rule: everything here depends on API objects and the
policy alone; the moment comes in only when a clock is compared (`scoring.plan.turns`). What the totals have a part in
is apart from the rest, and needs a few multiplications of whole numbers per gang when they change.
"""

from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass
from fractions import Fraction
from types import MethodType
from weakref import WeakMethod

from scoring.ids import GangKey
from scoring.model import MemberClass
from scoring.model.policy import Algorithm, Order, Policy, QueuePolicy
from scoring.model.snapshot import NodeTable
from scoring.plan.ask import Ask
from scoring.plan.order import WAITS, OrderKey, order_key
from scoring.queue.states import starve_limit_s, waiting_since_s
from scoring.queue.weights import Exact, Load, Scale, Totals, Weight, exact_key, load_of, totals_of

_KEPT = 50_000
_SCALES = 4
"""Totals of the cluster that are remembered"""
_NEVER_S = float("inf")


@dataclass(slots=True)
class Standing:
    """What decides a gang's turn, apart from the moment."""

    ask: Ask
    load: Load
    given: Fraction | None
    """Its weight by the operator's word"""
    waiting_s: float | None
    """When its clock started; `None`: too few pods exist."""
    starving_s: float
    """When its clock reaches STARVELIMIT; infinite: it has none."""
    head: OrderKey
    """Begin of its sort key until it starves: all that goes before its weight"""
    scale: Scale | None = None
    """The totals that the following are of"""
    tail: tuple[object, ...] = ()
    """End of its sort key: weight, creation, name, as the policy's order has them."""
    waits: OrderKey = ()
    """Its sort key until it starves."""


@dataclass(frozen=True, slots=True)
class _Scaled:
    """Totals of a cluster, and sort keys under them; equal loads share one."""

    scale: Scale
    keys: dict[Load, tuple[float, Exact]]

    @classmethod
    def of(cls, totals: Totals) -> "_Scaled":
        return cls(Scale.of(totals), {})


class Standings:
    """The standings of gangs, by their demands. Not shared between threads."""

    def __init__(self) -> None:
        self._known: dict[GangKey, Standing] = {}
        self._loads: dict[object, Load] = {}
        """minimum, and (number of the class, members) → what it weighs by"""
        self._scales: dict[Totals, _Scaled] = {}
        """By totals, the latest last: plans of clusters before and after a node left take turns, and a long queue is
        sorted within milliseconds only if equal loads have the same key, however often they did (docs/safety.md S15)"""
        self._number: Callable[[], Callable[[MemberClass], int] | None] = lambda: id
        """Held loosely, since it is the memo's, and the memo has these standings: a memo for one look must go with it,
        and not wait for a collector that hardly ever comes (docs/safety.md S15)."""
        self._table: NodeTable | None = None
        self._policy: Policy | None = None
        self._scaled = _Scaled.of(())

    def renew(self, table: NodeTable, policy: Policy, number: Callable[[MemberClass], int]) -> None:
        """Use the totals of `table` from now on; `number` is the same for equal classes, and never given again.

        Cost: O(nodes) for another table, else nothing.
        """
        self._number = WeakMethod(number) if isinstance(number, MethodType) else lambda: number
        if table is self._table and policy is self._policy:
            return
        totals = totals_of(table)
        if policy is not self._policy:
            self._known.clear()
            self._loads.clear()
            self._scales.clear()
        known = self._scales.pop(totals, None)
        self._scaled = known if known is not None else _Scaled.of(totals)
        self._scales[totals] = self._scaled
        if len(self._scales) > _SCALES:
            del self._scales[next(iter(self._scales))]
        self._table, self._policy = table, policy

    def keep_only(self, gangs: Collection[GangKey]) -> None:
        """Forget the others, and what only they weighed by."""
        self._known = {key: known for key, known in self._known.items() if key in gangs}
        loads = {id(known.load) for known in self._known.values()}
        for content in [content for content, load in self._loads.items() if id(load) not in loads]:
            del self._loads[content]
        for scaled in self._scales.values():
            for load in [load for load in scaled.keys if id(load) not in loads]:
                del scaled.keys[load]

    def keys(self, asks: Iterable[Ask], now_s: float) -> list[OrderKey | None]:
        """Sort keys of gangs that do not starve; `None`: whether this one does must be looked at."""
        found: list[OrderKey | None] = []
        known, scale = self._known, self._scaled.scale
        for ask in asks:
            standing = known.get(ask.gang.key)
            if standing is None or standing.ask is not ask or standing.scale is not scale:
                standing = self.of(ask)
            found.append(standing.waits if now_s < standing.starving_s else None)
        return found

    def of(self, ask: Ask) -> Standing:
        """The standing of a gang, whether it waits or runs."""
        key = ask.gang.key
        known = self._known.get(key)
        if known is None or known.ask is not ask:
            if len(self._known) >= _KEPT:
                self._known.clear()
            known = self._known[key] = self._make(ask)
        if known.scale is not self._scaled.scale:
            self._weigh(known)
        return known

    def weight(self, ask: Ask) -> Weight:
        """What the gang weighs. Cost: a few fractions, for people and for single comparisons."""
        known = self.of(ask)
        return self._scaled.scale.weight(known.load) if known.given is None else Weight(known.given, given=True)

    @property
    def _queue(self) -> QueuePolicy:
        return self._policy.queue if self._policy is not None else QueuePolicy()

    def _make(self, ask: Ask) -> Standing:
        gang, policy = ask.gang, self._queue
        since_s = waiting_since_s(gang)
        limit_s = _NEVER_S if since_s is None else since_s + starve_limit_s(gang, policy)
        return Standing(
            ask=ask,
            load=self._load(ask),
            given=ask.options.weight,
            waiting_s=since_s,
            starving_s=limit_s,
            head=order_key(ask, WAITS, (), policy),
        )

    def _weigh(self, standing: Standing) -> None:
        """Give the standing its place in the order, under the totals of now."""
        gang, policy = standing.ask.gang, self._queue
        scale, keys = self._scaled.scale, self._scaled.keys
        standing.scale, standing.tail = scale, (gang.created_s, gang.key)
        if policy.order is Order.WEIGHT or policy.algorithm is Algorithm.LITERAL:
            if standing.given is not None:
                heaviest_first = exact_key(Weight(standing.given), policy.weight)
            else:
                known = keys.get(standing.load)
                heaviest_first = known or keys.setdefault(standing.load, scale.key(standing.load, policy.weight))
            standing.tail = (*heaviest_first, *standing.tail)
        standing.waits = (*standing.head, *standing.tail)

    def _load(self, ask: Ask) -> Load:
        """Gangs none of whose members are placed weigh what their kinds of members weigh: most share one."""
        gang, parts = ask.gang, (*ask.need, *ask.more)
        if sum([len(pods) for _, pods in parts]) != len(gang.members):
            return load_of(gang, self._queue)
        number = self._number()
        assert number is not None, "the memo that has these standings is gone"
        content = (gang.min_member, len(ask.need), *[(number(mc), len(pods)) for mc, pods in parts])
        known = self._loads.get(content)
        if known is None:
            if len(self._loads) >= _KEPT:
                self._loads.clear()
            known = self._loads[content] = load_of(gang, self._queue)
        return known
