"""How long a gang whose admission came to nothing must wait before it may reserve room again (docs/safety.md S5).

Why: a gang that reserves room until the hold limit and does not start keeps it from others; trying again at once would
do so without end. Rule: 10 s × 2ᵏ, at most ten minutes. Success forgets the count, and so does whatever says that the
next try may go another way: other pods; a member that kube-scheduler refused and does not any more; and, where nothing
had been heard of the members at all, any question about one of them, because then kube-scheduler was not there.
"""

from collections.abc import Iterable
from typing import Final

import msgspec

from extender.cache import ClusterCache
from extender.controllers.events.recorder import Happening, PostEvent, pod_subject
from extender.ports import Clock
from extender.runtime.decision_lines import Decision, DecisionLog
from scoring.ids import GangKey, PodUid
from scoring.model import Gang, Pod

FIRST_S: Final = 10.0
LONGEST_S: Final = 600.0


class _Lapse(msgspec.Struct, frozen=True):
    """The last one of a gang."""

    times: int
    """In a row"""
    pods: frozenset[PodUid]
    """Of the gang then"""
    refused: frozenset[PodUid] = frozenset()
    """Those of them that kube-scheduler had refused"""
    silent: bool = False
    """Nothing was heard of them in all the time"""


class Lapses:
    """Lapses in a row of each gang, and the back-offs they cause. Bounded by the gangs that exist: see `renew`."""

    def __init__(self, cache: ClusterCache, clock: Clock, log: DecisionLog, *, post_event: PostEvent) -> None:
        self._cache = cache
        self._clock = clock
        self._log = log
        self._post_event = post_event
        self._last: dict[GangKey, _Lapse] = {}

    @property
    def gangs(self) -> frozenset[GangKey]:
        """Gangs that lapsed and did not start since."""
        return frozenset(self._last)

    def lapsed(self, key: GangKey, *, silent: bool = False) -> None:
        """An admission ended without quorum: let the gang back off. `silent`: no member ever came to bind."""
        self.renew()
        gang = self._cache.gang(key)
        if gang is None:
            return
        times = self._times(key)
        refused = self.refused_members(gang)
        silent = silent and not refused
        self._last[key] = _Lapse(times + 1, _pods(gang), frozenset([pod.uid for pod in refused]), silent)
        pause_s = min(FIRST_S * 2.0**times, LONGEST_S)
        self._cache.back_off(key, self._clock.now_s() + pause_s)
        note = (
            f"Gang {key} was admitted and did not come to bind in time{_words(refused)}; tried again in {pause_s:.0f} s"
        )
        for pod in gang.pending[:1]:
            self._post_event(pod_subject(pod), Happening.ADMISSION_LAPSED, note)
        self._log.log_decision(Decision(what="lapse", gang=key), now_s=self._clock.monotonic_s())

    def refused(self, key: GangKey) -> None:
        """The API server refuses the gang's patch: it waits for the longest time, or until its pods change."""
        gang = self._cache.gang(key)
        if gang is not None:
            self._last[key] = _Lapse(self._times(key) + 1, _pods(gang))
            self._cache.back_off(key, self._clock.now_s() + LONGEST_S)

    def refused_members(self, gang: Gang) -> list[Pod]:
        """Waiting members that kube-scheduler refused by itself when it tried them last, with its words of now."""
        known = (self._cache.pod(pod.uid) for pod in gang.pending)
        return [pod for pod in known if pod is not None and pod.refusal]

    def asked(self, key: GangKey) -> None:
        """kube-scheduler asks about a member."""
        lapse = self._last.get(key)
        if lapse is not None and lapse.silent:
            self._end(key)

    def started(self, key: GangKey) -> None:
        """A member was bound: the count begins again at nothing."""
        if key in self._last:
            self._end(key)

    def renew(self) -> None:
        """Let gangs go again whose pods, or what kube-scheduler says of them, changed; forget those that are gone.

        Cost: O(members of lapsed gangs).
        """
        for key, lapse in list(self._last.items()):
            gang = self._cache.gang(key)
            if gang is None or _pods(gang) != lapse.pods or not all(map(self._is_refused, lapse.refused)):
                self._end(key)

    def _is_refused(self, uid: PodUid) -> bool:
        pod = self._cache.pod(uid)
        return pod is not None and bool(pod.refusal)

    def _times(self, key: GangKey) -> int:
        lapse = self._last.get(key)
        return lapse.times if lapse is not None else 0

    def _end(self, key: GangKey) -> None:
        del self._last[key]
        self._cache.clear_back_off(key)


def _pods(gang: Gang) -> frozenset[PodUid]:
    return frozenset(pod.uid for pod in gang.members)


def _words(refused: Iterable[Pod]) -> str:
    """kube-scheduler's words about the first of them, in the middle of a sentence."""
    for pod in refused:
        return f": kube-scheduler says of {pod.key}: {pod.refusal.rstrip('.')}"
    return ""
