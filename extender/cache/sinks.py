"""Where a reflector puts what it reads: one sink per watched kind.

Rule: what is not in a relist is gone; it counts as one change, and no snapshot shows half of it.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager
from typing import Generic, TypeVar

import msgspec

from extender.convert.podgroups import SeenPodGroup
from scoring.ids import GangKey
from scoring.model import Gang, PodGroup
from scoring.queue.podgroup_status import POD_GROUPED

T = TypeVar("T")


class Sink(msgspec.Struct, Generic[T], frozen=True):
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
            steps = [items[start : start + size] for start in range(0, len(items), size)]
            keep: set[str] = set()
            try:
                for some in steps:
                    keep.update(map(self._key, some))
                    yield
                for key in [key for key in self._known() if key not in keep]:  # Before it counts beside what came later
                    changed = self._drop(key) or changed
                for some in steps:
                    for item in some:
                        changed = self._put(item) or changed
                    self._settle()
                    yield
            finally:
                if changed:
                    self._changed()


class SeenGroups:
    """A sink for coscheduling PodGroups as they are, statuses too; only what decides is handed on.

    A status that we write comes back by the watch: no plan may be its echo. Bounded by the PodGroups that exist.
    """

    def __init__(self, decides: Sink[PodGroup]) -> None:
        self._decides = decides
        self.by_key: dict[GangKey, SeenPodGroup] = {}
        self._others: dict[GangKey, str] = {}  # PodGroup whose status another client writes → which

    @property
    def other_writer(self) -> str | None:
        """Which other client writes statuses of PodGroups, of any PodGroup; `None`: none that they show."""
        return min(self._others.values(), default=None)

    def get(self, key: GangKey) -> SeenPodGroup | None:
        """The PodGroup of a gang; `None`: there is none."""
        return self.by_key.get(key)

    def of(self, gang: Gang) -> SeenPodGroup | None:
        """The PodGroup that sizes this gang; `None`: it is sized otherwise, or there is none."""
        return self.by_key.get(gang.key) if gang.source in POD_GROUPED else None

    def upsert(self, item: SeenPodGroup) -> None:
        """See `extender.kube.watch.reflector.Sink`."""
        self._note(item)
        self._decides.upsert(item.group)

    def delete(self, key: str) -> None:
        """See `extender.kube.watch.reflector.Sink`."""
        self.by_key.pop(GangKey(key), None)
        self._others.pop(GangKey(key), None)
        self._decides.delete(key)

    def key(self, item: SeenPodGroup) -> str:
        """See `extender.kube.watch.reflector.Sink`."""
        return item.group.key

    def replace_in_steps(self, items: Sequence[SeenPodGroup]) -> Iterator[None]:
        """See `extender.kube.watch.reflector.Sink`."""
        yield from self._decides.replace_in_steps([item.group for item in items])
        self.by_key.clear()
        self._others.clear()
        for item in items:
            self._note(item)

    def _note(self, item: SeenPodGroup) -> None:
        key = item.group.key
        self.by_key[key] = item
        self._others.pop(key, None)
        if item.other_writer:
            self._others[key] = item.other_writer
