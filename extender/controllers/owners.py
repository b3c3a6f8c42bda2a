"""Read what owners of gangs say of them: for the order of the queue, and for explanations.

Why not watch: that would be a watch for each kind of job, cached forever, for numbers that seldom change. Rules: only
kinds that we may read anyway before a pod is removed; only a plain pod waits for it, and for a moment. For /v1/explain
alone also deadlines, quotas and budgets are read, and Jobs: a few reads for each gang, none again within seconds.
"""

import asyncio
import logging
from collections import Counter
from collections.abc import Callable, Coroutine, Iterable, Sequence
from datetime import datetime
from operator import itemgetter
from typing import Any, Final
from urllib.parse import quote

from msgspec.structs import replace

from extender.cache.cluster import needs_node
from extender.cache.room import RoomForDaemons
from extender.cache.state import words
from extender.controllers.context import ControllerContext, ControlLoop
from extender.controllers.failure_budget import KINDS, Json, controller_of, decoded, desired_pods, runs_left, value_at
from extender.controllers.removals import of_this_run, read_forbidding, read_members, read_owner
from extender.convert.decode import seconds
from extender.convert.pod import group_of, misplaced
from extender.errors import ApiError, ApiUnavailableError
from extender.runtime.slices import Pages, Steps, in_slices
from scoring import GangKey, PodUid
from scoring.explain.gang import HAS_MADE
from scoring.explain.words import counted, duration_text, some
from scoring.feasibility.quorum import quorum_of
from scoring.model import Controller, Gang, GangSource, GroupRef, JobSays, Phase, Pod, Reason, Resources
from scoring.model.gang import EXPECTED_DURATION, MOST_S
from scoring.model.pod import PODS, amount, quantity
from scoring.model.policy import OPTION_CHARS
from scoring.verbs.plain_pods import SYSTEM_PRIORITY

_log = logging.getLogger(__name__)

PATIENCE_S = 5.0  # A gang that is just being created waits for pods, too
AGAIN_S = 30.0
_AT_ONCE = 100  # Owners read in one round: the first seconds of a full cluster are not a storm
_TOGETHER = 8  # Reads under way at the same time
_UNREAD_AGAIN_S = 300.0  # After an owner was read, or could not be
_WAITS, _RUNS, _REREAD = 0, 1, 2
_WITH_TEMPLATES: Final = {*KINDS, ("jobset.x-k8s.io", "JobSet")} - {("leaderworkerset.x-k8s.io", "LeaderWorkerSet")}
_BIND_WAITS_S: Final = 1.0  # At most, until the pod's owner was read
_MARKED_AGAIN_S: Final = 10.0  # After something misplaced was seen: a person may have corrected it
_MOST_OWNERS: Final = 4096  # Marked; or waiting for their turn to be read: beyond them a pod starts without


