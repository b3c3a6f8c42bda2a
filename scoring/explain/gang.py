"""Explain one gang: its members, what each zone has for it, the gangs ahead of it, why it waits.

The record is the answer of /v1/explain, the CLI's input and what Events are written from, so all of them say the same;
the service adds what it alone knows (`decisions` and below).
"""

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from typing import Final

import msgspec

from scoring.explain.causes import cause_of, scheduler_words, uncounted_names
from scoring.explain.queue_report import PlaceInQueue, place_of, zones_text
from scoring.explain.words import counted, gangs_seen_from
from scoring.explain.zones import GangNetwork, ZoneVerdict, gang_network, verdicts
from scoring.ids import GangKey, NodeName, PodUid
from scoring.model import GATE, Gang, Policy, Reason, Snapshot
from scoring.model.reasons import WaitingCause
from scoring.plan import Plan, PlannerCache, Run, Waiting, begin_run, take_commitments
from scoring.plan.demand import GangDemand
from scoring.plan.expected_starts import ExpectedStart
from scoring.score.zone_distance import near_problem

NEVER: Final = frozenset({Reason.IMPOSSIBLE, Reason.NO_ALLOWED_ZONE})  # Neither time nor the end of jobs helps
_GANGS_NAMED: Final = 2
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


class LeavingGangs(msgspec.Struct, frozen=True):
    """Which gangs leave for it, and what is in the way."""

    makes_room: tuple[GangKey, ...]  # Gangs and jobs that leave for it.
    leaves_for: GangKey | None  # The gang for which it leaves.
    blocked: str | None = None  # Why a gang that would make room stays.


class Past(msgspec.Struct, frozen=True):
    """A decision about it."""

    at_s: float  # Unix seconds.
    what: str  # filter, admit, lapse, bind, evict and so on.
    reason: str  # Why not; empty: yes.
    detail: str


class Explained(msgspec.Struct, frozen=True):
    """Why a gang is where it is; asked for one of its pods, too."""

    gang: GangKey
    state: str  # admitted, waiting or running.
    source: str  # By which mark its pods are a gang.
    min_member: int
    rank: int | None
    zone: str | None  # Its planned zones, with commas.
    score: float | None  # Mean points (0 to 100) of its planned links.
    code: str | None  # Name of the reason for which it waits.
    reason: str | None  # That reason, a constant sentence.
    detail: str  # The same with numbers.
    counts: Mapping[str, int]  # Members by what they do.
    members: tuple[MemberState, ...]
    turn: PlaceInQueue
    zones: tuple[ZoneVerdict, ...]
    notes: tuple[str, ...]  # What else stands in its way, or is not known: sentences.
    problems: tuple[str, ...]  # Annotations that were not understood.
    preemption: LeavingGangs
    cause: WaitingCause | None = None  # null: it does not wait.
    expected_start: ExpectedStart | None = None  # null: it does not wait, or was not looked at yet.
    network: GangNetwork | None = None  # What it has where it runs or is planned; null: it has no nodes.
    decisions: tuple[Past, ...] = ()  # The last ones about it, newest first.
    being_admitted: bool = False  # Its gates are being opened.
    admission_refused: str | None = None  # What the API server said to that.
    admission_lapses_in_s: float | None = None
    repair: str = ""  # What a gang that lost members waits for.


class PodPlace(msgspec.Struct, frozen=True):
    """Where a pod is."""

    name: str
    uid: str
    own: bool  # netgang schedules it.
    node: str | None


class ExplainedPod(msgspec.Struct, frozen=True):
    """A pod of no gang."""

    pod: PodPlace


