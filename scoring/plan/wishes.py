"""What all gangs ask for, kept from run to run for as long as each gang is the same object.

Why: a run starts with every gang's demand, and an event changes those of a few gangs. Looking at a thousand gangs to
find that nothing about them changed costs more than all that follows from the event. Rule: a demand depends on the
gang, the policy, and on which of its members' nodes are gone; a gang that has no member on a node need not be looked at
when nodes come and go.
"""

from collections.abc import Callable, Collection, Iterator, Mapping

from scoring.ids import GangKey, NodeName
from scoring.model import Gang, GangSource
from scoring.model.policy import Policy
from scoring.plan.ask import Ask, ask_of
from scoring.plan.steps import Steps

_KEPT = 20_000
_LOOKED_AT_A_STEP = 32
"""Gangs not known yet whose demands are read between two steps."""


class Wishes:
    """By gang. Not shared between threads."""

    def __init__(self) -> None:
        self.known: dict[GangKey, tuple[Gang, Policy, int, Ask]] = {}
        """gang → its demand, valid while gang and policy are the same objects and the same members' nodes are gone"""
        self._nodes: Mapping[NodeName, int] = {}
        """Those asked about last"""
        self._stamp = 0
        """Another one each time that these are others: a demand of long ago must not keep the nodes of its day alive"""
        self._policy: Policy | None = None
        """Of the following two"""
        self._waits: dict[int, Ask] = {}
        """id of a gang without a member on a node → its demand, which keeps the gang alive"""
        self._rests: dict[int, Gang] = {}
        """id of a gang that asks for nothing → the gang"""

    def copy(self) -> "Wishes":
        """The same, to be added to apart from this one."""
        made = Wishes()
        made.known = dict(self.known)
        made._nodes, made._stamp = self._nodes, self._stamp
        return made

    def of(self, gang: Gang, policy: Policy, nodes: Mapping[NodeName, int]) -> Ask:
        """`ask_of`, once per gang object and set of its nodes that are not in `nodes`."""
        known = self.known.get(gang.key)
        same = known is not None and known[0] is gang and known[1] is policy
        if nodes is not self._nodes:
            self._nodes, self._stamp = nodes, self._stamp + 1
        if known is not None and same and known[2] == self._stamp:
            return known[3]
        lost = frozenset([pod.node for pod in gang.members if pod.node is not None and pod.node not in nodes])
        made = known[3] if known is not None and same and known[3].lost == lost else ask_of(gang, policy, lost=lost)
        if len(self.known) >= _KEPT:
            self.known.clear()
        self.known[gang.key] = (gang, policy, self._stamp, made)
        return made

    def pending(
        self,
        gangs: Mapping[GangKey, Gang],
        policy: Policy,
        nodes: Mapping[NodeName, int],
        *,
        pause: Callable[[], Iterator[None]],
    ) -> Steps[list[Ask]]:
        """Demands of all gangs that are ours to start and have something to place, in the order of `gangs`.

        In steps of a few gangs that were not known, with a `pause` after each.
        """
        self._renew(gangs, policy)
        waits, rests = self._waits, self._rests
        asks: list[Ask] = []
        left = _LOOKED_AT_A_STEP
        for gang in gangs.values():
            number = id(gang)
            known = waits.get(number)
            if known is not None:
                asks.append(known)
                continue
            if number in rests:
                continue
            if not _concerns_us(gang):
                rests[number] = gang
                continue
            ask = self.of(gang, policy, nodes)
            if not gang.pending:
                rests[number] = gang
            if ask.pending:
                asks.append(ask)
            if ask.pending and all(pod.node is None for pod in gang.members):
                waits[number] = ask
            left -= 1
            if not left:
                left = _LOOKED_AT_A_STEP
                yield from pause()
        return asks

    def asks(self) -> Iterator[Ask]:
        """All that are kept; some twice."""
        yield from (ask for _, _, _, ask in self.known.values())
        yield from self._waits.values()

    def keep_only(self, gangs: Collection[GangKey]) -> None:
        """Forget the others."""
        self.known = {key: known for key, known in self.known.items() if key in gangs}
        self._waits = {number: ask for number, ask in self._waits.items() if ask.gang.key in gangs}

    def _renew(self, gangs: Mapping[GangKey, Gang], policy: Policy) -> None:
        """Forget what belongs to another policy; and gangs that are not there as they were, once these are many."""
        if policy is not self._policy:
            self._policy, self._waits, self._rests = policy, {}, {}
        elif len(self._waits) + len(self._rests) > len(gangs) + len(gangs) // 8 + _LOOKED_AT_A_STEP:
            now = {id(gang) for gang in gangs.values()}
            self._waits = {number: ask for number, ask in self._waits.items() if number in now}
            self._rests = {number: gang for number, gang in self._rests.items() if number in now}


def _concerns_us(gang: Gang) -> bool:
    """Native groups are started by kube-scheduler itself; other schedulers' pods are load (docs/safety.md S1).

    A gang that is ours in part gets that as its answer: its problem is its answer.
    """
    return (gang.own or gang.problem is not None) and gang.source is not GangSource.NATIVE
