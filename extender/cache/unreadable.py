"""Which objects the API server has that cannot be read, and why, for users (docs/safety.md S21).

Rule: one record for each kind, written by its reflector; what it keeps of an object, and of how many, is bounded.
"""

from collections.abc import Collection, Iterator
from itertools import chain
from typing import Final

import msgspec

MOST: Final = 1000  # Objects of a kind that are remembered; their number may be larger
_WHY_CHARS: Final = 300
LONGEST_KEY: Final = 63 + 1 + 253  # Longest namespace and name; what is longer the API server has not written


class Unreadable(msgspec.Struct, frozen=True):
    """An object that cannot be read now."""

    api_version: str
    kind: str
    namespace: str
    name: str
    uid: str
    why: str


class UnreadableKind:
    """Those of one kind."""

    def __init__(self, api_version: str, kind: str) -> None:
        self._of = api_version, kind
        self.now: dict[str, Unreadable] = {}  # `namespace/name`, for kinds outside namespaces the name → what is known
        self.readings = 0  # How often an object of the kind could not be read, since the start

    def failed(self, key: str, error: Exception, *, uid: str = "") -> None:
        """An object could not be read; without a key it is not known which."""
        self.readings += 1
        if 0 < len(key) <= LONGEST_KEY and (key in self.now or len(self.now) < MOST):
            namespace, _, name = key.rpartition("/")
            self.now[key] = Unreadable(*self._of, namespace, name, uid[:253], words(error))

    def passed(self, key: str) -> None:
        """The object was read, or is gone."""
        self.now.pop(key, None)

    def keep_only(self, keys: Collection[str]) -> None:
        """A whole list was read, in which only these could not be."""
        self.now = {key: one for key, one in self.now.items() if key in keys}


class UnreadableObjects:
    """Those of all kinds."""

    def __init__(self) -> None:
        self._kinds: dict[tuple[str, str], UnreadableKind] = {}

    def of(self, api_version: str, kind: str) -> UnreadableKind:
        """The book of a kind, such as `v1` and `Pod`."""
        return self._kinds.setdefault((api_version, kind), UnreadableKind(api_version, kind))

    def __iter__(self) -> Iterator[Unreadable]:
        return chain.from_iterable(book.now.values() for book in self._kinds.values())


def words(error: Exception) -> str:
    """What is wrong, in one short line: a tenant's text may be quoted in it.

    >>> words(ValueError("cpu: 'x' is not a quantity")), words(KeyError("spec"))
    ("cpu: 'x' is not a quantity", "KeyError: 'spec'")
    """
    text = ("" if isinstance(error, ValueError) else f"{type(error).__name__}: ") + str(error)[: 2 * _WHY_CHARS]
    line = " ".join("".join(sign if sign.isprintable() else " " for sign in text).split())
    return line if len(line) <= _WHY_CHARS else line[: _WHY_CHARS - 1] + "…"
