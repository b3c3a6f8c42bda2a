"""What might get a gang admitted, for `unblock` to try: time, jobs that make room, itself, or one obstacle less.

Rule for obstacles: one at a time, the one that the planner names; what comes behind it shows in the next trial. So a
gang that lacks pods, and then room, is given both.
"""

from collections.abc import Iterator, Sequence
from fractions import Fraction
from math import ceil
from typing import Final, TypeAlias

import numpy as np

from scoring.explain.candidates import candidates_in_steps, room_in_steps
from scoring.explain.room import more_room
from scoring.explain.words import quantity
from scoring.ids import GangKey
from scoring.model import Reason, Resources, Snapshot
from scoring.model.policy import ZonePolicy
from scoring.plan import Plan, PlannerCache, Run, begin_run
from scoring.plan.capacity import When
from scoring.plan.demand import GangDemand
from scoring.plan.namespace_quota import cap_of, namespace_of
from scoring.plan.queue_order import QueueOrder
from scoring.plan.steps import Steps
from scoring.queue.states import transitions_of, waiting_since_s
from scoring.what_if import changes as c
from scoring.what_if.draft import Situation

_Changes: TypeAlias = list[c.Change]
_CONTRADICTS: Final = frozenset({Reason.INVALID_GROUP, Reason.MIXED_SCHEDULERS, Reason.MIXED_PRIORITIES})
_PART: Final = 1000  # Shares are suggested in thousandths of the cluster, rounded up
MOST_AHEAD: Final = 48  # Waiting gangs ahead for which room is supposed, too, when they would take what one gang needs
_MOST_TOGETHER: Final = 8  # Jobs whose end is supposed together
ROOM: Final = frozenset({Reason.NO_ROOM, Reason.BEHIND, Reason.RESERVED, Reason.SURPLUS})  # Others can give it up
WANT_ROOM: Final = ROOM | {Reason.IMPOSSIBLE}  # Reasons that more room can take away


def by_time(base: Situation, plan: Plan, ask: GangDemand, reason: Reason, cache: PlannerCache) -> Iterator[_Changes]:
    """The moment at which it becomes STARVING and goes first; not without room, nor where many are before it then."""
    if reason is not Reason.BEHIND:
        return
    starving_s = transitions_of(ask.gang, base.policy.queue).starving_s
    if starving_s is None or starving_s <= base.now_s or not ask.need or ask.siblings:
        return
    planned = (*plan.waiting, *plan.admitted)
    clocks = (transitions_of(base.snapshot.gangs[key], base.policy.queue).starving_s for key in planned)
    if sum(clock is not None and clock < starving_s for clock in clocks) > MOST_AHEAD:
        return
    turns = QueueOrder(begin_run(base.snapshot, base.policy, cache), now_s=starving_s)
    if turns.starving(ask):
        yield [c.ClockAdvances(starving_s)]


def by_others(
    base: Situation, plan: Plan, ask: GangDemand, reason: Reason, cache: PlannerCache
) -> Steps[list[_Changes]]:
    """Jobs that give up room: one that shrinks, one or two that end, or the fewest together."""
    if reason not in ROOM | {Reason.OVER_SHARE}:
        return []
    room = yield from room_in_steps(begin_run(base.snapshot, base.policy, cache), plan, ask)
    found = yield from candidates_in_steps(room, base.snapshot.gangs.values())
    alone = [one for one in found if one.missing == 0]
    shrinks = [one for one in alone if isinstance(one.change, c.JobShrinks)][:1]
    ends = [one for one in alone if isinstance(one.change, c.JobEnds)][:2]
    proposed: list[_Changes] = [[one.change] for one in (*shrinks, *ends)]
    if reason is Reason.BEHIND:
        mine = plan.waiting[ask.gang.key].rank
        ahead = sorted(((one.rank, one.gang) for one in plan.admitted.values() if one.rank < mine), reverse=True)
        proposed.extend([c.JobEnds(gang)] for _, gang in ahead[:2])
    if not proposed:
        # Those that help most first.
        together: _Changes = [one.change for one in found if isinstance(one.change, c.JobEnds)]
        proposed.extend([together[:_MOST_TOGETHER]] if len(together) > 1 else [])
    return proposed


def by_itself(run: Run, ask: GangDemand) -> Iterator[_Changes]:
    """A gang that is too large for any zone can ask for less, or for several zones."""
    demand = run.view.member_set(ask.need, ask)
    allowed = run.view.candidate_zones(ask)
    if not allowed or not demand.size:
        return
    most = int(np.max(run.capacity.zone_members(demand, When.EMPTY)[run.view.columns(allowed)], initial=0))
    if 0 < most < demand.size:
        yield [c.JobShrinks(ask.gang.key, demand.size - most)]
    if ask.options.zone_policy is ZonePolicy.REQUIRED and len(allowed) > 1:
        yield [c.SetOption(ask.gang.key, "zone-policy", ZonePolicy.PREFERRED.value)]


