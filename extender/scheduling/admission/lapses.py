"""Which admissions come to nothing, and how long such a gang waits before it may reserve room again.

Why: a gang that reserves room until the hold limit without a start keeps it from others, again and again. Rules:

- The back-off is 10 s × 2ᵏ, at most ten minutes (docs/safety.md S5). Success ends the count, and so do other pods, and,
  where no member had been heard of at all, any question about one of them, because kube-scheduler was away.
- A member that kube-scheduler refused and does not any more ends one back-off of the count, and the count goes on: with
  anti-affinity among members it refuses the last one while the first are held, and none as soon as the gang lapsed.
  So do nodes that /filter learned to leave out, and that kube-scheduler passes again as soon as no member is held: the
  first time the gang is only planned again, since a filter that netgang does not model may have closed one node.
- Gates that are removed and members at bind have clocks of their own. A gang without a gate that is offered its nodes
  in /filter has none, and where kube-scheduler's own filters refuse it no question comes: planned for
  the admit timeout without any call, it lapses too (docs/safety.md S25). One that runs in part does not: it is first.
"""

from dataclasses import KW_ONLY, dataclass, field
from typing import Final

import msgspec

from extender.controllers.context import ControllerContext
from extender.controllers.events.recorder import Happening, pod_subject
from extender.runtime.decision_lines import Decision
from scoring.ids import GangKey, PodUid
from scoring.model import Gang
from scoring.plan import Plan

FIRST_S: Final = 10.0
LONGEST_S: Final = 600.0


class _Lapse(msgspec.Struct, frozen=True):
    times: int
    pods: frozenset[PodUid]
    refused: frozenset[PodUid] = frozenset()  # Those of them that kube-scheduler had refused
    silent: bool = False  # Nothing was heard of them in all the time
    tried_early: bool = False  # Such a refusal went away once, and the gang lapsed again or is tried now


