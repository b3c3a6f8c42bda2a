"""How an owner of pods is suspended by us, and resumed: what is written on it, and what it then says.

Why notes on the owner: the only memory that a new leader has is the API server; our note on a suspended owner shows it
that netgang suspended it, not its user, and the leader finishes the restart. Rules: a note counts with our
signature for this very owner, and speaks of a gang of the owner's namespace (docs/safety.md S22), so neither a copy of
the manifest nor another client's note is ours; every patch names the version that was read; an owner without our
note is never resumed. No effects: raw JSON in, patches and verdicts out.
"""

from collections.abc import Mapping
from typing import Any, TypeAlias

import msgspec

from extender.cache import Attained
from extender.controllers.owners.failure_budget import KINDS, Json, decoded, true_condition, value_at
from extender.convert.decode import note_from_json
from extender.notes import Bearer, NoteKind, NoteReader, Notes
from scoring.ids import GangKey, gang_key
from scoring.model import Controller
from scoring.queue.weights import bounded_h

_Texts: TypeAlias = Mapping[str, str | None]
_LABEL, _VALUE, _RAN = "netgang.io/restart", "suspended", "ran-before"
MARK = f"{_LABEL}={_VALUE}"  # Label, with its value, of owners that we have suspended
RAN_BEFORE = f"{_LABEL}={_RAN}"  # Label of owners that we have resumed and that say what their gang had
NOTE = NoteKind.RESUME.value  # Annotation: what to resume, and why (`Note`). Without it the owner stays suspended
HISTORY = NoteKind.RESTARTS.value  # Annotation: when the gang was restarted to repair it, Unix seconds, the latest last
REMEMBERED_S = 3600.0  # Older moments leave the history
_QUEUE = "kueue.x-k8s.io/queue-name"


class Note(msgspec.Struct, frozen=True):
    """What we write on an owner when we suspend it."""

    gang: str  # Its name: it is in the owner's namespace
    why: str
    at_s: float


class AttainedNote(msgspec.Struct, frozen=True):
    """What we write on an owner when we suspend it, and leave there: what its gang has had by then."""

    gang: str  # Its name: it is in the owner's namespace
    hours: float  # Cluster-hours (`scoring.queue.weights`)


_NOTE = msgspec.json.Decoder(Note)
_ATTAINED = msgspec.json.Decoder(AttainedNote)
_MOST_MOMENTS = 200  # Restarts that a history names: a text of 4096 characters holds them
_WHY_CHARS = 500


