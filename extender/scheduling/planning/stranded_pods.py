"""Which pods are stranded by the current plan, looked at once per plan.

Why apart from `scoring.repair.stranded_pods`: it is asked once a second and again before every removal, and the answer
is the same until there is another plan.
"""

from collections.abc import Iterator, Mapping

from extender.ports import Clock
from extender.scheduling.planning.loop import Planner
from scoring.ids import GangKey, PodUid
from scoring.plan import Plan
from scoring.repair.stranded_pods import Loss, stranded, stranded_in_steps

_Losses = Mapping[GangKey, Mapping[PodUid, Loss]]


class Stranding:
    """The last answer, and the plan that it is of."""

    def __init__(self, planner: Planner, clock: Clock) -> None:
        self._planner = planner
        self._clock = clock
        self._known: tuple[Plan, _Losses] | None = None

    def __call__(self) -> _Losses:
        """Stranded members by gang; none before the first plan."""
        plan, snapshot = self._planner.current, self._planner.snapshot
        if snapshot is None:
            return {}
        if self._known is None or self._known[0] is not plan:
            policy, cache = self._planner.policy, self._planner.cache
            self._known = plan, stranded(snapshot, plan, policy, now_s=self._clock.now_s(), cache=cache)
        return self._known[1]

    def look(self) -> Iterator[None]:
        """Find the answer of the current plan before it is asked for, with a moment for others in between.

        docs/safety.md S15.
        """
        plan, snapshot = self._planner.current, self._planner.snapshot
        if snapshot is not None and (self._known is None or self._known[0] is not plan):
            policy, cache = self._planner.policy, self._planner.cache
            now_s = self._clock.now_s()
            found = yield from stranded_in_steps(snapshot, plan, policy, now_s=now_s, cache=cache)
            self._known = plan, found
