"""The order of one run: which gang is planned when, which is passed over, and which has reservations.

The order: gangs that run, or are committed, in part; then by priority; STARVING before WAITING; the heavier
before the lighter; the older before the younger; by name. Among STARVING gangs the one that starves longest is first:
were it the heaviest, an endless stream of heavy gangs, which starve one after the other, would keep a light one waiting
without end.

A STARVING gang leads for `starving_hold_s`; for as long again it goes behind the other STARVING ones, which then
reserve room before it may, then in front again, and so on. These times count from the moment at which it became
STARVING, so that they are the same after a restart.

With `algorithm: literal` the order and the choice are those of Algorithm 1 (`scoring.queue.literal`): only gangs that
it starts in this pass are placed, and nothing is held.
"""

from collections.abc import Mapping, Sequence
from itertools import chain

import numpy as np

from scoring.ids import GangKey, NodeName, PodUid
from scoring.model import Phase
from scoring.model.policy import Algorithm, StarvingOrder, ZonePolicy
from scoring.model.reasons import Reason
from scoring.network.matrix import Ints
from scoring.plan.ask import Ask
from scoring.plan.holds import WANTS_ROOM, Holds
from scoring.plan.later import Later
from scoring.plan.order import CLAIMS, WAITS, OrderKey, Turn, order_key
from scoring.plan.place import Refused, kind_of
from scoring.plan.result import Hold, Plan
from scoring.plan.run import Run
from scoring.plan.shares import Shares
from scoring.plan.standings import Standing
from scoring.plan.steps import Steps
from scoring.queue.literal import Pass, Waiter, algorithm_1
from scoring.queue.weights import Weight

_KEYS_A_STEP = 64
"""Gangs whose place in the order is found between two steps of a run."""


