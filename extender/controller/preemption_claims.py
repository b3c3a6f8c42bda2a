"""Gangs that leave for a waiting one: from the claim to its room until it has its nodes, or its time is over.

Rules:

- The room is claimed, and the claim noted on a pod of the gang, before the first one leaves.
- The claim ends when the gang has its nodes, or is gone, or nothing has moved for `timeout_s`; then nobody leaves for
  it for as long.
- If one refuses in the end although it was asked, it is asked again until the claim ends; if nobody has left by then,
  the claim ends at once.
"""

import asyncio
import logging
from dataclasses import dataclass, field
from functools import partial

from extender.cache import ClusterCache
from extender.controller.preemption_notes import NOTE, note_for, note_of
from extender.controller.preemption_words import PreemptionWords
from extender.controller.quiet import Quiet
from extender.controller.restarts import Outcome, Restarts
from extender.errors import ApiError, ApiUnavailableError
from extender.ports import Clock, ClusterApi
from extender.telemetry import Telemetry
from scoring.ids import GangKey, PodUid
from scoring.model import Gang, Pod
from scoring.preempt import Preemption
from scoring.quorum import quorum_of
from scoring.snapshot import Claim

_AGAIN_S = 5.0
_FINAL_AGAIN_S = 60.0

_log = logging.getLogger(__name__)


@dataclass(slots=True)
class _Open:
    """Gangs that leave for one that waits."""

    claim: Claim
    pods: frozenset[PodUid]
    """Members of those that leave, on nodes when it began."""
    carrier: Pod
    """The pod that carries the note."""
    left: int
    """How many of `pods` were there at the last look."""
    until_s: float
    """When it lapses; later with each pod that goes."""
    noted: bool = False
    """The API server has the note: they may leave."""
    again_s: dict[GangKey, float] = field(default_factory=dict)
    """Gang that would not leave → when it is asked again."""


