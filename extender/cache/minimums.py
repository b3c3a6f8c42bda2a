"""How many members a finishing gang needs by now, as far as its owner was asked (docs/safety.md S8).

Why: a member that has succeeded counts permanently, but the pods of a deleted node are collected, also those that have
succeeded; a Job does not create them again, and by the pods alone the gang would never be whole again. Rule: what was
read holds for pods of that very owner, and only ever lowers a minimum.
"""

from collections.abc import Iterable

from scoring.ids import GangKey
from scoring.model import Pod


class Minimums:
    """Gang → its owner's uid, and the minimum that follows from it. Bounded by the gangs that exist."""

    def __init__(self) -> None:
        self._known: dict[GangKey, tuple[str, int]] = {}

    def note(self, gang: GangKey, owner_uid: str, count: int) -> bool:
        """Take over what was read; whether it is news."""
        news = self._known.get(gang) != (owner_uid, count)
        self._known[gang] = owner_uid, count
        return news

    def drop(self, gang: GangKey) -> None:
        """Its last pod is gone."""
        self._known.pop(gang, None)

    def of(self, gang: GangKey, members: Iterable[Pod]) -> int | None:
        """The most that the gang needs; `None`: not asked, or its pods are another owner's. Cost: O(n) if known."""
        known = self._known.get(gang)
        if known is None:
            return None
        uid, count = known
        same = all(pod.owner is not None and pod.owner.uid == uid for pod in members)
        return count if same else None
