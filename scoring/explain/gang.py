"""Explain one gang: its members, what each zone has for it, the gangs ahead of it, and why it waits, by its cause.

The record is the answer of /v1/explain, the CLI's input and what Events are written from, so all of them say the same;
the service adds what it alone knows (`decisions` and below). Why not the planner's reason alone: "no room" is true of a
cluster whose nodes are cordoned, and does not say so. Rules: no gang of another namespace is named; texts of tenants
are bounded here again; kube-scheduler's own words are shown, bounded: they name the volume that netgang does not know.
"""

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from typing import Final

from msgspec.structs import replace

from scoring import NodeName, PodUid
from scoring.explain.advice import constrained, helpful, two_runs, would_start
from scoring.explain.node_causes import committed, node_cause
from scoring.explain.queue_report import leaving, place_of, zones_text
from scoring.explain.words import counted, gangs_seen_from, shown, some, zone_text
from scoring.explain.zones import gang_network, verdicts
from scoring.model import GATE, Gang, HostPort, NodeTable, Pod, Policy, Reason, Snapshot
from scoring.model.pod import DEVICE_CLAIMS
from scoring.model.policy import LIKE_VALUE, Preempting, nearest
from scoring.model.reasons import CauseReason
from scoring.plan import Plan, PlannerCache, Run, Waiting, begin_run, take_commitments
from scoring.plan.demand import GangDemand
from scoring.plan.result import WANTS_ROOM
from scoring.queue.states import camel_case
from scoring.queue.weights import is_wide
from scoring.records import Explained, LeavingGangs, MemberState, PlaceInQueue, WaitingCause, ZoneVerdict
from scoring.score.zone_distance import near_problem

_GANGS_NAMED: Final = 2
_MOST_WORDS: Final = 3  # Different refusals of kube-scheduler that are shown
_WANTS_NODES: Final = WANTS_ROOM | {Reason.FILTERED, Reason.IMPOSSIBLE, Reason.RESERVED, Reason.SPILL_WAIT}
HAS_MADE: Final = " has made "  # In a note on an owner that lacks pods, after its kind and name
_DETAIL_CHARS: Final = 400
_COUNTED_BY: Final = "kube-scheduler or another extender counts it"
_WORDS_CHARS: Final = 300  # Of kube-scheduler's message
_SPREADS: Final = ("podAntiAffinity", "topologySpreadConstraints")
_SAYS_WHAT: Final = frozenset({Reason.BAD_LINKS, Reason.INVALID_GROUP})  # Of these the particulars are the gang's own


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
    members = tuple(_members(plan, ask, held, refusals))
    count = Counter(member.state for member in members)
    return Explained(
        gang=gang.key,
        state="admitted" if admission else "waiting" if waiting else "running",
        source=gang.source,
        min_member=gang.min_member,
        rank=turn.rank,
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
        preemption=LeavingGangs(*leaving(snapshot, gang.key)),
        cause=cause_of(run, plan, ask, zones, turn, refusals, notes),
        network=gang_network(run, plan, gang),
    )


def why_it_waits(explanation: Explained, snapshot: Snapshot) -> str:
    """Its cause, what helps, behind which gangs it waits and which leave for it; empty: it does not. Cost: O(gangs)."""
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
    if names := uncounted_names(run.table, ask.gang.pending):
        notes.append(f"uncounted: {', '.join(names)}; {_COUNTED_BY}, its pods get a zone")
    for words, pods in _scheduler_words(ask, refusals)[:_MOST_WORDS]:
        notes.append(f"kube-scheduler, of {counted(pods, 'pod')}: {words}")
    return tuple(notes)


def _members(plan: Plan, of: GangDemand, held: Collection[PodUid], refusals: Mapping[PodUid, str]) -> list[MemberState]:
    states: list[MemberState] = []
    beyond = {pod.uid for _, pods in of.more for pod in pods}
    for pod in of.gang.members:
        planned, why = plan.node_of.get(pod.uid), ""
        if pod.terminal:
            state = pod.phase.lower()
        elif pod.deleting:
            state, why = "deleting", "it is being deleted"
        elif pod.node is not None:
            state = "running" if pod.phase == "Running" else "bound"
            why = f"node {pod.node} is gone" if pod.node in of.lost else ""
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