def explain(
    snapshot: Snapshot,
    plan: Plan,
    gang: Gang,
    policy: Policy,
    *,
    now_s: float,
    cache: PlannerCache | None = None,
    held: Collection[PodUid] = (),
    refusals: Mapping[PodUid, str] = {},
    notes: Sequence[str] = (),
    closest: int | None = None,
) -> Explained:
    """Explain `gang` at `now_s`. Cost: as planning it.

    `held`: members whose bind is held until the minimum has come; `refusals`: waiting member → kube-scheduler's words;
    `notes`: quotas, deadlines and budgets that were read, and those that could not be. `closest`: for so many zones
    shortages are named.
    """
    run = begin_run(snapshot, policy, cache or PlannerCache())
    take_commitments(run, besides=gang.key)
    ask = run.view.demand(gang)
    zones = verdicts(run, ask, closest=closest)
    turn = place_of(run, plan, ask, run.view.candidate_zones(ask), now_s=now_s)
    admission, waiting = plan.admitted.get(gang.key), plan.waiting.get(gang.key)
    members, claim = tuple(_members(plan, ask, held, refusals)), snapshot.claims.get(gang.key)
    count = Counter(member.state for member in members)
    return Explained(
        gang=gang.key,
        state="admitted" if admission else "waiting" if waiting else "running",
        source=gang.source,
        min_member=gang.min_member,
        rank=admission.rank if admission else waiting.rank if waiting else None,
        zone=zones_text(admission.zones) if admission else None,
        score=admission.score if admission else None,
        code=waiting.reason.name if waiting else None,
        reason=waiting.reason if waiting else None,
        detail=waiting.detail if waiting else "",
        counts={
            "exist": count.total(),
            "needed": gang.min_member,
            "on_nodes": count["running"] + count["bound"],
            "held": count["held"],
            "planned": count["planned"],
            "waiting": count["pending"] + count["gated"],
            "ended": count["succeeded"] + count["failed"],
            "missing": max(gang.min_member - ask.alive - len(ask.unable), 0),  # The minimum cannot be reached without
        },
        members=members,
        turn=turn,
        zones=zones,
        notes=(*_notes(run, ask, refusals, waiting), *notes),
        problems=(*ask.options.problems, *near_problem(ask.options.near, run.table, run.snapshot.network, run.policy)),
        preemption=LeavingGangs(
            makes_room=claim.givers if claim is not None else (),
            leaves_for=next((key for key, one in sorted(snapshot.claims.items()) if gang.key in one.givers), None),
        ),
        cause=cause_of(run, plan, ask, zones, turn, refusals, notes),
        network=gang_network(run, plan, gang),
    )


def why_it_waits(explanation: Explained, snapshot: Snapshot) -> str:
    """Its cause, what helps, behind which gangs it waits, and which leave for it; empty: it does not. Cost: O(gangs).

    Events and conditions carry it, which people of the gang's namespace read: gangs of others are not named.
    """
    code, cause = explanation.code, explanation.cause
    if code is None or cause is None:
        return ""
    parts, ahead = [cause.message, cause.suggestion], explanation.turn.ahead
    namespace = explanation.gang.partition("/")[0]
    if code == Reason.NO_ROOM.name and (count := len(ahead.waiting)):
        parts.append(f"{counted(count, 'gang')} {'waits' if count == 1 else 'wait'} ahead of it.")
    if code == Reason.BEHIND.name:
        named = gangs_seen_from(namespace, dict.fromkeys((*ahead.admitted, *ahead.starting)), _GANGS_NAMED)
        parts.append(f"Planned ahead of it: {named or 'gangs that are being started'}.")
    if (claim := snapshot.claims.get(explanation.gang)) is not None and claim.givers:
        givers = gangs_seen_from(namespace, claim.givers, _GANGS_NAMED)
        leave = "leaves" if len(claim.givers) == 1 else "leave"
        parts.append(f"{givers} {leave} for it, and the room is reserved.")
    return " ".join(filter(None, parts))


def wants_nodes(waiting: Waiting | None) -> bool:
    """Whether more room would help."""
    return waiting is not None and waiting.reason in _WANTS_NODES


def _notes(run: Run, ask: GangDemand, refusals: Mapping[PodUid, str], waiting: Waiting | None) -> tuple[str, ...]:
    """What an autoscaler does not see (docs/safety.md S17), what netgang does not count, and kube-scheduler's words."""
    notes: list[str] = []
    if wants_nodes(waiting):
        gated = any(GATE in pod.gates for pod in ask.gang.pending)
        unseen = f"its pods {'wait at a scheduling gate' if gated else 'are refused by netgang'}"
        seen = "autoscalers look at pods that kube-scheduler calls unschedulable"
        notes.append(f"a cluster autoscaler adds no nodes for it: {unseen}, and {seen}")
    if names := uncounted_names(run, ask):
        notes.append(f"uncounted: {', '.join(names)}; kube-scheduler alone counts it, and its pods get a zone")
    for words, pods in scheduler_words(ask, refusals)[:_MOST_WORDS]:
        notes.append(f"kube-scheduler, of {counted(pods, 'pod')}: {words}")
    return tuple(notes)


def _members(
    plan: Plan, ask: GangDemand, held: Collection[PodUid], refusals: Mapping[PodUid, str]
) -> list[MemberState]:
    states: list[MemberState] = []
    beyond = {pod.uid for _, pods in ask.more for pod in pods}
    for pod in ask.gang.members:
        planned, why = plan.node_of.get(pod.uid), ""
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
