"""How many members a gang needs by now whose Job finishes, while another member of it is lost (docs/safety.md S8).

Why ask the owner: a pod that has succeeded counts permanently, but with its node it is collected, and an Indexed Job
does not run its index again. The gang then has fewer pods than its minimum, and the successor of another lost member
would wait for those that never come. Rules: asked only of gangs that wait for pods, of batch Jobs of which some pods
have succeeded, and now and then; every other gang's minimum is what their labels or PodGroup say.
"""

from collections.abc import Callable

from extender.controllers.context import ControllerContext
from extender.controllers.owners.counts import runs_left
from extender.controllers.removal.fresh_gang import read_owner
from extender.errors import ApiError, ApiUnavailableError
from scoring.ids import GangKey
from scoring.model import Phase
from scoring.model.reasons import Reason
from scoring.plan import Plan

PATIENCE_S = 5.0
"""A gang that is just being created waits for pods, too."""
AGAIN_S = 30.0


class Finishing:
    """Gangs that wait for pods, and the one owner that is being read."""

    def __init__(self, context: ControllerContext, *, plan: Callable[[], Plan | None]) -> None:
        self._context = context
        self._plan = plan
        """The current plan; `None`: the cluster is not read yet"""
        self._ask_at_s: dict[GangKey, float] = {}
        self._asking = context.background("finishing")

    def look(self) -> None:
        """Once a second: ask one more owner, if one is due. Cost: O(waiting gangs)."""
        plan = self._plan()
        if plan is None:
            return
        now_s = self._context.clock.monotonic_s()
        waiting = [key for key, one in plan.waiting.items() if one.reason is Reason.INCOMPLETE]
        self._ask_at_s = {key: self._ask_at_s.get(key, now_s + PATIENCE_S) for key in waiting}
        due = sorted((at_s, key) for key, at_s in self._ask_at_s.items() if at_s <= now_s)
        if due and not self._asking.busy:
            key = due[0][1]
            self._ask_at_s[key] = now_s + AGAIN_S
            self._asking.start(self._ask(key), f"ask the owner of {key}")

    async def _ask(self, key: GangKey) -> None:
        gang = self._context.cache.gang(key)
        owners = {pod.owner for pod in gang.members} if gang is not None else set()
        owner = owners.pop() if len(owners) == 1 else None
        if gang is None or owner is None or owner.group_kind != ("batch", "Job"):
            return
        try:
            raw = await read_owner(self._context.api, gang.key.partition("/")[0], owner)
            left = runs_left(raw) if raw is not None else None
        except (ApiError, ApiUnavailableError, ValueError):
            return
        gang = self._context.cache.gang(key)
        if left is not None and gang is not None:
            ended = sum(pod.phase is Phase.SUCCEEDED for pod in gang.members)
            self._context.cache.set_minimum(key, owner.uid, max(left + ended, 1))
