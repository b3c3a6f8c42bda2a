"""Keep the condition `netgang.io/Admitted` of our gangs' pods true: a patch of pods/status for each reason to wait.

Why level-triggered: what it should say follows from the gang and its reason, so each look compares that with what the
API server shows, and a restart writes nothing again. Rules:
- Own pods only (docs/safety.md S1), on the leader, through the fence that all writes pass.
- A reason is written once it has stood as long as its Event waits, and that a pod was admitted only after a reason: a
  gang that starts at once costs no patch. A write wakes a pod that waits in kube-scheduler, as its own condition does:
  one more /filter call for each such pod and reason.
- Patches are paced over the whole cluster, and a look costs no more than the queue is long.
- A pod that changes its reason again and again, or whose condition another client removes, is written more and more
  seldom, and so is one whose patch fails; with jitter.
- Pods that are about to be removed are left alone: a removal names the version of the pod that was decided on.
- The patch names the uid and one condition: other conditions, and a pod of the same name, are left alone.
"""

import asyncio
import logging
from collections.abc import Callable, Container
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Final

import msgspec

from extender.controllers.context import ControllerContext
from extender.convert.patches import condition_patch
from extender.errors import ApiError, ApiUnavailableError
from extender.runtime.clock import Backoff
from extender.runtime.slices import Steps
from scoring.ids import GangKey, PodUid
from scoring.model import Gang, GangSource, Pod, Reason
from scoring.queue.admitted_condition import AdmittedCondition, admitted_condition, camel_case

PATIENCE_S: Final = 5.0  # A gang's labels and its PodGroup come one after the other
PER_S: Final = 20.0
MOST_QUEUED: Final = 200  # What is written in ten seconds: a gang that begins to wait is behind no more than that
_BELIEVE_S: Final = 5.0  # The watch shows a write within this time, or it is taken for lost
_RETRY: Final = Backoff(15.0, 600.0)
_JITTER: Final = 0.2

WaitReason = tuple[str, str]  # Why a gang waits: the cause in CamelCase, and a sentence

_log = logging.getLogger(__name__)


class _Look(msgspec.Struct):
    gang: Gang
    said: WaitReason | None
    problem: Reason | None
    since_s: float  # When that problem was seen first
    at_rest: bool = False


class _Written(msgspec.Struct):
    key: str = ""  # `AdmittedCondition.key` that was sent last
    echo_until_s: float = 0.0
    times: int = 0
    not_before_s: float = 0.0


