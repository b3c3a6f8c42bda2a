"""What a gang asks of the planner now: which members need a node, in which order of importance, beside which siblings.

Rules: members that run count for the minimum set (docs/safety.md S8, S9), those on nodes that are gone do not (S12),
and a gang that reached quorum is never held back again: its further members are `more`. No room is kept for pods that
cannot come now, behind another component's gate or with an obstacle such as a volume claim that does not exist; a gang
that needs one of them is incomplete (docs/safety.md S5, S25).
"""

from collections.abc import Iterable, Mapping

import msgspec
from msgspec.structs import replace

from scoring import GangKey, NodeName, ZoneName
from scoring.feasibility.quorum import minimum_members, quorum_of
from scoring.model import Gang, GangSource, MemberClass, Pod, Role
from scoring.model.policy import GangOptions, Policy, ScorePolicy, Selection, ZonePolicy, gang_options
from scoring.network.matrix import Ints
from scoring.plan.result import NoPlace

ByClass = tuple[tuple[MemberClass, tuple[Pod, ...]], ...]  # Interchangeable pods together; pods in order of importance


class GangDemand(msgspec.Struct, frozen=True):
    """What one gang asks for. Empty `need` and `more`: nothing to place."""

    gang: Gang
    options: GangOptions
    need: ByClass  # Members of the minimum set that have no node: all of them or none
    more: ByClass  # Pending members beyond the minimum: as many as fit
    siblings: tuple[tuple[Role, NodeName], ...]  # Placed members, sorted: what new members want to be near
    all_reduce: bool  # No ps: workers exchange with each other; with a ps they exchange with it
    alive: int  # Members that count or may come to count now; below min-available the gang is incomplete
    unable: tuple[Pod, ...] = ()  # Pending members that cannot come now: behind a foreign gate, or with an obstacle
    blocked: bool = False  # The minimum set needs one of `unable`
    lost: frozenset[NodeName] = frozenset()  # Nodes of members that are not in the cluster any more

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
        least, existing = self.gang.min_member, self.alive + len(self.unable)
        if existing < least:
            lost = f", not counting those on {', '.join(sorted(self.lost))}, which is gone" if self.lost else ""
            return f"{existing} of {least} pods exist{lost}"
        if not self.blocked:
            return None
        first, more = self.unable[0], len(self.unable) - 1
        others = f" (and {more} more pods)" if more else ""
        if first.foreign_gates:
            return f"pod {first.key}{others} waits for scheduling gate {', '.join(first.foreign_gates)}"
        return f"kube-scheduler places pod {first.key}{others} on no node: {first.obstacle}"


class MemberSet(msgspec.Struct, eq=False):
    """Members to place together beside siblings, and what is known of all gangs that ask for the same."""

    classes: tuple[tuple[MemberClass, int], ...]  # With their counts
    siblings: tuple[tuple[Role, NodeName], ...]
    all_reduce: bool
    size: int  # Number of members
    method: Selection
    score: ScorePolicy
    allowed: tuple[ZoneName, ...]  # Zones that it may use
    columns: Ints  # Of these, among all of the run's, ascending
    home: frozenset[ZoneName]  # Zones of members that have a node
    refuses_bad_links: bool = False
    refused: tuple[object, object, NoPlace] | None = None  # Of which room, at which moment (`None`: any later one), how
    could_fit: bool | None = None  # Whether it would fit the empty cluster, once that was looked at
    tiers: dict[tuple[ZoneName, ...], tuple[ScorePolicy, list[ZoneName], list[ZoneName]]] = {}
    """Zones with room → what the best of them are compared by, these, and those that come after them"""


class MemberSets(msgspec.Struct):
    """Minimum sets for one node table, network and policy."""

    stamp: object = None  # Stands for these
    by_content: dict[object, MemberSet] = {}
    by_demand: dict[int, tuple[object, MemberSet]] = {}  # Id of a demand → the demand, kept alive, and its minimum set


