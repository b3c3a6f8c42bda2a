"""Keep what netgang says in statuses true: PodGroups' status, and the condition `netgang.io/Admitted` of their pods.

Level-triggered: each look compares what they should say by pods, plan and reasons (`scoring.queue`) with what the API
server shows; one a second gathers a gang's changes into one write. Rules: own gangs and pods only (docs/safety.md S1),
and PodGroups on which we wrote before; a patch names the uid, that of a PodGroup the version too, so another client's
change in between wins; writes are paced over the whole cluster; what fails is tried again later each time, and so is
what another client keeps overwriting or removing, and a pod that changes its reason again and again.
"""

import asyncio
import logging
import random
from abc import abstractmethod
from collections.abc import Container
from datetime import UTC, datetime
from typing import ClassVar, Final, Generic, TypeVar

import msgspec

from extender.controllers.context import ControllerContext, ControlLoop
from extender.controllers.events.waiting import WaitReasons
from extender.controllers.recorder import WriteQueue
from extender.controllers.removal.losses import Repins
from extender.convert.patches import STATUS_FIELDS, condition_patch, status_patch
from extender.convert.podgroups import pod_group_from_json
from extender.errors import ApiError, ApiUnavailableError, Backoff, ConflictError, NotFoundError
from extender.runtime.slices import Steps
from extender.settings.settings import StatusMode
from scoring import GangKey, PodUid
from scoring.model import Gang, GangSource, GroupStatus, Pod, PodGroup, Reason
from scoring.queue.states import POD_GROUPED, AdmittedCondition, admitted_condition, camel_case, wanted_status

PATIENCE_S: Final = 3.0  # `auto`: how long a new PodGroup waits for another controller to write first
REASON_S: Final = 5.0  # A gang's labels and its PodGroup come one after the other
_PER_S: Final = 20.0
_BELIEVE_S: Final = 5.0  # The watch shows a write within this time, or it is taken for lost
_GROUP_RETRY: Final = Backoff(1.0, 600.0)
_POD_RETRY: Final = Backoff(15.0, 600.0)

_Key = TypeVar("_Key", GangKey, PodUid)
_log = logging.getLogger(__name__)


class StatusWriter(ControlLoop, Generic[_Key]):
    """Queues what differs, and writes it from what is known when its turn comes."""

    most_queued: ClassVar[int]

    def __init__(self, context: ControllerContext) -> None:
        super().__init__(context)
        self._writes: WriteQueue[_Key] = WriteQueue(self.most_queued, _PER_S)

    async def run(self) -> None:
        """Look and write until cancelled."""
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(super().run())
            tasks.create_task(self._writes.work_off(self._write))

    @abstractmethod
    async def _write(self, key: _Key) -> bool:
        """Patch this one if it still differs; whether anything was sent."""


class _Group(msgspec.Struct):
    since_s: float
    at_rest: tuple[Gang | None, PodGroup, bool] | None = None  # What was compared last, and was equal
    sent: GroupStatus | None = None  # `None`: nothing yet, or the last write failed
    echo: str = ""  # Version that our last write made; until the watch shows it nothing is compared
    echo_until_s: float = 0.0
    times: int = 0  # How often the same was sent, or failed, in a row
    again_s: float = 0.0  # When it may be sent once more


