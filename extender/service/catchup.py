"""Let the watch catch up with kube-scheduler before it is told no.

Why: kube-scheduler asks at the very event that makes room, and its question often overtakes our copy of that event. A
"no" then costs the pod its backoff, seconds, although a millisecond later the answer is yes. The question itself shows
who is behind: it names a node that we do not know, or one that is full in our view and not in kube-scheduler's, or a
pod that we have not seen. Rule: look again after each change of the cache, for at most `LONGEST_S`, once per pod and
version of the cache, and never more than a fifth of the time altogether: kube-scheduler waits with us.
"""

import asyncio
from collections.abc import Callable, Sequence

from extender.cache import ClusterCache
from extender.ports import Clock
from scoring.ids import NodeName, PodUid
from scoring.model import Pod
from scoring.snapshot import Snapshot

LONGEST_S = 0.02
_SHARE = 4.0
"""After a wait, no other one for this many times its length."""
_REMEMBERED_MAX = 20_000


class CatchUp:
    """Waits for changes of the cache on behalf of questions that are ahead of it."""

    def __init__(self, cache: ClusterCache, clock: Clock) -> None:
        self._cache = cache
        self._clock = clock
        self._change = asyncio.Event()
        self._not_before_s = -float("inf")
        self._waited_at: dict[PodUid, int] = {}
        """pod → version of the cache at which it has been waited for already"""

    def changed(self) -> None:
        """The cache changed: whoever waits looks again."""
        self._change.set()

    async def for_pod(self, uid: PodUid) -> None:
        """Wait until the pod is known, or long enough."""
        await self._until(lambda: self._cache.pod(uid) is not None, uid)

    async def for_room(self, pod: Pod, asked: Sequence[NodeName]) -> None:
        """Wait while `asked` holds a node that has no room for `pod` in our view. Cost: O(asked) per change."""
        await self._until(lambda: not ahead_of(self._cache.snapshot(), pod, asked), pod.uid)

    async def _until(self, caught_up: Callable[[], bool], uid: PodUid) -> None:
        """Look after each change, until `caught_up` or long enough; at once when it is not this pod's time to wait."""
        began_s = self._clock.monotonic_s()
        if began_s < self._not_before_s or self._waited_at.get(uid) == self._cache.version or caught_up():
            return
        try:
            async with asyncio.timeout(LONGEST_S):
                while not caught_up():
                    self._change.clear()
                    await self._change.wait()
        except TimeoutError:
            pass  # the answer is made from what is known
        finally:
            if len(self._waited_at) >= _REMEMBERED_MAX:
                self._waited_at.clear()
            self._waited_at[uid] = self._cache.version
            now_s = self._clock.monotonic_s()
            self._not_before_s = now_s + _SHARE * (now_s - began_s)


def ahead_of(snapshot: Snapshot, pod: Pod, asked: Sequence[NodeName]) -> bool:
    """Whether kube-scheduler's in-tree filters passed a node that we do not know, or that is full in our view."""
    table = snapshot.table
    request = table.vector(pod.requests)
    rows = [table.index.get(name) for name in asked]
    known = [row for row in rows if row is not None]
    if len(known) < len(rows) or request is None:
        return True
    free = table.allocatable[known] - snapshot.used[known]
    return bool(((free < request) & (request > 0)).any())