def cause_of(
    run: Run,
    plan: Plan,
    ask: GangDemand,
    zones: Sequence[ZoneVerdict],
    turn: PlaceInQueue,
    refusals: Mapping[PodUid, str],
    notes: Sequence[str],
) -> WaitingCause | None:
    """The cause for which the gang of `ask` waits, in a fresh `run`; `None`: it does not wait. Cost: O(nodes)."""
    if (waiting := plan.waiting.get(ask.gang.key)) is None:
        later = ask.gang.later
        return WaitingCause(camel_case(Reason.OTHER_RUN), f"{two_runs(ask.gang)}.") if later else None
    cause, policy = _cause(run, waiting, ask, zones, turn, refusals, notes), run.policy
    by_level = ask.options.suspendable and policy.preemption is not Preempting.OFF
    if waiting.reason not in WANTS_ROOM or not (by_level and ask.need and ask.more):
        return cause
    wide = is_wide(ask.gang, run.table, policy.service)
    less = "not with its minimum" if wide else "with its minimum only in room that no other gang can use"
    text = (
        f"{cause.message} It may be suspended: until it has been STARVING for a day it starts with all members, {less}."
    )
    return replace(cause, message=text)


def _cause(
    run: Run,
    waiting: Waiting,
    ask: GangDemand,
    zones: Sequence[ZoneVerdict],
    turn: PlaceInQueue,
    refusals: Mapping[PodUid, str],
    notes: Sequence[str],
) -> WaitingCause:
    reason, detail = waiting.reason, waiting.detail[:_DETAIL_CHARS]
    match reason:
        case Reason.INCOMPLETE:
            return _incomplete(run, ask, notes)
        case Reason.INVALID_GROUP if (
            (makes := ask.gang.makes) and makes < ask.gang.min_member and HAS_MADE in "".join(notes)
        ):
            return _incomplete(run, ask, notes)  # another job makes the rest
        case Reason.FILTERED | Reason.UNCOUNTED | Reason.BACKING_OFF:
            unrefused = replace(run.snapshot, exclusions={})
            if reason is Reason.UNCOUNTED and not would_start(run, ask.gang, empty=False, snapshot=unrefused):
                return node_cause(run, ask, zones, turn, Reason.NO_ROOM) or _behind(turn)  # of what is counted
            return _refused(run, ask, reason, detail, refusals)
        case Reason.NO_ALLOWED_ZONE:
            named, zone_names = ask.options.zones or (), sorted(str(zone) for zone in run.zones if zone)
            rows = (run.table.index.get(NodeName(zone)) for zone in named)
            node = next((run.table.nodes[row] for row in rows if row is not None), None)
            meant = next((near for zone in named if (near := nearest(zone, zone_names, like=LIKE_VALUE))), "")
            hint = f" (did you mean {meant}?)" if meant else ""
            hint = hint if node is None else f" ({node.name} is a node of zone {node.zone})"
            advice = helpful(run, ask.gang, empty=True)
            return WaitingCause(camel_case(reason), f"It may use no zone: {detail}{hint}.", advice)
        case Reason.BEHIND | Reason.NO_ROOM | Reason.SPILL_WAIT | Reason.IMPOSSIBLE | Reason.RESERVED:
            if (cause := node_cause(run, ask, zones, turn, reason)) is not None:
                if cause.reason == CauseReason.NO_ROOM and reason is Reason.SPILL_WAIT:
                    text = f"{cause.message} It waits for room in one zone, and {detail}."
                    return WaitingCause(camel_case(reason), text)
                return cause
            if reason is not Reason.RESERVED:
                return _behind(turn)
        case Reason.SURPLUS if ask.more:
            return _surplus(run, ask)
        case _:
            pass
    text = reason.removeprefix("netgang: ")
    own = f": {detail}" if detail and reason in _SAYS_WHAT else ""
    refuses = reason is Reason.BAD_LINKS  # with the other value it starts over the link that its detail names
    advice = "Mend the link, or set annotation netgang.io/bad-links to avoid." if refuses else ""
    return WaitingCause(camel_case(reason), f"{text[0].upper()}{text[1:]}{own}.", advice)


