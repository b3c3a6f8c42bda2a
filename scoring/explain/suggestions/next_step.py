"""Propose what takes away the obstacle that the planner names: pods, gates, a share, a zone, room.

Rule: one obstacle at a time; what comes behind it shows in the next trial. So a gang that lacks pods, and then room, is
given both.
"""

from collections.abc import Sequence
from fractions import Fraction
from math import ceil
from typing import Final

from scoring.explain.suggestions.candidates import room_in_steps
from scoring.explain.suggestions.more_room import more_room
from scoring.explain.suggestions.other_jobs import Changes
from scoring.explain.words import quantity
from scoring.ids import GangKey
from scoring.model import Reason, Resources, Snapshot
from scoring.model.policy import ZonePolicy
from scoring.plan import Plan, PlannerCache, Run, begin_run
from scoring.plan.demand import GangDemand
from scoring.plan.namespace_quota import cap_of, namespace_of
from scoring.plan.steps import Steps
from scoring.queue.states import waiting_since_s
from scoring.what_if import changes as c
from scoring.what_if.draft import Situation

_CONTRADICTS: Final = frozenset({Reason.INVALID_GROUP, Reason.MIXED_SCHEDULERS, Reason.MIXED_PRIORITIES})
_PART: Final = 1000  # Shares are suggested in thousandths of the cluster, rounded up


def next_step(
    now: Situation, plan: Plan, key: GangKey, *, cache: PlannerCache, before: Sequence[c.Change], rounds: int
) -> Steps[Changes]:
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
        case _ if reason is Reason.NO_ALLOWED_ZONE or not run.view.candidate_zones(ask):
            return _another_zone(run, ask)
        case _:
            room = yield from room_in_steps(run, plan, ask)
            return (yield from more_room(room, plan, rounds=rounds))


def _more_members(ask: GangDemand) -> Changes:
    """The pods that are missing, and what keeps those from coming that are there."""
    gang = ask.gang
    mended: Changes = [c.OpenGates(gang.key)] if any(pod.foreign_gates for pod in ask.unable) else []
    mended += [c.ForgetRefusals(gang.key)] if any(pod.obstacle for pod in ask.unable) else []
    missing = gang.min_member - ask.alive - len(ask.unable)
    if missing <= 0:
        return mended
    name = gang.key.partition("/")[2]
    return [c.AddPods(namespace_of(gang), name, missing, gang=name), *mended]


def _larger_share(run: Run, plan: Plan, ask: GangDemand, before: Sequence[c.Change], *, rounds: int) -> Steps[Changes]:
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


def _another_zone(run: Run, ask: GangDemand) -> Changes:
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
