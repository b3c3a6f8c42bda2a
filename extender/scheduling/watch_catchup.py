"""Let the watch catch up with kube-scheduler before a pod is refused.

Why: kube-scheduler asks at the very event that makes room, and its question often overtakes our copy of that event. A
"no" then costs the pod its backoff, seconds, although a millisecond later the answer is yes. The question shows that
the cache is behind: it names a node that we do not know, or one that is full in our view only, or a pod that we have
not seen. Rule: look again after each change of the cache, for at most `LONGEST_S`, once per pod and version of the
cache, and never more than a fifth of the time. At /bind kube-scheduler goes on, so it may be longer.

The first pods of a new gang are tried while its owner still creates the others, and each "no" is an Event that looks
like a failure. So the question about one waits for the others, too, by a fifth of its own, and only while
kube-scheduler has nothing else to do: after `LONGEST_S` without a question. In a burst no question waits for that.
"""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress

import numpy as np

from extender.cache import ClusterCache
from extender.ports import Clock
from scoring.ids import NodeName, PodUid
from scoring.model import Pod, Snapshot

LONGEST_S = 0.02
AT_BIND_S = 0.5  # For a pod that is at /bind and that the watch has not brought
_AT_BIND_LOOK_S = 0.02
_AT_BIND_MAX = 64  # Pods waited for at /bind at a time; one more is refused, and kube-scheduler tries it again
_SHARE = 4.0  # After a wait, no other one for this many times its length
_REMEMBERED_MAX = 20_000


class CatchUp:
    """Waits for changes of the cache on behalf of questions that are ahead of it."""

    def __init__(self, cache: ClusterCache, clock: Clock, change: asyncio.Event) -> None:
        self._cache = cache
        self._clock = clock
        self._change = change  # Set at each change of the cache: every call that waits looks again
        self._not_before_s = dict.fromkeys(("watch", "gang"), -float("inf"))  # what is waited for → no wait before
        self._waited: set[PodUid] = set()  # Pods that have been waited for at the version `_waited_at` of the cache
        self._waited_at = -1
        self._at_bind = 0
        self._asked_s = -float("inf")

    def asked(self) -> bool:
        """kube-scheduler asks; whether it had asked nothing for so long that a moment delays no other pod."""
        before_s, self._asked_s = self._asked_s, self._clock.monotonic_s()
        return self._asked_s - before_s >= LONGEST_S

    def for_pod(self, uid: PodUid) -> Awaitable[None] | None:
        """What waits until the pod is known, or long enough; `None`: nothing is waited for, as in all of these."""
        return self._until(lambda: self._cache.pod(uid) is not None, uid)

    def for_gang(self, uid: PodUid) -> Awaitable[None] | None:
        """What waits until the pod is known, and as many members of its gang as the minimum is."""
        return self._until(lambda: self._cache.pod(uid) is not None and self._has_minimum(uid), uid, "gang")

    async def until_known(self, uid: PodUid) -> Pod | None:
        """The pod, as soon as a look finds it; `None`: not within `AT_BIND_S`, or too many pods are waited for."""
        ends_s = self._clock.monotonic_s() + AT_BIND_S
        self._at_bind += 1
        try:
            while (pod := self._cache.pod(uid)) is None:
                if self._at_bind > _AT_BIND_MAX or self._clock.monotonic_s() >= ends_s:
                    return None
                await asyncio.sleep(_AT_BIND_LOOK_S)
            return pod
        finally:
            self._at_bind -= 1

    def for_room(self, pod: Pod, asked: Sequence[NodeName]) -> Awaitable[None] | None:
        """What waits while a node of `asked` is unknown or too full for `pod`. O(asked) at each change of the cache."""
        return self._until(lambda: _have_room(self._cache.snapshot(), pod, asked), pod.uid)

    def _has_minimum(self, uid: PodUid) -> bool:
        gang = self._cache.gang_of(uid)
        return gang is None or not gang.own or len(gang.members) >= gang.min_member

    def _until(self, caught_up: Callable[[], bool], uid: PodUid, what: str = "watch") -> Awaitable[None] | None:
        """What waits for `caught_up`; a question that need not wait, or may not yet, costs no task to find that out."""
        began_s = self._clock.monotonic_s()
        has_waited = self._waited_at == self._cache.version and uid in self._waited
        if began_s < self._not_before_s[what] or has_waited or caught_up():
            return None
        return self._wait(caught_up, uid, what, began_s)

    async def _wait(self, caught_up: Callable[[], bool], uid: PodUid, what: str, began_s: float) -> None:
        try:
            with suppress(TimeoutError):  # then the answer is made from what is known
                async with asyncio.timeout(LONGEST_S):
                    while not caught_up():
                        self._change.clear()
                        await self._change.wait()
        finally:
            if self._waited_at != self._cache.version or len(self._waited) >= _REMEMBERED_MAX:
                self._waited_at = self._cache.version
                self._waited.clear()
            self._waited.add(uid)
            now_s = self._clock.monotonic_s()
            self._not_before_s[what] = now_s + _SHARE * (now_s - began_s)


def _have_room(snapshot: Snapshot, pod: Pod, asked: Sequence[NodeName]) -> bool:
    """Whether each of these nodes is known and has room for the pod in our view."""
    request, index = snapshot.table.vector(pod.requests), snapshot.table.index
    if not all(name in index for name in asked):
        return False
    wanted, rows = np.flatnonzero(request), [index[name] for name in asked]
    left = snapshot.table.allocatable[:, wanted] - snapshot.used[:, wanted] - request[wanted]
    return not bool((left.min(axis=1, initial=0) < 0).take(rows).any())
