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

from extender.cache.decisions import Attained
from extender.controllers.owners.failure_budget import KINDS, Json, decoded, true_condition, value_at
from extender.convert.decode import note_from_json
from extender.notes import Bearer, NoteKind, NoteReader, Notes
from scoring.ids import GangKey, gang_key
from scoring.model import Controller
from scoring.queue.service_levels import bounded_h

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
    hours: float  # Cluster-hours (`scoring.queue.service_levels`)


_NOTE = msgspec.json.Decoder(Note)
_ATTAINED = msgspec.json.Decoder(AttainedNote)
_MOST_MOMENTS = 200  # Restarts that a history names: a text of 4096 characters holds them
_WHY_CHARS = 500


def managed_by_queue(owner: bytes) -> bool:
    """Whether Kueue suspends and resumes this owner: two such controllers would undo each other's work."""
    return _QUEUE in (_metadata(owner).get("labels") or {})


def suspend_patch(
    owner: bytes, ref: Controller, note: Note, *, repair: bool, notes: Notes, attained: AttainedNote | None = None
) -> bytes:
    """Merge patch that suspends the owner as it was read; with `repair` the moment goes into its history.

    `attained`: what the gang has had; `None`: not noted. ValueError: no note can be written on it.
    """
    bearer = _bearer(owner, ref)
    content = msgspec.json.encode(Note(note.gang, note.why[:_WHY_CHARS], note.at_s)).decode()
    annotations = {NOTE: notes.write(NoteKind.RESUME, bearer, content)}
    if repair:
        moments = (*restarts_of(owner, ref, now_s=note.at_s, notes=notes), note.at_s)[-_MOST_MOMENTS:]
        text = ",".join(f"{at_s:.0f}" for at_s in moments)
        annotations[HISTORY] = notes.write(NoteKind.RESTARTS, bearer, text)
    if attained is not None:
        text = msgspec.json.encode(attained).decode()
        annotations[NoteKind.ATTAINED.value] = notes.write(NoteKind.ATTAINED, bearer, text)
    return _patch(owner, ref, suspend=True, labels={_LABEL: _VALUE}, annotations=annotations)


def resume_patch(owner: bytes, ref: Controller | None) -> bytes:
    """Merge patch that resumes the owner as it was read, and takes our note off.

    Without `ref` it leaves the rest: another client has resumed it, or wants it suspended. The label stays while the
    owner says what its gang had before.
    """
    has_had = NoteKind.ATTAINED.value in (_metadata(owner).get("annotations") or {})
    labels = {_LABEL: _RAN if has_had else None}
    return _patch(owner, ref, suspend=False, labels=labels, annotations={NOTE: None})


def note_of(owner: bytes, ref: Controller, notes: NoteReader) -> Note | None:
    """Our note on this very owner; `None`: there is none, or none of ours. ValueError: `owner` is no API object."""
    return note_from_json(_NOTE, _content(owner, ref, NoteKind.RESUME, notes))


def attained_of(owner: bytes, ref: Controller, notes: NoteReader) -> AttainedNote | None:
    """What the gang of this very owner has had; `None`: not noted. ValueError: `owner` is no API object."""
    return note_from_json(_ATTAINED, _content(owner, ref, NoteKind.ATTAINED, notes))


def remembered(note: AttainedNote, ref: Controller) -> Attained:
    """The same for the cache, for pods of this owner; bounded, as all numbers that are compared."""
    return Attained(ref.uid, bounded_h(note.hours))


def gang_of(owner: bytes, note: Note | AttainedNote) -> GangKey:
    """The gang that is to come back: of the owner's own namespace, whatever the note says."""
    return gang_key(namespace_of(owner), note.gang)


def restarts_of(owner: bytes, ref: Controller, *, now_s: float, notes: NoteReader) -> tuple[float, ...]:
    """When the owner's gang was restarted in the last `REMEMBERED_S`, Unix seconds, ascending."""
    text = _content(owner, ref, NoteKind.RESTARTS, notes) or ""
    moments = [float(part) for part in text.split(",") if part.isascii() and part.isdigit() and len(part) < 13]
    return tuple(sorted(at_s for at_s in moments if now_s - at_s < REMEMBERED_S))


def is_suspended(owner: bytes, ref: Controller) -> bool:
    """Whether the switch says suspended."""
    return bool(value_at(decoded(owner), KINDS[ref.group_kind].switch))


def has_stopped(owner: bytes) -> bool:
    """Whether its controller has seen that it is suspended: it creates no more pods."""
    return bool(true_condition(decoded(owner).get("status") or {}, "Suspended"))


def is_over(owner: bytes) -> bool:
    """Whether it is being deleted, finished or failed: it is not to be resumed."""
    found = decoded(owner)
    ended = true_condition(found.get("status") or {}, "Complete", "Failed", "FailureTarget", "Succeeded")
    return bool(ended or found.get("metadata", {}).get("deletionTimestamp"))


def waits_for_the_end(owner: bytes) -> bool:
    """Whether a Job creates a successor only when the pod before has ended, not when it is being deleted."""
    return (decoded(owner).get("spec") or {}).get("podReplacementPolicy") == "Failed"


def ref_of(api_version: str, kind: str, owner: bytes) -> Controller:
    """Names an owner that was read. ValueError: it is no API object."""
    metadata = _metadata(owner)
    return Controller(api_version, kind, str(metadata.get("name", "")), str(metadata.get("uid", "")))


def namespace_of(owner: bytes) -> str:
    """The namespace it is in."""
    return str(_metadata(owner).get("namespace", ""))


def _content(owner: bytes, ref: Controller, kind: NoteKind, notes: NoteReader) -> str | None:
    text = (_metadata(owner).get("annotations") or {}).get(kind.value)
    return notes.read(kind, _bearer(owner, ref), text) if isinstance(text, str) else None


def _bearer(owner: bytes, ref: Controller) -> Bearer:
    """The owner as it was read: what is signed is its own, not what a note calls it."""
    uid = str(_metadata(owner).get("uid", ""))
    return Bearer(ref.api_version, ref.kind, namespace_of(owner), ref.name, uid)


def _patch(owner: bytes, ref: Controller | None, *, suspend: bool, labels: _Texts, annotations: _Texts) -> bytes:
    version = str(_metadata(owner).get("resourceVersion", ""))
    head = {"resourceVersion": version, "labels": dict(labels), "annotations": dict(annotations)}
    patch: dict[str, Any] = {"metadata": head}
    if ref is not None:
        inner: Any = suspend
        for part in reversed(KINDS[ref.group_kind].switch):
            inner = {part: inner}
        patch |= inner
    return msgspec.json.encode(patch)


def _metadata(owner: bytes) -> Json:
    found: Json = decoded(owner).get("metadata") or {}
    return found
