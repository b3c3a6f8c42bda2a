"""The queue as /v1/queue shows it, with each gang's place in it; and a plan as /v1/plan and `netgang plan` show it.

Rule: states, clocks and order come from API objects and the moment alone; reasons, places, reservations from the plan.
In all records words of a closed set are `str`, because a client may be older than the service that it asks. The
planner's own records know pods by their uid, which says nothing to people.
"""

from collections import Counter
from collections.abc import Callable, Mapping
from typing import Final

from msgspec.structs import asdict, replace

from scoring import GangKey, NodeName, PodUid, ZoneName, records
from scoring.explain.words import expected_text
from scoring.explain.zones import bad_link
from scoring.feasibility.quorum import quorum_of
from scoring.model import GangSource, Phase, Policy, Reason, Snapshot
from scoring.model.reasons import NEVER_STARTS
from scoring.plan import Plan, PlannerCache, Run, begin_run, take_commitments
from scoring.plan.demand import GangDemand
from scoring.plan.queue_order import QueueOrder
from scoring.queue.states import QUEUE_OF, JobState, held_until_s, running_since_s, state_of, waiting_since_s
from scoring.records import PlaceInQueue

_ORDER: Final[Mapping[str, int]] = {"STARVING": 0, "WAITING": 0, "RUNNING": 1, "COMPLETED": 2}  # state → place
_NEVER_STARVE = NEVER_STARTS | {Reason.INCOMPLETE, Reason.BACKING_OFF}  # docs/safety.md S14


def report(
    snapshot: Snapshot,
    plan: Plan,
    policy: Policy,
    *,
    now_s: float,
    cache: PlannerCache | None = None,
    expected: Callable[[GangKey], records.ExpectedStart | None] = lambda _: None,
) -> records.Queue:
    """The queue at `now_s`. Cost: O(members), about 0.1 ms a gang."""
    run = begin_run(snapshot, policy, cache or PlannerCache())
    take_commitments(run)
    turns = QueueOrder(run, now_s=now_s)
    gangs = [gang for gang in snapshot.gangs.values() if gang.own and gang.source is not GangSource.NATIVE]
    asks = sorted(map(run.view.demand, gangs), key=turns.key)
    never = {key for key, wait in plan.waiting.items() if wait.reason in NEVER_STARTS}
    able = (ask.gang.key for ask in asks if ask.pending and ask.gang.key not in never)
    ranks = {key: rank for rank, key in enumerate(able, start=1)}
    queued: list[records.QueuedGang] = []
    for ask in asks:
        entry = queued_gang(run, plan, turns, ask, ranks.get(ask.gang.key), now_s=now_s)
        if entry.reason is not None and (start := expected(entry.gang)) is not None:
            entry = replace(entry, expected_start=replace(start, text=expected_text(start, now_s=now_s)))
        if bad := bad_link(run, plan, ask.gang):
            entry = replace(entry, bad_link=bad)
        queued.append(entry)
    queued.sort(key=lambda gang: (_ORDER[gang.state], gang.rank or len(asks) + 1, gang.gang))
    counts = Counter(gang.state for gang in queued)
    states: dict[str, int] = {state: counts[state] for state in JobState}
    return records.Queue(now_s, policy.queue.order, states, tuple(queued))


def queued_gang(
    run: Run, plan: Plan, turns: QueueOrder, ask: GangDemand, rank: int | None, *, now_s: float
) -> records.QueuedGang:
    """One gang of the queue. Cost: O(members + claims)."""
    gang, (makes_room, leaves_for) = ask.gang, leaving(run.snapshot, ask.gang.key)
    waiting, admission = plan.waiting.get(gang.key), plan.admitted.get(gang.key)
    hold = plan.held.get(gang.key)
    reason = waiting.reason if waiting is not None and ask.pending else None
    able = reason not in _NEVER_STARVE and ask.incomplete is None and gang.problem is None
    state = state_of(gang, quorum_of(gang, lost_nodes=ask.lost), starving=able and turns.starving(ask))
    queue = QUEUE_OF[state]
    since_s = waiting_since_s(gang)
    clock_s = since_s if able and queue == "WQ" else None  # `None`: it does not run
    on_nodes = [pod.node for pod in gang.members if pod.node is not None and not pod.terminal]
    zones = admission.zones if admission else hold.zones if hold else run.view.zones_of(set(on_nodes))
    phases, weight = Counter(pod.phase for pod in gang.members), turns.weight(ask)
    return records.QueuedGang(
        gang=gang.key,
        queue=queue,
        state=state,
        rank=rank,
        priority=gang.priority,
        weight=records.GangWeight(weight.omega_prime, str(weight.prime), weight.omega, weight.given),
        created_s=gang.created_s,
        waiting_since_s=since_s,
        waited_s=max(now_s - clock_s, 0.0) if clock_s is not None else None,
        starves_in_s=max(clock_s + turns.policy.starve_limit_s - now_s, 0.0) if clock_s is not None else None,
        running_since_s=running_since_s(gang) if queue == "RQ" else None,
        members=records.MemberCounts(
            gang.min_member, len(gang.pending), len(on_nodes), phases[Phase.SUCCEEDED], phases[Phase.FAILED]
        ),
        admitted=admission is not None,
        zone=zones_text(zones),
        held_nodes=tuple(sorted(hold.nodes)) if hold is not None else (),
        makes_room=makes_room,
        leaves_for=leaves_for,
        code=reason.name if reason is not None else None,
        reason=reason,
        detail=waiting.detail if waiting is not None and reason is not None else "",
    )


