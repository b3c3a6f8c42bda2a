"""What was read of the owners of gangs' pods: their age, how many pods they want, how many members they still need.

docs/safety.md S8, S14, S23.

Why: a job that is suspended and resumed has new pods and often no PodGroup; it keeps its place among equals all the
same. Only the Jobs themselves show whether two of them are one gang or two runs of it. And the pods of a deleted node
are collected, also those that have succeeded; a Job does not create them again, so by the pods alone its gang would
never be whole again.
Rule: by uid, because another object of the same name is another job; a minimum that was read is only ever lower.
"""

from collections.abc import Collection, Iterable, Mapping

from scoring.ids import GangKey
from scoring.model import Pod


class Owners:
    """Bounded by the owners that `keep_only` names, and by the gangs that exist."""

    def __init__(self) -> None:
        self._created_s: dict[str, float] = {}
        """owner → creation, Unix seconds"""
        self._wanted: dict[str, int] = {}
        self._minimums: dict[GangKey, tuple[str, int]] = {}
        """gang → its owner, and the minimum that follows from it"""

    @property
    def wanted(self) -> Mapping[str, int]:
        """Owner → how many pods it wants; only of those that are not one of a series."""
        return self._wanted

    def note(self, created_s: Mapping[str, float], wanted: Mapping[str, int]) -> None:
        """Take over what was read."""
        self._created_s.update(created_s)
        self._wanted.update(wanted)

    def knows(self, uid: str) -> bool:
        """Whether this owner was read."""
        return uid in self._created_s

    def keep_only(self, uids: Collection[str]) -> None:
        """Forget owners without pods."""
        self._created_s = {uid: at_s for uid, at_s in self._created_s.items() if uid in uids}
        self._wanted = {uid: count for uid, count in self._wanted.items() if uid in uids}

    def created_s(self, members: Iterable[Pod]) -> float | None:
        """Creation of the oldest owner of these pods; `None`: none was read, or there is none. Cost: O(n)."""
        if not self._created_s:
            return None
        uids = {pod.owner.uid for pod in members if pod.owner is not None}
        return min((self._created_s[uid] for uid in uids if uid in self._created_s), default=None)

    def note_minimum(self, gang: GangKey, uid: str, count: int) -> bool:
        """The gang's owner needs no more than `count` of its members by now; whether that is news."""
        news = self._minimums.get(gang) != (uid, count)
        self._minimums[gang] = uid, count
        return news

    def drop_minimum(self, gang: GangKey) -> None:
        """The gang's last pod is gone."""
        self._minimums.pop(gang, None)

    def minimum(self, gang: GangKey, members: Iterable[Pod]) -> int | None:
        """The most that the gang needs; `None`: not asked, or its pods are another owner's. Cost: O(n) if known."""
        uid, count = self._minimums.get(gang, ("", None))
        if count is None or not all(pod.owner is not None and pod.owner.uid == uid for pod in members):
            return None
        return count
