"""End admissions of gangs without a gate of which no member comes to bind (docs/safety.md S25).

Why: a gang whose gate we remove has a clock from then on (`admission`), and one with a member at bind has that of the
hold limit. One that is offered its nodes in /filter has neither, and where kube-scheduler's own filters refuse it, it
is never asked about and would keep its zone without end. Rule: planned for `admit_timeout_s` without any call, it
lapses as the others do. A gang that runs in part is left alone: what it misses comes before everything else.
"""

from extender.cache import ClusterCache
from extender.ports import Clock
from extender.scheduling.admission.lapses import Lapses
from extender.scheduling.planning.loop import Planner
from scoring.ids import GangKey, PodUid


class Arrivals:
    """Since when each such gang is expected. Bounded by the gangs that the plan admits."""

    def __init__(
        self, cache: ClusterCache, planner: Planner, lapses: Lapses, clock: Clock, *, timeout_s: float
    ) -> None:
        self._cache = cache
        self._planner = planner
        self._lapses = lapses
        self._clock = clock
        self._timeout_s = timeout_s
        self._since_s: dict[GangKey, float] = {}

    def expected_for_s(self, gang: GangKey) -> float | None:
        """How long the gang still has; `None`: it has no clock here."""
        since_s = self._since_s.get(gang)
        return None if since_s is None else max(since_s + self._timeout_s - self._clock.monotonic_s(), 0.0)

    def tidy(self, at_bind: frozenset[PodUid], *, elsewhere: frozenset[GangKey]) -> None:
        """Once a second. `at_bind`: members whose call is held; `elsewhere`: gangs whose gates are being removed.

        Cost: O(members that the plan admits).
        """
        now_s = self._clock.monotonic_s()
        before, self._since_s = self._since_s, {}
        plan = self._planner.current
        for key, admission in plan.admitted.items():
            gang = self._cache.gang(key)
            if gang is None or key in elsewhere or key in plan.partial:
                continue
            expected = [pod.uid for pod in gang.pending if pod.uid in admission.members and not pod.gates]
            if not expected or not at_bind.isdisjoint(expected):
                continue
            since_s = before.get(key, now_s)
            if now_s - since_s < self._timeout_s:
                self._since_s[key] = since_s
            else:
                self._lapses.lapsed(key, silent=True)

    def forget(self) -> None:
        """Know nothing, as after a restart."""
        self._since_s.clear()
