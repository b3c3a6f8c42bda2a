"""Why a gang waits, by its cause: which nodes are cordoned, which label no node has, which claim is missing.

Why not the planner's reason alone: "no room" is true of a cluster whose nodes are cordoned, and does not say so. Rules:
Event, condition, `/v1/explain`, CLI and page say the same; no gang of another namespace is named; texts of tenants are
bounded here again; kube-scheduler's own words are shown, bounded: they name the volume that netgang does not know.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Final

from msgspec.structs import replace

from scoring.explain.node_causes import committed, node_cause
from scoring.explain.queue_report import PlaceInQueue
from scoring.explain.words import counted, shown, some, two_runs
from scoring.explain.zones import ZoneVerdict
from scoring.ids import NodeName, PodUid
from scoring.model import Controller, Gang, GangSource, Reason
from scoring.model.pod import DEVICE_CLAIMS
from scoring.model.policy import LIKE_VALUE, Preempting, nearest
from scoring.model.reasons import CauseReason, WaitingCause
from scoring.plan import Plan, Run
from scoring.plan.demand import GangDemand
from scoring.queue.states import JobState
from scoring.queue.statuses import camel_case
from scoring.queue.weights import is_wide

_DETAIL_CHARS: Final = 400
_WORDS_CHARS: Final = 300  # Of kube-scheduler's message
_SPREADS: Final = ("podAntiAffinity", "topologySpreadConstraints")
_ADVICE: Final = {  # reason whose particulars are the gang's own, and so are said → what helps
    Reason.INVALID_GROUP: "",
    Reason.OVER_SHARE: "Wait until gangs of the namespace end, or have its share raised.",
    Reason.MIXED_SCHEDULERS: "Give all pod templates of the job the same schedulerName.",
    Reason.MIXED_PRIORITIES: "Give all pod templates of the job the same priorityClassName.",
}


def cause_of(
    run: Run,
    plan: Plan,
    ask: GangDemand,
    zones: Sequence[ZoneVerdict],
    turn: PlaceInQueue,
    refusals: Mapping[PodUid, str],
    notes: Sequence[str],
) -> WaitingCause | None:
    """The cause for which the gang of `ask` waits in `plan`; `None`: it does not wait. Cost: O(nodes).

    `run`: fresh, with what other gangs are committed to; `refusals`: waiting member → kube-scheduler's words;
    `notes`: what is known of quotas.
    """
    waiting = plan.waiting.get(ask.gang.key)
    if waiting is None:
        later = ask.gang.later
        advice = "Wait until it has ended, or give each run a gang name of its own."
        return WaitingCause(camel_case(Reason.OTHER_RUN), f"{two_runs(ask.gang)}.", advice) if later else None
    reason, detail = waiting.reason, waiting.detail[:_DETAIL_CHARS]
    match reason:
        case Reason.INCOMPLETE:
            return _incomplete(ask, notes)
        case Reason.FILTERED | Reason.UNCOUNTED | Reason.BACKING_OFF:
            return _refused(run, ask, reason, detail, refusals)
        case Reason.NO_ALLOWED_ZONE:
            return _no_zone(run, ask, detail)
        case Reason.BEHIND | Reason.NO_ROOM | Reason.SPILL_WAIT | Reason.IMPOSSIBLE | Reason.RESERVED:
            if (cause := node_cause(run, ask, zones, turn, reason)) is not None:
                return _no_room(run, ask, turn, cause, reason, detail) if cause.reason == CauseReason.NO_ROOM else cause
            if reason is not Reason.RESERVED:
                return _behind(turn)
    said = reason.removeprefix("netgang: ")
    own = f": {detail}" if detail and reason in _ADVICE else ""
    return WaitingCause(camel_case(reason), f"{said[0].upper()}{said[1:]}{own}.", _ADVICE.get(reason, ""))


def _no_room(
    run: Run, ask: GangDemand, turn: PlaceInQueue, cause: WaitingCause, reason: Reason, detail: str
) -> WaitingCause:
    """Too little room: with how long it waits for one zone, or why no gang leaves for it by its service level."""
    if reason is Reason.SPILL_WAIT:
        return WaitingCause(camel_case(reason), f"{cause.message} It waits for room in one zone, and {detail}.")
    by_level = run.policy.preemption is Preempting.LEVELS and turn.state != JobState.STARVING
    if not (by_level and is_wide(ask.gang, run.table, run.policy.service)):
        return cause
    text = (
        f"{cause.message} It asks for more than {run.policy.service.wide_share:.0%} of the cluster: before it is "
        "STARVING no gang leaves for it by service level, and it starts with all its members or not at all."
    )
    return replace(cause, message=text, suggestion="Ask for less, or wait until it is STARVING.")


def _behind(turn: PlaceInQueue) -> WaitingCause:
    if ahead := turn.ahead.admitted_count:
        given = f"{counted(ahead, 'gang')} ahead of it in the queue {'was' if ahead == 1 else 'were'} given that room"
        return WaitingCause(CauseReason.AHEAD, f"There is room for it, and {given}.", "netgang queue shows the order.")
    if turn.ahead.starting:
        return committed(turn)
    return WaitingCause(CauseReason.NO_ROOM, "There is room for each of its pods, but not for all of them at once.")


def _no_zone(run: Run, ask: GangDemand, detail: str) -> WaitingCause:
    named, table = ask.options.zones or (), run.table
    known = sorted(str(zone) for zone in run.zones if zone)
    node = next((table.nodes[row] for zone in named if (row := table.index.get(NodeName(zone))) is not None), None)
    meant = next((found for zone in named if (found := nearest(zone, known, like=LIKE_VALUE))), "")
    hint = f" (did you mean {meant}?)" if meant else ""
    text = f"It may use no zone: {detail}{hint if node is None else f' ({node.name} is a node of zone {node.zone})'}."
    advice = "Correct annotation netgang.io/zones, or give nodes the zone label."
    return WaitingCause(camel_case(Reason.NO_ALLOWED_ZONE), text, advice)


def _incomplete(ask: GangDemand, notes: Sequence[str]) -> WaitingCause:
    """Missing pods first; then foreign gates, then claims. `notes`: what is known of quotas."""
    gang, unable = ask.gang, ask.unable
    missing = gang.min_member - ask.alive - len(unable)
    if missing > 0:
        exist = f"{ask.alive + len(unable)} of {counted(gang.min_member, 'pod')} exist"
        quota = next((note for note in notes if note.startswith("ResourceQuota ")), "")
        if quota:
            text = f"{exist}, and the namespace's quota forbids more: {quota}."
            return WaitingCause(CauseReason.QUOTA, text, "Have the ResourceQuota raised, or ask for less.")
        if ask.lost:
            where = some(sorted(ask.lost))
            text = f"{exist}: the others were on {where}, which {'is' if len(ask.lost) == 1 else 'are'} gone."
            return WaitingCause(CauseReason.PODS_MISSING, text, "Their owner makes them again, if its policy allows.")
        leaving = sum(pod.deleting for pod in gang.members)
        more = f", {counted(leaving, 'pod')} of it still being deleted" if leaving else ""
        owner = next((pod.owner for pod in gang.members if pod.owner is not None), None)
        maker = f"{owner.kind} {owner.name}" if owner is not None else "the job"
        text = f"{exist}{more}; {missing} more must exist before it starts."
        why = f"See why {maker} has not made them (kubectl describe: quota, admission)"
        return WaitingCause(CauseReason.PODS_MISSING, text, f"{why}, or lower {_minimum(gang, owner)}.")
    if gated := [pod for pod in unable if pod.foreign_gates]:
        gates = some(sorted({shown(gate) for pod in gated for gate in pod.foreign_gates}))
        wait = f"{counted(len(gated), 'pod')} of {len(gang.members)} {'waits' if len(gated) == 1 else 'wait'}"
        text = f"{wait} for another controller to remove scheduling gate {gates}."
        return WaitingCause(CauseReason.GATE, text, "See what that controller waits for.")
    obstacle = next((pod.obstacle for pod in unable if pod.obstacle), "")[:_WORDS_CHARS]
    of = f"{len(unable)} of {counted(len(gang.members), 'pod')}"
    if "claim" in obstacle.lower():
        text = f"A claim of {of} is missing or not bound; kube-scheduler: {obstacle}."
        return WaitingCause(CauseReason.UNPLACEABLE, text, "Create the claim, or correct its name in the pod template.")
    return WaitingCause(CauseReason.UNPLACEABLE, f"kube-scheduler places {of} on no node: {obstacle}.")


def _minimum(gang: Gang, owner: Controller | None) -> str:
    """Where the gang's minimum is written."""
    if gang.source is GangSource.LABELS:
        return "min-available"
    if owner is not None and owner.group_kind[0] == "kubeflow.org":
        return "spec.runPolicy.schedulingPolicy.minAvailable"
    return "minMember of the PodGroup" if gang.source is GangSource.POD_GROUP else "its minimum"