class OwnerReader(ControlLoop):
    """Owners to be read for age, counts and lengths, once each; again where they make too few pods. Bounded by gangs.

    Until then a gang has its PodGroup's or its oldest pod's creation, which differs only for jobs that were suspended
    or whose pods were lost (docs/safety.md S14), and two Jobs under one name count as two runs (docs/safety.md S23).

    Plain pods', too, once for all and again while they wait: with labels on the Job instead of its pod template half a
    gang would start (docs/safety.md S13). Only /bind waits for it, for a moment; what cannot be read keeps no pod.
    """

    leads_only = False

    def __init__(self, context: ControllerContext, wake: Callable[[Iterable[PodUid]], None]) -> None:
        super().__init__(context)
        self._wake, self._turns, self._works = wake, asyncio.Semaphore(_TOGETHER), context.background("owners of pods")
        self._not_before_s: dict[str, float] = {}  # owner's uid → when it may be asked for again
        self._seen: dict[GangKey, tuple[Gang, dict[str, Pod], int | None]] = {}
        """gang → as it was at the last look, a pod of each owner that can be read, and its turn"""
        self._left = True  # Whether there may be owners of waiting gangs that the last look has not read
        self._answers: dict[str, JobSays] = {}  # by owner's uid, not in the cache yet
        self._reads: dict[str, asyncio.Task[None]] = {}  # Of plain pods' owners
        self._refused: dict[PodUid, None] = {}
        self.marked: dict[str, tuple[GroupRef, Pod]] = {}
        """uid of a pod's owner → what is misplaced on it, or on what is above it; a pod that has that for its owner"""

    async def first_look(self) -> None:
        """Read all there are, before the first plan: so the order after a restart is the one before it."""
        while self._left:
            await self.reconcile()

    async def reconcile(self) -> None:
        """Read owners that are new, and those for which plain pods wait; wake those that need not wait."""
        pods = [pod for uid in self._refused if (pod := self.context.cache.pod(uid)) is not None and needs_node(pod)]
        wait = {pod.owner.uid for pod in pods if pod.owner is not None}
        for uid, (_, pod) in tuple(self.marked.items()):
            if uid not in wait and self.context.cache.pod(pod.uid) is None:
                self._forget(uid)
        self._refused = {pod.uid: None for pod in pods if self.holds(pod, asked=True)}
        self._wake([pod.uid for pod in pods if pod.uid not in self._refused])
        await asyncio.gather(*(self._read(pod, pod.owner) for pod in await in_slices(self._wanted()) if pod.owner))
        if self._answers:
            self.context.cache.set_owners(self._answers)
            self._answers = {}

    def holds(self, pod: Pod, *, asked: bool = False) -> bool:
        """Whether a plain pod waits for a person; `asked` by kube-scheduler it is woken after that. Cost: look-ups."""
        if asked:
            self._read_of(pod)
        ref, _ = self.marked.get(pod.owner.uid if pod.owner is not None else "", (None, None))
        if ref is None or pod.priority >= SYSTEM_PRIORITY or self.context.cache.pod(pod.uid) is None:
            return False
        sized = None if ref.source is GangSource.LABELS else self.context.cache.pod_groups.by_key.get(ref.key)
        held = (sized.min_member if sized is not None else ref.min_available or 0) > 1
        if held and asked:
            self._refused[pod.uid] = None
        return held

    async def settled(self, pod: Pod) -> bool:
        """Whether a plain pod waits for a person, once its owner was read, or after a moment."""
        if (read := self._read_of(pod)) is not None:
            await asyncio.wait([read], timeout=_BIND_WAITS_S)
        return self.holds(pod)

    def about(self, key: GangKey, pods: Sequence[Pod]) -> tuple[str, ...]:
        """What is misplaced on the owners of these pods, or on one that names this gang. Cost: O(owners)."""
        uids = {pod.owner.uid for pod in pods if pod.owner is not None}
        texts = [ref.problem or "" for uid, (ref, _) in self.marked.items() if uid in uids or ref.key == key]
        waits = ["they wait for that, not to start one by one"] if any(map(self.holds, pods)) else []
        return (*dict.fromkeys(texts), *waits)

    def _wanted(self) -> Steps[list[Pod]]:
        """A pod of each owner of gangs that wait, then of those that run, the oldest first."""
        now_s = self.context.clock.monotonic_s()
        before, self._seen = self._seen, {}
        for gang in self.context.cache.snapshot().gangs.values():
            if gang.own and gang.source is not GangSource.NATIVE:
                last = before.get(gang.key)
                if last is None or last[0] is not gang:
                    owners = [(pod.owner, pod) for pod in (*gang.members, *gang.later) if pod.owner is not None]
                    turn = _RUNS if any(not pod.terminal for pod in gang.placed) else None
                    turn = _WAITS if gang.pending or gang.later else turn
                    last = gang, {owner.uid: pod for owner, pod in owners if owner.group_kind in KINDS}, turn
                self._seen[gang.key] = last
            yield
        yield
        there, jobs = {uid for _, owners, _ in self._seen.values() for uid in owners}, self.context.cache.gangs.jobs
        yield
        pauses = self._not_before_s.items()  # none for one that is forgotten: it is read as soon as it has pods again
        self._not_before_s = {uid: s for uid, s in pauses if s > now_s and (uid in there or uid not in jobs)}
        yield
        self.context.cache.gangs.keep_jobs(there)
        jobs = self.context.cache.gangs.jobs
        wanted = [
            (turn if uid not in jobs else _REREAD, gang.created_s, gang.key, uid, pod)
            for gang, owners, turn in self._seen.values()
            for uid, pod in (owners.items() if turn is not None else ())
            if uid not in self._not_before_s and (uid not in jobs or (gang.problem and gang.makes))
        ]
        wanted.sort(key=itemgetter(0, 1, 2, 3))
        self._left = sum(turn == _WAITS for turn, *_ in wanted) > _AT_ONCE
        return [pod for *_, pod in wanted[:_AT_ONCE]]

    def _read_of(self, pod: Pod) -> asyncio.Task[None] | None:
        """The read of a plain pod's owner that is under way, or begins now; `None`: it needs none."""
        owner = pod.owner
        if owner is None or owner.group_kind not in _WITH_TEMPLATES or not self.context.cache.is_own(pod):
            return None
        due = self._not_before_s.get(owner.uid, 0.0) <= self.context.clock.monotonic_s()
        if due and owner.uid not in self._reads and len(self._reads) < _MOST_OWNERS:
            self._reads[owner.uid] = self._works.start(self._read(pod, owner), f"read {owner.kind} of a pod")
        return self._reads.get(owner.uid)

    async def _read(self, pod: Pod, owner: Controller) -> None:
        """Note what the pod's owner says, if that very object can be read, and what is misplaced on it."""
        mark = self.marked.get(owner.uid)
        try:
            async with self._turns, asyncio.timeout(TIMEOUT_S if pod.group is None else None):
                content = await read_owner(self.context.api, pod.namespace, owner) or {}
                above = controller_of(content)
                if content and pod.group is not None:  # else the pods of this one are about to go
                    self._answers[owner.uid] = said_by(content)
                elif above is not None and above.group_kind in _WITH_TEMPLATES and misplaced(owner, content) is None:
                    pod = replace(pod, owner=above)  # a Job's JobSet
                    content = await read_owner(self.context.api, pod.namespace, above) or {}
            ref = misplaced(pod.owner or owner, content)
            mark = (ref, pod) if ref is not None else None
        except Exception as error:  # noqa: BLE001 - a tenant's object: docs/safety.md S21
            _log.info("owner %s %s/%s was not read: %r", owner.kind, pod.namespace, owner.name, error)
            mark = mark if isinstance(error, ApiUnavailableError | TimeoutError) else None
        self.marked.pop(owner.uid, None)
        if mark is not None:
            self.marked[owner.uid] = mark
        if len(self.marked) > _MOST_OWNERS:
            self._forget(next(iter(self.marked)))
        again_s = max(_MARKED_AGAIN_S, len(self.marked) / _TOGETHER) if mark is not None else _UNREAD_AGAIN_S
        self._not_before_s[owner.uid] = self.context.clock.monotonic_s() + again_s
        self._reads.pop(owner.uid, None)

    def _forget(self, uid: str) -> None:
        """Its mark and its pause: the next pod of this owner has it read at once."""
        del self.marked[uid]
        self._not_before_s.pop(uid, None)