def _behind(turn: PlaceInQueue) -> WaitingCause:
    if ahead := turn.ahead.admitted_count:
        given = f"{counted(ahead, 'gang')} ahead of it in the queue {'was' if ahead == 1 else 'were'} given that room"
        return WaitingCause(CauseReason.AHEAD, f"There is room for it, and {given}.")
    if turn.ahead.starting:
        return committed(turn)
    return WaitingCause(CauseReason.NO_ROOM, "There is room for each of its pods, but not for all of them at once.")


def _surplus(run: Run, ask: GangDemand) -> WaitingCause:
    """Where members beyond the minimum must go, and which other zones have room that they may not have."""
    allowed, waiting = run.view.candidate_zones(ask), sum(len(pods) for _, pods in ask.more)
    room = dict(zip(run.zones, run.capacity.zone_counts(ask.more[0][0]).tolist(), strict=True))
    others = [zone_text(zone) for zone, count in room.items() if count and zone not in allowed]
    why = "has no room" if not any(room[zone] for zone in allowed) else "keeps its room for others, or has bad links,"
    text = f"The minimum runs, and {some(map(zone_text, allowed))} {why} for {counted(waiting, 'pod')} beyond it."
    if others:
        text += f" There is room in {some(others)}, and the gang stays where its members are."
    return WaitingCause(camel_case(Reason.SURPLUS), text)


def _incomplete(run: Run, ask: GangDemand, notes: Sequence[str]) -> WaitingCause:
    """Missing pods first; then foreign gates, then claims; `notes` may name a quota."""
    gang, unable = ask.gang, ask.unable
    if (missing := gang.min_member - ask.alive - len(unable)) > 0:
        exist = f"{ask.alive + len(unable)} of {counted(gang.min_member, 'pod')} exist"
        if quota := next((note for note in notes if note.startswith("ResourceQuota ")), ""):
            text = f"{exist}, and the namespace's quota forbids more: {quota}."
            return WaitingCause(CauseReason.QUOTA, text, "Have the ResourceQuota raised, or ask for less.")
        if ask.lost:
            where = some(sorted(ask.lost))
            text = f"{exist}: the others were on {where}, which {'is' if len(ask.lost) == 1 else 'are'} gone."
            return WaitingCause(CauseReason.PODS_MISSING, text)
        leaving = sum(pod.deleting for pod in gang.members)
        more = f", {counted(leaving, 'pod')} of it still being deleted" if leaving else ""
        owner = next((pod.owner for pod in gang.members if pod.owner is not None), None)
        maker = f"{owner.kind} {owner.name}" if owner is not None else "the job"
        if lacks := next((note for note in notes if HAS_MADE in note), ""):
            more, maker = f"{more}, and {lacks}", lacks.partition(HAS_MADE)[0]
        why = f"See why {maker} has not made them (kubectl describe: quota, admission)"
        text = f"{exist}{more}; {missing} more must exist before it starts. {why}."
        return WaitingCause(CauseReason.PODS_MISSING, text, helpful(run, gang, empty=True))
    if gated := [pod for pod in unable if pod.foreign_gates]:
        gates = some(sorted({shown(gate) for pod in gated for gate in pod.foreign_gates}))
        wait = f"{counted(len(gated), 'pod')} of {len(gang.members)} {'waits' if len(gated) == 1 else 'wait'}"
        text = f"{wait} for another controller to remove scheduling gate {gates}."
        return WaitingCause(CauseReason.GATE, text)
    obstacle = next((pod.obstacle for pod in unable if pod.obstacle), "")[:_WORDS_CHARS]
    of = f"{len(unable)} of {counted(len(gang.members), 'pod')}"
    if "claim" in obstacle.lower():
        text = f"A claim of {of} is missing or not bound; kube-scheduler: {obstacle}."
        return WaitingCause(CauseReason.UNPLACEABLE, text, "Create the claim, or correct its name in the pod template.")
    return WaitingCause(CauseReason.UNPLACEABLE, f"kube-scheduler places {of} on no node: {obstacle}.")


