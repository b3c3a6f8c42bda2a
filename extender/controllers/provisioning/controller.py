"""Ask an autoscaler for nodes, by ProvisioningRequests, as `scoring.provisioning` decides (docs/safety.md S17).

Why polled and not watched: requests are few and change within minutes, and a watch of a kind that is not installed
would never begin. Nothing is read while no gang waits for nodes and none of our requests is known.

Rules:
- What is there is read from the API server before each round, and nothing is remembered over a restart but what
  stands on the requests. A gang for which something failed is left alone for a while.
- Whether the kind is served, and whether we may use it, the API server says when it is asked. If not, that is said in
  the log and in each explanation, and it is asked again now and then.
"""

import asyncio
import logging
from collections.abc import Callable
from dataclasses import KW_ONLY, dataclass, replace
from typing import Final
from urllib.parse import urlencode

from extender.controllers.context import ControllerContext
from extender.controllers.provisioning.writes import ProvisioningWrites
from extender.convert.provisioning import MANAGED_BY, request_from_json
from extender.errors import ApiError, ApiUnavailableError, NotFoundError
from extender.ports import read_all
from scoring.explain.circumstances import Note, Topic
from scoring.explain.words import duration_text, zone_text
from scoring.ids import GangKey
from scoring.model import Policy
from scoring.plan import PlannerCache
from scoring.provisioning.decide import WANTS_NODES, Hindrance, hindrance_of, steps_of
from scoring.provisioning.requests import OVER, AskingLimits, Create, Delete, Outcome, Request

EVERY_S: Final = 5.0  # From the end of a round to the next: so often at most there is a new request
UNSERVED_S: Final = 300.0  # The same while the API server does not let us read any
_COLLECTION: Final = "/apis/autoscaling.x-k8s.io/v1/provisioningrequests"
_OURS: Final = urlencode({"labelSelector": "=".join(MANAGED_BY)})

_log = logging.getLogger(__name__)


@dataclass(eq=False, repr=False)
class Provisioning:
    """Our requests as they were read last. Bounded by those that there are, and by the gangs that exist."""

    context: ControllerContext
    policy: Policy
    limits: AskingLimits
    _: KW_ONLY
    class_name: str
    planner_cache: Callable[[], PlannerCache | None] = lambda: None

    def __post_init__(self) -> None:
        self._writes = ProvisioningWrites(self.context, class_name=self.class_name, zone_label=self.policy.zone_label)
        self._known: dict[GangKey, Request] | None = None  # gang → its request; `None`: not read since we began to act
        self._problem: str | None = None  # Why nothing can be asked; `None`: it can
        self._pause_s = EVERY_S
        self._failed: dict[GangKey, tuple[float, str]] = {}  # gang → until when it is left alone, and why

    async def run(self) -> None:
        """A round every few seconds until cancelled."""
        while True:
            await asyncio.sleep(self._pause_s)
            if self.context.acting():
                await self.round()
            else:
                self.forget()

    def forget(self) -> None:
        """Know nothing, as a process that just began."""
        self._known, self._problem, self._pause_s = None, None, EVERY_S
        self._failed.clear()

    async def round(self) -> None:
        """Read what there is, decide, and do it. Cost: one list, and O(waiting gangs)."""
        plan = self.context.plan()
        if plan is None or (self._known == {} and not any(map(self._wants, plan.waiting))):
            return
        requests, plan = await self._read(), self.context.plan()
        if requests is None or plan is None:
            return
        now_s = self.context.clock.monotonic_s()
        self._failed = {key: one for key, one in self._failed.items() if one[0] > now_s}
        told = self.context.cache.snapshot(), plan, self.policy, requests
        at_s, cache, left_alone = self.context.clock.now_s(), self.planner_cache(), frozenset(self._failed)
        for step in steps_of(*told, limits=self.limits, now_s=at_s, cache=cache, besides=left_alone):
            if isinstance(step, Delete) and step.request.gang in self._failed:
                continue  # left alone, as a gang that could not ask
            if not await self._done(step):
                break  # a request that could not be replaced stays

    def note(self, key: GangKey) -> Note | None:
        """What is to be said of nodes for this gang; `None`: nothing, it does not wait for room."""
        plan = self.context.plan()
        request = (self._known or {}).get(key)
        if request is None and (plan is None or not self._wants(key)):
            return None
        if request is not None:
            return Note(Topic.AUTOSCALER, said_of(request, self.limits, now_s=self.context.clock.now_s()))
        why: str | Hindrance | None = self._problem or self._failed.get(key, (0.0, ""))[1]
        if not why and plan is not None:
            why = hindrance_of(self.context.cache.snapshot(), plan, self.policy, key)
        return Note(Topic.AUTOSCALER, said_without(why or None, self.limits))

    def _wants(self, key: GangKey) -> bool:
        plan = self.context.plan()
        return plan is not None and key in plan.waiting and plan.waiting[key].reason in WANTS_NODES

    async def _read(self) -> list[Request] | None:
        """All requests of ours; `None`: they cannot be read, and why is noted."""
        try:
            items = await read_all(self.context.api, f"{_COLLECTION}?{_OURS}")
        except (ApiError, ApiUnavailableError) as error:
            self._pause_s = UNSERVED_S if isinstance(error, ApiError) and error.status in (403, 404) else EVERY_S
            self._complain(_why_unread(error))
            return None
        self._pause_s = EVERY_S
        self._complain(None)
        found = [one for one in map(_readable, items) if one is not None]
        before, self._known = self._known or {}, {one.gang: one for one in sorted(found, key=lambda one: one.attempt)}
        for key, one in self._known.items():
            if key not in before or before[key].outcome is not one.outcome:
                _log.info("ProvisioningRequest %s of %s: %s %s", one.name, key, one.outcome, one.message)
        return found

    def _complain(self, problem: str | None) -> None:
        if problem is not None and problem != self._problem:
            _log.warning("autoscaling: no nodes can be asked for: %s", problem)
        self._problem = problem

    async def _done(self, step: Create | Delete) -> bool:
        key = step.gang if isinstance(step, Create) else step.request.gang
        try:
            match step:
                case Create():
                    await self._create(step)
                case Delete(request, why):
                    await self._writes.delete(request)
                    if self._known is not None and key in self._known and self._known[key].name == request.name:
                        del self._known[key]
                    _log.info("ProvisioningRequest %s of %s is taken back: %s", request.name, key, why)
        except (ApiError, ApiUnavailableError, ValueError) as error:
            self._failed[key] = (self.context.clock.monotonic_s() + self.limits.backoff_s, str(error))
            _log.warning("asking for nodes for %s failed: %s", key, error)
            return False
        return True

    async def _create(self, step: Create) -> None:
        gang = self.context.cache.gang(step.gang)
        if gang is None:
            return
        name = await self._writes.create(step, gang)
        if self._known is not None:
            asked = Request(name, step.gang, step.fingerprint, step.attempt, len(step.sets), step.zones)
            self._known[step.gang] = replace(asked, since_s=self.context.clock.now_s())
        await self._writes.mark(step, name)


