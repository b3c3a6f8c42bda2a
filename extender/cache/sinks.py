"""Where a reflector puts what it reads: one sink per watched kind.

Rule: what is not in a relist is gone; it counts as one change, and no snapshot shows half of it.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Generic, TypeVar

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Sink(Generic[T]):
    """Takes over records of one kind; `key` is `namespace/name`, for nodes the name."""

    _put: Callable[[T], bool]  # Take over a record; whether it can decide anything new
    _drop: Callable[[str], bool]  # Forget a record; whether that can decide anything new
    _key: Callable[[T], str]
    _known: Callable[[], Iterable[str]]
    _changed: Callable[[], None]  # Something that can decide changed
    _batch: Callable[[], AbstractContextManager[None]]  # Hold back snapshots, and gather all changes inside into one
    _settle: Callable[[], None]  # Do now, in the middle of a long change, what the next snapshot would have to do

    def upsert(self, item: T) -> None:
        """Take over one record as watched. Cost: O(1) apart from the gang it touches."""
        if self._put(item):
            self._changed()

    def delete(self, key: str) -> None:
        """Forget one record; an unknown key changes nothing."""
        if self._drop(key):
            self._changed()

    def key(self, item: T) -> str:
        """What the record is called."""
        return self._key(item)

    def replace(self, items: Sequence[T]) -> None:
        """Take over a complete list in one go. Cost: O(n)."""
        for _ in self.replace_in_steps(items, size=max(len(items), 1)):
            pass

    def replace_in_steps(self, items: Sequence[T], *, size: int = 500) -> Iterator[None]:
        """As `replace`, pausing after each `size` records; until it ends, `snapshot` answers as before."""
        with self._batch():
            changed = False
            keep: set[str] = set()
            try:
                for start in range(0, len(items), size):
                    for item in items[start : start + size]:
                        keep.add(self._key(item))
                        changed = self._put(item) or changed
                    self._settle()
                    yield
                for key in [key for key in self._known() if key not in keep]:
                    changed = self._drop(key) or changed
            finally:
                if changed:
                    self._changed()
