"""A text in a ConfigMap of netgang's own, and the note that signs it.

Rule (docs/safety.md S21, S22): the text is measured and its signature is checked before it is parsed; the signature is
a note with the text's SHA-256, so it is worth nothing on another object or for another text. What is wrong is a
`ValueError` that says so in words for people, and then nothing in it counts.
"""

from hashlib import sha256
from typing import Final, TypeVar

import msgspec

from extender.notes.signatures import Bearer, NoteKind, NoteReader, Notes
from extender.ports import StoredText

MOST_TEXT: Final = 512 * 1024  # Characters; a ConfigMap has at most 1 MiB in all
FORMAT: Final = 1  # Of all documents so far


class Document(msgspec.Struct):
    """What the text is, as JSON."""

    format: int


_Document = TypeVar("_Document", bound=Document)


def signed(kind: NoteKind, text: str, over: StoredText, notes: Notes) -> str:
    """The note that goes with the text on this very ConfigMap."""
    return notes.write(kind, _bearer(over), _digest(text))


def document_of(
    kind: NoteKind, stored: StoredText, notes: NoteReader, decoder: msgspec.json.Decoder[_Document]
) -> _Document | None:
    """The document; `None`: there is none yet. ValueError: too long, not signed by netgang, or no such document."""
    text = _checked(kind, stored, notes)
    if not text:
        return None
    try:
        found = decoder.decode(text)
    except (msgspec.MsgspecError, UnicodeError, RecursionError) as error:
        raise ValueError(f"it cannot be read: {error}") from error
    if found.format != FORMAT:
        raise ValueError(f"it has format {found.format}; this netgang reads {FORMAT}")
    return found


def _checked(kind: NoteKind, stored: StoredText, notes: NoteReader) -> str:
    if len(stored.text) > MOST_TEXT:
        raise ValueError(f"it is longer than {MOST_TEXT} characters")
    if stored.text and notes.read(kind, _bearer(stored), stored.note) != _digest(stored.text):
        raise ValueError("it was not written by netgang, or was changed since")
    return stored.text


def _bearer(stored: StoredText) -> Bearer:
    namespace, _, name = stored.place.partition("/")
    return Bearer("v1", "ConfigMap", namespace, name, stored.uid)


def _digest(text: str) -> str:
    return sha256(text.encode("utf-8", "surrogatepass")).hexdigest()