def _refused(run: Run, ask: GangDemand, reason: Reason, detail: str, refusals: Mapping[PodUid, str]) -> WaitingCause:
    """What kube-scheduler alone decides keeps it: `reason` is BACKING_OFF, FILTERED or UNCOUNTED."""
    words, code = _scheduler_words(ask, refusals), camel_case(reason)
    end = f" kube-scheduler: {words[0][0]}" if words else ""
    names, listed = uncounted_names(run.table, ask.gang.pending), f"{end.rstrip('.')},"
    if reason is Reason.UNCOUNTED or any(f" Insufficient {name.partition(' ')[0]}," in listed for name in names):
        text = f"No node's allocatable shows {', '.join(names)}: {_COUNTED_BY}.{end}"
        advice = "Correct its name, have what offers it installed on nodes, or wait for room."
        return WaitingCause(camel_case(Reason.UNCOUNTED), text, advice)
    fields = sorted({name for _, pods in ask.need for pod in pods for name in pod.unmodelled})
    apart = [name for name in fields if name in _SPREADS]
    size = sum(len(pods) for _, pods in ask.need)
    nodes = max((len(run.table.zones[zone]) for zone in run.view.candidate_zones(ask)), default=0)
    if apart and size > nodes:
        text = (
            f"{counted(size, 'pod')} must be on different nodes ({', '.join(apart)}), if that keeps them from one "
            f"another, and no zone that it may use has more than {counted(nodes, 'node')}: waiting does not help.{end}"
        )
        alone = constrained(ask.gang, host_ports=(HostPort("TCP", "", 0),))  # of which each node has one
        together = ("make the rule preferred, not required", ask.gang)
        unrefused = replace(run.snapshot, exclusions={}, host_ports={})
        advice = helpful(run, alone, together, empty=False, snapshot=unrefused)
        return WaitingCause(CauseReason.ZONE_TOO_SMALL, text, advice)
    if reason is Reason.BACKING_OFF:
        again = detail.replace("for another", "in") or "in 1 s"
        text = f"It was admitted and not all its pods came to start in time; the next try is {again}.{end}"
        advice = "The Events AdmissionLapsed and FailedScheduling of its pods say what kept them."
        return WaitingCause(code, text, advice)
    which = f"; the pods have {', '.join(fields)}" if fields else ""
    text = (
        "There is room, but filters of kube-scheduler that netgang does not model (volumes, devices, affinity between "
        f"pods, spreading, plugins) refuse nodes that it needs{which}.{end}"
    )
    return WaitingCause(code, text, "The Event FailedScheduling of its pods says which filter.")


def _scheduler_words(ask: GangDemand, refusals: Mapping[PodUid, str]) -> tuple[tuple[str, int], ...]:
    """What kube-scheduler's FailedScheduling says of the pods that wait, and of how many, the most frequent first."""
    words = Counter((refusals.get(pod.uid) or pod.refusal)[:_WORDS_CHARS] for pod in ask.gang.pending)
    return tuple(sorted(((text, pods) for text, pods in words.items() if text), key=lambda pair: (-pair[1], pair[0])))


def uncounted_names(table: NodeTable, pods: Sequence[Pod]) -> list[str]:
    """What pods ask for that no node's allocatable shows, each with the resource that was perhaps meant."""
    names = {name for pod in pods for name in table.uncounted(pod.requests)}
    meant = {name: nearest(name, table.axis, like=LIKE_VALUE) for name in sorted(names)}
    named = [f"{shown(name)} (did you mean {like}?)" if like else shown(name) for name, like in meant.items()]
    claims = any(DEVICE_CLAIMS in pod.unmodelled for pod in pods)
    return [*named, DEVICE_CLAIMS] if claims else named
