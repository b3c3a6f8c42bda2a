"""Numbers for what gangs ask for, and what counting said of each gang last.

Why: nearly every gang of a long queue is refused in the same words as in the run before, and telling that they are the
same takes a tenth of the time of finding them again. Rule: what is kept here names the very wish that it was found for;
words are those that the reason, the zone and the number of members that fit there give.
"""

from collections.abc import Collection
from dataclasses import dataclass, field

from scoring.ids import GangKey, ZoneName
from scoring.model import MemberClass
from scoring.plan.ask import Ask
from scoring.plan.outcome import Refused
from scoring.policy import ZonePolicy

_KEPT = 50_000


@dataclass(slots=True)
class Prospect:
    """A gang that is refused by counting alone as long as it is refused. Not shared between threads."""

    ask: Ask
    kind: int
    """Stands for all that it asks for"""
    classes: tuple[MemberClass, ...]
    numbers: tuple[int, ...]
    """Those that stand for the classes"""
    filters: tuple[int, ...]
    """Those that stand for their constraints"""
    counts: tuple[int, ...]
    size: int
    zones: tuple[ZoneName, ...] | None
    """Those that it names; `None`: all"""
    said: dict[object, Refused] = field(default_factory=dict)
    """reason, zone and members there → the words, for the latest few"""
    could: tuple[object, bool] = (None, False)
    """A node table, and whether the minimum set would fit it if no pod ran"""


class Refusals:
    """By gang. Not shared between threads."""

    def __init__(self) -> None:
        self._numbers: dict[object, int] = {}
        """what a kind asks for → a number that stands for it, and is never given again"""
        self._number_of: dict[GangKey, tuple[Ask, int]] = {}
        self._next = 0
        self._prospects: dict[GangKey, tuple[Ask, Prospect | None]] = {}

    def number(self, ask: Ask) -> int | None:
        """The number of the wish's kind, if it was told."""
        known = self._number_of.get(ask.gang.key)
        return known[1] if known is not None and known[0] is ask else None

    def tell(self, ask: Ask, key: object) -> int:
        """`key` is what the wish's kind asks for; gives the number that stands for it."""
        if len(self._numbers) >= _KEPT or len(self._number_of) >= _KEPT:
            for table in (self._numbers, self._number_of, self._prospects):
                table.clear()
        number = self._numbers.get(key)
        if number is None:
            number = self._numbers[key] = self._next
            self._next += 1
        self._number_of[ask.gang.key] = (ask, number)
        return number

    def seen(self, ask: Ask) -> tuple[Ask, Prospect | None] | None:
        """The wish and its prospect, if `note` was told of it."""
        known = self._prospects.get(ask.gang.key)
        return known if known is not None and known[0] is ask else None

    def note(self, ask: Ask, prospect: Prospect | None) -> Prospect | None:
        """Keep what was found of the wish; `None`: counting alone does not tell of it."""
        self._prospects[ask.gang.key] = (ask, prospect)
        return prospect

    def renumbered(self) -> None:
        """Classes have got new numbers: find prospects anew."""
        self._prospects.clear()

    def keep_only(self, gangs: Collection[GangKey]) -> None:
        """Forget the others, and kinds that none of them is of."""
        self._prospects = {key: known for key, known in self._prospects.items() if key in gangs}
        self._number_of = {key: known for key, known in self._number_of.items() if key in gangs}
        numbers = {number for _, number in self._number_of.values()}
        self._numbers = {key: number for key, number in self._numbers.items() if number in numbers}


def countable(ask: Ask) -> bool:
    """Whether a refusal for want of room follows from how many members fit the zones, now and before the run.

    Not for gangs that may be spread (the clock counts too), and not beside members that have a node.
    """
    ported = any(member_class.constraints.host_ports for member_class, _ in ask.need)
    return bool(ask.need) and not ask.siblings and not ported and ask.options.zone_policy is not ZonePolicy.PREFERRED
