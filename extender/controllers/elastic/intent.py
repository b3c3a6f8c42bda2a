"""The last change of a job, as an annotation on the job itself: what survives us (docs/safety.md S11, K7).

Why on the job and in the same patch as the worker count: a reader finds both or neither. Rules: an intent counts only
with our signature for this very job (docs/safety.md S22), and while the job still has the worker count that it names.
"""

from collections.abc import Mapping
from enum import StrEnum
from typing import Any

import msgspec
from msgspec.structs import replace

from extender.convert.decode import note_from_json
from extender.notes import Bearer, NoteKind, NoteReader, Notes
from scoring.ids import GangKey

LAST_CHANGE = NoteKind.LAST_CHANGE.value
_HOUR_S = 3600.0
_WHY_CHARS = 500


class Requester(StrEnum):
    """What asked for a change."""

    QUEUE = "queue"  # The queue: room for a heavier gang, or growth into idle room
    METRICS = "metrics"  # The job's own policy, by what it reports


class ResizeCause(msgspec.Struct, frozen=True):
    """What wants a change, why (a sentence), and for which gang."""

    requester: Requester
    why: str
    beneficiary: GangKey | None = None


class Intent(msgspec.Struct, frozen=True):
    """What we last made of a job's worker count, and the annotation's JSON. Times are Unix seconds."""

    before: int = msgspec.field(name="from")
    after: int = msgspec.field(name="to")
    at_s: float = msgspec.field(name="at")
    requester: Requester = msgspec.field(name="who")
    why: str = ""
    beneficiary: GangKey | None = msgspec.field(name="for", default=None)  # The gang that workers were taken away for
    grow_back_to: int | None = msgspec.field(name="growBackTo", default=None)
    """Workers before the first were taken away; `None`: it has them again"""
    most: int | None = None  # Workers it was submitted with: its maximum where it names none
    changes_s: tuple[float, ...] = msgspec.field(name="changes", default=())
    """Our changes within the hour before `at_s` and at it, oldest first"""
    target: int | None = None  # Where `after` is a step on the way: to how many; `None`: it is the end

    @property
    def goal(self) -> int:
        """Workers when all is done."""
        return self.after if self.target is None else self.target

    def one_further(self) -> "Intent":
        """The next step of the same change.

        >>> first = Intent(6, 5, 9.0, Requester.QUEUE, "", target=3)
        >>> (first.one_further().after, first.one_further().one_further().target)
        (4, None)
        """
        after = self.after - 1
        return replace(self, after=after, target=self.target if self.target != after else None)

    def stands(self, workers: int) -> bool:
        """Whether the worker count is still the one that we set."""
        return self.after == workers


def next_intent(
    last: Intent | None, *, cause: ResizeCause, before: int, after: int, at_s: float, one_by_one: bool = False
) -> Intent:
    """The intent of one more change; `last` is the job's own, and counts if it stood at `before`.

    `one_by_one`: workers leave one after the other, so this is the first step to `after`.

    >>> room, idle = ResizeCause(Requester.QUEUE, "", GangKey("a/h")), ResizeCause(Requester.QUEUE, "")
    >>> shrink = next_intent(None, cause=room, before=6, after=2, at_s=9.0)
    >>> shrink.grow_back_to, shrink.most, shrink.changes_s
    (6, 6, (9.0,))
    >>> grown = next_intent(shrink, cause=idle, before=2, after=6, at_s=11.0)
    >>> grown.grow_back_to, grown.most, grown.changes_s
    (None, 6, (9.0, 11.0))
    """
    known = last if last is not None and last.stands(before) else Intent(before, before, at_s, cause.requester)
    back = known.grow_back_to or 0
    if after < before and cause.beneficiary is not None:
        back = max(before, back)
    most = max(before, known.most or 0)
    first = before - 1 if one_by_one and after < before else after
    changes_s = (*(at for at in known.changes_s if at > at_s - _HOUR_S), at_s)[-32:]
    intent = Intent(before, first, at_s, cause.requester, cause.why, cause.beneficiary, most=most, changes_s=changes_s)
    return replace(intent, grow_back_to=back if back > after else None, target=after if first != after else None)


def encoded(intent: Intent, bearer: Bearer, notes: Notes) -> str:
    """The annotation's value: JSON with words that people understand, and our signature.

    >>> notes, job = Notes(b"k" * 32), Bearer("batch/v1", "Job", "a", "j", "u")
    >>> encoded(Intent(6, 2, 9.5, Requester.QUEUE, "room for a/h", GangKey("a/h"), 6, 6, (9.5,)), job, notes)[:60]
    '{"from":6,"to":2,"at":9.5,"who":"queue","why":"room for a/h"'
    """
    content = msgspec.json.encode(replace(intent, why=intent.why[:_WHY_CHARS])).decode()
    return notes.write(NoteKind.LAST_CHANGE, bearer, content)


def intent_of(annotations: Mapping[str, Any], bearer: Bearer, notes: NoteReader) -> Intent | None:
    """Read a job's annotation; `None`: it has none, or one that is not ours (people may edit it, or write one)."""
    text = annotations.get(LAST_CHANGE)
    content = notes.read(NoteKind.LAST_CHANGE, bearer, text) if isinstance(text, str) else None
    return note_from_json(_INTENT, content)


_INTENT = msgspec.json.Decoder(Intent)