def _refused(run: Run, ask: GangDemand, reason: Reason, detail: str, refusals: Mapping[PodUid, str]) -> WaitingCause:
    """What kube-scheduler alone decides keeps it: `reason` is BACKING_OFF, FILTERED or UNCOUNTED."""
    words, code = scheduler_words(ask, refusals), camel_case(reason)
    end = f" kube-scheduler: {words[0][0]}" if words else ""
    if reason is Reason.UNCOUNTED:  # it has no room for the rest, or was refused its nodes
        names = ", ".join(uncounted_names(run, ask))
        text = f"No node's allocatable shows {names}: kube-scheduler alone counts it.{end}"
        plugin = "install the device plugin that offers it, or wait for kube-scheduler to find it"
        return WaitingCause(code, text, f"Correct the resource's name, {plugin}.")
    fields = sorted({name for _, pods in ask.need for pod in pods for name in pod.unmodelled})
    apart = [name for name in fields if name in _SPREADS]
    size = sum(len(pods) for _, pods in ask.need)
    nodes = max((len(run.table.zones[zone]) for zone in run.view.candidate_zones(ask)), default=0)
    if apart and size > nodes:
        return WaitingCause(
            CauseReason.ZONE_TOO_SMALL,
            f"{counted(size, 'pod')} must be on different nodes ({', '.join(apart)}), if that keeps them from one "
            f"another, and no zone that it may use has more than {counted(nodes, 'node')}: waiting does not help.{end}",
            "Make the rule preferred, not required, lower the minimum, or set netgang.io/zone-policy to preferred.",
        )
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


def scheduler_words(ask: GangDemand, refusals: Mapping[PodUid, str]) -> tuple[tuple[str, int], ...]:
    """What kube-scheduler's FailedScheduling says of the pods that wait, and of how many, the most frequent first."""
    words = Counter((refusals.get(pod.uid) or pod.refusal)[:_WORDS_CHARS] for pod in ask.gang.pending)
    return tuple(sorted(((text, pods) for text, pods in words.items() if text), key=lambda said: (-said[1], said[0])))


def uncounted_names(run: Run, ask: GangDemand) -> list[str]:
    """What waiting members ask for that no node's allocatable shows, each with the resource that was perhaps meant."""
    names = {name for one, _ in (*ask.need, *ask.more) for name in run.table.uncounted(one.requests)}
    meant = {name: nearest(name, run.table.axis, like=LIKE_VALUE) for name in sorted(names)}
    named = [f"{shown(name)} (did you mean {like}?)" if like else shown(name) for name, like in meant.items()]
    claims = any(DEVICE_CLAIMS in pod.unmodelled for _, pods in (*ask.need, *ask.more) for pod in pods)
    return [*named, DEVICE_CLAIMS] if claims else named