def _readable(raw: bytes) -> Request | None:
    try:
        return request_from_json(raw)
    except ValueError as error:
        _log.warning("a ProvisioningRequest is left alone: %s", error)
        return None


def _why_unread(error: ApiError | ApiUnavailableError) -> str:
    if isinstance(error, NotFoundError):
        return "the cluster serves no ProvisioningRequest of autoscaling.x-k8s.io/v1: no autoscaler has installed it"
    if isinstance(error, ApiError) and error.status == 403:
        return "netgang has no right to read ProvisioningRequests: install manifests/components/provisioning"
    return str(error)


_SAYS = {
    # outcome → what the autoscaler makes of the request
    Outcome.ASKED: "no autoscaler has taken it up yet",
    Outcome.ACCEPTED: "the autoscaler has taken it up",
    Outcome.PROVISIONED: "the autoscaler says that the room is there or on its way",
    Outcome.NOT_FOUND: "the autoscaler has found no such room",
    Outcome.FAILED: "the autoscaler has failed",
    Outcome.EXPIRED: "the autoscaler keeps the room for it no longer (BookingExpired)",
    Outcome.REVOKED: "the autoscaler has taken it back (CapacityRevoked)",
}


def said_of(request: Request, limits: AskingLimits, *, now_s: float) -> str:
    """What there is to say of a gang's request.

    >>> from scoring.ids import GangKey, ZoneName
    >>> asked = Request("netgang-g-1", GangKey("team/g"), "f", zones=(ZoneName("A"),), since_s=100.0)
    >>> said_of(asked, AskingLimits(), now_s=130.0)
    'nodes in zone A were asked for with ProvisioningRequest netgang-g-1; for 30 s no autoscaler has taken it up yet'
    """
    where = f" in {' or '.join(map(zone_text, request.zones))}" if request.zones else ""
    asked = f"nodes{where} were asked for with ProvisioningRequest {request.name}"
    since = f"for {duration_text(now_s - request.since_s)} " if request.outcome is Outcome.ASKED else ""
    own = f": {request.message.rstrip('.')}" if request.message else ""
    left_s = request.since_s + limits.backoff_of(request.attempt) - now_s
    when = f"in {duration_text(left_s)}" if left_s > 0.0 else "soon"
    again = f"; attempt {request.attempt + 1} follows {when}" if request.outcome in OVER else ""
    return f"{asked}; {since}{_SAYS[request.outcome]}{own}{again}"


def said_without(problem: str | Hindrance | None, limits: AskingLimits) -> str:
    """What there is to say of a gang that waits for nodes and has no request.

    >>> said_without("the cluster serves none", AskingLimits())
    'no nodes can be asked for: the cluster serves none'
    """
    if problem is not None:
        return f"no nodes can be asked for: {problem}"
    return (
        f"an autoscaler is asked for nodes once it has waited for {duration_text(limits.after_s)}, and for at most "
        f"{limits.most} gangs at a time, the first of the queue first"
    )
