"""One gang is restarted: suspended or evicted, waited for, resumed.

See `controller` for why and the rules. Every step reads before it writes, and every write names the version that was
read, so a step that is repeated after a crash or a lost answer finds itself done.
"""

import asyncio
from collections.abc import Sequence
from contextlib import suppress
from math import ceil
from typing import Final

from extender.controllers.context import ControllerContext
from extender.controllers.events.recorder import Happening, owner_subject
from extender.controllers.owners.failure_budget import can_suspend
from extender.controllers.removal.fresh_gang import read_members, read_owner
from extender.controllers.removal.removals import Cause
from extender.controllers.restart.eligibility import Case, words
from extender.controllers.restart.suspensions import AttainedNote, FreshOwner, Note, remembered
from extender.errors import ApiError, ApiUnavailableError, ConflictError, NotFoundError
from extender.runtime.decision_lines import Decision
from scoring.ids import GangKey, NodeName
from scoring.model import Controller, Gang, Pod, Policy
from scoring.model.policy import Preempting
from scoring.queue.weights import hours_of

POLL_S = 2.0  # How often a suspended owner is looked at, at first
SLOWEST_S = 30.0  # How often one is whose pods take long to end: nothing but its user can be in a hurry then
_SLOWER = 1.25
READS_PER_S = 10.0  # How many are looked at, all owners together: each waits its share, however many there are
SLOW_S = 300.0  # After this time an Event says which owner or pod has not stopped
_RESUMED: Final = Cause(Happening.RESTARTED, "All its pods have ended: resumed, so that it creates new ones.")


def notes_attained(policy: Policy) -> bool:
    """Whether what a gang has had of the cluster is noted when it is suspended, and read after a restart."""
    return policy.preemption is Preempting.LEVELS