def said_by(owner: Json) -> JobSays:
    """What an owner itself says of its age, length (its annotation and its deadline) and pods.

    Why beside its pods: people write on the object that they submit. A length that is no text or number is ignored.

    >>> said_by({"metadata": {"annotations": {"netgang.io/expected-duration": "90m"}}})
    JobSays(expected='90m', limit_s=None, created_s=None, wanted=None, makes=None)
    """
    meta, above, limit = owner.get("metadata") or {}, controller_of(owner), _deadline_s(owner)
    text = (meta.get("annotations") or {}).get(f"netgang.io/{EXPECTED_DURATION}")
    expected = text[: OPTION_CHARS + 1] if isinstance(text, str) else ""
    limit_s = float(min(limit, MOST_S)) if isinstance(limit, int | float) and limit >= 1 else None
    created_s = seconds(datetime.fromisoformat(text)) if (text := meta.get("creationTimestamp")) else None
    count, series = desired_pods(owner), above is not None and above.kind == "CronJob"
    makes = count if above is None or series else None
    return JobSays(expected, limit_s, created_s, None if series else count, makes)


def _deadline_s(owner: Json) -> Any:
    spec = owner.get("spec") or {}
    return spec.get("activeDeadlineSeconds") or (spec.get("runPolicy") or {}).get("activeDeadlineSeconds")


