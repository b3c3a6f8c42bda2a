"""Explain one gang: its members, what each zone has for it, the gangs ahead of it, why it waits.

A pure function of snapshot, plan and what is known around them, so that API, CLI, page, Events and tests say the same.
"""

from dataclasses import dataclass
from typing import Final

from scoring.explain.causes.cause import cause_in_steps
from scoring.explain.causes.kube_scheduler import scheduler_words
from scoring.explain.causes.reasons import Cause
from scoring.explain.circumstances import NOTHING_KNOWN, Around, Decision, Note, Topic, notes_of, wants_nodes
from scoring.explain.links import GangLinks, gang_links
from scoring.explain.turn import Turn, turn_of
from scoring.explain.words import counted
from scoring.explain.zones import ZoneVerdict, zones_in_steps
from scoring.ids import GangKey, NodeName, PodUid
from scoring.model import Gang, Policy, Snapshot
from scoring.model.policy import Preempting
from scoring.plan import Admission, Plan, PlannerCache, Run, Waiting, begin_run, take_commitments
from scoring.plan.demand import GangDemand
from scoring.plan.queue_order import QueueOrder
from scoring.plan.steps import Steps, at_once
from scoring.queue.service_levels import is_wide
from scoring.score.zone_distance import near_problem

_MOST_WORDS: Final = 3  # Different refusals of kube-scheduler that are shown


@dataclass(frozen=True, slots=True)
class MemberState:
    """One member and where it is."""

    pod: str
    uid: PodUid
    role: str
    state: str  # running, bound, held, planned, pending, gated, deleting, succeeded or failed
    node: NodeName | None
    why: str = ""  # Why it has no node; empty: it has one, or waits as its gang does


@dataclass(frozen=True, slots=True)
class Missing:
    """Members that do not exist."""

    count: int  # Without them the minimum cannot be reached; 0: enough exist
    why: str


@dataclass(frozen=True, slots=True)
class Explanation:
    """The whole answer for one gang."""

    gang: GangKey
    source: str
    min_member: int
    members: tuple[MemberState, ...]
    admission: Admission | None
    waiting: Waiting | None
    zones: tuple[ZoneVerdict, ...]
    links: GangLinks | None  # `None`: its members have no nodes, neither bound nor planned
    problems: tuple[str, ...]  # Annotations that were not understood, or decide nothing
    missing: Missing
    turn: Turn
    decisions: tuple[Decision, ...]  # The last ones, newest first
    notes: tuple[Note, ...]  # What else stands in its way, and what is not known
    cause: Cause | None = None  # Why it waits; `None`: it does not


def explain_in_steps(
    snapshot: Snapshot,
    plan: Plan,
    gang: Gang,
    policy: Policy,
    *,
    now_s: float,
    cache: PlannerCache | None = None,
    around: Around = NOTHING_KNOWN,
    closest: int | None = None,
) -> Steps[Explanation]:
    """Explain `gang` at `now_s`, in steps; `closest`: for how many zones shortages are named. Cost: as planning it."""
    run = begin_run(snapshot, policy, cache or PlannerCache())
    take_commitments(run, besides=gang.key)
    ask = run.view.demand(gang)
    zones = yield from zones_in_steps(run, ask, closest=closest)
    turn = turn_of(run, plan, ask, run.view.candidate_zones(ask), now_s=now_s)
    waiting = plan.waiting.get(gang.key)
    notes = (
        *notes_of(gang, waiting, ask.lost),
        *_wide(run, ask, waiting, now_s=now_s),
        *_scheduler_notes(ask, around),
        *around.notes,
    )
    yield
    cause = yield from cause_in_steps(run, plan, ask, zones, around, notes)
    return Explanation(
        gang=gang.key,
        source=gang.source.value,
        min_member=gang.min_member,
        members=tuple(_member(plan, ask, around)),
        admission=plan.admitted.get(gang.key),
        waiting=waiting,
        zones=zones,
        links=gang_links(run, plan, gang, run.view.score(ask)),
        problems=(*ask.options.problems, *near_problem(ask.options.near, run.table, run.snapshot.network, run.policy)),
        missing=Missing(max(gang.min_member - ask.alive - len(ask.unable), 0), ask.incomplete or ""),
        turn=turn,
        decisions=around.decisions,
        notes=notes,
        cause=cause,
    )


explain = at_once(explain_in_steps)


def _wide(run: Run, ask: GangDemand, waiting: Waiting | None, *, now_s: float) -> tuple[Note, ...]:
    """A sentence when the gang is too wide to take room by its level (`scoring.queue.service_levels`)."""
    service = run.policy.service
    if run.policy.preemption is not Preempting.LEVELS or not wants_nodes(waiting):
        return ()
    if QueueOrder(run, now_s=now_s).starving(ask) or not is_wide(ask.gang, run.table, service):
        return ()
    text = (
        f"it asks for more than {service.wide_share:.0%} of the cluster (wide_share): before it is STARVING no gang "
        "leaves for it by service level, and it starts with all its members or not at all"
    )
    return (Note(Topic.LEVEL, text),)


def _scheduler_notes(ask: GangDemand, around: Around) -> tuple[Note, ...]:
    """What kube-scheduler's own FailedScheduling says of the pods, the words that most of them have."""
    return tuple(
        Note(Topic.SCHEDULER, f"of {counted(pods, 'pod')}: {words}")
        for words, pods in scheduler_words(ask, around)[:_MOST_WORDS]
    )


def _member(plan: Plan, ask: GangDemand, around: Around) -> list[MemberState]:
    states: list[MemberState] = []
    beyond = {pod.uid for _, pods in ask.more for pod in pods}
    for pod in ask.gang.members:
        planned = plan.node_of.get(pod.uid)
        why = ""
        if pod.terminal:
            state = pod.phase.lower()
        elif pod.deleting:
            state, why = "deleting", "it is being deleted"
        elif pod.node is not None:
            state = "running" if pod.phase == "Running" else "bound"
            why = f"node {pod.node} is gone" if pod.node in ask.lost else ""
        elif pod.uid in around.held:
            state, why = "held", "its bind is held until the minimum has come"
        elif planned is not None:
            state = "planned"
        else:
            state = "gated" if pod.gates else "pending"
            if pod.foreign_gates:
                why = f"others have not removed scheduling gate {', '.join(pod.foreign_gates)}"
            elif pod.obstacle:
                why = f"kube-scheduler places it on no node: {pod.obstacle}"
            elif pod.uid in beyond:
                why = "it is beyond the minimum, and starts when there is room"
        if not why and pod.uid in around.refusals:
            why = f"kube-scheduler said last: {around.refusals[pod.uid]}"
        states.append(MemberState(pod.name, pod.uid, pod.role, state, pod.node or planned, why))
    return states
