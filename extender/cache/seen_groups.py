"""PodGroups as the API server shows them: what is written on them for people, beside what decides.

Why beside the cluster cache: a status that we write comes back by the watch. If it were part of what decides, every
write would be a change of the cluster, and the next plan its echo. Rule: this sink hands on to the cache only what
decides; the cache calls no listener when that is as it was.
"""

from collections.abc import Iterator, Mapping, Sequence

from extender.cache.sinks import Sink
from extender.convert.podgroups import SeenPodGroup
from scoring.ids import GangKey
from scoring.model import Gang, PodGroup
from scoring.queue.podgroup_status import POD_GROUPED


class SeenGroups:
    """A reflector's sink for coscheduling PodGroups. Bounded by the PodGroups that exist."""

    def __init__(self, decides: Sink[PodGroup]) -> None:
        self._decides = decides
        self._seen: dict[GangKey, SeenPodGroup] = {}
        self._others: dict[GangKey, str] = {}
        """PodGroup whose status another client writes → which"""

    @property
    def by_key(self) -> Mapping[GangKey, SeenPodGroup]:
        """All PodGroups; a live view."""
        return self._seen

    @property
    def other_writer(self) -> str | None:
        """Which other client writes statuses of PodGroups, of any PodGroup; `None`: none that they show."""
        return min(self._others.values(), default=None)

    def get(self, key: GangKey) -> SeenPodGroup | None:
        """The PodGroup of a gang; `None`: there is none."""
        return self._seen.get(key)

    def of(self, gang: Gang) -> SeenPodGroup | None:
        """The PodGroup that sizes this gang; `None`: it is sized otherwise, or there is none."""
        return self._seen.get(gang.key) if gang.source in POD_GROUPED else None

    def upsert(self, item: SeenPodGroup) -> None:
        """Take over one PodGroup as watched."""
        self._note(item)
        self._decides.upsert(item.group)

    def delete(self, key: str) -> None:
        """Forget one; an unknown key changes nothing."""
        self._seen.pop(GangKey(key), None)
        self._others.pop(GangKey(key), None)
        self._decides.delete(key)

    def key(self, item: SeenPodGroup) -> str:
        """`namespace/name`."""
        return item.group.key

    def replace(self, items: Sequence[SeenPodGroup]) -> None:
        """Hold exactly these from now on. Cost: O(n)."""
        for _ in self.replace_in_steps(items):
            pass

    def replace_in_steps(self, items: Sequence[SeenPodGroup]) -> Iterator[None]:
        """Do the work of `replace`, pausing now and then as the cache's own sink does."""
        yield from self._decides.replace_in_steps([item.group for item in items])
        self._seen.clear()
        self._others.clear()
        for item in items:
            self._note(item)

    def _note(self, item: SeenPodGroup) -> None:
        key = item.group.key
        self._seen[key] = item
        if item.other_writer:
            self._others[key] = item.other_writer
        else:
            self._others.pop(key, None)
