"""The one way in which netgang takes running or waiting pods away: evict a pod, or change what owns it.

Why one: a decision can be wrong, stale or made from a forged object. Rules (docs/safety.md S1, S11):

1. What goes was read just now (`Fresh`), from a consistent list, and every pod of it is ours by that very record. The
   call names the version that was read.
2. An Event on the pod and one on its owner, with the reason, are confirmed before; of an owner that is changed the
   first `MOST_ANNOUNCED` pods have one. What the API server refuses for good (a right, a quota, a namespace that ends)
   does not stop the act: a quota on Events makes no pod immune. Without an answer it is put off: `NotAnnouncedError`.
3. Nothing is removed for `QUIET_S` after start, take-over and new lists: a fresh cache may show too little (`Quiet`).
4. What was announced and is then refused (a disruption budget, an edit in the same moment) gets an Event as well.

No other module calls `evict`, or `patch_object` but of nodes (tests/contract/test_disruptions.py).
"""

from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from operator import attrgetter
from typing import TypeAlias
from urllib.parse import quote, urlencode

import msgspec

from extender.cache.cluster import ClusterCache
from extender.controllers import failure_budget
from extender.controllers.failure_budget import KINDS, OVER, Json, NotAllowed, WhyKept, controller_of, decoded
from extender.controllers.recorder import Events, Happening, Subject, owner_subject, pod_subject
from extender.convert import pod_from_json
from extender.errors import ApiError, NotFoundError, NotOursError
from extender.ports import Clock, ClusterApi
from extender.runtime.slices import Pages, in_slices
from extender.signed_notes import NO_NOTES, NoteReader
from scoring import GangKey, PodUid
from scoring.explain.words import some
from scoring.model import Controller, Gang, GangSource, Pod

_LABEL: Mapping[GangSource | None, str] = {  # that the members have; of other gangs all pods of the namespace are read
    GangSource.POD_GROUP: "scheduling.x-k8s.io/pod-group",
    GangSource.LABELS: "pod-group.scheduling.sigs.k8s.io/name",
}
_JOB_LABELS = ("training.kubeflow.org/job-name", "jobset.sigs.k8s.io/jobset-name", "batch.kubernetes.io/job-name")
"""By which a job's pods are listed, in the order in which a pod's job is recognised (`extender.convert.pod`)."""
_MOST_OWNERS = 8  # One above the other; references that a tenant wrote may lead in a circle


_COUNTED: Mapping[str, Sequence[str]] = {  # What owners and budgets count by: tenants can make the rest of a pod long
    "metadata": ("labels", "ownerReferences", "deletionTimestamp"),
    "spec": ("nodeName",),
    "status": ("phase", "conditions"),
}
_NAME = attrgetter("pod.name")


class Fresh(msgspec.Struct, frozen=True):
    """A member as it was read: our record, and what counts of the object."""

    pod: Pod
    content: Json

    @classmethod
    def read(cls, raw: bytes, *, notes: NoteReader = NO_NOTES) -> "Fresh":
        """What matters of the pod. ValueError: it cannot be read."""
        try:
            pod, whole = pod_from_json(raw, notes=notes), decoded(raw)
        except Exception as error:
            raise ValueError(f"a pod cannot be read: {error}") from error
        parts = {part: (whole.get(part) or {}, names) for part, names in _COUNTED.items()}
        content = {part: {name: its[name] for name in names if name in its} for part, (its, names) in parts.items()}
        noted = whole["metadata"].get("annotations") or {}
        content["metadata"]["annotations"] = {name: noted[name] for name in failure_budget.FAILURES if name in noted}
        return cls(pod, content)

    @property
    def controller_uid(self) -> str | None:
        """From the object: our record has it of members only."""
        return controller.uid if (controller := controller_of(self.content)) is not None else None


async def read_forbidding(api: ClusterApi, namespace: str, pods: Iterable[Fresh]) -> str | None:
    """The first PodDisruptionBudget that forbids the loss of all of `pods` now. Errors: ApiError's kind, ValueError."""
    contents, names = [fresh.content for fresh in pods], list[str]()
    path = f"/apis/policy/v1/namespaces/{quote(namespace, safe='')}/poddisruptionbudgets"
    async for raw in Pages(api).items(path):
        if (name := await in_slices(failure_budget.forbidding([decoded(raw)], contents))) is not None:
            names.append(name)
    return min(names, default=None)


async def read_owner(api: ClusterApi, namespace: str, owner: Controller) -> Json | None:
    """That very owner; `None`: another object has its name by now. Errors: ApiError and its kind, ValueError."""
    content = decoded(await api.get_object(owner.api_version, owner.kind, namespace, owner.name))
    return content if str(content.get("metadata", {}).get("uid", "")) == owner.uid else None


