"""Ask the planner what changes would really do: a bounded number of trial plans, on a cache that is not the service's.

Why: room that is counted out for one gang may go to another that is ahead, so nothing is offered to people as a way out
before the planner has taken it. Rule: a trial is `what_if` and nothing else, so a user that applies the same changes to
the same snapshot gets the same plan.
"""

from collections.abc import Callable, Sequence
from typing import Final, TypeVar

from scoring.ids import GangKey
from scoring.plan import Plan, PlannerCache, plan_in_steps
from scoring.plan.steps import Steps
from scoring.what_if.apply import apply
from scoring.what_if.changes import Change, MisfitError
from scoring.what_if.difference import Supposed, supposed_in_steps
from scoring.what_if.draft import Situation

_T = TypeVar("_T")
_MOST_SUPPOSITIONS: Final = 4000
"""Trials of one cache: tables bounded by a planner's needs would grow large with what was supposed long ago."""


class Trials:
    """Trial plans for one gang."""

    def __init__(self, base: Situation, plan: Plan, gang: GangKey, *, cache: PlannerCache, most: int) -> None:
        self.base = base
        self.plan = plan
        self.gang = gang
        self.made = 0
        """Trials so far"""
        self._most = most
        self.cache = cache
        """What looks beside the trials may use, too"""

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

    def anew(self, supposed: Supposed) -> Steps[Plan]:
        """The plan of what is supposed when no gang keeps a place for having had it. Cost: as planning everything."""
        made = supposed.situation
        return (yield from plan_in_steps(made.snapshot, made.policy, now_s=made.now_s, cache=self.cache))


class Aside:
    """A cache for suppositions that is kept from one question to the next.

    Why: the second question costs what changed since the first, not planning everything again; and the megabytes that
    a cache of a long queue has do not come and go with each question, while what others keep is put behind them.
    Not shared between threads.
    """

    def __init__(self) -> None:
        self._cache: PlannerCache | None = None

    def ask(self, latest: PlannerCache, question: Callable[[PlannerCache], _T]) -> _T:
        """What `question` finds with the cache, which has the scores of links in `latest` then.

        `latest` is `borrowed`, and becomes the cache if there is none. One whose question raised is not used again.
        """
        cache, self._cache = self._cache, None
        if cache is None or cache.suppositions >= _MOST_SUPPOSITIONS:
            cache = latest
        else:
            cache.take_over(latest)
        found = question(cache)
        self._cache = cache
        return found

    def forget(self) -> None:
        """Keep nothing until the next question."""
        self._cache = None
