"""Read what owners of gangs say: their age, how many pods they want, how long they run, how many are left to run.

Why read and not watch: a watch would be one for each kind of job there is, cached for as long as the cluster lives,
for numbers that seldom change. Rule: only kinds that we may read anyway before a pod is removed; no decision waits.
"""

import asyncio
import logging
from datetime import datetime
from operator import itemgetter

import msgspec

from extender.controllers.context import ControllerContext, ControlLoop
from extender.controllers.owners.failure_budget import KINDS, controller_of, decoded, desired_pods, runs_left
from extender.controllers.removal.fresh_gang import read_owner
from extender.convert.decode import seconds
from extender.errors import ApiError, ApiUnavailableError
from extender.runtime.slices import Steps, in_slices
from scoring.ids import GangKey
from scoring.model import Controller, Gang, GangSource, JobSays, Phase, Reason
from scoring.model.gang import EXPECTED_DURATION, MOST_S
from scoring.model.policy import OPTION_CHARS

_log = logging.getLogger(__name__)

PATIENCE_S = 5.0  # A gang that is just being created waits for pods, too
AGAIN_S = 30.0
_AT_ONCE = 100  # Owners read in one round: the first seconds of a full cluster are not a storm
_TOGETHER = 8  # Reads under way at the same time
_UNREAD_AGAIN_S = 300.0  # After an owner could not be read
_WAITS, _RUNS = 0, 1
_LENGTH = f"netgang.io/{EXPECTED_DURATION}"


class _Answers(msgspec.Struct):
    """What owners say, by uid."""

    created_s: dict[str, float] = {}
    counts: dict[str, int] = {}
    says: dict[str, JobSays] = {}


class OwnerReader(ControlLoop):
    """Owners that are to be read for their age, counts and lengths. Bounded by the gangs that exist.

    Once each, a few at a time: those of gangs that wait, then those of gangs that run, which are left after a restart.
    A gang is planned with its PodGroup's or its oldest pod's creation meanwhile, which differs only for jobs that were
    suspended or whose pods were lost (docs/safety.md S14); two Jobs under one name count as two runs until it is known
    that neither is one by itself (docs/safety.md S23). What cannot be read is asked for again after minutes.
    """

    leads_only = False

    def __init__(self, context: ControllerContext) -> None:
        super().__init__(context)
        self._cache, self._api, self._clock = context.cache, context.api, context.clock
        self._not_before_s: dict[str, float] = {}  # owner's uid → when it may be asked for again
        self._seen: dict[GangKey, tuple[Gang, dict[str, Controller], int | None]] = {}
        """gang → as it was at the last look, its owners that can be read by uid, and its turn"""

    async def look(self) -> None:
        """Read owners that are new."""
        await self._read_some()

    async def first_look(self) -> None:
        """Read all there are, before the first plan: so the order after a restart is the one before it."""
        while await self._read_some():
            pass

    async def _read_some(self) -> bool:
        """Read owners that are new, and hand them to the cache at once; whether some of waiting gangs are left."""
        answers = _Answers()
        all_wanted, waiting = await in_slices(self._wanted())
        wanted = all_wanted[:_AT_ONCE]
        for begin in range(0, len(wanted), _TOGETHER):
            together = wanted[begin : begin + _TOGETHER]
            await asyncio.gather(*(self._read(namespace, owner, answers) for namespace, owner in together))
        if answers != _Answers():
            self._cache.set_owners(answers.created_s, answers.counts, answers.says)
        return waiting > _AT_ONCE

    def _wanted(self) -> Steps[tuple[list[tuple[str, Controller]], int]]:
        """Namespace and owner of gangs that wait, then of those that run, the oldest gang's first; and how many wait.

        Cost: O(gangs + pods of changed ones).
        """
        now_s = self._clock.monotonic_s()
        before, self._seen = self._seen, {}
        for gang in self._cache.snapshot().gangs.values():
            if gang.own and gang.source is not GangSource.NATIVE:
                known = before.get(gang.key)
                if known is None or known[0] is not gang:
                    owners = (pod.owner for pod in (*gang.members, *gang.later) if pod.owner is not None)
                    known = gang, {one.uid: one for one in owners if one.group_kind in KINDS}, _turn(gang)
                self._seen[gang.key] = known
            yield
        yield
        there = {uid for _, owners, _ in self._seen.values() for uid in owners}
        self._cache.gangs.owners.keep_only(there)
        yield
        self._not_before_s = {uid: at_s for uid, at_s in self._not_before_s.items() if uid in there and at_s > now_s}
        yield
        wanted = [
            (turn, gang.created_s, gang.key, uid, owner)
            for gang, owners, turn in self._seen.values()
            for uid, owner in (owners.items() if turn is not None else ())
            if uid not in self._not_before_s and not self._cache.gangs.owners.knows(uid)
        ]
        wanted.sort(key=itemgetter(0, 1, 2, 3))
        return [(key.partition("/")[0], owner) for *_, key, _, owner in wanted], sum(one[0] == _WAITS for one in wanted)

    async def _read(self, namespace: str, owner: Controller, answers: _Answers) -> None:
        """Note what the owner says, if that very object can be read; no count if it is one of a series."""
        self._not_before_s[owner.uid] = self._clock.monotonic_s() + _UNREAD_AGAIN_S
        try:
            raw = await read_owner(self._api, namespace, owner)
            if raw is None:
                return  # the pods of this one are about to go
            text, above = decoded(raw).get("metadata", {}).get("creationTimestamp"), controller_of(raw)
            created_s = seconds(datetime.fromisoformat(text)) if text else None
            count = desired_pods(raw) if above is None or above.kind != "CronJob" else None
            says = said_length(raw)
        except Exception as error:  # noqa: BLE001 - a tenant's object: docs/safety.md S21
            _log.info("owner %s %s/%s was not read: %r", owner.kind, namespace, owner.name, error)
            return
        if created_s is not None:
            answers.created_s[owner.uid] = created_s
        if count is not None:
            answers.counts[owner.uid] = count
        if says is not None:
            answers.says[owner.uid] = says


