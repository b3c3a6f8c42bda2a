"""Which admitted pods wait for nodes that cannot take them any more (docs/safety.md S6, S8).

Why: a gate cannot be put back, and the affinity that came with its removal can never be made wider. When all nodes
it names are gone, or stay full, only another pod in this one's place can start. Rules: a pod is stranded only if
nothing is planned for it on a node that exists; what is bound is never looked at, whether its gang once started or
not; how long it must stay so is for the caller to say. Nothing here removes anything.

A member is stranded
1. by itself: no node that its constraints name exists (GONE), or none of those that do may take it and has room
   beside what runs, what is committed and what is planned for others (FULL);
2. with its gang: the gang waits, and its minimum set as a whole finds no place on the nodes that the members' lists
   leave it, though each member alone would (FULL).

Where nodes have room and only learned refusals close them, another pod in its place is no better off unless it could go
to other nodes: it is stranded (REFUSED) only if its gang would find room without its admission (docs/safety.md S27).
"""

from collections import Counter
from collections.abc import Hashable, Iterable
from enum import StrEnum

import msgspec

from scoring.feasibility.filters import as_written, named_only, node_allows
from scoring.ids import GangKey, PodUid
from scoring.model import Constraints, Gang, MemberClass, NodeTable, Pod, Policy, Reason, Snapshot
from scoring.plan import Plan, PlannerCache, Run, begin_run, take_commitments
from scoring.plan.cache import remember
from scoring.plan.capacity import When
from scoring.plan.placement import place_minimum
from scoring.plan.result import Refused
from scoring.plan.run import take_members


class Loss(StrEnum):
    """The state of the nodes that a pod was admitted to."""

    GONE = "gone"  # None of them exists
    FULL = "full"  # Some exist; none of them can take the pod now: room, readiness, cordon, taints
    REFUSED = "refused"  # Unmodelled filters refuse those with room, and there is room elsewhere


_WANT_ROOM = frozenset({Reason.NO_ROOM, Reason.BEHIND, Reason.FILTERED, Reason.UNCOUNTED, Reason.IMPOSSIBLE})
"""Refusals of a whole gang that other nodes could cure; the others ask for pods, zones or patience."""


def stranded(
    snapshot: Snapshot, plan: Plan, policy: Policy, *, now_s: float, cache: PlannerCache | None = None
) -> dict[GangKey, dict[PodUid, Loss]]:
    """Stranded members of own gangs, by gang; gangs without any are left out.

    `plan` is the plan of this snapshot, `now_s` Unix time. Cost: O(pending members of own gangs); for gangs with
    unplanned admitted members also O(nodes) for each of their classes, and one placement for each that waits whole.
    """
    look = _Look(snapshot, plan, policy, cache or PlannerCache())
    found: dict[GangKey, dict[PodUid, Loss]] = {}
    for key in sorted({*plan.waiting, *plan.admitted}):
        gang = snapshot.gangs.get(key)
        if gang is None or not gang.actionable:
            continue
        unplaced = [pod for pod in gang.members if is_pinned(pod) and not look.has_place(pod)]
        losses: dict[PodUid, Loss] = {}
        for pod in unplaced:
            loss = look.loss_of(pod.member_class)
            if loss is not None:
                losses[pod.uid] = loss
        if len(losses) < len(unplaced) and key in plan.waiting:
            losses = look.held_up(gang, unplaced, now_s=now_s) | losses
        if Loss.REFUSED in losses.values() and not look.has_room_elsewhere(gang):
            losses = {uid: loss for uid, loss in losses.items() if loss is not Loss.REFUSED}
        if losses:
            found[key] = losses
    return found


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


class _Look(msgspec.Struct):
    snapshot: Snapshot
    plan: Plan
    policy: Policy
    cache: PlannerCache
    _run: Run | None = None
    _named: dict[Hashable, bool] = {}  # constraints → whether some node that they name exists

    def has_place(self, pod: Pod) -> bool:
        """Whether the pod is planned or committed on a node that exists."""
        planned = self.plan.node_of.get(pod.uid)
        commitment = self.snapshot.commitments.get(pod.group.key) if pod.group is not None else None
        committed = commitment.assignment.get(pod.uid) if commitment is not None else None
        return any(node in self.snapshot.table.index for node in (planned, committed))

    def loss_of(self, member_class: MemberClass) -> Loss | None:
        """What one member of the class lost; `None`: some node would take it now."""
        run = self._counted()
        room = run.capacity.room.counts(run.view.vector(member_class)) > 0
        if bool((run.capacity.mask(member_class) & room).any()):
            return None
        if self.snapshot.excluded(member_class) and bool((run.capacity.mask(member_class, When.EMPTY) & room).any()):
            return Loss.REFUSED
        constraints = member_class.constraints
        named = remember(self._named, constraints, lambda: _some_is_named(self.snapshot.table, constraints))
        return Loss.FULL if named else Loss.GONE

    def held_up(self, gang: Gang, unplaced: Iterable[Pod], *, now_s: float) -> dict[PodUid, Loss]:
        """Those of `unplaced` that the minimum set needs, if that as a whole finds no place."""
        run = self._counted()
        ask = run.view.demand(gang)
        if not ask.need or ask.incomplete is not None:
            return {}
        outcome = place_minimum(run, ask, now_s=now_s)
        if not isinstance(outcome, Refused):
            self._run = None  # it took room for the answer, which others must find free
            return {}
        if outcome.reason not in _WANT_ROOM:
            return {}
        loss = Loss.REFUSED if any(self.snapshot.excluded(one) for one, _ in ask.need) else Loss.FULL
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
            members = (
                (pod.member_class, admission.members[pod.uid])
                for key, admission in self.plan.admitted.items()
                if key in gangs
                for pod in gangs[key].pending
                if pod.uid in admission.members and not (key in commitments and pod.uid in commitments[key].assignment)
            )
            take_members(run, members)
        return self._run


def _some_is_named(table: NodeTable, constraints: Constraints) -> bool:
    """Whether some node that the constraints name exists, in whatever state it is."""
    named = named_only(constraints)
    rows = range(len(table.nodes)) if named is None else [table.index[one] for one in named if one in table.index]
    return any(node_allows(table.nodes[row].at_best, constraints) for row in rows)
