"""Repair: what a started gang that lost members is given, and which admitted pods wait for nodes in vain.

**Lost members** (docs/explanation/repair.md): a lost member's successor may be there a second later, and then no API
object shows that one was lost. So while a gang is whole its *crew* is noted: which member has which index.

- Broken: members of the crew are lost, and those left of it are not the minimum set. A member beyond the crew
  (scale-out) breaks nothing; one that succeeded is never lost, and a gang in which such a pod was collected is
  finishing: what its minimum is by now, only its owner knows.
- A crew ends when the gang is whole again, with any members; when none of it is left, the next is another gang's start.
- After a restart of ours the crew of a gang that had started is read from what dead members, and successors, have left.

**Stranded pods** (docs/safety.md S6, S8): a gate cannot be put back, and the affinity that came with its removal can
never be made wider, so only another pod in this one's place can start. A pod is stranded only if nothing is planned for
it on a node that exists; what is bound is never looked at; how long it must stay so is for the caller to say. It is so
by itself (`PlaceLoss`), or with its gang: that waits, and its minimum set as a whole finds no place on the nodes that
the members' lists leave it. Where only learned refusals close nodes with room, its gang must find room without its
admission (docs/safety.md S27).
"""

from collections import Counter
from collections.abc import Container, Iterable, Mapping
from enum import StrEnum
from typing import TypeAlias

import msgspec
from msgspec.structs import replace

from scoring import GangKey, NodeName, PodName, PodUid
from scoring.feasibility.filters import as_written, selected_rows
from scoring.feasibility.quorum import Quorum, minimum_members
from scoring.model import Gang, MemberClass, Phase, Pod, Policy, Reason, Role, Snapshot
from scoring.model.policy import RepairPolicy
from scoring.plan import Plan, PlannerCache, Run, begin_run, take_commitments
from scoring.plan.capacity import When
from scoring.plan.placement import place_minimum
from scoring.plan.result import NoPlace
from scoring.plan.run import take_members

Seat: TypeAlias = tuple[Role, int] | PodUid  # Role and index; without an index each pod is its own


class CrewMember(msgspec.Struct, frozen=True):
    """A member of the crew."""

    uid: PodUid
    name: PodName
    node: NodeName | None
    finished: bool = False  # It succeeded: it counts permanently, also when its pod is collected


class LostMember(msgspec.Struct, frozen=True):
    """A member that is lost, and its successor."""

    name: PodName
    node: NodeName | None
    cause: str  # Completes "pod X is lost: …"
    stays: bool  # Its pod is still there, and in its successor's way
    ends: bool  # That pod is being deleted, and its node answers
    successor: Pod | None  # The pod that takes its index; `None`: none yet


class Crew(msgspec.Struct, frozen=True):
    """The members that made a gang whole, and since when it is broken."""

    members: Mapping[Seat, CrewMember]
    broken_since_s: float | None = None
    losses: tuple[LostMember, ...] = ()

    @property
    def broken(self) -> bool:
        """Whether it lost more than it can do without."""
        return self.broken_since_s is not None


def observe(
    before: Crew | None, gang: Gang, quorum: Quorum, *, nodes: Container[NodeName], now_s: float, mends: bool = False
) -> Crew | None:
    """The crew after a look at the gang; `None`: it was never whole, or is another gang by now. Cost: O(members).

    `quorum` is the gang's, without those on lost nodes; `nodes`: those that the cluster has; `mends`: whether a
    broken gang that is whole again with successors needs no more repair.
    """
    whole = quorum.whole
    if before is None:
        before = Crew(_traces(gang, quorum) if quorum.started and not whole else {})
    seated = before.members
    ended = {seat: replace(member, finished=True) for seat, member in seated.items() if member.uid in quorum.finished}
    before = replace(before, members={**seated, **ended})
    uids = {member.uid for member in before.members.values()}
    alive = uids & quorum.placed
    if not alive and not any(pod.uid in uids and pod.lives for pod in gang.members):
        return Crew(_seated(gang, quorum)) if whole else None
    lost = [seat for seat, member in before.members.items() if member.uid not in quorum.placed and not member.finished]
    collected = any(member.finished and member.uid not in quorum.placed for member in before.members.values())
    unbroken = not lost or collected or quorum.reached_by(alive)
    if whole and (unbroken or mends):
        return Crew(_seated(gang, quorum))
    if unbroken:
        return replace(before, broken_since_s=None, losses=())
    since_s = now_s if before.broken_since_s is None else before.broken_since_s
    losses = tuple([_loss(before.members[seat], seat, gang, nodes, quorum) for seat in sorted(lost, key=str)])
    return replace(before, broken_since_s=since_s, losses=losses)


def due_s(crew: Crew, gang: Gang, limits: RepairPolicy) -> float | None:
    """When (same clock as `observe`) a broken gang that asks for it is to be restarted; `None`: it is not."""
    if crew.broken_since_s is None or any(pod.phase is Phase.SUCCEEDED for pod in gang.members):
        return None
    return crew.broken_since_s + limits.settle_s


