"""Explain one gang: its members, what each zone has for it, the gangs ahead of it, why it waits.

A pure function of snapshot, plan and what is known around them, so that API, CLI, page, Events and tests say the same.
"""

from collections.abc import Collection, Mapping, Sequence
from typing import Final

import msgspec

from scoring.explain.causes.cause import cause_of
from scoring.explain.causes.pods import NO_REFUSALS, scheduler_words, uncounted_names
from scoring.explain.causes.reasons import Cause
from scoring.explain.gang_network import GangNetwork, gang_network
from scoring.explain.queue_report import Turn, turn_of
from scoring.explain.words import counted
from scoring.explain.zones import ZoneVerdict, verdicts
from scoring.ids import GangKey, NodeName, PodUid
from scoring.model import GATE, Gang, Policy, Reason, Snapshot
from scoring.plan import Admission, Plan, PlannerCache, Run, Waiting, begin_run, take_commitments
from scoring.plan.demand import GangDemand
from scoring.score.zone_distance import near_problem

_MOST_WORDS: Final = 3  # Different refusals of kube-scheduler that are shown
_WANTS_NODES: Final = frozenset(
    {Reason.NO_ROOM, Reason.BEHIND, Reason.FILTERED, Reason.IMPOSSIBLE, Reason.RESERVED, Reason.SPILL_WAIT}
)


class MemberState(msgspec.Struct, frozen=True):
    """One member."""

    pod: str
    role: str  # ps, chief, worker or other.
    state: str  # running, bound, held, planned, pending, gated, deleting, succeeded or failed.
    node: NodeName | None  # Where it is, or is planned.
    why: str = ""  # Why it has no node; empty: it has one, or waits as its gang does.


class Explanation(msgspec.Struct, frozen=True):
    """The whole answer for one gang."""

    gang: GangKey
    source: str
    min_member: int
    members: tuple[MemberState, ...]
    admission: Admission | None
    waiting: Waiting | None
    zones: tuple[ZoneVerdict, ...]
    network: GangNetwork | None  # `None`: its members have no nodes, neither bound nor planned
    problems: tuple[str, ...]  # Annotations that were not understood, or decide nothing
    missing: int  # Members that do not exist, and without which the minimum cannot be reached
    turn: Turn
    notes: tuple[str, ...]  # What else stands in its way, and what is not known
    cause: Cause | None = None  # Why it waits; `None`: it does not


def explain(
    snapshot: Snapshot,
    plan: Plan,
    gang: Gang,
    policy: Policy,
    *,
    now_s: float,
    cache: PlannerCache | None = None,
    held: Collection[PodUid] = (),
    refusals: Mapping[PodUid, str] = NO_REFUSALS,
    notes: Sequence[str] = (),
    closest: int | None = None,
) -> Explanation:
    """Explain `gang` at `now_s`. Cost: as planning it.

    What is known besides the snapshot is given, so that the same arguments always say the same: `held`: members whose
    bind is held until the minimum has come; `refusals`: waiting member → kube-scheduler's words; `notes`: quotas,
    deadlines and budgets that were read, and those that could not be. `closest`: for so many zones shortages are named.
    """
    run = begin_run(snapshot, policy, cache or PlannerCache())
    take_commitments(run, besides=gang.key)
    ask = run.view.demand(gang)
    zones = verdicts(run, ask, closest=closest)
    turn = turn_of(run, plan, ask, run.view.candidate_zones(ask), now_s=now_s)
    waiting = plan.waiting.get(gang.key)
    return Explanation(
        gang=gang.key,
        source=gang.source.value,
        min_member=gang.min_member,
        members=tuple(_member(plan, ask, held, refusals)),
        admission=plan.admitted.get(gang.key),
        waiting=waiting,
        zones=zones,
        network=gang_network(run, plan, gang),
        problems=(*ask.options.problems, *near_problem(ask.options.near, run.table, run.snapshot.network, run.policy)),
        missing=max(gang.min_member - ask.alive - len(ask.unable), 0),
        turn=turn,
        notes=(*_notes(run, ask, refusals, waiting), *notes),
        cause=cause_of(run, plan, ask, zones, turn, refusals, notes),
    )


def wants_nodes(waiting: Waiting | None) -> bool:
    """Whether more room would help."""
    return waiting is not None and waiting.reason in _WANTS_NODES


def _notes(run: Run, ask: GangDemand, refusals: Mapping[PodUid, str], waiting: Waiting | None) -> tuple[str, ...]:
    """What an autoscaler does not see (docs/safety.md S17), what netgang does not count, and kube-scheduler's words."""
    notes: list[str] = []
    if wants_nodes(waiting):
        gated = any(GATE in pod.gates for pod in ask.gang.pending)
        how = "wait at a scheduling gate" if gated else "are refused by netgang"
        notes.append(
            f"a cluster autoscaler adds no nodes for it: its pods {how}, and autoscalers look at pods that "
            "kube-scheduler calls unschedulable"
        )
    if names := uncounted_names(run, ask):
        notes.append(f"uncounted: {', '.join(names)}; kube-scheduler alone counts it, and its pods get a zone")
    for words, pods in scheduler_words(ask, refusals)[:_MOST_WORDS]:
        notes.append(f"kube-scheduler, of {counted(pods, 'pod')}: {words}")
    return tuple(notes)


def _member(plan: Plan, ask: GangDemand, held: Collection[PodUid], refusals: Mapping[PodUid, str]) -> list[MemberState]:
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
        elif pod.uid in held:
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
        if not why and pod.uid in refusals:
            why = f"kube-scheduler said last: {refusals[pod.uid]}"
        states.append(MemberState(pod.name, pod.role, state, pod.node or planned, why))
    return states
