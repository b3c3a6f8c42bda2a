"""Notes: what netgang writes on tenants' objects for its own successor, signed so that no other client can write one.

Why: the API server's objects are the only memory that netgang has, and a user that may patch a pod or a Job may write
the same annotation. Rule (docs/safety.md S22): a note is believed only with a signature by a key of ours over what kind
of note it is, the object that carries it and its content; all others are ignored, counted and reported. A note speaks
of the object that carries it, or of its gang, and never names anything in another namespace.
"""

from extender.notes.keys import Key, KeyRing
from extender.notes.notes import (
    MOST_CHARS,
    NO_NOTES,
    Bearer,
    Flaw,
    NoteKind,
    NoteReader,
    Notes,
    UncheckedNotes,
)

__all__ = [
    "MOST_CHARS",
    "NO_NOTES",
    "Bearer",
    "Flaw",
    "Key",
    "KeyRing",
    "NoteKind",
    "NoteReader",
    "Notes",
    "UncheckedNotes",
]
