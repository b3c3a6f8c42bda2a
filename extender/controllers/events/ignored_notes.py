"""Notes on tenants' objects that are not ours: counted, logged, and shown by an Event and in /v1/explain.

Why an Event: a gang that does not resume may have been suspended by an earlier netgang, or by one whose keys are lost,
and only a person can repair that. Rules: every reading is counted; each kind of note gets one Event an hour on an
object; logs are a few lines an hour, however many write notes; the record is bounded, and drops the oldest first.
"""

import logging
from collections import OrderedDict, deque
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from extender.controllers.context import ControllerContext
from extender.controllers.events.recorder import Happening
from extender.notes import Bearer, Flaw, NoteKind
from scoring.model import Gang

MOST_KEPT: Final = 4096
AGAIN_S: Final = 3600.0
LINES_AN_HOUR: Final = 20
_MOST_EXPLAINED: Final = 5
_A_STEP: Final = 100  # Events at one look; they are paced anyway
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


@dataclass(slots=True)
class _Ignored:
    bearer: Bearer
    kind: NoteKind
    flaw: Flaw
    posted_s: float | None = None

    @property
    def words(self) -> str:
        return f"Annotation {self.kind} is ignored, because it {self.flaw}: {_FOLLOWS[self.kind]}"


class IgnoredNotes:
    """The record. `heard` is `Notes.on_ignored`."""

    def __init__(self, context: ControllerContext) -> None:
        self._context = context
        self._book: OrderedDict[tuple[str, NoteKind], _Ignored] = OrderedDict()  # (uid, kind) → what is wrong with it
        self._due: OrderedDict[tuple[str, NoteKind], None] = OrderedDict()
        self._logged_s: deque[float] = deque(maxlen=LINES_AN_HOUR)

    def heard(self, kind: NoteKind, bearer: Bearer, flaw: Flaw) -> None:
        """A note was read and ignored."""
        self._context.telemetry.note_ignored(kind.removeprefix(_PREFIX))
        key, now_s = (bearer.uid, kind), self._context.clock.monotonic_s()
        known = self._book.get(key)
        if known is None or known.flaw is not flaw:
            known = self._book[key] = _Ignored(bearer, kind, flaw, known.posted_s if known is not None else None)
        self._book.move_to_end(key)
        if known.posted_s is None or now_s - known.posted_s >= AGAIN_S:
            self._due[key] = None
        if len(self._book) > MOST_KEPT:
            gone, _ = self._book.popitem(last=False)
            self._due.pop(gone, None)

    def look(self) -> None:
        """Once a second, on the leader: write the Events that are due."""
        for _ in range(min(_A_STEP, len(self._due))):
            key, _ = self._due.popitem(last=False)
            one = self._book[key]
            one.posted_s = self._context.clock.monotonic_s()
            about = one.bearer
            self._context.post_event(about, Happening.MISTAKE, one.words, one.kind)
            if len(self._logged_s) < LINES_AN_HOUR or one.posted_s - self._logged_s[0] >= AGAIN_S:
                self._logged_s.append(one.posted_s)
                _log.warning("%s %s/%s: %s", about.kind, about.namespace, about.name, one.words)

    def of(self, gang: Gang) -> tuple[str, ...]:
        """What is ignored on the gang's pods and on their owners. Cost: O(members)."""
        owners = {pod.owner.uid for pod in gang.members if pod.owner}
        uids = {*(pod.uid for pod in gang.members), *owners}
        found = [self._book[key] for uid in sorted(uids) for kind in NoteKind if (key := (uid, kind)) in self._book]
        shown = found[:_MOST_EXPLAINED]
        return tuple(f"{one.bearer.kind} {one.bearer.name}: {one.words}" for one in shown)
