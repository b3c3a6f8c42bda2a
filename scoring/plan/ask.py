"""What a gang asks of the planner now: which members need a node, in which order of importance, beside which siblings.

Rule (docs/safety.md S8, S9): the minimum set is every ps and chief, then workers by ascending index; members that run
count for it, and a gang that reached quorum is never held back again: its further members are `more`. Pods behind
another controller's scheduling gate cannot come now, nor can those that kube-scheduler places on no node whatever we
plan, because a volume claim does not exist, say: no room is kept for them, and a gang that needs one of them is
incomplete (docs/safety.md S5, docs/safety.md S25); our own gate goes when the gang is admitted. Members on nodes that
are gone count no more (docs/safety.md S12).
"""

from collections.abc import Iterable
from dataclasses import dataclass, replace

from scoring.feasibility.quorum import minimum_members, quorum_of
from scoring.ids import NodeName
from scoring.model import Gang, MemberClass, Pod, Role
from scoring.model.policy import GangOptions, Policy, ZonePolicy, gang_options

ByClass = tuple[tuple[MemberClass, tuple[Pod, ...]], ...]
"""Interchangeable pods together; pods in order of importance."""


@dataclass(frozen=True, slots=True)
class Ask:
    """One gang's demand. Empty `need` and `more`: nothing to place."""

    gang: Gang
    options: GangOptions
    need: ByClass
    """Members of the minimum set that have no node: all of them or none."""
    more: ByClass
    """Pending members beyond the minimum: as many as fit."""
    siblings: tuple[tuple[Role, NodeName], ...]
    """Placed members, sorted: what new members want to be near."""
    all_reduce: bool
    """No ps: workers exchange with each other; with a ps they exchange with it."""
    alive: int
    """Members that count or may come to count now; below min-available the gang is incomplete."""
    unable: tuple[Pod, ...] = ()
    """Pending members that cannot come now: behind a scheduling gate that is not ours, or with an obstacle."""
    blocked: bool = False
    """The minimum set needs one of `unable`."""
    lost: frozenset[NodeName] = frozenset()
    """Nodes of members that are not in the cluster any more."""

    @property
    def pending(self) -> bool:
        """Whether there is anything to place."""
        return bool(self.need or self.more)

    @property
    def partial(self) -> bool:
        """Some members run or are bound, but not yet the minimum: completed before anything else."""
        return bool(self.siblings) and bool(self.need)

    @property
    def incomplete(self) -> str | None:
        """Why the gang cannot reach its minimum with the pods there are, for people; `None`: it can."""
        least, known = self.gang.min_member, self.alive + len(self.unable)
        if known < least:
            lost = f", beside those on {', '.join(sorted(self.lost))}, which is gone" if self.lost else ""
            return f"{known} of {least} pods exist{lost}"
        if not self.blocked:
            return None
        first, more = self.unable[0], len(self.unable) - 1
        others = f" (and {more} more pods)" if more else ""
        if first.foreign_gates:
            return f"pod {first.key}{others} waits for scheduling gate {', '.join(first.foreign_gates)}"
        return f"kube-scheduler places pod {first.key}{others} on no node: {first.obstacle}"


def ask_of(gang: Gang, policy: Policy, *, lost: frozenset[NodeName] = frozenset()) -> Ask:
    """Derive the demand of `gang`; `lost` are its members' nodes that are gone. Cost: O(n log n) in members."""
    pending = gang.pending
    unable = tuple([pod for pod in pending if pod.obstacle or (pod.gates and pod.foreign_gates)])
    blocked = _blocked(gang, unable, lost) if unable else False
    if unable and not blocked:
        stuck = {pod.uid for pod in unable}
        able = replace(gang, members=tuple(pod for pod in gang.members if pod.uid not in stuck))
        able_ones = able.pending
    else:
        able, able_ones = gang, pending
    need: Iterable[Pod] = able_ones
    more: Iterable[Pod] = ()
    if len(able.members) > gang.min_member:
        minimum = {pod.uid for pod in minimum_members(able, lost_nodes=lost)}
        need = [pod for pod in able_ones if pod.uid in minimum]
        more = [pod for pod in able_ones if pod.uid not in minimum]
    placed = (
        [pod for pod in gang.placed if pod.terminal or pod.node not in lost] if len(pending) < len(gang.members) else []
    )
    siblings = sorted((pod.role, pod.node) for pod in placed if pod.node is not None and not pod.terminal)
    return Ask(
        gang=gang,
        options=gang_options(dict(gang.options), policy, namespace=gang.key.partition("/")[0]),
        need=_by_class(need),
        more=_by_class(more),
        siblings=tuple(siblings),
        all_reduce=not any(pod.member_class.role is Role.PS for pod in gang.members),
        alive=len(placed) + len(pending) - len(unable),
        unable=unable,
        blocked=blocked,
        lost=lost,
    )


def countable(ask: Ask) -> bool:
    """Whether a refusal for want of room follows from how many members fit the zones, now and before the run.

    Not for gangs that cannot start whatever room there is, for those that may be spread (the clock counts too), and
    not beside members that have a node.
    """
    if ask.gang.problem is not None or ask.incomplete is not None:
        return False
    ported = any(member_class.constraints.host_ports for member_class, _ in ask.need)
    return bool(ask.need) and not ask.siblings and not ported and ask.options.zone_policy is not ZonePolicy.PREFERRED


def _blocked(gang: Gang, unable: tuple[Pod, ...], lost: frozenset[NodeName]) -> bool:
    """Whether quorum cannot be reached without these members: too few others, or a known role's minimum set."""
    quorum = quorum_of(gang, lost_nodes=lost)
    return not quorum.reached_by(quorum.live - {pod.uid for pod in unable})


def _by_class(pods: Iterable[Pod]) -> ByClass:
    grouped: dict[MemberClass, list[Pod]] = {}
    by_object: dict[int, list[Pod]] = {}  # a class is usually one object for all its members, and slow to hash
    for pod in pods:
        members = by_object.get(id(pod.member_class))
        if members is None:
            members = by_object[id(pod.member_class)] = grouped.setdefault(pod.member_class, [])
        members.append(pod)
    return tuple((member_class, tuple(members)) for member_class, members in grouped.items())
