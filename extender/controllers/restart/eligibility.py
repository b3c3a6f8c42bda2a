"""Whether a gang may be restarted as a whole: asked of the API server, just before it is done.

docs/safety.md S8, S10, S11.

Rule: what is not known speaks against it. Nothing is written here.
"""

from collections.abc import Iterable

import msgspec

from extender.controllers.context import ControllerContext
from extender.controllers.owners.failure_budget import (
    KINDS,
    OVER,
    NotAllowed,
    WhyKept,
    budget,
    can_suspend,
    controller_of,
    desired_pods,
    forbidding,
    has_succeeded,
)
from extender.controllers.removal import fresh_gang
from extender.controllers.removal.fresh_gang import Fresh
from extender.controllers.restart.suspensions import FreshOwner
from extender.errors import ApiError, ApiUnavailableError, NotFoundError
from extender.notes import Notes
from scoring.ids import GangKey
from scoring.model import Controller, Gang, Phase

_PATIENT_OWNERS = frozenset({"CronJob"})  # Owners of Jobs that do not undo what is done to a Job


class Obstacle(msgspec.Struct, frozen=True):
    """Why a gang is not restarted. `final`: it would be the same in a minute; `silent`: no Event is needed."""

    why: str
    final: bool = False
    silent: bool = False


class Case(msgspec.Struct, frozen=True):
    """A gang that may be restarted: its members, its owners and all their pods, read now."""

    gang: Gang
    members: tuple[Fresh, ...]
    owners: tuple[FreshOwner, ...]
    job: tuple[Fresh, ...]  # The members, and what else goes when the owners are suspended

    @property
    def namespace(self) -> str:
        """The namespace of them all."""
        return self.gang.key.partition("/")[0]

    def pods_of(self, owner: FreshOwner) -> tuple[Fresh, ...]:
        """What goes when this owner is suspended: of several owners its own, else all."""
        if len(self.owners) == 1:
            return self.job
        return tuple(one for one in self.job if one.controller_uid == owner.ref.uid) or self.job

    def history(self, *, now_s: float, notes: Notes) -> tuple[float, ...]:
        """When it was repaired so in the last hour, Unix seconds."""
        return tuple(sorted({at_s for owner in self.owners for at_s in owner.restarts(notes, now_s=now_s)}))

    def desired_suffices(self) -> bool:
        """Whether as many run as the owners want, though they are fewer than the minimum (docs/safety.md S8)."""
        wanted = [desired_pods(owner.raw) for owner in self.owners]
        counts = [count for count in wanted if count is not None]
        if len(counts) < len(wanted):
            return False
        return sum(counts) < self.gang.min_member and len(self.gang.placed) >= sum(counts)


_FINISHING = Obstacle("members have succeeded, so the job is finishing", final=True, silent=True)