async def read_chain(api: ClusterApi, namespace: str, owner: Controller | None) -> list[Json]:
    """This owner, its own, and so on, of known kinds. Errors: ApiError's, NotFoundError if replaced; ValueError."""
    chain: list[Json] = []
    while owner is not None and owner.group_kind in KINDS and len(chain) < _MOST_OWNERS:
        content = await read_owner(api, namespace, owner)
        if content is None:
            raise NotFoundError(404, f"{owner.kind} {owner.name} was replaced by another of the same name")
        chain.append(content)
        owner = controller_of(content)
    return chain


Verdicts: TypeAlias = dict[Controller | None, tuple[int | NotAllowed, Sequence[Fresh]]]
"""Controller of pods (`None`: of those without) → what it says to the loss of all of them (`budget`), and the pods"""


async def read_verdicts(api: ClusterApi, pods: Sequence[Fresh]) -> Verdicts:
    """What those who own the pods say, read now. Errors: ApiError and its kind; ValueError: replaced, not readable."""
    by_owner: dict[Controller | None, list[Fresh]] = {}
    for member in pods:
        by_owner.setdefault(controller_of(member.content), []).append(member)
    verdicts: Verdicts = {}
    for owner, theirs in by_owner.items():
        chain = await read_chain(api, theirs[0].pod.namespace, owner)
        contents = [member.content for member in theirs]
        if owner is None:
            verdict: int | NotAllowed = NotAllowed(WhyKept.BARE)
        elif not chain:
            verdict = NotAllowed(WhyKept.UNKNOWN_KIND, f"{owner.kind} of {owner.api_version}")
        else:
            verdict = failure_budget.budget(chain[0], contents)
        over = isinstance(verdict, NotAllowed) and verdict.reason in OVER
        if not over and failure_budget.managed_by_queue([*chain, *contents]):
            verdict = NotAllowed(WhyKept.QUEUED)
        verdicts[owner] = verdict, theirs
    return verdicts


async def read_members(api: ClusterApi, key: GangKey, source: GangSource | None) -> tuple[Fresh, ...]:
    """All pods that name the gang, by name, from one list. Errors: ApiError and its kind; ValueError: not readable."""
    namespace, _, name = key.partition("/")
    pods = _read(api, namespace, f"{_LABEL[source]}={name}" if source in _LABEL else "")
    members = [fresh async for fresh in pods if fresh.pod.group is not None and fresh.pod.group.key == key]
    return tuple(sorted(members, key=_NAME))


async def read_job(api: ClusterApi, members: Sequence[Fresh]) -> tuple[Fresh, ...]:
    """The members and all else that their owner takes with it, by name, from one list. Errors: as `read_members`."""
    if not members:
        return ()
    jobs = {member.pod.job for member in members if member.pod.job is not None}
    owners = {member.controller_uid for member in members} - {None}
    labels = [member.content.get("metadata", {}).get("labels") or {} for member in members]
    selectors = {next((f"{name}={its[name]}" for name in _JOB_LABELS if its.get(name)), "") for its in labels}
    pods: dict[PodUid, Fresh] = {member.pod.uid: member for member in members}
    for selector in sorted(selectors) if "" not in selectors else ("",):
        async for fresh in _read(api, members[0].pod.namespace, selector):
            if fresh.pod.job in jobs or fresh.controller_uid in owners:
                pods.setdefault(fresh.pod.uid, fresh)
    return tuple(sorted(pods.values(), key=_NAME))


async def _read(api: ClusterApi, namespace: str, selector: str) -> AsyncIterator[Fresh]:
    query = f"?{urlencode({'labelSelector': selector})}" if selector else ""
    async for raw in Pages(api).items(f"/api/v1/namespaces/{quote(namespace, safe='')}/pods{query}"):
        yield Fresh.read(raw)


def same_as_known(gang: Gang, fresh: tuple[Fresh, ...]) -> bool:
    """Whether the pods of all its runs are those of the cache, where the cache has them, in the phase that it knows."""
    both = (*gang.members, *gang.earlier, *gang.later), [member.pod for member in fresh]
    cached, read = ({(pod.uid, pod.node, pod.phase, pod.deleting) for pod in pods} for pods in both)
    return cached == read


def of_this_run(gang: Gang, fresh: tuple[Fresh, ...]) -> tuple[Fresh, ...]:
    """Those of `fresh` that are members: pods of other runs have nothing to do with what is decided of this one."""
    members = {pod.uid for pod in gang.members}
    return tuple(member for member in fresh if member.pod.uid in members)


