"""When the owners of gangs' pods were created, as far as it was read: the age of a job is not that of its pods (S14).

Why: a job that is suspended and resumed has new pods and often no PodGroup; it keeps its place among equals all the
same. Rule: by uid, because another object of the same name is another job.
"""

from collections.abc import Collection, Iterable, Mapping

from scoring.model import Pod


class Owners:
    """Owner → creation, Unix seconds. Bounded by the owners that `keep_only` is told of."""

    def __init__(self) -> None:
        self._created_s: dict[str, float] = {}

    def note(self, created_s: Mapping[str, float]) -> None:
        """Take over what was read."""
        self._created_s.update(created_s)

    def knows(self, uid: str) -> bool:
        """Whether this owner was read."""
        return uid in self._created_s

    def keep_only(self, uids: Collection[str]) -> None:
        """Forget owners without pods."""
        self._created_s = {uid: at_s for uid, at_s in self._created_s.items() if uid in uids}

    def created_s(self, members: Iterable[Pod]) -> float | None:
        """Creation of the oldest owner of these pods; `None`: none was read, or there is none. Cost: O(n)."""
        if not self._created_s:
            return None
        uids = {pod.owner.uid for pod in members if pod.owner is not None}
        return min((self._created_s[uid] for uid in uids if uid in self._created_s), default=None)