def next_step(
    now: Situation, plan: Plan, key: GangKey, *, cache: PlannerCache, before: Sequence[c.Change], rounds: int
) -> Steps[_Changes]:
    """What would take away what is in the gang's way; empty: nothing known. `before`: what is supposed already.

    `rounds`: how often that was more room, which went to others or did not suffice. Cost: O(nodes + gangs).
    """
    reason = plan.waiting[key].reason
    run = begin_run(now.snapshot, now.policy, cache)
    ask = run.view.demand(now.snapshot.gangs[key])
    if reason in _CONTRADICTS:
        return [c.MendGroup(key)]
    match reason:
        case Reason.INCOMPLETE:
            return _more_members(ask)
        case Reason.BACKING_OFF:
            return [c.ClockAdvances(now.snapshot.backing_off_until_s[key])]
        case Reason.SPILL_WAIT:
            since_s = max(waiting_since_s(ask.gang) or 0.0, ask.gang.created_s)
            return [c.ClockAdvances(max(since_s + now.policy.spill_wait_s, now.now_s))]
        case Reason.OVER_SHARE:
            return (yield from _larger_share(run, plan, ask, before, rounds=rounds))
        case Reason.NOT_TRIED:
            ahead = sorted((one.rank, one.gang) for one in plan.waiting.values() if one.rank < plan.waiting[key].rank)
            return [c.JobEnds(ahead[0][1])] if ahead else []
        case _ if reason is Reason.NO_ALLOWED_ZONE or not run.view.candidate_zones(ask):
            return _another_zone(run, ask)
        case _:
            room = yield from room_in_steps(run, plan, ask)
            return (yield from more_room(room, plan, rounds=rounds))


def _more_members(ask: GangDemand) -> _Changes:
    """The pods that are missing, and what keeps those from coming that are there."""
    gang = ask.gang
    mended: _Changes = [c.OpenGates(gang.key)] if any(pod.foreign_gates for pod in ask.unable) else []
    mended += [c.ForgetRefusals(gang.key)] if any(pod.obstacle for pod in ask.unable) else []
    missing = gang.min_member - ask.alive - len(ask.unable)
    if missing <= 0:
        return mended
    name = gang.key.partition("/")[2]
    return [c.AddPods(namespace_of(gang), name, missing, gang=name), *mended]


def _larger_share(run: Run, plan: Plan, ask: GangDemand, before: Sequence[c.Change], *, rounds: int) -> Steps[_Changes]:
    """The share that suffices for the namespace's gangs with this one."""
    namespace = namespace_of(ask.gang)
    if cap_of(namespace, run.policy.queue) == 1.0:  # it and those ahead of it would have more than there is
        room = yield from room_in_steps(run, plan, ask)
        return (yield from more_room(room, plan, rounds=rounds))
    if any(isinstance(one, c.SetShare) for one in before):
        return [c.SetShare(namespace, 1.0)]
    yield
    asked = _requested(run.snapshot, plan, ask)
    table = run.table
    totals = {name: int(table.allocatable[:, i].sum()) for i, name in enumerate(table.axis)}
    needed = max((Fraction(amount, totals[name]) for name, amount in asked if totals.get(name)), default=Fraction(1))
    return [c.SetShare(namespace, min(ceil(needed * _PART) / _PART, 1.0))]


def _requested(snapshot: Snapshot, plan: Plan, ask: GangDemand) -> Resources:
    """What the namespace's gangs have, are promised, and would have with this one."""
    namespace = namespace_of(ask.gang)
    total = Resources()
    for gang in snapshot.gangs.values():
        if not gang.own or namespace_of(gang) != namespace:
            continue
        commitment = snapshot.commitments.get(gang.key)
        promised = commitment.assignment if commitment is not None else {}
        for pod in gang.members:
            if not pod.terminal and (pod.node is not None or pod.uid in promised or pod.uid in plan.node_of):
                total = total + pod.requests
    return sum((pod.requests for _, pods in ask.need or ask.more[:1] for pod in pods), total)


def _another_zone(run: Run, ask: GangDemand) -> _Changes:
    """Any zone that the cluster has, instead of the ones that are named."""
    if not run.zones:
        total = sum((pod.requests for _, pods in ask.need for pod in pods), Resources())
        amounts: dict[str, str] = {name: quantity(name, amount) for name, amount in total}
        return [c.AddNodes(ask.options.zones[0], 1, amounts)] if ask.options.zones else []
    if ask.options.zones is not None:
        return [c.SetOption(ask.gang.key, "zones", None)]
    if ask.options.zone_policy is not ZonePolicy.PREFERRED:
        return [c.SetOption(ask.gang.key, "zone-policy", ZonePolicy.PREFERRED.value)]
    return []
