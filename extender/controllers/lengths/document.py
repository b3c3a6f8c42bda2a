"""Former runs as they are kept in netgang's ConfigMap: JSON, and a note that signs it.

Rule (docs/safety.md S21, S22): the text is measured and its signature is checked before it is parsed; the signature is
a note with the text's SHA-256, so it is worth nothing on another object or for another text. What is wrong is a
`ValueError` that says so in words for people, and then nothing is learned from it.
"""

from collections.abc import Sequence
from hashlib import sha256
from typing import Final, TypeAlias

import msgspec

from extender.notes import Bearer, NoteKind, NoteReader, Notes
from extender.ports import StoredRuns
from scoring.lengths.fingerprint import Fingerprint
from scoring.lengths.former_runs import FormerRuns, Run

MOST_CHARS: Final = 512 * 1024
_FORMAT: Final = 1
Jobs: TypeAlias = Sequence[tuple[Fingerprint, tuple[Run, ...]]]


class _Document(msgspec.Struct):
    format: int
    jobs: list[tuple[Fingerprint, tuple[Run, ...]]]


_DECODER: Final = msgspec.json.Decoder(_Document)


def written(former: FormerRuns) -> str:
    """The text of these runs; equal runs give equal texts. Cost: O(runs)."""
    return msgspec.json.encode(_Document(_FORMAT, list(former.jobs()))).decode()


def signed(text: str, over: StoredRuns, notes: Notes) -> str:
    """The note that goes with the text on this very ConfigMap."""
    return notes.write(NoteKind.FORMER_RUNS, _bearer(over), _digest(text))


def jobs_of(stored: StoredRuns, notes: NoteReader) -> Jobs:
    """The jobs in it. ValueError: it is too long, not signed by netgang, or no such document."""
    if len(stored.text) > MOST_CHARS:
        raise ValueError(f"it is longer than {MOST_CHARS} characters")
    if not stored.text:
        return ()
    if notes.read(NoteKind.FORMER_RUNS, _bearer(stored), stored.note) != _digest(stored.text):
        raise ValueError("it was not written by netgang, or was changed since")
    try:
        found = _DECODER.decode(stored.text)
    except (msgspec.MsgspecError, UnicodeError, RecursionError) as error:
        raise ValueError(f"it cannot be read: {error}") from error
    if found.format != _FORMAT:
        raise ValueError(f"it has format {found.format}; this netgang reads {_FORMAT}")
    return found.jobs


def _bearer(stored: StoredRuns) -> Bearer:
    namespace, _, name = stored.place.partition("/")
    return Bearer("v1", "ConfigMap", namespace, name, stored.uid)


def _digest(text: str) -> str:
    return sha256(text.encode("utf-8", "surrogatepass")).hexdigest()
