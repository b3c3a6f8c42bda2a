"""Keep the status of our gangs' PodGroups as it should be: one patch per change, none when nothing changed.

Why level-triggered: what a status should say follows from pods and plan (`scoring.queue.podgroup_status`), so each
look compares that with what the API server shows, and nothing has to be remembered over a restart. Looking once a
second gathers a gang's changes into one write; our own changes nothing that is compared, so it starts no further.

Rules:
- Own gangs only (docs/safety.md S1), and PodGroups on which we wrote before.
- `auto`: nothing is written while any PodGroup's `metadata.managedFields` shows another writer of statuses, and a new
  PodGroup is given a moment in which such a controller would show itself. A Deployment's or Lease's name would be a
  guess, and another right to read; a real writer signs with its name.
- A patch names uid and version; another client's change in between wins, and the next look decides again.
- Writes are paced; what fails is tried again later each time; so is what another client keeps overwriting (`on`).
- What the API server drops of our write (the definition lacks the field) is not wanted any more.
"""

import asyncio
import logging
from contextlib import suppress
from dataclasses import dataclass, field

import msgspec

from extender.controllers.context import ControllerContext
from extender.convert.podgroups import STATUS_FIELDS, SeenPodGroup, seen_pod_group_from_json, status_patch
from extender.errors import ApiError, ApiUnavailableError, ConflictError, NotFoundError
from extender.runtime.clock import Backoff
from extender.runtime.slices import Steps
from extender.settings.settings import StatusMode
from scoring.ids import GangKey
from scoring.model import Gang
from scoring.queue.podgroup_status import POD_GROUPED, GroupStatus, wanted_status

PATIENCE_S = 3.0  # `auto`: how long a new PodGroup waits for another controller to write first
MOST_QUEUED = 10_000
_PER_S = 20.0
_BELIEVE_S = 5.0  # The watch shows a write within this time, or it is taken for lost
_RETRY = Backoff(1.0, 600.0)

_log = logging.getLogger(__name__)


class _Group(msgspec.Struct):
    since_s: float
    at_rest: tuple[Gang | None, SeenPodGroup, bool] | None = None  # What was compared last, and found equal
    sent: GroupStatus | None = None
    echo: str = ""  # Version that our last write made; until the watch shows it nothing is compared
    echo_until_s: float = 0.0
    failures: int = 0  # In a row
    overwritten: int = 0  # How often another client replaced what was `sent`
    contested: bool = False  # It was replaced, and the wait for that is running or over
    not_before_s: float = 0.0


