"""Kubernetes Events about pods and PodGroups: what people have to know and cannot read from the status.

Why so guarded: a cluster full of waiting gangs could produce thousands of Events a minute. Rules: an object gets the
same Event once in `REPEAT_S`; the queue is bounded and paced, and what does not fit, or is refused, is counted and
dropped; Events that announce a removal are confirmed before it is done (docs/safety.md S11).
"""

import asyncio
import logging
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Hashable, Sequence
from datetime import UTC, datetime
from enum import StrEnum
from typing import Generic, Self, TypeAlias, TypeVar

import msgspec

from extender.errors import ApiError, ApiUnavailableError, NotAnnouncedError
from extender.ports import Clock, ClusterApi
from extender.runtime.telemetry import Telemetry
from extender.signed_notes import Bearer
from scoring.model import Controller, Pod

REPORTER = "netgang.io/extender"
REPEAT_S = 600.0
MOST_QUEUED = 1000
_PER_S = 10.0
_MOST_REMEMBERED = 10_000
ANNOUNCE_S = 2.0  # Longest time that an act waits for its Events; not confirmed by then, it is put off
_AT_ONCE = 8  # Events of one announcement that are under way at the same time
_NOTE_BYTES = 1024  # The API server's limit (events.k8s.io/v1)

_T = TypeVar("_T", bound=Hashable)
_log = logging.getLogger(__name__)


class WriteQueue(Generic[_T]):
    """What is to be written one by one; bounded, and each item is in it once."""

    def __init__(self, most: int, per_s: float) -> None:
        self._queue: asyncio.Queue[_T] = asyncio.Queue(most)
        self._queued: set[_T] = set()  # They wait, or their write is under way
        self._pause_s = 1.0 / per_s
        self.full = self._queue.full  # Whether it takes no more now

    def __contains__(self, item: _T) -> bool:
        return item in self._queued

    def add(self, item: _T) -> bool:
        """Have it written soon; whether it will be."""
        if item not in self._queued:
            if self.full():
                return False
            self._queue.put_nowait(item)
            self._queued.add(item)
        return True

    async def work_off(self, write: Callable[[_T], Awaitable[bool]]) -> None:
        """Write until cancelled; `write` says whether anything was sent, which is paced."""
        while True:
            item = await self._queue.get()
            try:
                sent = await write(item)
            finally:
                self._queued.discard(item)
            if sent:
                await asyncio.sleep(self._pause_s)


class Happening(StrEnum):
    """An Event's reason, `action` (what netgang was doing), and `type`: Warning where people have to act.

    Below each: on which object. What it says.
    """

    action: str
    type: str

    def __new__(cls, reason: str, action: str, type: str = "Warning") -> Self:
        """With the Event's fields of these names."""
        happening = str.__new__(cls, reason)
        happening._value_, happening.action, happening.type = reason, action, type
        return happening

    ADMISSION_LAPSED = "AdmissionLapsed", "Admit"
    """On one waiting pod of the gang. The gang was admitted and did not come to bind in time, or the API server refuses
    the patch that would admit the pod; says whose words speak against it, and when it is tried again."""
    GANG_INVALID = "GangInvalid", "Plan"
    """On the pod whose labels are at fault, on one pod of each scheduler where they are mixed, and on the PodGroup.
    What the gang's pods say of it cannot be used; says what to change."""
    MISTAKE = "ProbableMistake", "Read"
    """On a pod, and on the job. An annotation is not understood, so the default is used; or is one that only netgang
    writes; or a label, annotation or schedulerName is probably misspelt, or not in the pod template. Says what
    is accepted or may be meant."""
    UNREADABLE = "Unreadable", "Read"
    """On any object that netgang follows. It cannot be read, so it is left out as if it were not there; says what is
    wrong with it."""
    GANG_WAITING = "GangWaiting", "Plan", "Normal"
    """On the PodGroup and one waiting pod. The gang waits: how much room is missing and where, which gangs are ahead,
    why no job or gang makes room, or which earlier run has not ended; and the expected start, if it is known."""
    GANG_STUCK = "GangCannotStart", "Plan"
    """On the PodGroup and one waiting pod. It would not start in the empty cluster either; says what it needs and what
    there is."""
    GANG_STARTED = "GangStarted", "Bind", "Normal"
    """On the PodGroup. The minimum has nodes; says how long it took."""
    PREEMPTS = "GangPreempts", "Preempt", "Normal"
    """On the PodGroup and one pod of the gang that waits. Which gangs leave for it, and which room is reserved for it
    meanwhile."""
    PREEMPTED = "GangPreempted", "Preempt"
    """On the PodGroup and one pod of the gang that leaves. It leaves for a gang of higher priority, which is named;
    its owner recreates its pods."""
    RESTARTED = "GangRestarted", "Restart", "Normal"
    """On the owner and its pods (the first 32 of a suspended one); before it is suspended, resumed, or they are
    evicted. The gang is restarted as a whole, and why: a member was lost, or it makes room for another gang."""
    EVICTED = "PodEvicted", "Evict"
    """On the pod and its owner; before it is removed. The gang did not become whole in two minutes, or the
    nodes that the pod may use are gone, full or refused."""
    NOT_DISRUPTED = "DisruptionFailed", "Evict"
    """On a pod or an owner. Pods would have to be removed, or their gang restarted, and are not; says why, and what the
    API server answered if it had been announced."""
    BROKEN = "GangBroken", "Repair"
    """On the PodGroup and one pod. Members that made the gang whole are lost; says which, and what the gang waits
    for."""
    NODE_OVERCOMMITTED = "NodeOvercommitted", "Bind"
    """On the node (in namespace `default`). Its bound pods, ours among them, request more than it has; says how much,
    and which pods."""
    NETWORK_DEGRADED = "NetworkDegraded", "Measure"
    """On the node, or on the first node of a zone (in namespace `default`). The node's links, or all inside the zone,
    have been bad for a minute; says how many, and the worst. The node has the condition of this name, too."""
    NETWORK_RECOVERED = "NetworkRecovered", "Measure", "Normal"
    """On the same node. These links are good again, for two minutes at least."""
    JOB_RESIZED = "JobResized", "Resize", "Normal"
    """On the job, and on the pods that go (the first 32); if workers go, before it is changed. From how many workers to
    how many, for which gang or why."""
    JOB_NOT_RESIZED = "JobNotResized", "Resize"
    """On the job, or on a pod of it. It is not resized, or a change was given up; says why."""


