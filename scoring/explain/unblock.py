"""What would let a waiting gang in: changes that the planner has tried and found to do it, the easiest first.

Order: what time alone brings; a job that gives up workers it can do without; a job that ends; more room. A gang with
something wrong about itself is told that first, and a gang that would not fit the empty cluster is told so, whatever
would help. Rule: nothing is offered that a trial plan did not let in (`trial`); the number of trials is bounded, and
each goes in steps, so whoever asks delays nobody else. The first one is true twice: with the places that gangs have in
the plan of now, and when everybody is placed anew, as new measurements make the service do. Cost: as planning
everything, once for each trial.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from scoring.explain.givers import Giver, givers_in_steps, room_in_steps
from scoring.explain.trial import Trials
from scoring.explain.ways import next_step
from scoring.explain.words import changes_text
from scoring.ids import GangKey
from scoring.model import Gang
from scoring.plan import Memo, Plan
from scoring.plan.ask import Ask
from scoring.plan.run import Run, When
from scoring.plan.steps import Steps, finish
from scoring.plan.turns import Turns
from scoring.policy import ZonePolicy
from scoring.reasons import Reason
from scoring.waits import transitions_of
from scoring.what_if import (
    AddCapacity,
    AddNodes,
    Change,
    ClockAdvances,
    JobEnds,
    JobShrinks,
    SetOption,
    Situation,
    Supposed,
)

MOST_TRIALS: Final = 12
"""Trial plans for one question."""
MOST_SUGGESTIONS: Final = 4
_MOST_STEPS: Final = 6
"""Obstacles that are taken away one after the other."""
_MOST_TOGETHER: Final = 8
"""Jobs whose end is supposed together."""
NEVER: Final = frozenset({Reason.IMPOSSIBLE, Reason.NO_ALLOWED_ZONE})
"""Reasons that neither time nor the end of other jobs can take away."""
_ROOM: Final = frozenset({Reason.NO_ROOM, Reason.BEHIND, Reason.RESERVED, Reason.SURPLUS})
"""Reasons that others can take away by giving up room."""


@dataclass(frozen=True, slots=True)
class Suggestion:
    """Changes with which the gang is let in: the planner was asked."""

    changes: tuple[Change, ...]
    text: str
    also: tuple[GangKey, ...]
    """Others that would be let in with it."""
    instead: tuple[GangKey, ...]
    """Others that are let in now, and would wait."""


@dataclass(frozen=True, slots=True)
class Unblocking:
    """All that was found."""

    suggestions: tuple[Suggestion, ...]
    impossible: bool
    """It would not fit into the empty cluster, or none of its zones exists: waiting alone never helps."""
    trials: int
    """Trial plans that were made."""
    text: str
    """In one sentence; empty: the gang does not wait."""


def unblock(base: Situation, plan: Plan, gang: Gang, *, memo: Memo | None = None) -> Unblocking:
    """What would let `gang` in. `plan` was made from `base`; the memo is only read."""
    return finish(unblock_in_steps(base, plan, gang, memo=memo))


def unblock_in_steps(base: Situation, plan: Plan, gang: Gang, *, memo: Memo | None = None) -> Steps[Unblocking]:
    """The same in steps of a gang or a few."""
    waiting = plan.waiting.get(gang.key)
    if waiting is None:
        return Unblocking((), impossible=False, trials=0, text="")
    trials = Trials(base, plan, gang.key, memo=memo, most=MOST_TRIALS)
    run = Run(base.snapshot, base.policy, trials.memo)
    ask = run.ask(gang)
    never = waiting.reason in NEVER
    found: list[Suggestion] = []
    proposed = [] if never else (yield from _by_others(trials, ask, waiting.reason))
    for changes in (*_by_time(base, plan, ask, waiting.reason, trials.memo), *proposed):
        if trials.left <= _MOST_STEPS or len(found) == MOST_SUGGESTIONS - 1:
            break
        found.extend((yield from _tried(trials, changes, first=not found)))
    found.extend((yield from _way_in(trials)))
    for changes in _by_itself(run, ask) if never else ():
        found.extend((yield from _tried(trials, changes, first=not found)))
    listed = tuple(found[:MOST_SUGGESTIONS])
    return Unblocking(listed, impossible=never, trials=trials.made, text=_said(listed, trials.made, never=never))


def _tried(trials: Trials, changes: Sequence[Change], *, first: bool) -> Steps[list[Suggestion]]:
    supposed = yield from trials.of(changes)
    if supposed is None or trials.gang not in supposed.plan.admitted:
        return []
    if first and trials.gang not in (yield from trials.anew(supposed)).admitted:
        return []
    return [_suggestion(trials, changes, supposed)]


def _suggestion(trials: Trials, changes: Sequence[Change], supposed: Supposed) -> Suggestion:
    differs = supposed.difference
    return Suggestion(
        changes=tuple(changes),
        text=changes_text(changes, now_s=trials.base.now_s),
        also=tuple(one.gang for one in differs.admitted if one.gang != trials.gang),
        instead=tuple(one.gang for one in differs.refused),
    )


def _way_in(trials: Trials) -> Steps[list[Suggestion]]:
    """Take one obstacle after the other away, until the gang is let in; empty: there is one that nothing takes away."""
    changes: list[Change] = []
    situation, plan, rounds = trials.base, trials.plan, 0
    for _ in range(_MOST_STEPS):
        yield
        step = yield from next_step(situation, plan, trials.gang, memo=trials.memo, before=changes, rounds=rounds)
        if not step:
            return []
        changes.extend(step)
        rounds += any(isinstance(one, AddCapacity | AddNodes) for one in step)
        supposed = yield from trials.of(changes)
        if supposed is None:
            return []
        situation, plan = supposed.situation, supposed.plan
        if trials.gang in plan.admitted:
            plan = yield from trials.anew(supposed)
            if trials.gang in plan.admitted:
                return [_suggestion(trials, changes, supposed)]
        if trials.gang not in plan.waiting:
            return []
    return []


def _by_time(base: Situation, plan: Plan, ask: Ask, reason: Reason, memo: Memo) -> Iterator[list[Change]]:
    """The moment at which it becomes STARVING, and goes before others."""
    if reason not in (Reason.BEHIND, Reason.NO_ROOM):
        return
    starving_s = transitions_of(ask.gang, base.policy.queue).starving_s
    if starving_s is None or starving_s <= base.now_s or not ask.need or ask.siblings:
        return
    turns = Turns(Run(base.snapshot, base.policy, memo), now_s=starving_s, previous=plan)
    if turns.starving(ask):
        yield [ClockAdvances(starving_s)]


def _by_others(trials: Trials, ask: Ask, reason: Reason) -> Steps[list[list[Change]]]:
    """Jobs that give up room: one that shrinks, one or two that end, or the fewest together."""
    if reason not in _ROOM | {Reason.OVER_SHARE}:
        return []
    base, plan = trials.base, trials.plan
    room = yield from room_in_steps(Run(base.snapshot, base.policy, trials.memo), plan, ask)
    givers = yield from givers_in_steps(room, base.snapshot.gangs.values())
    alone = [one for one in givers if one.missing == 0]
    shrinks = [one for one in alone if isinstance(one.change, JobShrinks)][:1]
    ends = [one for one in alone if isinstance(one.change, JobEnds)][:2]
    proposed: list[list[Change]] = [[one.change] for one in (*shrinks, *ends)]
    if reason is Reason.BEHIND:
        mine = plan.waiting[ask.gang.key].rank
        ahead = sorted(((one.rank, one.gang) for one in plan.admitted.values() if one.rank < mine), reverse=True)
        proposed.extend([JobEnds(gang)] for _, gang in ahead[:2])
    if not proposed:
        together = _together(givers)
        proposed.extend([together] if together else [])
    return proposed


def _together(givers: Sequence[Giver]) -> list[Change]:
    """Several jobs that end, those that help most first."""
    ends = [one.change for one in givers if isinstance(one.change, JobEnds)]
    return list(ends[:_MOST_TOGETHER]) if len(ends) > 1 else []


def _by_itself(run: Run, ask: Ask) -> Iterator[list[Change]]:
    """A gang that is too large for any zone can ask for less, or for several zones."""
    wish = run.wish(ask.need, ask)
    allowed = run.candidate_zones(ask)
    if not allowed or not wish.size:
        return
    most = int(np.max(run.zone_members(wish, When.EMPTY)[run.columns(allowed)], initial=0))
    if 0 < most < wish.size:
        yield [JobShrinks(ask.gang.key, wish.size - most)]
    if ask.options.zone_policy is ZonePolicy.REQUIRED and len(allowed) > 1:
        yield [SetOption(ask.gang.key, "zone-policy", ZonePolicy.PREFERRED.value)]


def _said(found: Sequence[Suggestion], trials: int, *, never: bool) -> str:
    first = "Waiting will not help: it would not fit into the empty cluster as it is. " if never else ""
    if not found:
        return f"{first}None of {trials} changes that were tried lets it in."
    return f"{first}What would let it in: {'; or: '.join(one.text for one in found)}."