class GroupStatuses(StatusWriter[GangKey]):
    """The statuses of all PodGroups that are ours. Bounded by the PodGroups that exist.

    `auto`: nothing is written while any PodGroup's `metadata.managedFields` shows another writer of statuses, which a
    new PodGroup is given a moment for.
    """

    most_queued = 10_000

    def __init__(self, context: ControllerContext, mode: StatusMode) -> None:
        super().__init__(context)
        self._mode = mode
        self._groups: dict[GangKey, _Group] = {}
        self._fields: frozenset[str] = STATUS_FIELDS  # That the definition keeps
        self._silenced_by: str | None = None

    def reconcile(self) -> Steps[None]:
        """Queue what differs. Cost: O(PodGroups), and O(members) for what changed."""
        plan, now_s = self.context.plan(), self.context.clock.monotonic_s()
        if plan is None or self._silent():
            return
        by_key, gangs = self.context.cache.pod_groups.by_key, self.context.cache.snapshot().gangs
        for gone in self._groups.keys() - by_key.keys():
            del self._groups[gone]
        for key in tuple(by_key):
            gang, seen = gangs.get(key), by_key.get(key)
            if seen is None or not _ours(gang, seen):
                self._groups.pop(key, None)
            elif key not in self._writes:
                group = self._groups.setdefault(key, _Group(now_s))
                if self._differs(group, gang, seen, key in plan.admitted, now_s):
                    self._writes.add(key)  # if it is full, the next look comes back to it
            yield

    def _silent(self) -> bool:
        other = self.context.cache.pod_groups.other_writer if self._mode is StatusMode.AUTO else None
        if other is not None and other != self._silenced_by:
            _log.info("PodGroups' statuses are written by %s; pod_group_status is auto: we write none", other)
        self._silenced_by = other
        return other is not None

    def _differs(self, group: _Group, gang: Gang | None, seen: PodGroup, admitted: bool, now_s: float) -> bool:
        early = now_s < group.again_s
        if (early and group.sent is None) or (seen.resource_version != group.echo and now_s < group.echo_until_s):
            return False
        group.echo_until_s = 0.0
        if self._mode is StatusMode.AUTO and not seen.ours and now_s - group.since_s < PATIENCE_S:
            return False
        rest = group.at_rest
        if rest is not None and rest[0] is gang and rest[1] is seen and rest[2] == admitted:
            return False
        wanted = wanted_status(gang, seen.status, admitted=admitted)
        if status_patch(seen, wanted, only=self._fields) is None:
            group.at_rest = (gang, seen, admitted)
            return False
        return not early or wanted != group.sent  # what another client has replaced is no tug of war

    async def _write(self, key: GangKey) -> bool:
        group, seen, plan = self._groups.get(key), self.context.cache.pod_groups.by_key.get(key), self.context.plan()
        gang = self.context.cache.snapshot().gangs.get(key)
        if group is None or seen is None or plan is None or not _ours(gang, seen):
            return False
        if not self.context.acting() or self._silent():
            return False
        wanted = wanted_status(gang, seen.status, admitted=key in plan.admitted)
        patch = status_patch(seen, wanted, only=self._fields)
        if patch is None:
            return False
        namespace, _, name = key.partition("/")
        try:
            raw = await self.context.api.patch_group_status(namespace, name, patch)
            answer: PodGroup | None = pod_group_from_json(raw)
        except NotFoundError:
            return True  # the watch will say so
        except (ApiError, ApiUnavailableError, ValueError) as error:
            if not isinstance(error, ConflictError):
                _log.info("the status of PodGroup %s cannot be written: %s", key, error)
            answer = None
        now_s = self.context.clock.monotonic_s()
        group.times = group.times + 1 if group.sent == (wanted if answer is not None else None) else 1
        group.again_s = now_s + _GROUP_RETRY.whole_s(group.times)
        if answer is None:
            group.sent = None
            return True
        group.sent, group.echo, group.echo_until_s = wanted, answer.resource_version, now_s + _BELIEVE_S
        if lost := {name for name in self._fields if getattr(wanted, name) != getattr(answer.status, name)}:
            self._fields = self._fields - lost  # what is not stored as sent is not sent again
            _log.info("PodGroups have no status field for: %s", ", ".join(sorted(lost)))
        return True


def _ours(gang: Gang | None, seen: PodGroup) -> bool:
    """Whether the status is ours to write: a gang of ours is sized by it, or was, and has no pods now."""
    return seen.ours if gang is None else gang.own and gang.source in POD_GROUPED


class _Told(msgspec.Struct):
    gang: Gang
    why: tuple[str, str] | None  # Why it waits: the cause in CamelCase, and a sentence
    problem: Reason | None
    since_s: float  # When that problem was seen first
    at_rest: bool = False


class _LastCondition(msgspec.Struct):
    key: str = ""  # `AdmittedCondition.key` that was sent last
    echo_until_s: float = 0.0
    times: int = 0
    not_before_s: float = 0.0