Subject: TypeAlias = Bearer  # What an Event is about, as what bears a note; the namespace of a node is empty


def pod_subject(pod: Pod) -> Subject:
    """The pod."""
    return Subject("v1", "Pod", pod.namespace, pod.name, pod.uid)


def owner_subject(namespace: str, owner: Controller) -> Subject:
    """The controller of pods of this namespace, which Events may be about whatever its kind."""
    return Subject(owner.api_version, owner.kind, namespace, owner.name, owner.uid)


def node_subject(name: str) -> Subject:
    """A node, as kubelets write Events: its name for a uid."""
    return Subject("v1", "Node", "", name, name)


class _News(msgspec.Struct, frozen=True):
    about: Subject
    what: Happening
    note: str
    at_s: float  # Unix seconds


class Events:
    """A queue of Events, and the task that posts them."""

    def __init__(self, api: ClusterApi, clock: Clock, telemetry: Telemetry, *, instance: str) -> None:
        self._api, self._clock, self._telemetry, self._instance = api, clock, telemetry, instance
        self._writes = WriteQueue[_News](MOST_QUEUED, _PER_S)
        self._posted_s: OrderedDict[tuple[str, Happening, str], float] = OrderedDict()  # (uid, what, topic) → last

    def post(self, about: Subject, what: Happening, note: str, topic: str = "") -> None:
        """Post an Event soon, unless the object got `what` with this topic less than `REPEAT_S` ago; never waits."""
        if self._was_posted(about, what, topic):
            return
        self._posted_s[about.uid, what, topic] = self._clock.monotonic_s()
        if not self._writes.add(_News(about, what, note, self._clock.now_s())):
            self._telemetry.event_dropped()

    async def announce(self, about: Sequence[Subject], what: Happening, note: str, topic: str) -> None:
        """Post an Event about each object that did not get it lately; those refused for good are logged.

        Errors: NotAnnouncedError: the API server has not confirmed them within `ANNOUNCE_S`.
        """
        news = [subject for subject in about if not self._was_posted(subject, what, topic)]
        try:
            async with asyncio.timeout(ANNOUNCE_S):
                for first in range(0, len(news), _AT_ONCE):
                    batch = news[first : first + _AT_ONCE]
                    await asyncio.gather(*(self._announce_to(subject, what, note, topic) for subject in batch))
        except (ApiError, ApiUnavailableError, TimeoutError) as error:
            raise NotAnnouncedError(f"put off, because its Event {what} was not confirmed: {error}") from error

    async def run(self) -> None:
        """Post what is queued until cancelled."""
        await self._writes.work_off(self._write)

    def _was_posted(self, about: Subject, what: Happening, topic: str) -> bool:
        since_s, posted_s = self._clock.monotonic_s() - REPEAT_S, self._posted_s
        while posted_s and (len(posted_s) > _MOST_REMEMBERED or next(iter(posted_s.values())) <= since_s):
            posted_s.popitem(last=False)
        return (about.uid, what, topic) in posted_s

    async def _announce_to(self, about: Subject, what: Happening, note: str, topic: str) -> None:
        try:
            await self._create(_News(about, what, note, self._clock.now_s()))
        except ApiError as error:
            if error.status == 429 or error.status >= 500:  # it has not decided: it is asked again
                raise
            _log.warning("Event %s about %s/%s is refused: %s", what, about.namespace, about.name, error)
        self._posted_s[about.uid, what, topic] = self._clock.monotonic_s()

    async def _write(self, news: _News) -> bool:
        try:
            await self._create(news)
        except (ApiError, ApiUnavailableError) as error:
            self._telemetry.event_dropped()
            _log.info("Event %s about %s/%s not posted: %s", news.what, news.about.namespace, news.about.name, error)
        return True

    async def _create(self, news: _News) -> None:
        about, at = news.about, datetime.fromtimestamp(news.at_s, UTC)
        kind = {"apiVersion": about.api_version, "kind": about.kind}
        namespace = about.namespace or "default"
        body = {
            # A dash, because what is before it must be a name in itself; cut, because all of it must be one.
            "metadata": {"generateName": f"{about.name[:200]}-", "namespace": namespace},
            "eventTime": at.strftime("%Y-%m-%dT%H:%M:%S.%fZ"),  # microseconds
            "regarding": {**kind, "namespace": about.namespace, "name": about.name, "uid": about.uid},
            "reason": news.what.value,
            "action": news.what.action,
            "type": news.what.type,
            "note": clipped(news.note),
            "reportingController": REPORTER,
            "reportingInstance": self._instance,
        }
        await self._api.create_event(namespace, body)


def clipped(note: str) -> str:
    """At most as many bytes as an Event's note may have, cut between characters.

    >>> clipped("é" * 600) == "é" * 510 + "…"
    True
    """
    if len(note.encode()) <= _NOTE_BYTES:
        return note
    return note.encode()[: _NOTE_BYTES - len("…".encode())].decode(errors="ignore") + "…"