def leaving(snapshot: Snapshot, key: GangKey) -> tuple[tuple[GangKey, ...], GangKey | None]:
    """The gangs that leave for this one, and the gang for which it leaves."""
    claim = snapshot.claims.get(key)
    leaves_for = next((other for other, claim in sorted(snapshot.claims.items()) if key in claim.givers), None)
    return claim.givers if claim is not None else (), leaves_for


def zones_text(zones: tuple[ZoneName, ...]) -> str | None:
    """Zones as one field of a document; `None`: there are none."""
    return ",".join(zones) if zones else None


def place_of(run: Run, plan: Plan, ask: GangDemand, allowed: tuple[ZoneName, ...], *, now_s: float) -> PlaceInQueue:
    """The gang's place by its rank in the plan, with the names of all gangs ahead. Cost: O(gangs)."""
    key = ask.gang.key
    ranks = plan.ranks()
    rank = ranks.get(key)
    entry = queued_gang(run, plan, QueueOrder(run, now_s=now_s), ask, rank, now_s=now_s)
    starves = entry.starves_in_s is not None and rank is not None
    before = list(ranks)[: rank - 1] if rank is not None else []
    waiting = tuple(gang for gang in before if gang in plan.waiting)
    admitted = tuple(gang for gang in before if gang in plan.admitted and {*plan.admitted[gang].zones} & {*allowed})
    starting = tuple(sorted(other for other in run.snapshot.commitments if other != key))
    return PlaceInQueue(
        **{name: value for name, value in asdict(entry).items() if name in PlaceInQueue.__struct_fields__},
        of=len(ranks),
        ahead=records.Ahead(waiting, len(waiting), admitted, len(admitted), starting),
        reservation=_kept(run, plan, ask, starves=starves, now_s=now_s),
    )


def _kept(run: Run, plan: Plan, ask: GangDemand, *, starves: bool, now_s: float) -> records.KeptForGang | None:
    key = ask.gang.key
    names = {pod.uid: str(pod.name) for pod in ask.gang.members}

    def by_name(places: Mapping[PodUid, NodeName]) -> dict[str, NodeName]:
        return {names.get(uid, str(uid)): node for uid, node in sorted(places.items())}

    if (commitment := run.snapshot.commitments.get(key)) is not None:
        zones = run.view.zones_of(commitment.assignment.values())
        return records.KeptForGang("committed", zones_text(zones), by_name(commitment.assignment))
    if (admission := plan.admitted.get(key)) is not None:
        return records.KeptForGang("planned", zones_text(admission.zones), by_name(admission.members))
    reserved, claim = plan.held.get(key), run.snapshot.claims.get(key)
    if claim is not None:
        where, held = (reserved.zones, tuple(sorted(reserved.nodes))) if reserved else ((), ())
        return records.KeptForGang("claimed", zones_text(where), by_name(claim.assignment), held)
    if reserved is None:
        return None
    until_s = held_until_s(ask.gang, run.policy.queue, now_s=now_s) if starves else None
    return records.KeptForGang("held", zones_text(reserved.zones), {}, tuple(sorted(reserved.nodes)), until_s)


def planned_gangs(plan: Plan, snapshot: Snapshot, queue: records.Queue | None = None) -> records.PlannedGangs:
    """The plan for people; with `queue` each gang has its state and weight. Cost: O(members of admitted gangs)."""
    started = [snapshot.gangs[key] for key in plan.admitted if key in snapshot.gangs]
    pod_name = {pod.uid: str(pod.name) for gang in started for pod in gang.members}
    queued = {gang.gang: (gang.state, gang.weight) for gang in queue.gangs} if queue is not None else {}
    ranks = plan.ranks()
    return records.PlannedGangs(
        version=plan.version,
        admitted=tuple(
            records.AdmittedGang(
                admission.gang,
                ranks[admission.gang],
                ",".join(admission.zones),
                None if admission.score is None else round(admission.score, 3),
                admission.committed,
                dict(sorted((pod_name.get(uid, uid), node) for uid, node in admission.members.items())),
                *queued.get(admission.gang, ()),
            )
            for admission in sorted(plan.admitted.values(), key=lambda admission: admission.rank)
        ),
        waiting=tuple(
            records.WaitingGang(key, ranks.get(key), wait.reason.name, wait.reason, wait.detail, *queued.get(key, ()))
            for key, wait in sorted(plan.waiting.items(), key=lambda item: item[1].rank)
        ),
    )
