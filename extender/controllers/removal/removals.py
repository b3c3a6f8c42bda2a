"""The one way in which netgang takes running or waiting pods away: evict a pod, or change what owns it.

Why one: a decision can be wrong, stale or made from a forged object; the user of a lost pod has to know why, and a pod
of another scheduler must stay whatever was decided. Rules (docs/safety.md S1, S11):

1. What goes was read from the API server just now (`Fresh`), and every pod of it is ours, judged by that very record;
   the call names the version that was read, so it cannot hit another.
2. An Event on the pod and one on its owner, with the reason, are confirmed by the API server before. An owner that is
   changed has one, and so have the first `MOST_ANNOUNCED` of the pods that go with it. What the API server refuses for
   good (no right, a quota, a namespace that ends) is counted, and the act goes on: a quota on Events makes no pod
   immune. Without an answer within `ANNOUNCE_S` seconds it is put off: `NotAnnouncedError`, and nothing was done.
3. Nothing is removed for `QUIET_S` after start, take-over and new lists: a fresh cache may show too little (`Quiet`).
4. What was announced and is then refused (a disruption budget, an edit in the same moment) gets an Event as well.

No other module calls `evict` or `patch_object` (tests/contract/test_disruptions.py).
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

import msgspec

from extender.cache import ClusterCache
from extender.controllers.events.recorder import Events, Happening, Subject, owner_subject, pod_subject
from extender.controllers.removal.fresh_gang import Fresh
from extender.errors import ApiError, NotFoundError, NotOursError
from extender.ports import Clock, ClusterApi
from scoring.explain.words import some
from scoring.model import Pod

QUIET_S = 30.0
MOST_ANNOUNCED = 32  # Pods that have an Event of their own when their owner is changed; the owner's says how many go


class Quiet:
    """How long to keep still yet. One for all that remove pods."""

    def __init__(self, clock: Clock, *, relists: Callable[[], int] = lambda: 0) -> None:
        self._clock = clock
        self._relists = relists  # How often anything was listed again so far
        self._seen = relists()
        self._until_s = clock.monotonic_s() + QUIET_S

    def look(self) -> None:
        """Start again if anything was listed again since the last look; called after each plan."""
        relists = self._relists()
        if relists != self._seen:
            self._seen = relists
            self._until_s = self._clock.monotonic_s() + QUIET_S

    @property
    def over(self) -> bool:
        """Whether removing is allowed now."""
        self.look()
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
    """Evicts pods and changes owners, announced. Holds nothing between calls."""

    api: ClusterApi
    events: Events
    cache: ClusterCache  # Whether a pod is ours, by its record as it was read

    def foreign_among(self, pods: Iterable[Fresh]) -> Pod | None:
        """The first pod that is not ours and has not ended: the caller then decides otherwise."""
        return next((one.pod for one in pods if not one.pod.terminal and not self.cache.is_own(one.pod)), None)

    async def evict(self, one: Fresh, cause: Cause, *, among: Sequence[Fresh]) -> None:
        """Announce (`among`: all that go) and evict. Errors: ApiError's and NotAnnouncedError's kinds, NotOursError."""
        pod = one.pod
        self._refuse_foreign([one])
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
        living = [one for one in going if not one.pod.terminal]
        await self._announce_to_owner(owner, cause, living)
        first = [pod_subject(one.pod) for one in living[:MOST_ANNOUNCED]]
        await self.events.announce(first, cause.what, cause.note, cause.topic())
        try:
            await self._patch(owner, patch)
        except ApiError as error:
            self._post_refusal(owner, cause, error)
            raise

    async def restore_owner(self, owner: Subject, patch: bytes, cause: Cause | None = None) -> None:
        """Send a merge patch that removes no pod; with a `cause` it is announced on the owner. Errors: as `evict`."""
        if cause is not None:
            await self.events.announce([owner], cause.what, cause.note, str(hash(patch)))
        await self._patch(owner, patch)

    def _refuse_foreign(self, pods: Sequence[Fresh]) -> None:
        if (foreign := self.foreign_among(pods)) is not None:
            raise NotOursError(f"pod {foreign.key} is not netgang's (schedulerName {foreign.scheduler_name})")

    async def _announce_to_owner(self, owner: Subject, cause: Cause, pods: Sequence[Fresh]) -> None:
        """One Event for the same pods, however often it is tried to remove them."""
        names = some(sorted(one.pod.name for one in pods))
        which = f" Pods: {names}." if names else ""
        await self.events.announce(
            [owner], cause.what, f"{cause.note}{which}", cause.topic(one.pod.uid for one in pods)
        )

    def _post_refusal(self, about: Subject, cause: Cause, error: ApiError) -> None:
        if not isinstance(error, NotFoundError):  # it is gone, so there is nothing to report of it
            note = f"Not done now, although {cause.what} has announced it: {error.message}"
            self.events.post(about, Happening.NOT_DISRUPTED, note, cause.topic())

    async def _patch(self, owner: Subject, patch: bytes) -> None:
        await self.api.patch_object(owner.api_version, owner.kind, owner.namespace, owner.name, patch)
