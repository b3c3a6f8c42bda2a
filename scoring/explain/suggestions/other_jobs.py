"""Propose what makes room without the gang: time alone, jobs that shrink, jobs that end."""

from collections.abc import Iterator
from typing import Final, TypeAlias

from scoring.explain.suggestions.candidates import Room, candidates_in_steps
from scoring.model import Reason
from scoring.plan import Plan, PlannerCache, begin_run
from scoring.plan.demand import GangDemand
from scoring.plan.queue_order import QueueOrder
from scoring.plan.steps import Steps
from scoring.queue.states import transitions_of
from scoring.what_if import changes as c
from scoring.what_if.draft import Situation

Changes: TypeAlias = list[c.Change]
MOST_AHEAD: Final = 48  # Waiting gangs ahead for which room is supposed, too, when they would take what one gang needs
_MOST_TOGETHER: Final = 8  # Jobs whose end is supposed together
ROOM: Final = frozenset({Reason.NO_ROOM, Reason.BEHIND, Reason.RESERVED, Reason.SURPLUS})  # Others can give it up
WANT_ROOM: Final = ROOM | {Reason.IMPOSSIBLE}  # Reasons that more room can take away


def by_time(base: Situation, plan: Plan, ask: GangDemand, reason: Reason, cache: PlannerCache) -> Iterator[Changes]:
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


def by_others(base: Situation, plan: Plan, room: Room, reason: Reason) -> Steps[list[Changes]]:
    """Jobs that give up room: one that shrinks, one or two that end, or the fewest together."""
    found = yield from candidates_in_steps(room, base.snapshot.gangs.values())
    alone = [one for one in found if one.missing == 0]
    shrinks = [one for one in alone if isinstance(one.change, c.JobShrinks)][:1]
    ends = [one for one in alone if isinstance(one.change, c.JobEnds)][:2]
    proposed: list[Changes] = [[one.change] for one in (*shrinks, *ends)]
    if reason is Reason.BEHIND:
        mine = plan.waiting[room.ask.gang.key].rank
        ahead = sorted(((one.rank, one.gang) for one in plan.admitted.values() if one.rank < mine), reverse=True)
        proposed.extend([c.JobEnds(gang)] for _, gang in ahead[:2])
    if not proposed:
        # Those that help most first.
        together: Changes = [one.change for one in found if isinstance(one.change, c.JobEnds)]
        proposed.extend([together[:_MOST_TOGETHER]] if len(together) > 1 else [])
    return proposed
