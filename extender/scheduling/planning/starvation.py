"""Notice when a gang becomes STARVING, or its reservation runs out, while nothing else happens.

Why: a plan is made when something changed, and while /filter refused only gangs that was early enough: a gang that
comes is a change. A plain pod that is asked about changes nothing, and would take the room of a gang that has been
STARVING for an hour without a plan for it (docs/safety.md S13). Rule: once a second; a look at clocks alone.
"""

from collections.abc import Iterator
from typing import Final

from extender.cache import ClusterCache
from extender.ports import Clock
from extender.scheduling.planning.loop import Planner
from scoring.ids import GangKey
from scoring.model import Gang
from scoring.queue.states import periods_starved

_GANGS_A_STEP: Final = 128


class Starvation:
    """The clocks of waiting gangs at the last look. Bounded by the gangs that wait."""

    def __init__(self, cache: ClusterCache, planner: Planner, clock: Clock) -> None:
        self._cache = cache
        self._planner = planner
        self._clock = clock
        self._seen: dict[GangKey, tuple[Gang, int]] = {}
        """gang → as it was, and how long it had starved, at the last look"""

    def look(self) -> Iterator[None]:
        """Have a new plan made if a clock passed one of its moments since. Cost: O(members of waiting gangs)."""
        now_s, policy = self._clock.now_s(), self._planner.policy.queue
        gangs = self._cache.snapshot().gangs
        seen: dict[GangKey, tuple[Gang, int]] = {}
        passed = False
        for number, key in enumerate(self._planner.current.waiting, start=1):
            gang = gangs.get(key)
            if gang is not None:
                periods, known = periods_starved(gang, policy, now_s=now_s), self._seen.get(key)
                seen[key] = gang, periods
                passed = passed or (known is not None and known[0] is gang and known[1] != periods)
            if number % _GANGS_A_STEP == 0:
                yield
        self._seen = seen
        if passed:
            self._cache.time_passed()
