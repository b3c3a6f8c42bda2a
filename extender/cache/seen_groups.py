"""PodGroups as the API server shows them: what is written on them for people, beside what decides.

Rule: this sink hands on only what decides. A status that we write comes back by the watch: no plan may be its echo.
"""

from collections.abc import Iterator, Sequence

from extender.cache.sinks import Sink
from extender.convert.podgroups import SeenPodGroup
from scoring.ids import GangKey
from scoring.model import Gang, PodGroup
from scoring.queue.podgroup_status import POD_GROUPED


class SeenGroups:
    """A reflector's sink for coscheduling PodGroups. Bounded by the PodGroups that exist."""

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