def not_before_s(history: tuple[float, ...], limits: RepairPolicy) -> float:
    """Unix seconds before which a gang that was restarted at these moments is not restarted again.

    The k-th restart in an hour waits `backoff_s` × 2^(k−1) after the one before, and there are `most_per_hour` of them.
    """
    if not history:
        return 0.0
    waits_s = history[-1] + limits.backoff_s * 2.0 ** (len(history) - 1)
    over = len(history) - limits.most_per_hour
    return max(waits_s, history[over] + 3600.0) if over >= 0 else waits_s


def words_of(crew: Crew) -> str:
    """What is wrong and what is waited for, in sentences for people; empty when the gang is not broken."""
    if not crew.broken:
        return ""
    first, losses = crew.losses[0], crew.losses
    more = f" (and {len(losses) - 1} more)" if len(losses) > 1 else ""
    parts = [f"Pod {first.name}{more} is lost: {first.cause}."]
    parts += [f"Pod {loss.name} on node {loss.node} still ends." for loss in losses if loss.ends][:3]
    if silent := ", ".join(sorted({loss.node for loss in losses if loss.stays and not loss.ends and loss.node})):
        parts.append(f"Its pod is still there: waiting for node {silent} to be removed or to come back.")
    if absent := sum(loss.successor is None and not loss.stays for loss in losses):
        parts.append(f"Waiting for its owner to create {absent} new pod{'s' if absent > 1 else ''}.")
    heirs = (loss.successor for loss in losses)
    if waits := next((pod.name for pod in heirs if pod is not None and pod.node is None), None):
        parts.append(f"Pod {waits} takes its place, as soon as the others leave room for it.")
    return " ".join(parts)


def _seat(pod: Pod) -> Seat:
    return (pod.role, pod.index) if pod.index is not None else pod.uid


def _seated(gang: Gang, quorum: Quorum) -> dict[Seat, CrewMember]:
    return {
        _seat(pod): CrewMember(pod.uid, pod.name, pod.node, finished=pod.uid in quorum.finished)
        for pod in gang.members
        if pod.uid in quorum.placed
    }


def _traces(gang: Gang, quorum: Quorum) -> dict[Seat, CrewMember]:
    """The crew of a broken gang that is seen for the first time; empty where no member is known to be lost.

    - Remains: a dead member that had a node before a live member was created is of an earlier start.
    - A successor that waits: created after a live member got its node, when all of the minimum were there; by its
      index it is below a running member, as scale-out comes above them all. Its forerunner gets its name.
    """
    living = [pod for pod in gang.members if pod.uid in quorum.placed and not pod.terminal]
    born_s = min((pod.created_s for pod in living), default=None)
    placed_s = min((pod.scheduled_s for pod in living if pod.scheduled_s is not None), default=None)
    highest = {pod.role: pod.index for pod in sorted(living, key=lambda pod: pod.index or 0) if pod.index is not None}
    minimum = {pod.uid for pod in minimum_members(gang, lost_nodes=quorum.lost_nodes)}
    lost: dict[Seat, CrewMember] = {}
    for pod in gang.members:
        if pod.uid in quorum.placed:
            continue
        if pod.node is not None and pod.scheduled_s is not None and born_s is not None and born_s <= pod.scheduled_s:
            lost[_seat(pod)] = CrewMember(pod.uid, pod.name, pod.node)
        below = pod.index is not None and pod.index < highest.get(pod.role, -1)
        late = placed_s is not None and pod.created_s > placed_s
        if pod.node is None and pod.uid in minimum and late and below:
            lost.setdefault(_seat(pod), CrewMember(PodUid(f"before {pod.uid}"), pod.name, None))
    return lost | _seated(gang, quorum) if lost else {}


def _loss(member: CrewMember, seat: Seat, gang: Gang, nodes: Container[NodeName], quorum: Quorum) -> LostMember:
    remains = next((pod for pod in gang.members if pod.uid == member.uid), None)
    heirs = (pod for pod in gang.members if _seat(pod) == seat and pod.uid != member.uid and not pod.terminal)
    heir = next((pod for pod in heirs if not pod.deleting), None)
    node = (remains.node if remains is not None else None) or member.node
    gone, cause = node is not None and node not in nodes, "it was removed"
    if gone:
        cause = f"its node {node} is gone"
    elif remains is not None and remains.phase is Phase.FAILED:
        cause = f"it failed on node {node}"
    elif remains is not None and not remains.deleting:
        cause = f"its node {node} does not answer"
    stays = remains is not None and not remains.terminal and heir is None and not gone
    ends = stays and remains is not None and remains.deleting and node not in quorum.lost_nodes
    return LostMember(member.name, node, cause, stays, ends, heir)


class PlaceLoss(StrEnum):
    """The state of the nodes that a pod was admitted to, as a sentence about those that stay so."""

    GONE = "All nodes that the pod was admitted to are gone"
    FULL = "No node that the pod was admitted to has had a place for it for too long"  # Also: not ready, cordoned, …
    REFUSED = "kube-scheduler's other filters refuse the pod all nodes that it was admitted to"  # Others have room