@dataclass(eq=False, repr=False)
class Lapses:
    """Lapses in a row of each gang, and the back-offs they cause. Bounded by the gangs that exist: see `renew`."""

    context: ControllerContext
    _: KW_ONLY
    timeout_s: float  # How long a gang without a gate may be planned before a member comes to bind
    _last: dict[GangKey, _Lapse] = field(default_factory=dict, init=False)
    _expected_s: dict[GangKey, float] = field(default_factory=dict, init=False)  # ungated gang → planned since
    _revoked: dict[GangKey, frozenset[PodUid]] = field(default_factory=dict, init=False)
    """gang → its pods when kube-scheduler passed a node again that it had refused to a member"""

    @property
    def gangs(self) -> frozenset[GangKey]:
        """Gangs that lapsed and did not start since."""
        return frozenset(self._last)

    def expected_for_s(self, gang: GangKey) -> float | None:
        """How long a gang without a gate still has to come to bind; `None`: it is not expected."""
        since_s = self._expected_s.get(gang)
        return None if since_s is None else max(since_s + self.timeout_s - self.context.clock.monotonic_s(), 0.0)

    def expire(self, plan: Plan, at_bind: frozenset[PodUid], *, elsewhere: frozenset[GangKey]) -> None:
        """End overdue admissions without a gate, but of `at_bind` (calls held) and `elsewhere` (being ungated)."""
        now_s = self.context.clock.monotonic_s()
        before, self._expected_s = self._expected_s, {}
        for key, admission in plan.admitted.items():
            gang = self.context.cache.gang(key)
            if gang is None or key in elsewhere or key in plan.partial:
                continue
            expected = [pod.uid for pod in gang.pending if pod.uid in admission.members and not pod.gates]
            if not expected or not at_bind.isdisjoint(expected):
                continue
            since_s = before.get(key, now_s)
            if now_s - since_s < self.timeout_s:
                self._expected_s[key] = since_s
            else:
                self.lapsed(key, silent=True)

    def forget(self) -> None:
        """Expect no gang, as after a restart."""
        self._expected_s.clear()

    def lapsed(self, key: GangKey, *, silent: bool = False) -> None:
        """An admission ended without quorum: let the gang back off. `silent`: no member ever came to bind."""
        self.renew()
        self._lapse(key, silent=silent)

    def _lapse(self, key: GangKey, *, silent: bool = False, tried_early: bool = False) -> None:
        gang = self.context.cache.gang(key)
        if gang is None:
            return
        before = self._last.get(key)
        times = before.times if before is not None else 0
        tried_early = tried_early or (before is not None and before.tried_early)
        refused = [pod for one in gang.pending if (pod := self.context.cache.pod(one.uid)) is not None and pod.refusal]
        self._last[key] = _Lapse(
            times + 1,
            pods_of(gang),
            frozenset(pod.uid for pod in refused),
            silent=silent and not refused,
            tried_early=tried_early,
        )
        pause_s = min(FIRST_S * 2.0**times, LONGEST_S)
        self.context.cache.back_off(key, self.context.clock.now_s() + pause_s)
        why = f": kube-scheduler says of {refused[0].key}: {refused[0].refusal.rstrip('.')}" if refused else ""
        note = f"Gang {key} was admitted and did not come to bind in time{why}; tried again in {pause_s:.0f} s"
        for pod in gang.pending[:1]:
            self.context.post_event(pod_subject(pod), Happening.ADMISSION_LAPSED, note)
        self.context.decided(Decision(what="lapse", gang=key))

    def revoked(self, key: GangKey) -> None:
        """kube-scheduler passes nodes for a member that it had refused to this gang: its own members may be why."""
        if (gang := self.context.cache.gang(key)) is not None:
            self._revoked[key] = pods_of(gang)

    def abandoned(self, key: GangKey) -> None:
        """Nodes refuse a member, so that the others let go: a lapse if nodes did before, and passed it again."""
        self.renew()
        if key in self._revoked:
            self._lapse(key, tried_early=True)

    def refused(self, key: GangKey) -> None:
        """The API server refuses the gang's patch: it waits for the longest time, or until its pods change."""
        if (gang := self.context.cache.gang(key)) is not None:
            times = self._last[key].times if key in self._last else 0
            self._last[key] = _Lapse(times + 1, pods_of(gang))
            self.context.cache.back_off(key, self.context.clock.now_s() + LONGEST_S)

    def asked(self, key: GangKey) -> None:
        """kube-scheduler asks /filter about a member."""
        if (lapse := self._last.get(key)) is not None and lapse.silent:
            self._end(key)

    def started(self, key: GangKey) -> None:
        """A member was bound: the count begins again at nothing."""
        self._revoked.pop(key, None)
        if key in self._last:
            self._end(key)

    def renew(self) -> None:
        """End back-offs of gangs whose pods or conditions changed. Cost: O(members of lapsed gangs)."""
        for key, pods in list(self._revoked.items()):
            gang = self.context.cache.gang(key)
            if gang is None or pods_of(gang) != pods:
                del self._revoked[key]
        for key, lapse in list(self._last.items()):
            gang = self.context.cache.gang(key)
            if gang is None or gang.started or pods_of(gang) != lapse.pods:
                self._end(key)
            elif not lapse.tried_early and any(not self._is_refused(uid) for uid in lapse.refused):
                self._last[key] = msgspec.structs.replace(lapse, tried_early=True)
                self.context.cache.back_off(key, None)

    def _is_refused(self, uid: PodUid) -> bool:
        pod = self.context.cache.pod(uid)
        return pod is not None and bool(pod.refusal)

    def _end(self, key: GangKey) -> None:
        del self._last[key]
        self.context.cache.back_off(key, None)


def pods_of(gang: Gang) -> frozenset[PodUid]:
    """The uids of its members."""
    return frozenset(pod.uid for pod in gang.members)