@dataclass(eq=False, repr=False)
class PodConditions:
    """The conditions of all members that are ours. Bounded by the gangs and waiting pods that exist."""

    context: ControllerContext
    why: Callable[[GangKey], WaitReason | None]  # Why a gang waits, once that has stood for a while
    removing: Callable[[], Container[GangKey]]  # Gangs of which pods may be removed now
    jitter: Callable[[], float]  # From 0 to 1
    _removing: Container[GangKey] = field(default=(), init=False)  # As of the last look
    _looks: dict[GangKey, _Look] = field(default_factory=dict, init=False)
    _written: dict[PodUid, _Written] = field(default_factory=dict, init=False)
    _queue: asyncio.Queue[PodUid] = field(default_factory=lambda: asyncio.Queue(MOST_QUEUED), init=False)
    _queued: set[PodUid] = field(default_factory=set, init=False)  # Their patch waits, or is under way

    def look(self) -> Steps[None]:
        """Once a second, in steps: queue what differs. Cost: O(gangs), and O(members) until the queue is full."""
        if not self.context.acting():
            return
        now_s = self.context.clock.monotonic_s()
        gangs, self._removing = self.context.cache.snapshot().gangs, self.removing()
        for gone in self._looks.keys() - gangs.keys():
            del self._looks[gone]
        for uid in [uid for uid in self._written if self.context.cache.pod(uid) is None]:
            del self._written[uid]
        moving = list[_Look]()
        for key, gang in gangs.items():
            if gang.source is not GangSource.NATIVE and key not in self._removing:
                look = self._look_at(key, gang, now_s)
                if not look.at_rest:
                    moving.append(look)
            yield
        for look in moving:
            if self._queue.full():
                return
            self._queue_members(look, now_s)
            yield

    async def run(self) -> None:
        """Write what is queued until cancelled."""
        while True:
            uid = await self._queue.get()
            try:
                sent = await self._write(uid)
            finally:
                self._queued.discard(uid)
            if sent:
                await asyncio.sleep(1.0 / PER_S)

    def _look_at(self, key: GangKey, gang: Gang, now_s: float) -> _Look:
        before = self._looks.get(key)
        since_s = before.since_s if before is not None and before.problem is gang.problem else now_s
        said = self._said(gang, now_s - since_s)
        if before is not None and before.gang is gang and before.said == said:
            return before
        self._looks[key] = look = _Look(gang, said, gang.problem, since_s)
        return look

    def _queue_members(self, look: _Look, now_s: float) -> None:
        look.at_rest = True
        for member in look.gang.members:
            pod = self.context.cache.pod(member.uid)
            wanted = self._wanted(pod, look.said) if pod is not None else None
            if pod is None or wanted is None or pod.told == wanted.key:
                continue
            look.at_rest = False
            if self._queue.full():
                return
            if pod.uid not in self._queued and self._is_due(pod, wanted, now_s):
                self._queue.put_nowait(pod.uid)
                self._queued.add(pod.uid)

    def _said(self, gang: Gang, lasted_s: float) -> WaitReason | None:
        if gang.problem is None:
            return self.why(gang.key)
        return (camel_case(gang.problem), gang.problem_detail) if lasted_s >= PATIENCE_S else None

    def _wanted(self, pod: Pod, said: WaitReason | None) -> AdmittedCondition | None:
        if not self.context.cache.is_own(pod):
            return None
        written = self._written.get(pod.uid)  # The watch may not show it yet, and does not make the gang a new one
        return admitted_condition(pod, *(said or (None, "")), said=pod.told or (written.key if written else ""))

    def _is_due(self, pod: Pod, wanted: AdmittedCondition, now_s: float) -> bool:
        written = self._written.get(pod.uid)
        if written is None:
            return True
        if written.key == wanted.key and now_s < written.echo_until_s:
            return False
        bound_now = wanted.status == "True" and written.key not in ("", wanted.key)
        return bound_now or now_s >= written.not_before_s

    async def _write(self, uid: PodUid) -> bool:
        """Patch one pod, from what is known now; whether anything was sent."""
        pod = self.context.cache.pod(uid)
        look = self._looks.get(pod.group.key) if pod is not None and pod.group is not None else None
        if pod is None or look is None or look.gang.key in self._removing or not self.context.acting():
            return False
        wanted = self._wanted(pod, look.said)
        if wanted is None or pod.told == wanted.key:
            return False
        at = datetime.fromtimestamp(self.context.clock.now_s(), UTC)
        changed = pod.told.partition("/")[0] != wanted.status
        patch = condition_patch(pod.uid, wanted, at=f"{at:%Y-%m-%dT%H:%M:%SZ}" if changed else "")
        written = self._written.setdefault(uid, _Written())
        now_s = self.context.clock.monotonic_s()
        try:
            await self.context.api.patch_pod_status(pod.namespace, pod.name, pod.uid, patch)
        except (ApiError, ApiUnavailableError) as error:
            written.key = ""
            _log.info("condition of pod %s cannot be written: %s", pod.key, error)
        else:
            written.key, written.echo_until_s = wanted.key, now_s + _BELIEVE_S
        written.times += 1
        written.not_before_s = now_s + _RETRY.whole_s(written.times) * (1.0 + _JITTER * self.jitter())
        return True
