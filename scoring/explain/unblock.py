"""What would admit a waiting gang: changes that the planner has tried and found to do it, the easiest first.

Order: what time alone brings; nodes that it is kept off; a job that gives up workers it can do without; a job that
ends; a label of nodes that it need not ask for; more room; less that it asks for itself. A gang with a fault of its own
gets that first, and a gang that would not fit the empty cluster gets that, whatever would help. Rule: nothing is
offered whose trial plan does not admit the gang; the number of trials is bounded, and each goes in steps, so a question
delays no other. The first one is true twice: with the places that gangs have in the plan of now, and when every gang is
placed again, as new measurements make the service do. Cost: as planning everything, once for each trial. More room is
looked for beside at most `MOST_AHEAD` gangs that would take it first: a trial that starts hundreds of them costs
seconds, and says little of a long queue's end. That end is then said.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from scoring.explain.suggestions.candidates import Room, room_in_steps
from scoring.explain.suggestions.next_step import next_step
from scoring.explain.suggestions.other_jobs import MOST_AHEAD, ROOM, WANT_ROOM, by_others, by_time
from scoring.explain.suggestions.pod_changes import by_barriers, by_labels, by_zone_policy, fewer_workers
from scoring.explain.suggestions.smaller_request import smaller_requests_in_steps
from scoring.explain.waiting import NEVER
from scoring.explain.words import changes_text
from scoring.ids import GangKey
from scoring.model import Gang, Reason
from scoring.plan import Plan, PlannerCache, begin_run, plan_in_steps
from scoring.plan.steps import Steps, at_once
from scoring.what_if.changes import AddCapacity, AddNodes, Change, MisfitError
from scoring.what_if.draft import Situation
from scoring.what_if.suppose import Supposed, apply, supposed_in_steps

MOST_TRIALS: Final = 16  # Trial plans for one question
MOST_SUGGESTIONS: Final = 6
_MOST_OF_OTHERS: Final = 3  # Suggestions of time, nodes and other jobs
_LEFT_FOR_LESS: Final = 4  # Trials that are left for what the gang's own pods ask for
_MOST_STEPS: Final = 6  # Obstacles that are taken away one after the other


@dataclass(frozen=True, slots=True)
class Suggestion:
    """Changes with which the gang is admitted: the planner was asked."""

    changes: tuple[Change, ...]
    text: str
    also: tuple[GangKey, ...]  # Others that would be admitted with it
    instead: tuple[GangKey, ...]  # Others that are admitted now, and would wait


@dataclass(frozen=True, slots=True)
class Unblocking:
    """All that was found."""

    suggestions: tuple[Suggestion, ...]
    impossible: bool
    """It would not fit into the empty cluster, or none of its zones exists, and no autoscaler is asked for nodes:
    waiting alone never helps."""
    trials: int  # Trial plans that were made
    text: str  # In one sentence; empty: the gang does not wait
    not_beside: int = 0  # Gangs that wait before it, if the search ended because there are too many; 0: it did not


def unblock_in_steps(
    base: Situation, plan: Plan, gang: Gang, *, cache: PlannerCache | None = None
) -> Steps[Unblocking]:
    """What would admit `gang`, in steps. `plan` was made from `base`; what is supposed is kept in `cache`."""
    cache = cache if cache is not None else PlannerCache()
    waiting = plan.waiting.get(gang.key)
    if waiting is None:
        return Unblocking((), impossible=False, trials=0, text="")
    trials = Trials(base, plan, gang.key, cache=cache, most=MOST_TRIALS)
    reason, never = waiting.reason, waiting.reason in NEVER
    run = begin_run(base.snapshot, base.policy, trials.cache)
    ask = run.view.demand(gang)
    room = yield from room_in_steps(run, plan, ask)
    ahead = sum(one.rank < waiting.rank and one.reason in WANT_ROOM for one in plan.waiting.values())
    ahead, left_out = ahead if ahead > MOST_AHEAD else 0, 0
    found: list[Suggestion] = []
    for changes in (yield from _of_others(trials, room, reason)):
        if trials.left <= _MOST_STEPS + _LEFT_FOR_LESS or len(found) == _MOST_OF_OTHERS:
            break
        supposed = yield from trials.of(changes)
        found.extend((yield from _suggested(trials, changes, supposed, first=not found)))
        if ahead and not found and supposed is not None and supposed.difference.admitted:
            left_out = ahead
            break  # it went to one of the gangs ahead, and so would what others give up
    labels = [] if left_out or reason not in WANT_ROOM else (yield from by_labels(room))
    for changes in labels:
        found.extend((yield from _suggested(trials, changes, (yield from trials.of(changes)), first=not found)))
    way_in, not_beside = yield from _way_in(trials, ahead)
    not_beside = not_beside or left_out
    found.extend(way_in)
    asks_for_less = [] if not_beside or reason not in WANT_ROOM else (yield from _asks_for_less(room, never=never))
    for changes in asks_for_less:
        found.extend((yield from _suggested(trials, changes, (yield from trials.of(changes)), first=not found)))
    listed = tuple(found[:MOST_SUGGESTIONS])
    hopeless = never and not base.policy.asks_for_nodes
    text = _said(listed, trials.made, never=hopeless, not_beside=not_beside)
    return Unblocking(listed, impossible=hopeless, trials=trials.made, text=text, not_beside=not_beside)


unblock = at_once(unblock_in_steps)


class Trials:
    """A bounded number of trial plans for one gang, on a cache of their own, as /v1/what-if makes them."""

    def __init__(self, base: Situation, plan: Plan, gang: GangKey, *, cache: PlannerCache, most: int) -> None:
        self.base = base
        self.plan = plan
        self.gang = gang
        self.made = 0  # Trials so far
        self._most = most
        self.cache = cache  # What looks beside the trials may use, too

    @property
    def left(self) -> int:
        """Trials that may still be made."""
        return self._most - self.made

    def of(self, changes: Sequence[Change]) -> Steps[Supposed | None]:
        """The plan with these changes; `None`: they do not fit, or no trial is left. Cost: as planning everything."""
        if self.left <= 0:
            return None
        self.made += 1
        yield
        try:
            made = apply(self.base, changes, version=self.cache.supposition())
        except MisfitError:
            return None
        return (yield from supposed_in_steps(self.base, self.plan, made, cache=self.cache))

    def placed_again(self, supposed: Supposed) -> Steps[Plan]:
        """The plan of what is supposed when no gang keeps a place for having had it. Cost: as planning everything."""
        made = supposed.situation
        return (yield from plan_in_steps(made.snapshot, made.policy, now_s=made.now_s, cache=self.cache))


def _of_others(trials: "Trials", room: Room, reason: Reason) -> Steps[list[list[Change]]]:
    """What time, nodes and other jobs would change, the easiest first."""
    base, plan = trials.base, trials.plan
    barriers = (yield from by_barriers(room.run, room.ask)) if reason in WANT_ROOM else []
    others = (yield from by_others(base, plan, room, reason)) if reason in ROOM | {Reason.OVER_SHARE} else []
    return [*by_time(base, plan, room.ask, reason, trials.cache), *barriers, *others]


def _asks_for_less(room: Room, *, never: bool) -> Steps[list[list[Change]]]:
    """What the gang's owner would change of it; `never`: it would not fit the empty cluster as it is."""
    requests = yield from smaller_requests_in_steps(room)
    return [*requests, *fewer_workers(room, only_indexed=not never), *(by_zone_policy(room) if never else ())]


