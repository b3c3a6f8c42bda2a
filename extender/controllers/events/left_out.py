"""What netgang leaves out of account: objects that it cannot read, and notes on tenants' objects that are not its own.

Why Events, and words for /v1/explain: the owner of an object that is left out (docs/safety.md S21) sees a gang that
waits for a PodGroup which is there, or a pod that waits without end; a gang that does not resume may have been
suspended by an earlier netgang, or by one whose keys are lost, and only a person can repair that. Rules: one Event for
each object that cannot be read, one object at each look, so that a thousand bad ones of one tenant do not keep the
Events of all others waiting; every note that is ignored is counted, each kind gets one Event an hour on an object, and
logs are a few lines an hour, however many write notes; the record is bounded, and drops the oldest first.
"""

import logging
from collections import OrderedDict, deque
from collections.abc import Mapping
from typing import Final

import msgspec

from extender.cache.unreadable import Unreadable, UnreadableObjects
from extender.controllers.context import ControllerContext, ControlLoop
from extender.controllers.events.recorder import Happening, Subject
from extender.notes import Bearer, Flaw, NoteKind
from scoring.ids import GangKey
from scoring.model import Gang

MOST_KEPT: Final = 4096
AGAIN_S: Final = 3600.0
LINES_AN_HOUR: Final = 20
_MOST_EXPLAINED: Final = 5
_A_STEP: Final = 100  # Events at one look; they are paced anyway
_NAMED: Final = 5  # Objects of a gang's namespace that its explanation names
_PREFIX: Final = "netgang.io/"

_FOLLOWS: Final[Mapping[NoteKind, str]] = {
    # kind of note → what that means
    NoteKind.ADMITTED: "after a restart the pod's place is planned again",
    NoteKind.PREEMPTS: "it reserves no room for the gang",
    NoteKind.RESUME: "netgang does not resume this owner; if netgang has suspended it, set its suspend field to false",
    NoteKind.RESTARTS: "restarts that it names are not counted",
    NoteKind.ATTAINED: "what the gang had of the cluster before it was suspended is not counted",
    NoteKind.LAST_CHANGE: "the job's present worker count is taken for the one that its owner asked for",
}

_log = logging.getLogger(__name__)


class _Ignored(msgspec.Struct):
    bearer: Bearer
    kind: NoteKind
    flaw: Flaw
    posted_s: float | None = None

    @property
    def words(self) -> str:
        return f"Annotation {self.kind} is ignored, because it {self.flaw}: {_FOLLOWS[self.kind]}"


class IgnoredNotes(ControlLoop):
    """The record. `heard` is `Notes.on_ignored`."""

    def __init__(self, context: ControllerContext) -> None:
        super().__init__(context)
        self._book: OrderedDict[tuple[str, NoteKind], _Ignored] = OrderedDict()  # (uid, kind) → what is wrong with it
        self._due: OrderedDict[tuple[str, NoteKind], None] = OrderedDict()
        self._logged_s: deque[float] = deque(maxlen=LINES_AN_HOUR)

    def heard(self, kind: NoteKind, bearer: Bearer, flaw: Flaw) -> None:
        """A note was read and ignored."""
        self.context.telemetry.note_ignored(kind.removeprefix(_PREFIX))
        key, now_s = (bearer.uid, kind), self.context.clock.monotonic_s()
        ignored = self._book.get(key)
        if ignored is None or ignored.flaw is not flaw:
            posted_s = ignored.posted_s if ignored is not None else None
            ignored = self._book[key] = _Ignored(bearer, kind, flaw, posted_s)
        self._book.move_to_end(key)
        if ignored.posted_s is None or now_s - ignored.posted_s >= AGAIN_S:
            self._due[key] = None
        if len(self._book) > MOST_KEPT:
            gone, _ = self._book.popitem(last=False)
            self._due.pop(gone, None)

    def look(self) -> None:
        """Write the Events that are due."""
        for _ in range(min(_A_STEP, len(self._due))):
            key, _ = self._due.popitem(last=False)
            one = self._book[key]
            one.posted_s = self.context.clock.monotonic_s()
            about = one.bearer
            self.context.post_event(about, Happening.MISTAKE, one.words, one.kind)
            if len(self._logged_s) < LINES_AN_HOUR or one.posted_s - self._logged_s[0] >= AGAIN_S:
                self._logged_s.append(one.posted_s)
                _log.warning("%s %s/%s: %s", about.kind, about.namespace, about.name, one.words)

    def of(self, gang: Gang) -> tuple[str, ...]:
        """What is ignored on the gang's pods and on their owners. Cost: O(members)."""
        uids = {pod.uid for pod in gang.members} | {pod.owner.uid for pod in gang.members if pod.owner}
        ignored = [self._book[key] for uid in sorted(uids) for kind in NoteKind if (key := (uid, kind)) in self._book]
        return tuple(f"{one.bearer.kind} {one.bearer.name}: {one.words}" for one in ignored[:_MOST_EXPLAINED])


class UnreadableWords(ControlLoop):
    """What is said of objects that cannot be read."""

    def __init__(self, context: ControllerContext, objects: UnreadableObjects) -> None:
        super().__init__(context)
        self._objects = objects
        self._posted: set[tuple[str, str, str, str]] = set()  # Those with an Event, of those that cannot be read now

    def look(self) -> None:
        """Write one Event. Cost: O(objects that cannot be read), which is bounded."""
        there = {(one.kind, one.namespace, one.name, one.uid): one for one in self._objects}
        self._posted &= there.keys()
        if (new := next((identity for identity in there if identity not in self._posted), None)) is not None:
            self._posted.add(new)
            one = there[new]
            subject = Subject(one.api_version, one.kind, one.namespace or "default", one.name, one.uid)
            self.context.post_event(
                subject, Happening.UNREADABLE, f"netgang cannot read it and leaves it out: {one.why}"
            )

    def of_gang(self, gang: GangKey) -> tuple[str, ...]:
        """Its PodGroup, and what else of its namespace may belong to it."""
        namespace = gang.partition("/")[0]
        near = [one for one in self._objects if one.namespace == namespace]
        near.sort(key=lambda one: (f"{one.namespace}/{one.name}" != gang, one.kind, one.name))
        return tuple(_sentence(one) for one in near[:_NAMED])

    def named(self, namespace: str, name: str) -> str | None:
        """What is wrong with the objects of that name; `None`: all that there are can be read."""
        return (
            "; ".join(_sentence(one) for one in self._objects if (one.namespace, one.name) == (namespace, name)) or None
        )


def _sentence(one: Unreadable) -> str:
    return f"{one.kind} {one.namespace}/{one.name} cannot be read and is left out: {one.why}"