class Judge:
    """Reads a gang, its owners and its disruption budgets."""

    def __init__(self, context: ControllerContext) -> None:
        self._context = context

    async def of(self, key: GangKey) -> Case | Obstacle:
        """Whether the gang may be restarted as a whole, by what the API server says now."""
        gang = self._context.cache.gang(key)
        if gang is None:
            return Obstacle("the gang is gone", silent=True)
        if not gang.actionable:
            return Obstacle("the gang cannot be used as it is written", silent=True)
        try:
            members = await fresh_gang.read_members(self._context.api, key, gang.source)
            if not fresh_gang.same_as_known(gang, members):
                return Obstacle("the gang has just changed", silent=True)
            case = await self._with_owners(gang, fresh_gang.of_this_run(gang, members))
            return case if isinstance(case, Obstacle) else await self._unless_forbidden(case)
        except NotFoundError:
            return Obstacle("its owner is gone", silent=True)
        except (ApiError, ApiUnavailableError, ValueError) as error:
            return Obstacle(f"not all that matters could be read: {words(error)}")

    async def together(self, keys: Iterable[GangKey]) -> str | None:
        """Why gangs that may each leave could not all leave at once, by disruption budgets; `None`: nothing."""
        by_namespace: dict[str, list[Gang]] = {}
        for key in keys:
            if (gang := self._context.cache.gang(key)) is not None:
                by_namespace.setdefault(key.partition("/")[0], []).append(gang)
        for namespace, several in sorted(by_namespace.items()):
            if len(several) < 2:
                continue
            pods: list[bytes] = []
            try:
                for gang in several:
                    members = await fresh_gang.read_members(self._context.api, gang.key, gang.source)
                    pods.extend(one.raw for one in fresh_gang.of_this_run(gang, members))
                forbids = forbidding(await fresh_gang.read_budgets(self._context.api, namespace), pods)
            except (ApiError, ApiUnavailableError, ValueError) as error:
                return f"the API server did not say enough: {error}"
            if forbids is not None:
                return f"PodDisruptionBudget {forbids} does not allow {len(several)} gangs to leave at once"
        return None

    async def wants_no_more(self, key: GangKey) -> bool:
        """Whether an owner is deleted, suspended, finished or failed (docs/safety.md S8); not if it cannot be read."""
        gang = self._context.cache.gang(key)
        namespace = key.partition("/")[0]
        owners = {pod.owner for pod in gang.members if pod.owner is not None} if gang is not None else set()
        for owner in sorted(owners, key=lambda one: one.name):
            try:
                top = await self._top(namespace, owner)
                verdict = budget(top.raw, ()) if isinstance(top, FreshOwner) else None
            except NotFoundError:
                return True
            except (ApiError, ApiUnavailableError, ValueError):
                continue
            if isinstance(verdict, NotAllowed) and verdict.reason in OVER:
                return True
        return False

    async def _with_owners(self, gang: Gang, members: tuple[Fresh, ...]) -> Case | Obstacle:
        if any(one.pod.phase is Phase.SUCCEEDED for one in members):
            return _FINISHING
        refs = {controller_of(one.raw) for one in members}
        if None in refs:
            return Obstacle(WhyKept.BARE, final=True)
        namespace = gang.key.partition("/")[0]
        owners: dict[str, FreshOwner] = {}
        for ref in sorted((ref for ref in refs if ref is not None), key=lambda ref: ref.name):
            owner = await self._top(namespace, ref)
            if isinstance(owner, Obstacle):
                return owner
            owners[owner.ref.uid] = owner
        suspend = {can_suspend(owner.ref) for owner in owners.values()}
        if len(suspend) > 1:
            return Obstacle("its pods have owners of different kinds", final=True)
        job = await fresh_gang.read_job(self._context.api, members) if True in suspend else members
        for pod in (one.pod for one in job):
            if pod.group is not None and pod.group.key != gang.key and not pod.terminal:
                return Obstacle(f"its owner has pods of another gang too, such as {pod.name}", final=True)
        if (foreign := self._context.disruptions.foreign_among(job)) is not None:
            named = f"schedulerName {foreign.scheduler_name}"
            return Obstacle(f"pod {foreign.name} of its owner is not netgang's ({named})", final=True)
        return Case(gang, members, tuple(owners.values()), job)

    async def _top(self, namespace: str, ref: Controller) -> FreshOwner | Obstacle:
        """The owner that decides: of a Job that belongs to something else, that one."""
        while True:
            if ref.group_kind not in KINDS:
                return Obstacle(f"{WhyKept.UNKNOWN_KIND} ({ref.kind} of {ref.api_version})", final=True)
            raw = await fresh_gang.read_owner(self._context.api, namespace, ref)
            if raw is None:
                return Obstacle("its owner was replaced by another of the same name", silent=True)
            above = controller_of(raw)
            if above is None or not can_suspend(ref) or above.kind in _PATIENT_OWNERS:
                return FreshOwner(ref, raw)
            ref = above

    async def _unless_forbidden(self, case: Case) -> Case | Obstacle:
        """The case, unless an owner, a node that does not answer, or a disruption budget speaks against it."""
        lost = self._context.lost_of(case.gang.members)
        silent = {node for node in lost if self._context.cache.node(node) is not None}
        for owner in case.owners:
            if has_succeeded(owner.raw):
                return _FINISHING
            suspends = can_suspend(owner.ref)
            verdict = budget(owner.raw, () if suspends else [one.raw for one in case.members if not one.pod.terminal])
            if isinstance(verdict, NotAllowed):
                return Obstacle(verdict.text, final=True, silent=verdict.reason in OVER)
            if suspends and (problem := self._context.notes.problem):
                return Obstacle(f"the note by which it would be resumed could not be signed: {problem}")
            if suspends and owner.managed_by_queue:
                return Obstacle("Kueue suspends and resumes its owner", final=True)
            for pod in (one.pod for one in case.members) if KINDS[owner.ref.group_kind].fixed_names else ():
                if pod.node in silent and not pod.terminal:
                    return Obstacle(
                        f"pod {pod.name} is on node {pod.node}, which does not answer, and its operator needs it gone "
                        f"first: waiting for node {pod.node} to be removed or to come back"
                    )
        budgets = await fresh_gang.read_budgets(self._context.api, case.namespace)
        forbids = forbidding(budgets, [one.raw for one in case.members if one.pod.node not in lost])
        return case if forbids is None else Obstacle(f"PodDisruptionBudget {forbids} does not allow it")


def words(error: Exception) -> str:
    """What went wrong, and the one cause that only the administrator can take away."""
    if isinstance(error, ApiError) and error.status == 403:
        return f"netgang has no right to: helm upgrade gives it ({error})"
    return str(error)
