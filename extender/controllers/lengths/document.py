"""Former runs as they are kept in netgang's ConfigMap: JSON, signed as a text (`extender.notes.signed_text`).

Rule: what is wrong with it is a `ValueError` that says so in words for people, and then nothing is learned from it.
"""

from collections.abc import Sequence
from typing import Final, TypeAlias

import msgspec

from extender.notes import NoteKind, NoteReader
from extender.notes.signed_text import checked
from extender.ports import StoredText
from scoring.lengths.fingerprint import Fingerprint
from scoring.lengths.former_runs import FormerRuns, Run

_FORMAT: Final = 1
Jobs: TypeAlias = Sequence[tuple[Fingerprint, tuple[Run, ...]]]


class _Document(msgspec.Struct):
    format: int
    jobs: list[tuple[Fingerprint, tuple[Run, ...]]]


_DECODER: Final = msgspec.json.Decoder(_Document)


def written(former: FormerRuns) -> str:
    """The text of these runs; equal runs give equal texts. Cost: O(runs)."""
    return msgspec.json.encode(_Document(_FORMAT, list(former.jobs()))).decode()


def jobs_of(stored: StoredText, notes: NoteReader) -> Jobs:
    """The jobs in it. ValueError: it is too long, not signed by netgang, or no such document."""
    text = checked(NoteKind.FORMER_RUNS, stored, notes)
    if not text:
        return ()
    try:
        found = _DECODER.decode(text)
    except (msgspec.MsgspecError, UnicodeError, RecursionError) as error:
        raise ValueError(f"it cannot be read: {error}") from error
    if found.format != _FORMAT:
        raise ValueError(f"it has format {found.format}; this netgang reads {_FORMAT}")
    return found.jobs
