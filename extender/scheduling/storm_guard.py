"""Keep refused pods from storming: a pod that keeps coming back for the same "no" is answered with an error instead.

Why: kube-scheduler retries every refused pod at every cluster event, without backoff when it is idle: 300 refused pods
beside 5 new ones a second made 1,379 filter calls a second (measured on 1.36.3). A pod that is answered with `Error` is
retried by its timer alone. Rules: the first refusals are ordinary ones, so in quiet a pod starts when there is room;
the text of the error is the same constant reason; another reason, or `QUIET_S` without a change in the cluster, ends
the guard for the pod. The more pods are refused, the longer is the time within which a few refusals of one are too
many, so that ordinary ones stay below `AFTER` / `PER_POD_S` = 30 a second, however slowly each of them comes.
"""

import msgspec

from scoring.ids import PodUid
from scoring.model import Reason

AFTER = 3  # Ordinary refusals for one reason within `WINDOW_S`; one that follows later than `BURST_S` is an error
BURST_S = 5.0
"""Within this time all refusals stay ordinary: ten pods that end together are twenty events in a second or two, and a
gang that is refused at the first must be free to start at the last.
"""
WINDOW_S = 10.0
PER_POD_S = 0.1  # The window is at least this long for each pod that is being refused: 30 s for 300 of them
QUIET_S = 30.0
_REMEMBERED_MAX = 50_000


class _Refusals(msgspec.Struct):
    reason: Reason
    since_s: float
    last_s: float
    count: int
    guarded: bool = False


class StormGuard:
    """Counts refusals per pod. Bounded: forgets all when it holds too many, which costs a few refusals each."""

    def __init__(self) -> None:
        self._refusals: dict[PodUid, _Refusals] = {}
        self._swept_s = -float("inf")

    def holds(self, uid: PodUid, reason: Reason, *, now_s: float, changed_s: float) -> bool:
        """Whether this refusal is to be an error; `changed_s`: when the cluster last changed."""
        self._sweep(now_s)
        known = self._refusals.get(uid)
        over = known is not None and known.guarded
        lapsed = known is not None and not over and now_s - known.since_s > self._window_s()
        if known is None or known.reason is not reason or lapsed or (over and now_s - changed_s >= QUIET_S):
            if len(self._refusals) >= _REMEMBERED_MAX:
                self._refusals.clear()
            known = self._refusals[uid] = _Refusals(reason, now_s, now_s, 0)
        known.count += 1
        known.last_s = now_s
        known.guarded = known.guarded or (known.count > AFTER and now_s - known.since_s >= BURST_S)
        return known.guarded

    def forget(self, uid: PodUid) -> None:
        """The pod was let through."""
        self._refusals.pop(uid, None)

    def _window_s(self) -> float:
        return max(WINDOW_S, len(self._refusals) * PER_POD_S)

    def _sweep(self, now_s: float) -> None:
        """Now and then: pods that were bound elsewhere or deleted must not stretch the window without end."""
        if now_s - self._swept_s < WINDOW_S:
            return
        self._swept_s = now_s
        kept_s = self._window_s() + QUIET_S
        self._refusals = {uid: one for uid, one in self._refusals.items() if now_s - one.last_s <= kept_s}