def _suggested(
    trials: Trials, changes: Sequence[Change], supposed: Supposed | None, *, first: bool
) -> Steps[list[Suggestion]]:
    """The suggestion, if the trial admitted the gang; the first one must do so also with every gang placed again."""
    if supposed is None or trials.gang not in supposed.plan.admitted:
        return []
    if first and trials.gang not in (yield from trials.placed_again(supposed)).admitted:
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


def _way_in(trials: Trials, ahead: int) -> Steps[tuple[list[Suggestion], int]]:
    """Take obstacles away until the gang is admitted; empty: one stays. And `ahead`, if the search ended for that."""
    changes: list[Change] = []
    situation, plan, rounds = trials.base, trials.plan, 0
    for _ in range(_MOST_STEPS):
        yield
        if ahead and rounds and plan.waiting[trials.gang].reason in WANT_ROOM:
            return [], ahead
        step = yield from next_step(situation, plan, trials.gang, cache=trials.cache, before=changes, rounds=rounds)
        if not step:
            return [], 0
        changes.extend(step)
        rounds += any(isinstance(one, AddCapacity | AddNodes) for one in step)
        supposed = yield from trials.of(changes)
        if supposed is None:
            return [], 0
        situation, plan = supposed.situation, supposed.plan
        if trials.gang in plan.admitted:
            plan = yield from trials.placed_again(supposed)
            if trials.gang in plan.admitted:
                return [_suggestion(trials, changes, supposed)], 0
        if trials.gang not in plan.waiting:
            return [], 0
    return [], 0


def _said(found: Sequence[Suggestion], trials: int, *, never: bool, not_beside: int) -> str:
    first = "Waiting will not help: it would not fit into the empty cluster as it is. " if never else ""
    if not found:
        more = f" {not_beside} gangs wait for room before it and would take more first; it was not searched further."
        return f"{first}None of {trials} changes that were tried admits it.{more if not_beside else ''}"
    return f"{first}It would be admitted with: {'; or: '.join(one.text for one in found)}."