class FinishingJobs(ControlLoop):
    """How many members a gang needs by now whose Job finishes, while another member of it is lost (docs/safety.md S8).

    Why ask the owner: with its node a pod that has succeeded is collected, and a Job does not run it again: the
    successor of another lost member would wait for pods that never come.
    """

    def __init__(self, context: ControllerContext) -> None:
        super().__init__(context)
        self._ask_at_s: dict[GangKey, float] = {}

    async def reconcile(self) -> None:
        """Ask one more owner, if one is due. Cost: O(waiting gangs)."""
        plan = self.context.plan()
        if plan is None:
            return
        now_s = self.context.clock.monotonic_s()
        waiting = [key for key, wait in plan.waiting.items() if wait.reason is Reason.INCOMPLETE]
        self._ask_at_s = {key: self._ask_at_s.get(key, now_s + PATIENCE_S) for key in waiting}
        due = sorted((at_s, key) for key, at_s in self._ask_at_s.items() if at_s <= now_s)
        if not due:
            return
        key = due[0][1]
        self._ask_at_s[key] = now_s + AGAIN_S
        gang = self.context.cache.gang(key)
        owners = {pod.owner for pod in gang.members} if gang is not None else set()
        owner = owners.pop() if len(owners) == 1 else None
        if owner is None or owner.group_kind != ("batch", "Job"):
            return
        try:
            content = await read_owner(self.context.api, key.partition("/")[0], owner)
            left = runs_left(content) if content is not None else None
        except (ApiError, ApiUnavailableError, ValueError):
            return
        gang = self.context.cache.gang(key)
        if left is not None and gang is not None:
            ended = sum(pod.phase is Phase.SUCCEEDED for pod in gang.members)
            self.context.cache.set_minimum(key, owner.uid, max(left + ended, 1))


TIMEOUT_S: Final = 2.0
_BELIEVED_S: Final = 10.0
_OWNERS: Final = 4
_MOST_NOTES: Final = 100  # Of the quotas of a namespace
_MOST_KEPT: Final = 3  # DaemonSets of either kind that are named


class Circumstances:
    """Reads what one gang's explanation needs besides the snapshot."""

    def __init__(self, context: ControllerContext) -> None:
        self._api, self._clock = context.api, context.clock
        self._answers: dict[GangKey, tuple[float, Gang, tuple[str, ...]]] = {}
        """gang that was asked for within `_BELIEVED_S` → when it was read, the gang as it was, what was said"""

    async def notes(self, gang: Gang) -> tuple[str, ...]:
        """What stands in the gang's way. Takes `TIMEOUT_S` at most."""
        now_s = self._clock.monotonic_s()
        self._answers = {key: answer for key, answer in self._answers.items() if now_s - answer[0] < _BELIEVED_S}
        if (read := self._answers.get(gang.key)) is not None and read[1] is gang:
            return read[2]
        reads = [_limited(self._deadlines(gang), "active deadline")]
        if quorum_of(gang).incomplete:
            reads += [_limited(self._quotas(gang), "ResourceQuotas"), _limited(self._lacking(gang), "Jobs")]
        if gang.placed:
            reads.append(_limited(self._budgets(gang), "disruption budgets"))
        notes = tuple(note for part in await asyncio.gather(*reads) for note in part)
        self._answers[gang.key] = (now_s, gang, notes)
        return notes

    async def _deadlines(self, gang: Gang) -> Sequence[str]:
        owners = {pod.owner for pod in gang.members if pod.owner is not None and pod.owner.group_kind in KINDS}
        notes: list[str] = []
        for owner in sorted(owners, key=lambda owner: owner.uid)[:_OWNERS]:
            raw = await self._api.get_object(owner.api_version, owner.kind, gang.key.partition("/")[0], owner.name)
            notes.extend(deadline_notes(owner, decoded(raw), now_s=self._clock.now_s()))
        return notes

    async def _quotas(self, gang: Gang) -> Sequence[str]:
        like = gang.members[-1].requests if gang.members else Resources()
        quotas = Pages(self._api).items(f"/api/v1/namespaces/{quote(gang.key.partition('/')[0])}/resourcequotas")
        notes = [note async for raw in quotas for note in quota_notes(decoded(raw), like)]
        return notes[:_MOST_NOTES]

    async def _lacking(self, gang: Gang) -> Sequence[str]:
        """Jobs of the gang that have fewer pods than they are to make: one that was refused all is no pod's owner."""
        namespace, notes = gang.key.partition("/")[0], list[str]()
        there = Counter(pod.owner.uid for pod in gang.members if pod.owner is not None)
        async for raw in Pages(self._api).items(f"/apis/batch/v1/namespaces/{quote(namespace)}/jobs"):
            job = decoded(raw)
            meta, template = job["metadata"], value_at(job, ("spec", "template", "metadata")) or {}
            group = group_of(namespace, template.get("labels") or {}, template.get("annotations") or {})
            count = 0 if value_at(job, ("spec", "suspend")) else desired_pods(job) or 0
            if group is not None and group.key == gang.key and (exist := there[meta["uid"]]) < count:
                notes.append(f"Job {meta['name']}{HAS_MADE}{exist} of {counted(count, 'pod')}")
        return notes[:_OWNERS]

    async def _budgets(self, gang: Gang) -> Sequence[str]:
        members = of_this_run(gang, await read_members(self._api, gang.key, gang.source))
        if (name := await read_forbidding(self._api, gang.key.partition("/")[0], members)) is None:
            return ()
        return (f"PodDisruptionBudget {name} does not let its members be removed, so it is not restarted as a whole",)


