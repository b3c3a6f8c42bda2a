"""Which members of a gang must be on nodes for it to run: the minimum set and the quorum.

Why not a count alone: four workers of a TFJob whose ps is missing wait for nothing, and on scale-in the framework
removes the highest index first, so a gang started on workers 2–5 loses its base. Rules:

- Minimum set (docs/safety.md S9): where a role is known it is every ps and chief, then workers by ascending index, then
  others, until min-available; without roles any min-available members will do.
- Counting (docs/safety.md S8): Succeeded members count permanently. Failed ones, ones being deleted and ones on a lost
  node (docs/safety.md S12) do not, and neither can they be waited for: their successors are other pods.
"""

from collections.abc import Callable, Mapping, Set

import msgspec
from msgspec.structs import replace

from scoring import GangKey, NodeName, PodUid
from scoring.model import Gang, Phase, Pod, Reason, Role

LEADERS = (Role.PS, Role.CHIEF)
_RANK = {Role.PS: 0, Role.CHIEF: 0, Role.WORKER: 1, Role.OTHER: 2}  # role → place in the order of placement
_GONE_AT_MOST = 64  # Gangs that are remembered although they are gone


class Quorum(msgspec.Struct, frozen=True):
    """What it takes to start one gang, and what is there. Nodes must be confirmed: an assumed one may never run."""

    min_member: int
    required: frozenset[PodUid] | None  # The minimum set where roles are known; `None`: any `min_member` members
    live: frozenset[PodUid]  # Members that count or may come to count; always contains `required` and `placed`
    placed: frozenset[PodUid]  # Members on a node and alive, or Succeeded
    finished: frozenset[PodUid]  # The Succeeded ones of `placed`: they take no room and are never evicted
    started: bool  # The gang was whole once, by our own evidence: none of it is evicted (docs/safety.md S8, S23)
    bound_to: Mapping[PodUid, NodeName] = {}  # member, also dead → its node
    lost_nodes: frozenset[NodeName] = frozenset()  # Nodes whose members stopped counting (docs/safety.md S12)
    problem: Reason | None = None  # Why the gang can never start as it is written (docs/safety.md S24)

    @property
    def incomplete(self) -> bool:
        """Fewer pods exist than must run."""
        return len(self.live) < self.min_member

    @property
    def whole(self) -> bool:
        """Whether the members on nodes are enough to run."""
        return self.reached_by(self.placed)

    def reached_by(self, uids: Set[PodUid]) -> bool:
        """Whether these members, as far as they are live, are enough to run."""
        counted = self.live & uids
        return len(counted) >= self.min_member and (self.required is None or self.required <= counted)

    def without(self, *gone: PodUid) -> "Quorum":
        """The same, once these members have gone: for a moment at which the cluster may still show them."""
        return replace(
            self,
            required=None if self.required is None else self.required.difference(gone),
            live=self.live.difference(gone),
            placed=self.placed.difference(gone),
            finished=self.finished.difference(gone),
        )

    def losing(self, node: NodeName) -> "Quorum":
        """The same, once `node` is lost: its members stop counting, except those that Succeeded."""
        dead = {uid for uid, where in self.bound_to.items() if where == node} - self.finished
        return replace(self.without(*dead), lost_nodes=self.lost_nodes | {node})


NO_MEMBERS = Quorum(1, None, frozenset(), frozenset(), frozenset(), started=False)  # Of a gang without pods


def quorum_of(gang: Gang, *, lost_nodes: frozenset[NodeName] = frozenset()) -> Quorum:
    """State the gang's quorum. Cost: O(n log n); equal for the same gang, so it may be kept per snapshot version."""
    live = _live(gang, lost_nodes)
    minimum = minimum_members(gang, lost_nodes=lost_nodes) if _roles_known(gang) else None
    finished = frozenset([p.uid for p in live if p.phase is Phase.SUCCEEDED])
    return Quorum(
        min_member=gang.min_member,
        required=None if minimum is None else frozenset([p.uid for p in minimum]),
        live=frozenset([p.uid for p in live]),
        placed=finished.union([p.uid for p in live if p.node is not None]),
        finished=finished,
        started=gang.started,
        bound_to={p.uid: p.node for p in gang.members if p.node is not None},
        lost_nodes=lost_nodes,
        problem=gang.problem,
    )


class Quorums:
    """The quorum of each gang, stated once per record of it; `keep_only` now and then where gangs come and go."""

    def __init__(self) -> None:
        self._known: dict[GangKey, tuple[Gang, frozenset[NodeName], Quorum]] = {}
        self._prune_at = _GONE_AT_MOST

    def of_gang(self, gang: Gang, *, lost_nodes: frozenset[NodeName] = frozenset()) -> Quorum:
        """As `quorum_of`. Cost: O(1) for the record and lost nodes asked for last."""
        cached = self._known.get(gang.key)
        if cached is None or cached[0] is not gang or cached[1] != lost_nodes:
            cached = self._known[gang.key] = gang, lost_nodes, quorum_of(gang, lost_nodes=lost_nodes)
        return cached[2]

    def keep_only(self, exists: Callable[[GangKey], object]) -> None:
        """Forget gangs that do not exist any more (`exists` gives None or False); O(gangs) once in many calls."""
        if len(self._known) >= self._prune_at:
            self._known = {key: cached for key, cached in self._known.items() if exists(key)}
            self._prune_at = len(self._known) + _GONE_AT_MOST


def minimum_members(gang: Gang, *, lost_nodes: frozenset[NodeName] = frozenset()) -> tuple[Pod, ...]:
    """The `min_member` to place first (more: all ps and chiefs; fewer: incomplete), in order. Cost: O(n log n).

    Succeeded ones come first in their role, as they count already; without roles placed ones; then by age and name.
    """
    roles_known = _roles_known(gang)

    def need(pod: Pod) -> tuple[int, bool, float, float, str]:
        role = pod.member_class.role
        counts = pod.phase is Phase.SUCCEEDED or (not roles_known and pod.node is not None)
        index = pod.index if role is not Role.OTHER else None
        return _RANK[role], not counts, float("inf") if index is None else index, pod.created_s, pod.name

    ordered = tuple(sorted(_live(gang, lost_nodes), key=need))
    leaders = sum([p.member_class.role in LEADERS for p in ordered])
    return ordered[: max(gang.min_member, leaders)]


def _live(gang: Gang, lost_nodes: frozenset[NodeName]) -> list[Pod]:
    return [
        p
        for p in gang.members
        if p.phase is Phase.SUCCEEDED
        or (p.phase is not Phase.FAILED and not p.deleting and (p.node is None or p.node not in lost_nodes))
    ]


def _roles_known(gang: Gang) -> bool:
    return any(p.member_class.role is not Role.OTHER for p in gang.members)
