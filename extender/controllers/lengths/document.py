"""Former runs as they are kept in netgang's ConfigMap: JSON, signed as a text (`extender.notes.signed_text`).

Rule: what is wrong with it is a `ValueError` that says so in words for people, and then nothing is learned from it.
"""

from collections.abc import Sequence
from typing import Final, TypeAlias

import msgspec

from extender.notes import NoteKind, NoteReader
from extender.notes.signed_text import FORMAT, Document, document_of
from extender.ports import StoredText
from scoring.lengths.fingerprint import Fingerprint
from scoring.lengths.former_runs import FormerRuns, Run

Jobs: TypeAlias = Sequence[tuple[Fingerprint, tuple[Run, ...]]]


class _Document(Document):
    jobs: list[tuple[Fingerprint, tuple[Run, ...]]]


_DECODER: Final = msgspec.json.Decoder(_Document)


def written(former: FormerRuns) -> str:
    """The text of these runs; equal runs give equal texts. Cost: O(runs)."""
    return msgspec.json.encode(_Document(FORMAT, list(former.jobs()))).decode()


def jobs_of(stored: StoredText, notes: NoteReader) -> Jobs:
    """The jobs in it. ValueError: it is too long, not signed by netgang, or no such document."""
    found = document_of(NoteKind.FORMER_RUNS, stored, notes, _DECODER)
    return found.jobs if found is not None else ()