@dataclass(eq=False, repr=False)
class GroupStatuses:
    """The statuses of all PodGroups that are ours. Bounded by the PodGroups that exist."""

    context: ControllerContext
    mode: StatusMode
    _groups: dict[GangKey, _Group] = field(default_factory=dict, init=False)
    _queue: asyncio.Queue[GangKey] = field(default_factory=lambda: asyncio.Queue(MOST_QUEUED), init=False)
    _queued: set[GangKey] = field(default_factory=set, init=False)  # Their patch waits, or is under way
    _kept: frozenset[str] = field(default=STATUS_FIELDS, init=False)  # Fields that the definition keeps
    _silenced_by: str | None = field(default=None, init=False)

    def look(self) -> Steps[None]:
        """Once a second, in steps: queue what differs. Cost: O(PodGroups), and O(members) for what changed."""
        plan = self.context.plan()
        if self.mode is StatusMode.OFF or plan is None or not self.context.acting() or self._silent():
            return
        now_s = self.context.clock.monotonic_s()
        there = tuple(self.context.groups.by_key)
        for gone in self._groups.keys() - set(there):
            del self._groups[gone]
        for key in there:
            self._look_at(key, key in plan.admitted, now_s)
            yield

    async def run(self) -> None:
        """Write what is queued until cancelled."""
        while True:
            key = await self._queue.get()
            try:
                written = await self._write(key)
            finally:
                self._queued.discard(key)
            if written:
                await asyncio.sleep(1.0 / _PER_S)

    def _look_at(self, key: GangKey, admitted: bool, now_s: float) -> None:
        gang, seen = self._gang(key), self.context.groups.get(key)
        if seen is None or not _ours(gang, seen):
            self._groups.pop(key, None)
            return
        group = self._groups.setdefault(key, _Group(now_s))
        if key not in self._queued and self._differs(group, gang, seen, admitted, now_s):
            with suppress(asyncio.QueueFull):  # the next look comes back to it
                self._queue.put_nowait(key)
                self._queued.add(key)

    def _silent(self) -> bool:
        other = self.context.groups.other_writer if self.mode is StatusMode.AUTO else None
        if other != self._silenced_by:
            self._silenced_by = other
            if other is not None:
                _log.info("PodGroups' statuses are written by %s; pod_group_status is auto: we write none", other)
        return other is not None

    def _gang(self, key: GangKey) -> Gang | None:
        return self.context.cache.snapshot().gangs.get(key)

    def _differs(self, group: _Group, gang: Gang | None, seen: SeenPodGroup, admitted: bool, now_s: float) -> bool:
        if now_s < group.not_before_s or (seen.resource_version != group.echo and now_s < group.echo_until_s):
            return False
        group.echo_until_s = 0.0
        if self.mode is StatusMode.AUTO and not seen.ours and now_s - group.since_s < PATIENCE_S:
            return False
        rest = group.at_rest
        if rest is not None and rest[0] is gang and rest[1] is seen and rest[2] == admitted:
            return False
        wanted = wanted_status(gang, seen.status, admitted=admitted)
        if status_patch(seen, wanted, only=self._kept) is None:
            group.at_rest = (gang, seen, admitted)
            return False
        if wanted != group.sent:
            group.overwritten, group.contested = 0, False
        elif not group.contested:  # we wrote just that, and another client wrote again: no tug of war
            group.overwritten, group.contested = group.overwritten + 1, True
            group.not_before_s = now_s + _RETRY.whole_s(group.overwritten)
            return False
        return True

    async def _write(self, key: GangKey) -> bool:
        """Patch one PodGroup, from what is known now; whether anything was sent."""
        group, seen, plan = self._groups.get(key), self.context.groups.get(key), self.context.plan()
        gang = self._gang(key)
        if group is None or seen is None or plan is None or not _ours(gang, seen):
            return False
        if not self.context.acting() or self._silent():
            return False
        wanted = wanted_status(gang, seen.status, admitted=key in plan.admitted)
        patch = status_patch(seen, wanted, only=self._kept)
        if patch is None:
            return False
        namespace, _, name = key.partition("/")
        try:
            answer = seen_pod_group_from_json(await self.context.api.patch_group_status(namespace, name, patch))
        except NotFoundError:
            return True  # the watch will say so
        except (ApiError, ApiUnavailableError, ValueError) as error:
            if not isinstance(error, ConflictError):
                _log.info("the status of PodGroup %s cannot be written: %s", key, error)
            group.failures += 1
            group.not_before_s = self.context.clock.monotonic_s() + _RETRY.whole_s(group.failures)
            return True
        group.sent, group.failures, group.contested = wanted, 0, False
        group.echo, group.echo_until_s = answer.resource_version, self.context.clock.monotonic_s() + _BELIEVE_S
        if lost := {name for name in self._kept if getattr(wanted, name) != getattr(answer.status, name)}:
            self._kept = self._kept - lost  # what is not stored as sent is not sent again
            _log.info("PodGroups have no status field for: %s", ", ".join(sorted(lost)))
        return True


def _ours(gang: Gang | None, seen: SeenPodGroup) -> bool:
    """Whether the status is ours to write: a gang of ours is sized by it, or was, and has no pods now."""
    return seen.ours if gang is None else gang.own and gang.source in POD_GROUPED