def _turn(gang: Gang) -> int | None:
    """When its owners are read: those of gangs that wait first; `None`: of one that has ended, not at all."""
    if gang.pending or gang.later:
        return _WAITS
    return _RUNS if any(not pod.terminal for pod in gang.placed) else None


def said_length(owner: bytes) -> JobSays | None:
    """What an owner itself says of its length: its annotation and its deadline; `None`: nothing. ValueError: no object.

    Why beside its pods: the template's annotations reach them, but people write on the object that they submit. What is
    no text or no number is as if it were not there.

    >>> said_length(b'{"metadata":{"annotations":{"netgang.io/expected-duration":"90m"}},"spec":{}}')
    JobSays(expected='90m', limit_s=None)
    >>> said_length(b'{"spec":{"runPolicy":{"activeDeadlineSeconds":600}}}'), said_length(b'{"spec":null}')
    (JobSays(expected='', limit_s=600.0), None)
    """
    found = decoded(owner)
    spec, annotations = found.get("spec") or {}, (found.get("metadata") or {}).get("annotations") or {}
    text = annotations.get(_LENGTH)
    expected = text[: OPTION_CHARS + 1] if isinstance(text, str) else ""
    limit = spec.get("activeDeadlineSeconds") or (spec.get("runPolicy") or {}).get("activeDeadlineSeconds")
    limit_s = float(min(limit, MOST_S)) if isinstance(limit, int | float) and limit >= 1 else None
    return JobSays(expected, limit_s) if expected or limit_s is not None else None


class FinishingJobs(ControlLoop):
    """How many members a gang needs by now whose Job finishes, while another member of it is lost (docs/safety.md S8).

    Why ask the owner: a pod that has succeeded counts permanently, but with its node it is collected, and an Indexed
    Job does not run its index again. The gang then has fewer pods than its minimum, and the successor of another lost
    member would wait for those that never come. Rules: asked only of gangs that wait for pods, of batch Jobs of which
    some pods have succeeded, and now and then; every other gang's minimum is what their labels or PodGroup say.
    """

    def __init__(self, context: ControllerContext) -> None:
        super().__init__(context)
        self._ask_at_s: dict[GangKey, float] = {}

    async def look(self) -> None:
        """Ask one more owner, if one is due. Cost: O(waiting gangs)."""
        plan = self.context.plan()
        if plan is None:
            return
        now_s = self.context.clock.monotonic_s()
        waiting = [key for key, one in plan.waiting.items() if one.reason is Reason.INCOMPLETE]
        self._ask_at_s = {key: self._ask_at_s.get(key, now_s + PATIENCE_S) for key in waiting}
        if due := sorted((at_s, key) for key, at_s in self._ask_at_s.items() if at_s <= now_s):
            key = due[0][1]
            self._ask_at_s[key] = now_s + AGAIN_S
            await self._ask(key)

    async def _ask(self, key: GangKey) -> None:
        gang = self.context.cache.gang(key)
        owners = {pod.owner for pod in gang.members} if gang is not None else set()
        owner = owners.pop() if len(owners) == 1 else None
        if owner is None or owner.group_kind != ("batch", "Job"):
            return
        try:
            raw = await read_owner(self.context.api, key.partition("/")[0], owner)
            left = runs_left(raw) if raw is not None else None
        except (ApiError, ApiUnavailableError, ValueError):
            return
        gang = self.context.cache.gang(key)
        if left is not None and gang is not None:
            ended = sum(pod.phase is Phase.SUCCEEDED for pod in gang.members)
            self.context.cache.set_minimum(key, owner.uid, max(left + ended, 1))