def demand_of(gang: Gang, policy: Policy, *, lost: frozenset[NodeName] = frozenset()) -> GangDemand:
    """Derive what `gang` asks for; `lost` are its members' nodes that are gone. Cost: O(n log n) in members.

    Kubernetes' own gangs ask for all or nothing: kube-scheduler 1.37 tries no member while another one has a gate.
    """
    pending = gang.pending
    unable = tuple([pod for pod in pending if pod.obstacle or (pod.gates and pod.foreign_gates)])
    together = gang.source is GangSource.GATED_NATIVE
    blocked = bool(unable) and together
    if unable and not together:  # too few others may be left, or a known role's minimum set needs one of them
        quorum = quorum_of(gang, lost_nodes=lost)
        blocked = not quorum.reached_by(quorum.live - {pod.uid for pod in unable})
    able = gang
    if unable and not blocked:
        stuck = {pod.uid for pod in unable}
        able = replace(gang, members=tuple(pod for pod in gang.members if pod.uid not in stuck))
    need = pending if able is gang else able.pending
    more: Iterable[Pod] = ()
    if len(able.members) > gang.min_member and not together:
        minimum = {pod.uid for pod in minimum_members(able, lost_nodes=lost)}
        need, more = (tuple([pod for pod in need if (pod.uid in minimum) is first]) for first in (True, False))
    settled = gang.placed if len(pending) < len(gang.members) else ()
    placed = [pod for pod in settled if pod.terminal or pod.node not in lost]
    siblings = sorted((pod.role, pod.node) for pod in placed if pod.node is not None and not pod.terminal)
    return GangDemand(
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


def whole_of(demand: GangDemand) -> GangDemand:
    """The same with all pending members as its minimum; itself, if it asks for no more than its minimum."""
    if not (demand.need and demand.more):
        return demand
    return replace(demand, need=_by_class(pod for _, pods in (*demand.need, *demand.more) for pod in pods), more=())


def countable(demand: GangDemand) -> bool:
    """Whether a refusal for want of room follows from how many members fit the zones, now and before the run."""
    if demand.gang.problem is not None or demand.incomplete is not None or not demand.need or demand.siblings:
        return False
    ported = any(member_class.constraints.host_ports for member_class, _ in demand.need)
    return not ported and demand.options.zone_policy is not ZonePolicy.PREFERRED


def _by_class(pods: Iterable[Pod]) -> ByClass:
    grouped: dict[MemberClass, list[Pod]] = {}
    by_object: dict[int, list[Pod]] = {}  # a class is usually one object for all its members, and slow to hash
    for pod in pods:
        members = by_object.get(id(pod.member_class))
        if members is None:
            members = by_object[id(pod.member_class)] = grouped.setdefault(pod.member_class, [])
        members.append(pod)
    return tuple((member_class, tuple(members)) for member_class, members in grouped.items())


class KnownDemands(msgspec.Struct):
    """What gangs ask for, kept for as long as a gang is the same object, and the same members' nodes are gone."""

    known: dict[GangKey, tuple[Gang, Policy, int, GangDemand, bool]] = {}  # With `_number`, and whether to plan it
    _nodes: Mapping[NodeName, int] = {}  # Those asked about last
    _number: int = 0  # Another one each time that these are others: a demand must not keep the nodes of its day alive

    def of_gang(self, gang: Gang, policy: Policy, nodes: Mapping[NodeName, int]) -> GangDemand:
        """`demand_of`, where it can differ from what is known."""
        return self._entry(gang, policy, nodes)[3]

    def pending(self, gangs: Iterable[Gang], policy: Policy, nodes: Mapping[NodeName, int]) -> list[GangDemand]:
        """What gangs that are ours to start ask for, if there is anything to place."""
        entries = [self._entry(gang, policy, nodes) for gang in gangs]
        return [demand for _, _, _, demand, to_plan in entries if to_plan]

    def _entry(
        self, gang: Gang, policy: Policy, nodes: Mapping[NodeName, int]
    ) -> tuple[Gang, Policy, int, GangDemand, bool]:
        if nodes is not self._nodes:
            self._nodes, self._number = nodes, self._number + 1
        cached = self.known.get(gang.key)
        if cached is None or cached[0] is not gang or cached[1] is not policy:
            cached = None
        elif cached[2] == self._number:
            return cached
        lost = frozenset([pod.node for pod in gang.members if pod.node is not None and pod.node not in nodes])
        demand = cached[3] if cached is not None and cached[3].lost == lost else demand_of(gang, policy, lost=lost)
        ours = gang.own or gang.problem is not None  # what is ours in part is told its problem (docs/safety.md S1)
        entry = gang, policy, self._number, demand, demand.pending and ours and gang.source is not GangSource.NATIVE
        self.known[gang.key] = entry
        return entry