class Turns:
    """The queue in one run."""

    def __init__(self, run: Run, *, now_s: float, previous: Plan | None = None) -> None:
        self._run = run
        self._now_s = now_s
        self.policy = run.policy.queue
        self._standings = run.memo.standings
        self._standings.renew(run.table, run.policy, run.memo.number)
        self._shares = Shares(run)
        self._holds = Holds(run, previous.holds if previous is not None else {})
        self._pass: Pass | None = None
        self._trimmed = False
        """The next gang may have fewer members than it asks for."""
        self.aged: set[GangKey] = set()
        """Gangs whose clock has reached STARVELIMIT; after `in_order`"""

    @property
    def holds(self) -> Mapping[GangKey, Hold]:
        """What is held, by gang."""
        return self._holds.made

    def in_order(self, asks: list[Ask]) -> Steps[None]:
        """Sort demands into the queue's order, in place; in steps of `_KEYS_A_STEP` demands."""
        if self.policy.algorithm is Algorithm.LITERAL:
            self._pass = self._algorithm_1(asks)
        keys: list[OrderKey] = []
        for begin in range(0, len(asks), _KEYS_A_STEP):
            run = self._run
            self._standings.renew(run.table, run.policy, run.memo.number)  # another plan may have used them meanwhile
            some = asks[begin : begin + _KEYS_A_STEP]
            known = self._standings.keys(some, self._now_s)
            special = {*run.snapshot.commitments, *run.snapshot.claims}
            self.aged.update([ask.gang.key for ask, key in zip(some, known, strict=True) if key is None])
            keys.extend(
                [
                    self.key(ask) if key is None or ask.gang.key in special else key
                    for ask, key in zip(some, known, strict=True)
                ]
            )
            yield from run.pause()
        asks[:] = [asks[number] for number in sorted(range(len(asks)), key=keys.__getitem__)]

    def begin(self, ask: Ask) -> Ask:
        """The gang is next; gives its demand without what goes beyond its namespace's share by now."""
        cut = self._shares.trimmed(ask)
        self._trimmed = cut is not ask
        return cut

    @property
    def by_room_alone(self) -> bool:
        """Whether nothing but room keeps a gang that is complete from starting: no share, no algorithm's choice."""
        return self._pass is None and not self._shares.limited

    def held_back(self) -> list[tuple[Ints, Ints, Ints]]:
        """For each reservation its rows, what would be free there if it were given back, and its zones' places."""
        return self._holds.held_back()

    def explained(self, ask: Ask, refused: Refused) -> Refused:
        """The refusal, as `Reason.RESERVED` where the gang would fit if nothing were held."""
        return self._holds.explained(ask, refused)

    def key(self, ask: Ask) -> OrderKey:
        """Sort key of a gang; smaller is planned first."""
        standing = self._standings.of(ask)
        if ask.need and ask.gang.key in self._run.snapshot.claims:
            key = order_key(ask, CLAIMS, standing.tail, self.policy)
        elif self._now_s < standing.starving_s:
            key = standing.waits
        else:
            key = order_key(ask, self.turn(ask), standing.tail, self.policy)
        return (False, *key[1:]) if self._begun(ask) else key

    def turn(self, ask: Ask) -> Turn:
        """Whether and since when the gang is STARVING: (0, …) in front, (1, …) while others are."""
        standing = self._standings.of(ask)
        starved_s = self._now_s - standing.starving_s
        if starved_s < 0.0 or not self._may_starve(ask, standing):
            return WAITS
        first = standing.starving_s if self.policy.starving_order is StarvingOrder.AGE else 0.0
        return int(starved_s / self.policy.starving_hold_s) % 2, first

    def starving(self, ask: Ask) -> bool:
        """Whether the gang is STARVING."""
        return self.turn(ask) is not WAITS

    def weight(self, ask: Ask) -> Weight:
        """What the gang weighs."""
        return self._standings.weight(ask)

    def refuses(self, ask: Ask) -> Refused | None:
        """Why the gang is passed over before a place for it is looked for; `None`: it is not."""
        over = self._shares.over(ask)
        if over is not None:
            return Refused(Reason.OVER_SHARE, over)
        chosen = self._pass
        if chosen is None or not _decided_by_the_pass(self._run, ask) or ask.gang.key in chosen.placed:
            return None
        if ask.gang.key in chosen.tried:
            return Refused(Reason.NO_ROOM, "its minimum is more than all idle resources of the cluster added up")
        return Refused(Reason.NOT_TRIED, f"{chosen.tried[0]} is heaviest, and as heavy as all that run")

    def keeps(self) -> bool:
        """Whether the next gang may keep its place as it was."""
        return not self._trimmed

    def admitted(self, ask: Ask, nodes: Mapping[PodUid, NodeName]) -> None:
        """The gang got these places."""
        self._shares.admit(ask, nodes)

    def refused(self, ask: Ask, refused: Refused, later: Later) -> Refused:
        """The gang got none: reserve room for it if it is STARVING, or if others leave for it.

        Gives the refusal in its final words.
        """
        if refused.reason not in WANTS_ROOM or self._pass is not None:
            return refused
        claim = self._run.snapshot.claims.get(ask.gang.key)
        if claim is not None:
            later.distrust(self._holds.claim(ask, claim))
            givers = ", ".join(claim.givers) or "others"
            return Refused(refused.reason, f"{refused.detail}; {givers} made room for it, or are about to")
        if self._now_s >= self._standings.of(ask).starving_s and self.starving(ask):
            rows = self._holds.hold(ask)
            if rows:
                later.distrust(rows)
                zones = ", ".join(self._holds.made[ask.gang.key].zones)
                return Refused(refused.reason, f"{refused.detail}; {len(rows)} nodes of zone {zones} are held for it")
        return self._holds.explained(ask, refused)

    def _begun(self, ask: Ask) -> bool:
        """Whether some of the missing minimum are committed and others are not: it must be completed first.

        docs/safety.md S4.
        """
        commitment = self._run.snapshot.commitments.get(ask.gang.key)
        return commitment is not None and any(p.uid not in commitment.assignment for _, pods in ask.need for p in pods)

    def _may_starve(self, ask: Ask, standing: Standing) -> bool:
        """Only a gang that could start as it is, were there room, ever starves. Cost: O(nodes) for a new one.

        docs/safety.md S14.
        """
        gang, run = ask.gang, self._run
        if not ask.need or ask.siblings or gang.problem is not None or standing.waiting_s is None:
            return False
        if gang.key in run.snapshot.commitments or ask.blocked or ask.incomplete is not None:
            return False
        until_s = run.snapshot.backing_off_until_s.get(gang.key)
        if until_s is not None and until_s > self._now_s:
            return False
        return self._shares.over(ask) is None and _possible(run, ask)

    def _algorithm_1(self, asks: Sequence[Ask]) -> Pass:
        """One pass over the gangs that wait, beside those that run or are about to."""
        run, form = self._run, self.policy.weight
        waiting = [
            Waiter(
                gang=ask.gang.key,
                weight=self._standings.weight(ask).key(form),
                minimum=_minimum(run, ask),
                created_s=ask.gang.created_s,
                starving=self.starving(ask),
            )
            for ask in asks
            if _decided_by_the_pass(run, ask) and ask.incomplete is None and ask.gang.problem is None
        ]
        known = {one.gang for one in waiting}
        running = (
            self._standings.weight(run.ask(gang)).key(form)
            for gang in run.snapshot.gangs.values()
            if gang.own
            and gang.key not in known
            and (
                gang.key in run.snapshot.commitments
                or any(pod.node is not None and pod.phase is not Phase.SUCCEEDED for pod in gang.placed)
            )
        )
        idle = np.maximum(run.room.free, 0).sum(axis=0)
        return algorithm_1(waiting, min(running, default=None), idle)


def _decided_by_the_pass(run: Run, ask: Ask) -> bool:
    """Whether the gang waits in WQ: none of it is placed or has a committed place."""
    return bool(ask.need) and not ask.siblings and ask.gang.key not in run.snapshot.commitments


def _minimum(run: Run, ask: Ask) -> Ints:
    """(resources,) of the axis; more than there can be where it asks for what no node has."""
    total = np.zeros(len(run.table.axis), np.int64)
    for member_class, pods in ask.need:
        request = run.vector(member_class)
        if request is None:
            return np.full(len(run.table.axis), np.iinfo(np.int64).max)
        total += len(pods) * request
    return total


def _possible(run: Run, ask: Ask) -> bool:
    """Whether the gang would fit an empty cluster in zones that it may use."""
    kind = kind_of(run, ask)
    preferred = ask.options.zone_policy is ZonePolicy.PREFERRED
    key = ("may starve", run.table.version, kind.wish.key, kind.allowed, preferred)
    known = run.memo.possible.get(key)
    if known is None:
        single = ((zone,) for zone in kind.allowed)
        together = (kind.allowed,) if preferred and kind.allowed else ()
        known = any(run.fits_empty(kind.wish, zones) for zones in chain(single, together))
        if len(run.memo.possible) >= 20_000:
            run.memo.possible.clear()
        run.memo.possible[key] = known
    return known