class PreemptionClaims:
    """Claims that are open. Bounded by the gangs that exist."""

    def __init__(
        self,
        cache: ClusterCache,
        api: ClusterApi,
        clock: Clock,
        telemetry: Telemetry,
        words: PreemptionWords,
        restarts: Restarts,
        *,
        quiet: Quiet,
        timeout_s: float,
    ) -> None:
        self._cache = cache
        self._api = api
        self._clock = clock
        self._telemetry = telemetry
        self._words = words
        self._restarts = restarts
        self._quiet = quiet
        self._timeout_s = timeout_s
        self._open: dict[GangKey, _Open] = {}
        self._in_vain: dict[GangKey, float] = {}
        """Gang for which others left, or were asked to, in vain → until when nobody does."""
        self._wipes: set[asyncio.Task[None]] = set()

    @property
    def in_vain(self) -> frozenset[GangKey]:
        """Gangs for which nobody is to leave for a while."""
        return frozenset(self._in_vain)

    async def begin(self, found: Preemption) -> None:
        """Claim the room, note it, and let them leave; nothing happens if the note cannot be written."""
        gang = self._cache.gang(found.gang)
        carrier = next((pod for pod in gang.pending if pod.uid in found.assignment), None) if gang is not None else None
        snapshot = self._cache.snapshot()
        busy = {*snapshot.claims, *snapshot.commitments}
        if carrier is None or not self._quiet.over or not busy.isdisjoint([found.gang, *found.victims]):
            return
        claim = Claim(found.gang, found.assignment, found.victims)
        until_s = self._clock.monotonic_s() + self._timeout_s
        self._open[found.gang] = _Open(claim, found.pods, carrier, len(found.pods), until_s)
        self._cache.set_claim(claim)
        note = note_for(carrier, claim, pods=len(found.pods), at_s=self._clock.now_s())
        try:
            await self._api.annotate_pod(carrier.namespace, carrier.name, carrier.uid, note)
        except (ApiError, ApiUnavailableError) as error:
            self._close(found.gang)
            self._words.not_noted(found, error)
            return
        opened = self._open.get(found.gang)
        if opened is None:
            return  # the gang is gone, or somebody else decides now
        opened.noted = True
        self._words.begun(found, self._timeout_s)
        self._telemetry.preempted("begun")
        for victim in found.victims:
            self._let_leave(victim, found.gang)

    def follow(self) -> None:
        """Once a second: end claims that are over, and see to those that have not left yet."""
        now_s = self._clock.monotonic_s()
        for key, opened in sorted(self._open.items()):
            self._follow(key, opened, now_s)
        self._in_vain = {key: until_s for key, until_s in self._in_vain.items() if until_s > now_s}

    def recover(self) -> None:
        """After a restart: keep the room again for whom others had begun to leave."""
        now_s, until_s = self._clock.now_s(), self._clock.monotonic_s() + self._timeout_s
        for key, gang in sorted(self._cache.snapshot().gangs.items()):
            found = note_of(gang)
            if found is None or not gang.own or gang.problem is not None or _has_nodes(gang):
                continue
            carrier, note = found
            claim = note.claim(key)
            leaving = [one for one in map(self._cache.gang, claim.givers) if one is not None]
            if now_s - note.at_s > self._timeout_s or any(one.priority >= gang.priority for one in leaving):
                continue
            there = [pod for one in leaving for pod in one.members if _is_left(pod, note.at_s)]
            if len(there) < note.pods or any(pod.deleting for pod in there):
                pods = frozenset(pod.uid for pod in there)
                self._open[key] = _Open(claim, pods, carrier, len(pods), until_s, noted=True)
                self._cache.set_claim(claim)

    def forget(self) -> None:
        """Know nothing, as after a restart, and keep room for nobody."""
        for key in list(self._open):
            self._close(key)
        self._in_vain.clear()

    def _let_leave(self, victim: GangKey, gang: GangKey) -> None:
        why = f"it makes room for gang {gang}, which has a higher priority"
        self._restarts.leave(victim, why=why, ended=partial(self._left, gang))

    def _left(self, key: GangKey, victim: GangKey, outcome: Outcome) -> None:
        """A gang has left, or would not."""
        opened = self._open.get(key)
        if outcome.done or opened is None:
            return
        now_s = self._clock.monotonic_s()
        there = self._there(opened)
        begun = len(there) < len(opened.pods) or any(pod.deleting for pod in there)
        if begun or not self._restarts.under_way.isdisjoint(opened.claim.givers):
            opened.again_s[victim] = now_s + (_FINAL_AGAIN_S if outcome.final else _AGAIN_S)
            return
        self._words.refused(key, victim, outcome.why_not)
        self._end(key, "refused")
        self._in_vain[key] = now_s + _FINAL_AGAIN_S

    def _follow(self, key: GangKey, opened: _Open, now_s: float) -> None:
        there = self._there(opened)
        if len(there) < opened.left:
            opened.left, opened.until_s = len(there), now_s + self._timeout_s
        gang = self._cache.gang(key)
        if gang is None:
            self._end(key, "gone")
        elif _has_nodes(gang):
            self._words.started(key, opened.claim)
            self._end(key, "started")
        elif now_s >= opened.until_s:
            self._words.lapsed(gang, opened.claim, [pod for pod in there if not pod.deleting])
            self._end(key, "lapsed")
            self._in_vain[key] = now_s + self._timeout_s
        elif opened.noted and self._quiet.over:
            stay = {pod.group.key for pod in there if not pod.deleting and pod.group is not None}
            for victim in sorted(stay - self._restarts.under_way):
                if now_s >= opened.again_s.get(victim, 0.0):
                    opened.again_s[victim] = now_s + _AGAIN_S
                    self._let_leave(victim, key)

    def _there(self, opened: _Open) -> list[Pod]:
        """Members of those that leave that still have a node."""
        pods = (self._cache.pod(uid) for uid in opened.pods)
        return [pod for pod in pods if pod is not None and pod.node is not None and not pod.terminal]

    def _end(self, key: GangKey, outcome: str) -> None:
        carrier = self._cache.pod(self._open[key].carrier.uid)
        self._close(key)
        self._telemetry.preempted(outcome)
        if carrier is not None and carrier.node is None:
            task = asyncio.create_task(self._wipe(carrier), name=f"wipe the note on {carrier.key}")
            self._wipes.add(task)
            task.add_done_callback(self._wipes.discard)

    def _close(self, key: GangKey) -> None:
        if self._open.pop(key, None) is not None:
            self._cache.clear_claim(key)

    async def _wipe(self, pod: Pod) -> None:
        """Take the note back; one that stays counts for nothing as soon as it is old."""
        try:
            await self._api.annotate_pod(pod.namespace, pod.name, pod.uid, {NOTE: ""})
        except (ApiError, ApiUnavailableError) as error:
            _log.info("note on pod %s not taken back: %s", pod.key, error)


def _has_nodes(gang: Gang) -> bool:
    """Whether the minimum set has nodes."""
    quorum = quorum_of(gang)
    return quorum.reached_by(quorum.placed)


def _is_left(pod: Pod, at_s: float) -> bool:
    """Whether it is a pod of that time, and still has a node."""
    return pod.node is not None and not pod.terminal and pod.created_s <= at_s
