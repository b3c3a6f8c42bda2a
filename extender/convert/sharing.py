"""One object for equal parts of many objects, for as long as one object has it.

A cache of the last so many would have to be larger than what lives, and would hold parts of pods that are long gone; an
admitted gang brings a class of its own. Rule: the table knows its values without holding them.
"""

from functools import lru_cache
from typing import Any, TypeVar
from weakref import ref

T = TypeVar("T")
_FEW = 1024
_SHORT, _SHORT_CHARS = 16, 1024


class Pool:
    """Values of which equal ones are to be one object. Bounded by the values that are in use elsewhere."""

    def __init__(self) -> None:
        self._known: dict[ref[Any], ref[Any]] = {}  # a value → the same, held loosely: equal while both live

    def __len__(self) -> int:
        return len(self._known)

    def one(self, value: T) -> T:
        """The first living value equal to this one. Cost: a hash and a comparison. The value can be held loosely."""
        known = self._known.get(ref(value))
        if known is None:
            mine = ref(value, self._known.__delitem__)
            known = self._known.setdefault(mine, mine)
        same: T | None = known()
        return value if same is None else same


shared = Pool().one  # The first living value equal to this one, among the parts of all objects: records, not tuples


def shared_tuple(value: tuple[str | tuple[str, str], ...]) -> tuple[Any, ...]:
    """The same for tuples: one of the last thousand; long ones, by tenants, are not kept (docs/safety.md S21)."""
    chars = sum(len(part) if isinstance(part, str) else len(part[0]) + len(part[1]) for part in value)
    return _one_tuple(value) if len(value) <= _SHORT and chars <= _SHORT_CHARS else value


_one_tuple = lru_cache(maxsize=_FEW)(tuple[Any, ...])  # of a tuple it makes the tuple itself