QUIET_S = 30.0
MOST_ANNOUNCED = 32  # Pods that have an Event of their own when their owner is changed; the owner's says how many go


class Quiet:
    """How long to keep still yet. One for all that remove pods."""

    def __init__(self, clock: Clock, *, relists: Callable[[], int] = lambda: 0) -> None:
        self._clock, self._relists = clock, relists  # How often anything was listed again so far
        self._seen = relists()
        self._until_s = clock.monotonic_s() + QUIET_S

    def check_relists(self) -> None:
        """Start again if anything was listed again since the last look; called after each plan."""
        if (relists := self._relists()) != self._seen:
            self._seen, self._until_s = relists, self._clock.monotonic_s() + QUIET_S

    @property
    def over(self) -> bool:
        """Whether removing is allowed now."""
        self.check_relists()
        return self._clock.monotonic_s() >= self._until_s


class Cause(msgspec.Struct, frozen=True):
    """Why pods are taken away: the Event's reason, and a sentence for people."""

    what: Happening
    note: str

    def topic(self, pods: Iterable[str] = ()) -> str:
        """What makes an Event the same as one before: the sentence, and the pods (uids) that it is about."""
        return str(hash((self.note, frozenset(pods))))


@dataclass(frozen=True, slots=True)
class Disruptions:
    """Evicts pods and changes owners, announced."""

    api: ClusterApi
    events: Events
    cache: ClusterCache  # Whether a pod is ours, by its record as it was read

    def foreign_among(self, pods: Iterable[Fresh]) -> Pod | None:
        """The first pod that is not ours and has not ended: the caller then decides otherwise."""
        return next((fresh.pod for fresh in pods if not fresh.pod.terminal and not self.cache.is_own(fresh.pod)), None)

    async def evict(self, member: Fresh, cause: Cause, *, among: Sequence[Fresh]) -> None:
        """Announce (`among`: all that go) and evict. Errors: ApiError's and NotAnnouncedError's kinds, NotOursError."""
        pod = member.pod
        self._refuse_foreign([member])
        await self.events.announce([pod_subject(pod)], cause.what, cause.note, cause.topic())
        if pod.owner is not None:
            owner = owner_subject(pod.namespace, pod.owner)
            await self._announce_to_owner(owner, cause, [other for other in among if other.pod.owner == pod.owner])
        try:
            await self.api.evict(pod.namespace, pod.name, pod.uid, resource_version=pod.resource_version)
        except ApiError as error:
            self._post_refusal(pod_subject(pod), cause, error)
            raise

    async def change_owner(self, owner: Subject, patch: bytes, cause: Cause, *, going: Sequence[Fresh]) -> None:
        """Announce and send a patch (of the version read) by which the owner removes pods. Errors: see `evict`."""
        self._refuse_foreign(going)
        living = [fresh for fresh in going if not fresh.pod.terminal]
        await self._announce_to_owner(owner, cause, living)
        first = [pod_subject(fresh.pod) for fresh in living[:MOST_ANNOUNCED]]
        await self.events.announce(first, cause.what, cause.note, cause.topic())
        try:
            await self.api.patch_object(owner.api_version, owner.kind, owner.namespace, owner.name, patch)
        except ApiError as error:
            self._post_refusal(owner, cause, error)
            raise

    async def restore_owner(self, owner: Subject, patch: bytes, cause: Cause | None = None) -> None:
        """Send a merge patch that removes no pod; with a `cause` it is announced on the owner. Errors: as `evict`."""
        if cause is not None:
            await self.events.announce([owner], cause.what, cause.note, str(hash(patch)))
        await self.api.patch_object(owner.api_version, owner.kind, owner.namespace, owner.name, patch)

    def _refuse_foreign(self, pods: Sequence[Fresh]) -> None:
        if (foreign := self.foreign_among(pods)) is not None:
            raise NotOursError(f"pod {foreign.key} is not netgang's (schedulerName {foreign.scheduler_name})")

    async def _announce_to_owner(self, owner: Subject, cause: Cause, pods: Sequence[Fresh]) -> None:
        """One Event for the same pods, however often it is tried to remove them."""
        names, topic = some(sorted(fresh.pod.name for fresh in pods)), cause.topic(fresh.pod.uid for fresh in pods)
        await self.events.announce([owner], cause.what, f"{cause.note} Pods: {names}." if names else cause.note, topic)

    def _post_refusal(self, about: Subject, cause: Cause, error: ApiError) -> None:
        if not isinstance(error, NotFoundError):  # it is gone, so there is nothing to report of it
            note = f"Not done now, although {cause.what} has announced it: {error.message}"
            self.events.post(about, Happening.NOT_DISRUPTED, note, cause.topic())
