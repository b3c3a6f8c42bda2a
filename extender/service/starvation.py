"""Notice when a gang becomes STARVING, or its hold runs out, while nothing else happens.

Why: a plan is made when something changed, and until gangs alone were refused held room that was early enough: who
comes is a change. A plain pod that is asked about changes nothing, and would take the room of a gang that has been
STARVING for an hour without anybody having looked (S13). Rule: once a second; a look at clocks alone.
"""

from extender.cache import ClusterCache
from extender.ports import Clock
from extender.service.planning import Planner
from scoring.ids import GangKey
from scoring.model import Gang
from scoring.waits import periods_starved


class Starvation:
    """The clocks of waiting gangs at the last look. Bounded by the gangs that wait."""

    def __init__(self, cache: ClusterCache, planner: Planner, clock: Clock) -> None:
        self._cache = cache
        self._planner = planner
        self._clock = clock
        self._seen: dict[GangKey, tuple[Gang, int]] = {}
        """gang → as it was, and how long it had starved, at the last look"""

    def look(self) -> None:
        """Have a new plan made if a clock passed one of its moments since. Cost: O(members of waiting gangs)."""
        now_s, policy = self._clock.now_s(), self._planner.policy.queue
        gangs = self._cache.snapshot().gangs
        waiting = [gangs[key] for key in self._planner.current.waiting if key in gangs]
        before, self._seen = (
            self._seen,
            {gang.key: (gang, periods_starved(gang, policy, now_s=now_s)) for gang in waiting},
        )
        if any(
            (known := before.get(key)) is not None and known[0] is gang and known[1] != periods
            for key, (gang, periods) in self._seen.items()
        ):
            self._cache.time_passed()
