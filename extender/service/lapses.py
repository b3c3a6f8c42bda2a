"""How long a gang whose admission came to nothing must wait before it may reserve room again (S5).

Why: a gang that holds room until the hold limit and does not start keeps it from others; trying again at once would do
so for ever. Rule: 10 s × 2ᵏ, at most ten minutes; success forgets the count, and so do other pods, which may well
succeed: a gang whose pods changed may reserve at once.
"""

from extender.cache import ClusterCache
from extender.controller.events import Happening, Tell, tell_nobody
from extender.decision_log import Decision, DecisionLog
from extender.ports import Clock
from scoring.ids import GangKey, PodUid
from scoring.model import Gang

FIRST_S = 10.0
LONGEST_S = 600.0


class Lapses:
    """Lapses in a row of each gang, and the back-offs they cause. Bounded by the gangs that exist: see `renew`."""

    def __init__(self, cache: ClusterCache, clock: Clock, log: DecisionLog, *, tell: Tell = tell_nobody) -> None:
        self._cache = cache
        self._clock = clock
        self._log = log
        self._tell = tell
        self._counts: dict[GangKey, tuple[int, frozenset[PodUid]]] = {}
        """gang → (lapses in a row, its pods then)"""

    @property
    def gangs(self) -> frozenset[GangKey]:
        """Gangs that lapsed and did not start since."""
        return frozenset(self._counts)

    def lapsed(self, key: GangKey) -> None:
        """The hold limit passed before quorum: let the gang back off."""
        self.renew()
        gang = self._cache.gang(key)
        if gang is None:
            return
        times = self._counts[key][0] if key in self._counts else 0
        self._counts[key] = (times + 1, _pods(gang))
        pause_s = min(FIRST_S * 2.0**times, LONGEST_S)
        self._cache.back_off(key, self._clock.now_s() + pause_s)
        for pod in gang.pending[:1]:
            note = f"Gang {key} was admitted and did not come to bind in time; it is tried again in {pause_s:.0f} s"
            self._tell(pod, Happening.ADMISSION_LAPSED, note)
        self._log.log_decision(Decision(what="lapse", gang=key), now_s=self._clock.monotonic_s())

    def refused(self, key: GangKey) -> None:
        """The gang cannot be let in as it is: it waits for the longest time, or until its pods change."""
        gang = self._cache.gang(key)
        if gang is not None:
            self._counts[key] = (self._counts.get(key, (0, frozenset()))[0] + 1, _pods(gang))
            self._cache.back_off(key, self._clock.now_s() + LONGEST_S)

    def started(self, key: GangKey) -> None:
        """A member was bound: the count begins anew."""
        self._counts.pop(key, None)

    def renew(self) -> None:
        """Let gangs whose pods changed since their lapse go again, and forget those that are gone.

        Cost: O(members of lapsed gangs).
        """
        for key, (_, pods_then) in list(self._counts.items()):
            gang = self._cache.gang(key)
            if gang is None or _pods(gang) != pods_then:
                del self._counts[key]
                self._cache.clear_back_off(key)


def _pods(gang: Gang) -> frozenset[PodUid]:
    return frozenset(pod.uid for pod in gang.members)
