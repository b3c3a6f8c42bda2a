"""Start pods: remove the gate of those that wait at it, wake those that kube-scheduler has parked. One patch each.

Why one path for both: the same promise (the plan has a place now), order, budget and retries. Rules: what to send is
derived when its turn comes; gangs take turns, so a gang of a thousand delays others by a turn; the patch carries the
pod's uid; only own pods are patched (docs/safety.md S1); what fails is tried again while the pod still needs it.

A pod that needs others near it may be refused before they have a place, and kube-scheduler's filter for that
(InterPodAffinity, 1.36.3) looks at it again when its labels change, at no annotation: its nudge changes a label, too.
"""

import asyncio
import math
import random
from collections import OrderedDict, deque
from collections.abc import Iterable
from dataclasses import KW_ONLY, dataclass, field
from typing import Protocol

from extender.controllers.context import ControllerContext
from extender.convert import NUDGE_ANNOTATION
from extender.errors import ApiError, ApiUnavailableError, Backoff, ConflictError, NotFoundError
from scoring import PodUid
from scoring.model import Pod

_AT_ONCE = 16  # Patches under way at the same time
_TURN = 32  # Patches for one gang before the next has its turn
_PLAIN = ""  # Plain pods take turns as one gang: thousands may be woken at once, and a gang must not wait for all
_BURST_S = 0.05  # After a pause, as many patches as the limit allows in this time go at once
_TICK_S = 1e-4  # Closer to its moment a patch is not waited for: clocks are not that exact
_RETRY = Backoff(0.2, 30.0)
_BELIEVE_S = 5.0  # A pod whose gate was removed counts as ungated for this long, although the watch may not show it yet


class GateKeeper(Protocol):
    """Whom the queue asks about gates, and reports to."""

    def patch_for(self, pod: Pod) -> bytes | None:
        """The patch that removes the pod's gate; `None`: not now."""

    def sent(self, pod: Pod) -> None:
        """It was."""

    def refused(self, pod: Pod, why: str) -> None:
        """The API server will never accept it."""


@dataclass(eq=False, repr=False)
class UngateQueue:
    """A queue of pods to admit or wake, and the tasks that do it. Bounded by the pods that exist."""

    context: ControllerContext
    gates: GateKeeper
    _: KW_ONLY
    per_s: float = 1000.0
    rng: random.Random = field(default_factory=lambda: random.Random(0))  # noqa: S311 - jitter, nothing secret
    _turns: OrderedDict[str, deque[PodUid]] = field(default_factory=OrderedDict, init=False)  # gang → pods that wait
    _left: int = field(default=_TURN, init=False)  # Patches that the first gang may still send in its turn
    _queued: set[PodUid] = field(default_factory=set, init=False)  # Pods whose patch waits or is under way
    _failures: dict[PodUid, int] = field(default_factory=dict, init=False)  # pod → in a row, until it succeeds
    _retries: dict[PodUid, asyncio.TimerHandle] = field(default_factory=dict, init=False)  # pod → its next try
    _ungated: OrderedDict[PodUid, float] = field(default_factory=OrderedDict, init=False)  # pod → when, oldest first
    _ready: asyncio.Event = field(default_factory=asyncio.Event, init=False)
    _next_s: float = field(default=-math.inf, init=False)

    def add(self, uids: Iterable[PodUid]) -> None:
        """Nudge or ungate these pods soon, gang by gang in this order; none while this replica does not act."""
        if not self.context.acting():
            return
        for uid in uids:
            if (retry := self._retries.pop(uid, None)) is not None:
                retry.cancel()
            if (pod := self.context.cache.pod(uid)) is None:
                self._failures.pop(uid, None)
            elif uid not in self._queued:
                self._queued.add(uid)
                self._turns.setdefault(pod.group.key if pod.group is not None else _PLAIN, deque()).append(uid)
        if self._turns:
            self._ready.set()

    def reset(self) -> None:
        """Drop all that still waits; patches under way come to their end."""
        for retry in self._retries.values():
            retry.cancel()
        self._retries.clear()
        self._failures.clear()
        self._queued.difference_update(*self._turns.values())
        self._turns.clear()
        self._left = _TURN

    async def run(self) -> None:
        """Work the queue off until cancelled."""
        async with asyncio.TaskGroup() as tasks:
            for number in range(_AT_ONCE):
                tasks.create_task(self._work(), name=f"wake-{number}")

    async def _work(self) -> None:
        while True:
            await self._ready.wait()
            if not self._turns:
                self._ready.clear()
                continue
            now_s = self.context.clock.monotonic_s()
            early_s = self._next_s - now_s
            if early_s > _TICK_S:
                await asyncio.sleep(early_s)
                continue  # another task may have used the moment
            key, pods = next(iter(self._turns.items()))
            uid = pods.popleft()
            self._left -= 1
            if not pods or self._left <= 0:
                self._left = _TURN
                self._turns.move_to_end(key)
            if not pods:
                del self._turns[key]
            try:
                pod = self.context.cache.pod(uid)
                patch = self._patch(pod) if pod is not None else None
                if pod is None or patch is None:
                    self._failures.pop(uid, None)
                else:
                    self._next_s = max(self._next_s, now_s - _BURST_S) + 1.0 / self.per_s
                    await self._send(pod, patch)
            finally:
                self._queued.discard(uid)

    def _patch(self, pod: Pod) -> bytes | str | None:
        """The patch of a gated pod, the annotation's value for a parked one, `None` for one that needs neither."""
        if pod.node is not None or not pod.lives or not self.context.cache.is_own(pod):
            return None
        now_s = self.context.clock.monotonic_s()
        while self._ungated and now_s - next(iter(self._ungated.values())) >= _BELIEVE_S:
            self._ungated.popitem(last=False)
        if pod.gated and pod.uid not in self._ungated:
            return self.gates.patch_for(pod)
        # Any new value is an update to kube-scheduler.
        return f"{self.context.clock.now_s():.3f}"

    async def _send(self, pod: Pod, patch: bytes | str) -> None:
        action = "nudge" if isinstance(patch, str) else "ungate"
        try:
            if isinstance(patch, str):
                # Few values, as some networks keep an identity for each set of labels; another one after a minute
                labels = {NUDGE_ANNOTATION: f"{int(float(patch)) % 11}"} if pod.needs_others else None
                note = {NUDGE_ANNOTATION: patch}
                await self.context.api.annotate_pod(pod.namespace, pod.name, pod.uid, note, labels=labels)
            else:
                await self.context.api.admit_pod(pod.namespace, pod.name, pod.uid, patch)
        except (ConflictError, NotFoundError):
            self.context.telemetry.nudged(action, "gone")  # replaced or deleted: the watch will show it
            self._failures.pop(pod.uid, None)
        except (ApiError, ApiUnavailableError) as error:
            self.context.telemetry.nudged(action, "error")
            if isinstance(error, ApiError) and error.status == 422 and action == "ungate":
                self.gates.refused(pod, str(error))
                return
            failures = self._failures[pod.uid] = self._failures.get(pod.uid, 0) + 1
            pause_s = _RETRY.delay_s(failures, rng=self.rng)
            self._retries[pod.uid] = asyncio.get_running_loop().call_later(pause_s, self.add, (pod.uid,))
        else:
            self.context.telemetry.nudged(action, "done")
            self._failures.pop(pod.uid, None)
            if action == "ungate":
                self._ungated[pod.uid] = self.context.clock.monotonic_s()
                self._ungated.move_to_end(pod.uid)
                self.gates.sent(pod)
