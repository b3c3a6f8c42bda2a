"""What an owner of pods counts (docs/safety.md S8): pods that it wants, that have succeeded, that are left to run.

Here it decides how many members a gang needs by now whose Job finishes, while another member of it is lost.

Why ask the owner: a pod that has succeeded counts permanently, but with its node it is collected, and an Indexed Job
does not run its index again. The gang then has fewer pods than its minimum, and the successor of another lost member
would wait for those that never come. Rules: asked only of gangs that wait for pods, of batch Jobs of which some pods
have succeeded, and now and then; every other gang's minimum is what their labels or PodGroup say.
"""

from extender.controllers.context import ControllerContext
from extender.controllers.owners.failure_budget import decoded
from extender.controllers.removal.fresh_gang import read_owner
from extender.errors import ApiError, ApiUnavailableError
from scoring.ids import GangKey
from scoring.model import Phase, Reason

PATIENCE_S = 5.0  # A gang that is just being created waits for pods, too
AGAIN_S = 30.0


class Finishing:
    """Gangs that wait for pods, and the one owner that is being read."""

    def __init__(self, context: ControllerContext) -> None:
        self._context = context
        self._ask_at_s: dict[GangKey, float] = {}
        self._asking = context.background("finishing")

    def look(self) -> None:
        """Once a second: ask one more owner, if one is due. Cost: O(waiting gangs)."""
        plan = self._context.plan()
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


def has_succeeded(owner: bytes) -> bool:
    """Whether any of its pods, gone ones too, has ended well: it finishes, and must not restart (docs/safety.md S8)."""
    status = decoded(owner).get("status") or {}
    uncounted = (status.get("uncountedTerminatedPods") or {}).get("succeeded")
    roles = (status.get("replicaStatuses") or {}).values()
    return bool(status.get("succeeded") or uncounted or any(one.get("succeeded") for one in roles))


def desired_pods(owner: bytes) -> int | None:
    """How many pods the owner wants, those that have succeeded included; `None`: it does not say."""
    spec = decoded(owner).get("spec") or {}
    roles = next((value for name, value in spec.items() if name.endswith("ReplicaSpecs")), None)
    if roles is not None:
        return sum(int(one.get("replicas", 1)) for one in roles.values())
    counts = [int(spec[name]) for name in ("parallelism", "completions", "replicas") if spec.get(name) is not None]
    return min(counts) if counts else None


def runs_left(job: bytes) -> int | None:
    """How many completions an Indexed Job is short of; `None`: none has succeeded, or it does not say."""
    found = decoded(job)
    spec, status = found.get("spec") or {}, found.get("status") or {}
    uncounted = (status.get("uncountedTerminatedPods") or {}).get("succeeded") or ()
    succeeded = int(status.get("succeeded") or 0) + len(uncounted)
    if not succeeded or spec.get("completionMode") != "Indexed" or spec.get("completions") is None:
        return None
    return max(int(spec["completions"]) - succeeded, 0)
