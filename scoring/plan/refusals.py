"""What kinds of gangs were refused with, and the room on which that was decided, kept from run to run.

Why: nearly every gang of a long queue is refused for the same reason as in the run before, and finding the same words
again takes longer than seeing that nothing changed for it. Rule: an answer stands only in the same zones, with the same
counts for the gang's classes in every zone, now and before the run gave anything away, and as long as what could ever
fit is the same; then looking again would end in the same words. Gangs that may be spread wait for the clock too, and
are always looked at.
"""

from collections.abc import Collection
from dataclasses import dataclass

from scoring.ids import GangKey
from scoring.plan.ask import Ask
from scoring.plan.outcome import Refused
from scoring.policy import ZonePolicy
from scoring.reasons import Reason

_KEPT = 50_000
_STATES = 4
"""Answers kept of each kind: a full cluster, some room that others were given, and full again."""
_BY_COUNTING = frozenset({Reason.NO_ROOM, Reason.BEHIND, Reason.IMPOSSIBLE})
"""Answers that the nodes and their room alone give."""


@dataclass(frozen=True, slots=True)
class Known:
    """One kind's answer to one state of the room."""

    table: object
    """The nodes on which it was found, or seen to hold as well"""
    layout: int
    """Of these nodes: which there are, in which zones"""
    could: bool | None
    """Whether it would fit if no pod ran; `None`: that is to be looked at on other nodes"""
    refused: Refused


class Refusals:
    """The last answer to each kind. Not shared between threads."""

    def __init__(self) -> None:
        self._numbers: dict[object, int] = {}
        """what a kind asks for → a number that stands for it, and is never given again"""
        self._number_of: dict[GangKey, tuple[Ask, int]] = {}
        self._next = 0
        self._known: dict[int, dict[bytes, Known]] = {}
        """kind → what `Fits.state` said, the answer to that; the latest few"""

    def number(self, ask: Ask) -> int | None:
        """The number of the wish's kind, if it was told."""
        known = self._number_of.get(ask.gang.key)
        return known[1] if known is not None and known[0] is ask else None

    def tell(self, ask: Ask, key: object) -> int:
        """`key` is what the wish's kind asks for; gives the number that stands for it."""
        if len(self._numbers) >= _KEPT or len(self._number_of) >= _KEPT:
            for table in (self._numbers, self._number_of, self._known):
                table.clear()
        number = self._numbers.get(key)
        if number is None:
            number = self._numbers[key] = self._next
            self._next += 1
        self._number_of[ask.gang.key] = (ask, number)
        return number

    def keep_only(self, gangs: Collection[GangKey]) -> None:
        """Forget the others, and kinds that none of them is of."""
        self._number_of = {key: known for key, known in self._number_of.items() if key in gangs}
        numbers = {number for _, number in self._number_of.values()}
        self._numbers = {key: number for key, number in self._numbers.items() if number in numbers}
        self._known = {number: known for number, known in self._known.items() if number in numbers}

    def get(self, number: int, state: bytes) -> Known | None:
        """The answer in this state of the room, if it is among the last few."""
        found = self._known.get(number)
        return found.get(state) if found is not None else None

    def keep(self, number: int, state: bytes, known: Known) -> None:
        """An answer was found."""
        found = self._known.setdefault(number, {})
        if len(found) >= _STATES:
            found.pop(next(iter(found)))
        found[state] = known


def lasting(ask: Ask, refused: Refused) -> bool:
    """Whether an answer follows from the room alone."""
    return refused.reason in _BY_COUNTING and ask.options.zone_policy is not ZonePolicy.PREFERRED