class FreshOwner(msgspec.Struct, frozen=True):
    """An owner of pods as it was read, and what is written on it. Every answer may be a ValueError: no API object."""

    ref: Controller
    raw: bytes

    @classmethod
    def read(cls, api_version: str, kind: str, raw: bytes) -> "FreshOwner":
        """The object, under the name that it has."""
        metadata = decoded(raw).get("metadata") or {}
        return cls(Controller(api_version, kind, str(metadata.get("name", "")), str(metadata.get("uid", ""))), raw)

    @property
    def namespace(self) -> str:
        """The namespace it is in."""
        return str(self._metadata.get("namespace", ""))

    @property
    def managed_by_queue(self) -> bool:
        """Whether Kueue suspends and resumes this owner: two such controllers would undo each other's work."""
        return _QUEUE in (self._metadata.get("labels") or {})

    @property
    def suspended(self) -> bool:
        """Whether the switch says suspended."""
        return bool(value_at(decoded(self.raw), KINDS[self.ref.group_kind].switch))

    @property
    def has_stopped(self) -> bool:
        """Whether its controller has seen that it is suspended: it creates no more pods."""
        return bool(true_condition(decoded(self.raw).get("status") or {}, "Suspended"))

    @property
    def over(self) -> bool:
        """Whether it is being deleted, finished or failed: it is not to be resumed."""
        status = decoded(self.raw).get("status") or {}
        ended = true_condition(status, "Complete", "Failed", "FailureTarget", "Succeeded")
        return bool(ended or self._metadata.get("deletionTimestamp"))

    @property
    def waits_for_the_end(self) -> bool:
        """Whether it creates a successor, or resumes, only when the pod before has ended, not when it is deleted."""
        failed = (decoded(self.raw).get("spec") or {}).get("podReplacementPolicy") == "Failed"
        return failed or KINDS[self.ref.group_kind].fixed_names

    def note(self, notes: NoteReader) -> Note | None:
        """Our note on this very owner; `None`: there is none, or none of ours."""
        return note_from_json(_NOTE, self._content(NoteKind.RESUME, notes))

    def attained(self, notes: NoteReader) -> AttainedNote | None:
        """What its gang has had; `None`: not noted."""
        return note_from_json(_ATTAINED, self._content(NoteKind.ATTAINED, notes))

    def restarts(self, notes: NoteReader, *, now_s: float) -> tuple[float, ...]:
        """When its gang was restarted in the last `REMEMBERED_S`, Unix seconds, ascending."""
        text = self._content(NoteKind.RESTARTS, notes) or ""
        moments = [float(part) for part in text.split(",") if part.isascii() and part.isdigit() and len(part) < 13]
        return tuple(sorted(at_s for at_s in moments if now_s - at_s < REMEMBERED_S))

    def suspend_patch(self, note: Note, *, repair: bool, notes: Notes, attained: AttainedNote | None = None) -> bytes:
        """Merge patch that suspends it; with `repair` the moment goes into its history.

        `attained`: what the gang has had; `None`: not noted. ValueError: no note can be written on it.
        """
        written = {NoteKind.RESUME: msgspec.json.encode(Note(note.gang, note.why[:_WHY_CHARS], note.at_s)).decode()}
        if repair:
            moments = (*self.restarts(notes, now_s=note.at_s), note.at_s)[-_MOST_MOMENTS:]
            written[NoteKind.RESTARTS] = ",".join(f"{at_s:.0f}" for at_s in moments)
        if attained is not None:
            written[NoteKind.ATTAINED] = msgspec.json.encode(attained).decode()
        annotations = {kind.value: notes.write(kind, self._bearer, content) for kind, content in written.items()}
        return self._patch({_LABEL: _VALUE}, annotations, suspend=True)

    def resume_patch(self, *, resume: bool) -> bytes:
        """Merge patch that resumes it, and takes our note off.

        Not to `resume`: another client has resumed it, or wants it suspended. The label stays while the owner says what
        its gang had before.
        """
        has_had = NoteKind.ATTAINED.value in (self._metadata.get("annotations") or {})
        return self._patch({_LABEL: _RAN if has_had else None}, {NOTE: None}, suspend=False if resume else None)

    @property
    def _metadata(self) -> Json:
        metadata: Json = decoded(self.raw).get("metadata") or {}
        return metadata

    @property
    def _bearer(self) -> Bearer:
        """The owner as it was read: what is signed is its own, not what a note calls it."""
        ref, uid = self.ref, str(self._metadata.get("uid", ""))
        return Bearer(ref.api_version, ref.kind, self.namespace, ref.name, uid)

    def _content(self, kind: NoteKind, notes: NoteReader) -> str | None:
        text = (self._metadata.get("annotations") or {}).get(kind.value)
        return notes.read(kind, self._bearer, text) if isinstance(text, str) else None

    def _patch(self, labels: _Texts, annotations: _Texts, *, suspend: bool | None) -> bytes:
        """Of the version that was read; `suspend` None: the switch is left as it is."""
        version = str(self._metadata.get("resourceVersion", ""))
        patch: dict[str, Any] = {
            "metadata": {"resourceVersion": version, "labels": dict(labels), "annotations": dict(annotations)}
        }
        if suspend is not None:
            inner: Any = suspend
            for part in reversed(KINDS[self.ref.group_kind].switch):
                inner = {part: inner}
            patch |= inner
        return msgspec.json.encode(patch)


def gang_of(owner: FreshOwner, note: Note | AttainedNote) -> GangKey:
    """The gang that is to come back: of the owner's own namespace, whatever the note says."""
    return gang_key(owner.namespace, note.gang)


def remembered(note: AttainedNote, ref: Controller) -> Attained:
    """What a gang has had, for the cache, for pods of this owner; bounded, as all numbers that are compared."""
    return Attained(ref.uid, bounded_h(note.hours))