_WANT_ROOM = frozenset({Reason.NO_ROOM, Reason.BEHIND, Reason.FILTERED, Reason.UNCOUNTED, Reason.IMPOSSIBLE})
"""Refusals of a whole gang that other nodes could cure; the others ask for pods, zones or patience."""


def stranded(
    snapshot: Snapshot, plan: Plan, policy: Policy, *, now_s: float, cache: PlannerCache | None = None
) -> dict[GangKey, dict[PodUid, PlaceLoss]]:
    """Stranded members of own gangs, by gang; gangs without any are left out. `plan`: of this snapshot.

    Cost: O(pending members of own gangs); for gangs with unplanned admitted members also O(nodes) for each of their
    classes, and one placement for each that waits whole.
    """
    look = _Places(snapshot, plan, policy, cache or PlannerCache())
    by_gang: dict[GangKey, dict[PodUid, PlaceLoss]] = {}
    for key in sorted({*plan.waiting, *plan.admitted}):
        gang = snapshot.gangs.get(key)
        if gang is None or not gang.actionable:
            continue
        unplaced = [pod for pod in gang.members if is_pinned(pod) and not look.has_place(pod)]
        losses = {pod.uid: loss for pod in unplaced if (loss := look.loss_of(pod.member_class)) is not None}
        if len(losses) < len(unplaced) and key in plan.waiting:
            losses = look.held_up(gang, unplaced, now_s=now_s) | losses
        if PlaceLoss.REFUSED in losses.values() and not look.has_room_elsewhere(gang):
            losses = {uid: loss for uid, loss in losses.items() if loss is not PlaceLoss.REFUSED}
        if losses:
            by_gang[key] = losses
    return by_gang


def is_pinned(pod: Pod) -> bool:
    """Whether the pod was let through our gate to certain nodes (not without affinity), and waits for one."""
    return (
        pod.admitted_to is not None
        and pod.node is None
        and not pod.gates
        and not pod.deleting
        and not pod.terminal
        and pod.member_class.constraints.affinity is not None
    )


class _Places(msgspec.Struct):
    snapshot: Snapshot
    plan: Plan
    policy: Policy
    cache: PlannerCache
    _run: Run | None = None

    def has_place(self, pod: Pod) -> bool:
        """Whether the pod is planned or committed on a node that exists."""
        planned = self.plan.node_of.get(pod.uid)
        commitment = self.snapshot.commitments.get(pod.group.key) if pod.group is not None else None
        committed = commitment.assignment.get(pod.uid) if commitment is not None else None
        return any(node in self.snapshot.table.index for node in (planned, committed))

    def loss_of(self, member_class: MemberClass) -> PlaceLoss | None:
        """What one member of the class lost; `None`: some node would take it now."""
        run = self._counted()
        room = run.capacity.room.counts(run.view.vector(member_class)) > 0
        if bool((run.capacity.mask(member_class) & room).any()):
            return None
        if self.snapshot.excluded(member_class) and bool((run.capacity.mask(member_class, When.EMPTY) & room).any()):
            return PlaceLoss.REFUSED
        return PlaceLoss.FULL if selected_rows(self.snapshot.table.labels, member_class.constraints) else PlaceLoss.GONE

    def held_up(self, gang: Gang, unplaced: Iterable[Pod], *, now_s: float) -> dict[PodUid, PlaceLoss]:
        """Those of `unplaced` that the minimum set needs, if that as a whole finds no place."""
        run = self._counted()
        ask = run.view.demand(gang)
        if not ask.need or ask.incomplete is not None:
            return {}
        outcome = place_minimum(run, ask, now_s=now_s)
        if not isinstance(outcome, NoPlace):
            self._run = None  # it took room for the answer, which others must find free
            return {}
        if outcome.reason not in _WANT_ROOM:
            return {}
        loss = PlaceLoss.REFUSED if any(self.snapshot.excluded(kind) for kind, _ in ask.need) else PlaceLoss.FULL
        needed = {pod.uid for _, pods in ask.need for pod in pods}
        return {pod.uid: loss for pod in unplaced if pod.uid in needed}

    def has_room_elsewhere(self, gang: Gang) -> bool:
        """Whether some zone has room for all that waits, had no nodes been named: an estimate, class by class."""
        run = self._counted()
        ask = run.view.demand(gang)
        classes = Counter(as_written(pod, zone_label=self.policy.zone_label) for pod in gang.pending)
        able = run.capacity.zones_for(classes.items())
        return bool(able[run.view.columns(run.view.candidate_zones(ask))].any())

    def _counted(self) -> Run:
        """A run in which what is committed or planned is taken; of committed gangs later members are only planned."""
        if self._run is None:
            self._run = run = begin_run(self.snapshot, self.policy, self.cache)
            take_commitments(run)
            gangs, commitments = run.snapshot.gangs, run.snapshot.commitments
            planned = (
                (pod.member_class, admission.members[pod.uid])
                for key, admission in self.plan.admitted.items()
                if key in gangs
                for pod in gangs[key].pending
                if pod.uid in admission.members and not (key in commitments and pod.uid in commitments[key].assignment)
            )
            take_members(run, planned)
        return self._run
