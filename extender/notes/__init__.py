"""Notes: what netgang writes on tenants' objects for its own successor, signed so that no other client can write one.

The API server's objects are the only memory that netgang has, and users may write the same annotations. Rule
(docs/safety.md S22): a note is believed only with an HMAC by a key of ours over what kind of note it is, the object
that carries it and its content; all others are ignored, counted, reported. None names anything in another namespace.
"""

from extender.notes.signatures import MOST_CHARS, NO_NOTES, Bearer, Flaw, NoteKind, NoteReader, Notes, UncheckedNotes

__all__ = ["MOST_CHARS", "NO_NOTES", "Bearer", "Flaw", "NoteKind", "NoteReader", "Notes", "UncheckedNotes"]
