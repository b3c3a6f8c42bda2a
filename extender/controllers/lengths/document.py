"""Former runs as they are kept in netgang's ConfigMap: JSON, signed as a text (`extender.notes.signed_text`).

Beside them stands what intervals of expected starts were worth, as these are made of the same lengths. Rule: what is
wrong with it is a `ValueError` that says so in words for people, and then nothing is learned from it.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Annotated, Final, TypeAlias

import msgspec

from extender.notes import NoteKind, NoteReader
from extender.notes.signed_text import FORMAT, Document, document_of
from extender.ports import StoredText
from scoring.lengths.fingerprint import Fingerprint
from scoring.lengths.former_runs import FormerRuns, Run
from scoring.plan.expected import LEAST_FACTOR, MOST_FACTOR, Calibration, Result, Scale

Jobs: TypeAlias = Sequence[tuple[Fingerprint, tuple[Run, ...]]]
_Factor: TypeAlias = Annotated[float, msgspec.Meta(ge=LEAST_FACTOR, le=MOST_FACTOR)]
_Count: TypeAlias = Annotated[int, msgspec.Meta(ge=0)]


class _Scale(msgspec.Struct):
    low: _Factor
    high: _Factor
    known: _Count


class _Intervals(msgspec.Struct):
    promised: _Scale
    other: _Scale
    early: _Count
    inside: _Count
    late: _Count


class _Document(Document):
    jobs: list[tuple[Fingerprint, tuple[Run, ...]]]
    intervals: _Intervals | None = None
    """`None`: an older document"""


_DECODER: Final = msgspec.json.Decoder(_Document)


@dataclass(frozen=True, slots=True)
class Kept:
    """What is in the ConfigMap."""

    jobs: Jobs = ()
    calibration: Calibration = field(default_factory=Calibration)


def written(former: FormerRuns, calibration: Calibration) -> str:
    """The text of these; equal ones give equal texts. Cost: O(runs)."""
    scales, results = calibration.scales, calibration.results
    promised, other = (_Scale(one.low, one.high, one.known) for one in (scales[True], scales[False]))
    counts = (results[Result.EARLY], results[Result.INSIDE], results[Result.LATE])
    return msgspec.json.encode(_Document(FORMAT, list(former.jobs()), _Intervals(promised, other, *counts))).decode()


def kept_in(stored: StoredText, notes: NoteReader) -> Kept:
    """What is in it. ValueError: it is too long, not signed by netgang, or no such document."""
    found = document_of(NoteKind.FORMER_RUNS, stored, notes, _DECODER)
    if found is None:
        return Kept()
    return Kept(found.jobs, _calibration(found.intervals) if found.intervals is not None else Calibration())


def _calibration(one: _Intervals) -> Calibration:
    scales = {which: Scale(of.low, of.high, of.known) for which, of in ((True, one.promised), (False, one.other))}
    return Calibration(scales, {Result.EARLY: one.early, Result.INSIDE: one.inside, Result.LATE: one.late})