class PodConditions(StatusWriter[PodUid]):
    """The conditions of all members that are ours. Bounded by the gangs and waiting pods that exist.

    A reason is written once it has stood as long as its Event waits, and that a pod was admitted only after a reason: a
    gang that starts at once costs no patch. Pods that are about to be removed are left alone: a removal names the
    version of the pod that was decided on.
    """

    most_queued = 200  # What is written in ten seconds: a gang that begins to wait is behind no more than that

    def __init__(self, context: ControllerContext, reasons: WaitReasons, repins: Repins, rng: random.Random) -> None:
        super().__init__(context)
        self._reasons, self._repins, self._rng = reasons, repins, rng
        self._removing: Container[GangKey] = ()  # Gangs of which pods may be removed, as of the last look
        self._told: dict[GangKey, _Told] = {}
        self._written: dict[PodUid, _LastCondition] = {}

    def reconcile(self) -> Steps[None]:
        """Queue what differs. Cost: O(gangs), and O(members) until the queue is full."""
        now_s = self.context.clock.monotonic_s()
        gangs, self._removing = self.context.cache.snapshot().gangs, self._repins.losses
        for gone in self._told.keys() - gangs.keys():
            del self._told[gone]
        for uid in [uid for uid in self._written if self.context.cache.pod(uid) is None]:
            del self._written[uid]
        moving = list[_Told]()
        for key, gang in gangs.items():
            if gang.source is not GangSource.NATIVE and key not in self._removing:
                told = self._told.get(key)
                since_s = told.since_s if told is not None and told.problem is gang.problem else now_s
                why = self._reasons.why(key) if gang.problem is None else None
                if gang.problem is not None and now_s - since_s >= REASON_S:
                    why = camel_case(gang.problem), gang.problem_detail
                if told is None or told.gang is not gang or told.why != why:
                    told = self._told[key] = _Told(gang, why, gang.problem, since_s)
                if not told.at_rest:
                    moving.append(told)
            yield
        for told in moving:
            if self._writes.full():
                return
            self._queue_members(told, now_s)
            yield

    def _queue_members(self, told: _Told, now_s: float) -> None:
        told.at_rest = True
        for member in told.gang.members:
            pod = self.context.cache.pod(member.uid)
            wanted = self._wanted(pod, told) if pod is not None else None
            if pod is None or wanted is None or pod.told == wanted.key:
                continue
            told.at_rest = False
            if self._writes.full():
                return
            written = self._written.get(pod.uid)
            if written is not None and written.key == wanted.key and now_s < written.echo_until_s:
                continue
            bound_now = written is not None and wanted.status == "True" and written.key not in ("", wanted.key)
            if written is None or bound_now or now_s >= written.not_before_s:
                self._writes.add(pod.uid)

    def _wanted(self, pod: Pod, told: _Told) -> AdmittedCondition | None:
        if not self.context.cache.is_own(pod):
            return None
        written = self._written.get(pod.uid)  # The watch may not show it yet, and does not make the gang a new one
        return admitted_condition(pod, *(told.why or (None, "")), last=pod.told or (written.key if written else ""))

    async def _write(self, key: PodUid) -> bool:
        pod = self.context.cache.pod(key)
        told = self._told.get(pod.group.key) if pod is not None and pod.group is not None else None
        if pod is None or told is None or told.gang.key in self._removing or not self.context.acting():
            return False
        wanted = self._wanted(pod, told)
        if wanted is None or pod.told == wanted.key:
            return False
        at = datetime.fromtimestamp(self.context.clock.now_s(), UTC)
        changed = pod.told.partition("/")[0] != wanted.status
        patch = condition_patch(pod.uid, wanted, at=f"{at:%Y-%m-%dT%H:%M:%SZ}" if changed else "")
        written = self._written.setdefault(key, _LastCondition())
        now_s = self.context.clock.monotonic_s()
        try:
            await self.context.api.patch_pod_status(pod.namespace, pod.name, pod.uid, patch)
        except (ApiError, ApiUnavailableError) as error:
            written.key = ""
            _log.info("condition of pod %s cannot be written: %s", pod.key, error)
        else:
            written.key, written.echo_until_s = wanted.key, now_s + _BELIEVE_S
        written.times += 1
        written.not_before_s = now_s + _POD_RETRY.whole_s(written.times) * (1.0 + 0.2 * self._rng.random())
        return True
