"""Which gangs leave for which: the first waiting gang in the queue's order for which a set of gangs suffices.

Steps for each gang that waits for room, in the order of the plan:
1. It must be one that may take another's place: its pods do not say `preemptionPolicy: Never`, its minimum is there,
   no gang leaves for it already, and gangs of lower priority run that may leave (`candidates`). It must not be promised
   a start that is nearer than `RESTART_S`: waiting until then costs less than a gang that leaves loses at least.
2. Room that comes by itself (members that are being deleted) may suffice: then no gang leaves.
3. The smallest set of gangs without which its whole minimum set has a place (`smallest`); none suffices: no gang
   leaves, and the next one is looked at. Gangs that ask for the same are looked at once.
"""

from collections.abc import Mapping, Set
from typing import Final

import msgspec
from msgspec.structs import replace

from scoring.ids import GangKey, NodeName, PodUid, ZoneName
from scoring.model import Gang
from scoring.model.policy import Policy, Preempting
from scoring.model.snapshot import Snapshot
from scoring.plan import Plan, PlannerCache, Waiting, begin_run
from scoring.plan.demand import GangDemand
from scoring.plan.placement import kind_of
from scoring.plan.queue_order import QueueOrder
from scoring.plan.result import WANTS_ROOM
from scoring.preempt.candidates import Candidate, candidates
from scoring.preempt.cluster_without import Without
from scoring.preempt.smallest import SearchLimits, smallest
from scoring.queue.service_levels import is_wide, level_of_waiting

RESTART_S: Final = 41.0
"""What a job that leaves and comes back stands still for at least (PAPERS E3), as of `elastic.metrics.stall_s`"""


class Preemption(msgspec.Struct, frozen=True):
    """Gangs `victims` leave, whole, for the waiting gang `gang`, which then goes where `assignment` says."""

    gang: GangKey
    priority: int
    victims: tuple[GangKey, ...]  # By name; at least one
    pods: frozenset[PodUid]  # Their members on nodes: all of them leave
    assignment: Mapping[PodUid, NodeName]  # Every missing member of the gang's minimum set → its node
    zones: tuple[ZoneName, ...]
    attained_h: Mapping[GangKey, float] = {}  # Of those that leave for it


def preemption(
    snapshot: Snapshot,
    plan: Plan,
    policy: Policy,
    *,
    now_s: float,
    spared: Set[GangKey] = frozenset(),
    passed_over: Set[GangKey] = frozenset(),
    continued: Set[GangKey] = frozenset(),
    cache: PlannerCache | None = None,
    limits: SearchLimits = SearchLimits(),
) -> Preemption | None:
    """Which gangs leave for which, by the plan of this snapshot; `None`: none.

    `spared` must stay (an owner or a disruption budget says so); none leaves for `passed_over`; those of `continued`
    are looked at although room is claimed for them, as if it were not. `now_s`: Unix time.

    >>> from scoring.plan import plan as planned
    >>> from tests.builders import bound, gang, node, pod, snapshot
    >>> small, large = (
    ...     gang(name, members=[bound(pod(f"{name}{i}", gang=name, cpu="4"), on) for i in range(count)])
    ...     for name, count, on in (("small", 1, "n1"), ("large", 2, "n2"))
    ... )
    >>> for cpu in ("4", "8", "9"):
    ...     waits = gang("waits", 1, cpu=cpu, priority=5)
    ...     now = snapshot([node("n1", cpu="6"), node("n2", cpu="8")], [small, large, waits])
    ...     policy = Policy(preemption=Preempting.GANGS)
    ...     found = preemption(now, planned(now, policy, now_s=0.0), policy, now_s=0.0)
    ...     print(found and found.victims)
    ('default/small',)
    ('default/large',)
    None
    """
    cache = cache or PlannerCache()
    if policy.preemption is Preempting.OFF:
        return None
    run = begin_run(snapshot, policy, cache)
    order, total = QueueOrder(run, now_s=now_s), run.table.allocatable.sum(axis=0)
    levels = policy.preemption is Preempting.LEVELS
    hopeless: set[object] = set()
    freed: dict[GangKey, Candidate | None] = {}
    for waiting in sorted(plan.waiting.values(), key=lambda one: one.rank):
        gang = snapshot.gangs.get(waiting.gang)
        seen = snapshot
        if waiting.gang in continued:  # which gangs give it room now is to be found out
            claims = {key: claim for key, claim in snapshot.claims.items() if key != waiting.gang}
            seen = replace(snapshot, claims=claims)
        if gang is None or gang.key in passed_over or not may_preempt(gang, waiting, seen):
            continue
        if gang.key not in continued and plan.starts_in_s(gang.key, now_s=now_s) <= RESTART_S:
            continue
        ask = run.view.demand(gang)
        by_level = levels and (order.starving(ask) or not is_wide(gang, run.table, policy.service, total=total))
        had = level_of_waiting(gang.key, seen, policy.service)
        standing = (gang.priority, had, by_level)
        kind = (id(kind_of(run, ask)), standing, seen is snapshot or gang.key)
        if kind in hopeless:
            continue
        able = candidates(seen, policy, gang, freed, now_s=now_s, spared=spared, by_level=by_level)
        chosen = None
        if able:
            chosen = smallest(_without_others(seen, plan, policy, ask, cache, now_s=now_s), able, limits)
        if chosen is not None:
            return Preemption(
                gang=gang.key,
                priority=gang.priority,
                victims=tuple(sorted(one.gang for one in chosen.some)),
                pods=frozenset(pod.uid for one in chosen.some for pod in one.pods),
                assignment=chosen.placed.nodes,
                zones=chosen.placed.zones,
                attained_h={one.gang: one.attained_h for one in chosen.some if one.attained_h > 0.0},
            )
        hopeless.add(kind)
    return None


def may_preempt(gang: Gang, waiting: Waiting, snapshot: Snapshot) -> bool:
    """Whether others may be made to leave for this gang, if that helps."""
    return (
        waiting.reason in WANTS_ROOM
        and gang.own
        and gang.problem is None
        and gang.key not in snapshot.commitments
        and gang.key not in snapshot.claims
        and not any(pod.never_preempts for pod in gang.pending)
    )


def _without_others(
    snapshot: Snapshot, plan: Plan, policy: Policy, ask: GangDemand, cache: PlannerCache, *, now_s: float
) -> Without:
    """What the gang would find: what is planned for others or claimed by them is taken, and reservations ahead stay."""
    index, rank = snapshot.table.index, plan.waiting[ask.gang.key].rank
    members = (pod for gang in snapshot.gangs.values() for pod in gang.members)
    claims = [(snapshot.gangs[key], one) for key, one in sorted(snapshot.claims.items()) if key in snapshot.gangs]
    return Without(
        snapshot,
        policy,
        ask,
        cache,
        now_s=now_s,
        planned=plan.admitted.values(),
        leaving=[pod for pod in members if pod.deleting and pod.node is not None and not pod.terminal],
        claimed=[
            (pod.member_class, claim.assignment[pod.uid])
            for gang, claim in claims
            if gang.key in plan.waiting
            for pod in gang.pending
            if pod.uid in claim.assignment
        ],
        held=[  # For STARVING gangs ahead; what is claimed counts by itself
            index[name]
            for reserved in plan.reservations.values()
            if (owner := plan.waiting.get(reserved.gang)) is not None and owner.rank < rank
            for name in reserved.nodes
            if reserved.gang not in snapshot.claims and name in index
        ],
        ports=True,
    )
