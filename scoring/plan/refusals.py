"""Numbers for what gangs ask for: an answer given to one of a kind holds for all of it.

Why numbers: what a gang asks for is a tuple of tuples that takes long to hash, for each gang in each run. Rule: a
number stands for one content, and is never given again.
"""

from collections.abc import Collection

from scoring.ids import GangKey
from scoring.model.policy import ZonePolicy
from scoring.plan.ask import Ask

_KEPT = 50_000


class Refusals:
    """By gang. Not shared between threads."""

    def __init__(self) -> None:
        self._numbers: dict[object, int] = {}
        """what a kind asks for → a number that stands for it, and is never given again"""
        self._number_of: dict[GangKey, tuple[Ask, int]] = {}
        self._next = 0

    def number(self, ask: Ask) -> int | None:
        """The number of the wish's kind, if it was told."""
        known = self._number_of.get(ask.gang.key)
        return known[1] if known is not None and known[0] is ask else None

    def tell(self, ask: Ask, key: object) -> int:
        """`key` is what the wish's kind asks for; gives the number that stands for it."""
        if len(self._numbers) >= _KEPT or len(self._number_of) >= _KEPT:
            self._numbers.clear()
            self._number_of.clear()
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


def countable(ask: Ask) -> bool:
    """Whether a refusal for want of room follows from how many members fit the zones, now and before the run.

    Not for gangs that cannot start whatever room there is, for those that may be spread (the clock counts too), and
    not beside members that have a node.
    """
    if ask.gang.problem is not None or ask.incomplete is not None:
        return False
    ported = any(member_class.constraints.host_ports for member_class, _ in ask.need)
    return bool(ask.need) and not ask.siblings and not ported and ask.options.zone_policy is not ZonePolicy.PREFERRED
