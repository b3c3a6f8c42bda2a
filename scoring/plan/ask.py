"""What a gang asks of the planner now: which members need a node, in which order of importance, beside which siblings.

Rule (S8, S9): the minimum set is every ps and chief, then workers by ascending index; members that run count for it,
and a gang that reached quorum is never held back again: its further members are `more`.
"""

from collections.abc import Iterable
from dataclasses import dataclass

from scoring.ids import NodeName
from scoring.model import Gang, MemberClass, Pod, Role
from scoring.policy import GangOptions, Policy, gang_options
from scoring.quorum import minimum_members

ByClass = tuple[tuple[MemberClass, tuple[Pod, ...]], ...]
"""Interchangeable pods together; pods in order of importance."""


@dataclass(frozen=True, slots=True)
class Ask:
    """One gang's wish. Empty `need` and `more`: nothing to place."""

    gang: Gang
    options: GangOptions
    need: ByClass
    """Members of the minimum set that have no node: all of them or none."""
    more: ByClass
    """Pending members beyond the minimum: as many as fit."""
    siblings: tuple[tuple[Role, NodeName], ...]
    """Placed members, sorted: what new members want to be near."""
    all_reduce: bool
    """No ps: workers exchange with each other; with a ps they exchange with it (DESIGN §4)."""
    alive: int
    """Members that count or may come to count; below min-available the gang is incomplete."""

    @property
    def pending(self) -> bool:
        """Whether there is anything to place."""
        return bool(self.need or self.more)

    @property
    def partial(self) -> bool:
        """Some members run or are bound, but not yet the minimum: completed before anything else (DESIGN §5)."""
        return bool(self.siblings) and bool(self.need)


def ask_of(gang: Gang, policy: Policy) -> Ask:
    """Derive the wish of `gang`. Cost: O(members)."""
    minimum = {pod.uid for pod in minimum_members(gang)}
    pending, placed = gang.pending, gang.placed
    need = [pod for pod in pending if pod.uid in minimum]
    more = [pod for pod in pending if pod.uid not in minimum]
    siblings = sorted((pod.role, pod.node) for pod in placed if pod.node is not None and not pod.terminal)
    return Ask(
        gang=gang,
        options=gang_options(dict(gang.options), policy),
        need=_by_class(need),
        more=_by_class(more),
        siblings=tuple(siblings),
        all_reduce=not any(pod.role is Role.PS for pod in gang.members),
        alive=len(placed) + len(pending),
    )


def _by_class(pods: Iterable[Pod]) -> ByClass:
    grouped: dict[MemberClass, list[Pod]] = {}
    for pod in pods:
        grouped.setdefault(pod.member_class, []).append(pod)
    return tuple((member_class, tuple(members)) for member_class, members in grouped.items())