async def _limited(read: Coroutine[Any, Any, Sequence[str]], about: str) -> Sequence[str]:
    try:
        async with asyncio.timeout(TIMEOUT_S):
            return await read
    except TimeoutError:
        why = f"the API server did not answer within {TIMEOUT_S:.0f} s"
    except ApiError as error:
        if error.status == 404:
            return ()
        why = "netgang has no right to read it: helm upgrade gives it" if error.status == 403 else str(error)
    except Exception as error:  # noqa: BLE001 - a tenant's object: docs/safety.md S21
        why = str(error) if isinstance(error, ApiUnavailableError) else words(error)
    return (f"{about} not known: {why}",)


def deadline_notes(owner: Controller, content: Json, *, now_s: float) -> list[str]:
    """That an owner's time runs while its pods wait: a Job's, or that of a Kubeflow job's runPolicy.

    >>> job = {"spec": {"activeDeadlineSeconds": 600}, "status": {"startTime": "1970-01-01T00:00:00Z"}}
    >>> deadline_notes(Controller("batch/v1", "Job", "j", "u"), job, now_s=480.0)
    ['Job j fails in 2 min whether it has started or not: activeDeadlineSeconds 600']
    """
    limit, started = _deadline_s(content), (content.get("status") or {}).get("startTime")
    if not isinstance(limit, int) or not isinstance(started, str):
        return []
    left_s = seconds(datetime.fromisoformat(started)) + limit - now_s
    when = f"fails in {duration_text(left_s)}" if left_s > 0.0 else "is past its time"
    return [f"{owner.kind} {owner.name} {when} whether it has started or not: activeDeadlineSeconds {limit}"]


def quota_notes(content: Json, like: Resources) -> list[str]:
    """What of a ResourceQuota does not suffice for one more pod that requests `like`."""
    status = content.get("status") or {}
    hard, used = status.get("hard") or {}, status.get("used") or {}
    name = (content.get("metadata") or {}).get("name", "")
    notes: list[str] = []
    asks: dict[str, int] = {**dict(like), PODS: 1}
    for key in sorted(hard.keys() & {form for name in asks for form in (name, f"requests.{name}")}):
        resource = key.removeprefix("requests.")
        asked = asks[resource]
        left = amount(resource, hard[key]) - amount(resource, used.get(key, "0"))
        if asked > left:
            room = f"{quantity(resource, max(left, 0))} of {key}"
            notes.append(f"ResourceQuota {name} leaves {room}, and a member asks for {quantity(resource, asked)}")
    return notes


def kept_notes(rooms: Sequence[RoomForDaemons], *, now_s: float) -> tuple[str, ...]:
    """The sentences, at `now_s` (Unix seconds).

    >>> from scoring import NodeName
    >>> young = RoomForDaemons("kube-system/cni", (NodeName("n1"), NodeName("n2")), 90.0, 0)
    >>> for note in kept_notes([young, RoomForDaemons("a/b", (), 0.0, 1)], now_s=60.0):
    ...     print(note)
    n1, n2 keep room free for the pod of DaemonSet kube-system/cni, for another 30 s at most
    DaemonSet a/b has had no pod on 1 node in the time kept for it: no room is kept free for it there
    """
    keep = sorted((room for room in rooms if room.nodes), key=lambda room: -len(room.nodes))[:_MOST_KEPT]
    over = sorted((room for room in rooms if room.overdue), key=lambda room: -room.overdue)[:_MOST_KEPT]
    now = (
        f"{some(room.nodes)} {'keeps' if len(room.nodes) == 1 else 'keep'} room free for the pod of DaemonSet "
        f"{room.daemon_set}, for another {duration_text(room.until_s - now_s)} at most"
        for room in keep
    )
    past = (
        f"DaemonSet {room.daemon_set} has had no pod on {counted(room.overdue, 'node')} in the time kept for it: "
        "no room is kept free for it there"
        for room in over
    )
    return (*now, *past)
