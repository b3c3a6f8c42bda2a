"""When the owners of gangs' pods were created and how many pods they want, as far as it was read.

docs/safety.md S14, S23.

Why: a job that is suspended and resumed has new pods and often no PodGroup; it keeps its place among equals all the
same. And only the Jobs themselves show whether two of them are one gang or two runs of it. Rule: by uid, because
another object of the same name is another job.
"""

from collections.abc import Collection, Iterable, Mapping

from scoring.model import Pod


class Owners:
    """Owner → creation, Unix seconds, and count. Bounded by the owners that `keep_only` names."""

    def __init__(self) -> None:
        self._created_s: dict[str, float] = {}
        self._wanted: dict[str, int] = {}

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