class Recreation:
    """How a gang is restarted. Keeps nothing between calls but how many are waited for."""

    def __init__(self, context: ControllerContext) -> None:
        self._context = context
        self._waits = 0

    async def carry_out(self, case: Case, *, why: str, repair: bool) -> str | None:
        """Restart it; `None`: done, else why not. Ends when the owners are resumed, however long its pods take."""
        if not all(can_suspend(owner.ref) for owner in case.owners):
            return await self._evict_all(case, why)
        begun: list[Controller] = []
        refused = None
        attained = self._attained(case)  # once: what the first owner's suspension notes is in it then
        for owner in case.owners:
            refused = await self._suspend(case, owner, why=why, repair=repair, attained=attained)
            if refused is not None:
                break  # what was started is brought to its end
            begun.append(owner.ref)
        for ref in begun:
            await self.finish(case.gang.key, case.namespace, ref)
        return refused

    async def finish(self, key: GangKey, namespace: str, ref: Controller) -> None:
        """Resume an owner that carries our note once its gang's pods are gone, however long it takes; repeatable."""
        began_s = self._context.clock.monotonic_s()
        self._waits += 1
        try:
            pause_s = POLL_S
            while not await self._finished(key, namespace, ref, began_s):
                ended = await self._pause(key, max(pause_s, self._waits / READS_PER_S))
                pause_s = POLL_S if ended else min(pause_s * _SLOWER, SLOWEST_S)
        finally:
            self._waits -= 1

    async def _finished(self, key: GangKey, namespace: str, ref: Controller, began_s: float) -> bool:
        """Look at the owner once; whether there is nothing more to do for it."""
        with suppress(ApiError, ApiUnavailableError, ValueError):  # read again, and decide again
            owner = await self._read_noted(namespace, ref)
            if owner is None:
                return True
            subject, restore = owner_subject(namespace, ref), self._context.disruptions.restore_owner
            if not owner.suspended or owner.over:
                await restore(subject, owner.resume_patch(resume=False))
                return True
            if owner.has_stopped and await self._is_empty(key, owner, began_s):
                await restore(subject, owner.resume_patch(resume=True), _RESUMED)
                self._context.decided(Decision("resume", f"{ref.kind} {ref.name}", key))
                self._context.telemetry.restarted("resumed")
                return True
        return False

    async def _pause(self, key: GangKey, pause_s: float) -> bool:
        """Wait so long, or until the gang's last member ends, and whether it did: the API server does not show it."""
        had_members, looks = self._lives(key), ceil(pause_s / POLL_S)
        for _ in range(looks):
            await asyncio.sleep(pause_s / looks)
            if had_members and not self._lives(key):
                return True
        return False

    def _lives(self, key: GangKey) -> bool:
        gang = self._context.cache.gang(key)
        return gang is not None and any(not pod.terminal for pod in gang.members)

    async def _read_noted(self, namespace: str, ref: Controller) -> FreshOwner | None:
        """The owner, if it is there and carries our note. Errors: ApiError and its kind."""
        try:
            raw = await read_owner(self._context.api, namespace, ref)
        except NotFoundError:
            return None
        owner = FreshOwner(ref, raw) if raw is not None else None
        return owner if owner is not None and owner.note(self._context.notes) is not None else None

    async def _is_empty(self, key: GangKey, owner: FreshOwner, began_s: float) -> bool:
        """Whether no member is left that its owner would have to see the end of. Errors: ApiError and its kind."""
        gang = self._context.cache.gang(key)
        # The cache is cheap to ask, and mostly right.
        if gang is not None and self._in_the_way(gang.members, owner):
            self._post_slow(gang, owner, began_s)
            return False
        members = await read_members(self._context.api, key, gang.source if gang is not None else None)
        return not self._in_the_way([one.pod for one in members], owner)

    def _in_the_way(self, members: Sequence[Pod], owner: FreshOwner) -> list[Pod]:
        """Members that have not ended; a Job does not mind those that are being deleted on a dead node."""
        lost = self._context.lost_of(members) if not owner.waits_for_the_end else frozenset[NodeName]()
        return [pod for pod in members if not pod.terminal and not (pod.deleting and pod.node in lost)]

    def _post_slow(self, gang: Gang, owner: FreshOwner, began_s: float) -> None:
        if self._context.clock.monotonic_s() - began_s < SLOW_S:
            return
        left = [pod for pod in gang.members if not pod.terminal]
        lost = self._context.lost_of(gang.members)
        nodes = sorted({pod.node for pod in left if pod.node in lost and pod.node is not None})
        where = f": waiting for node {', '.join(nodes)} to be removed or to come back" if nodes else ""
        note = f"Suspended by netgang, and not resumed yet, because pod {left[0].name} has not ended{where}."
        self._context.post_event(owner_subject(owner.namespace, owner.ref), Happening.NOT_DISRUPTED, note, "slow")

    async def _suspend(
        self, case: Case, owner: FreshOwner, *, why: str, repair: bool, attained: AttainedNote | None
    ) -> str | None:
        """Suspend one owner; `None`: done. An answer that was lost is made good by a look at the note."""
        note = Note(case.gang.key.partition("/")[2], why, self._context.clock.now_s())
        text = f"The gang is restarted as a whole: {why}. Suspended now, and resumed when its pods are gone."
        cause = Cause(Happening.RESTARTED, text)
        try:
            patch = owner.suspend_patch(note, repair=repair, notes=self._context.notes, attained=attained)
            await self._context.disruptions.change_owner(
                owner_subject(case.namespace, owner.ref), patch, cause, going=case.pods_of(owner)
            )
        except (ApiError, ApiUnavailableError, ValueError) as error:
            noted = None
            with suppress(ApiError, ApiUnavailableError, ValueError):
                noted = await self._read_noted(case.namespace, owner.ref)
            if noted is None:
                return f"{owner.ref.kind} {owner.ref.name} could not be suspended: {words(error)}"
        if attained is not None:
            self._context.cache.set_attained({case.gang.key: remembered(attained, owner.ref)})
        self._context.decided(Decision("suspend", f"{owner.ref.kind} {owner.ref.name}", case.gang.key))
        self._context.telemetry.restarted("suspended")
        return None

    def _attained(self, case: Case) -> AttainedNote | None:
        """What the gang has had; `None`: that does not matter here, or it is gone."""
        key, snapshot = case.gang.key, self._context.cache.snapshot()
        gang = snapshot.gangs.get(key)
        if gang is None or not notes_attained(self._context.planner.policy):
            return None
        had_h = hours_of(gang, snapshot, now_s=self._context.clock.now_s())
        return AttainedNote(key.partition("/")[2], round(had_h, 6))

    async def _evict_all(self, case: Case, why: str) -> str | None:
        """Evict every member that lives; ends at the first that the API server refuses."""
        note = f"The gang is restarted as a whole: {why}. Removed for its owner to create another."
        cause = Cause(Happening.RESTARTED, note)
        there = [one for one in case.members if not (one.pod.terminal or one.pod.deleting)]
        for one in there:
            pod = one.pod
            try:
                await self._context.disruptions.evict(one, cause, among=there)
            except (ConflictError, NotFoundError):
                continue  # it changed in the last moment: what is left of the gang is looked at again
            except (ApiError, ApiUnavailableError) as error:
                return f"pod {pod.name} could not be evicted: {words(error)}"
            self._context.telemetry.evicted("restart")
            self._context.decided(Decision("restart", pod.key, case.gang.key, pod.node or ""))
        return None
