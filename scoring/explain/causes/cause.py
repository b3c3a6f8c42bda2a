"""Why a gang waits, by its cause: which nodes are cordoned, which label no node has, which claim is missing.

Why not the planner's reason alone: "no room" is true of a cluster whose nodes are cordoned, and does not say so. Rules:
only from the snapshot, the plan and what is known around them, so Event, condition, `/v1/explain`, CLI and page say the
same; no gang of another namespace is named; texts of tenants are bounded where they are read, and here again.
"""

from collections.abc import Mapping, Sequence
from typing import Final

from scoring.explain.causes.placement import placement_cause
from scoring.explain.causes.pods import incomplete, refused
from scoring.explain.causes.reasons import Cause, CauseReason
from scoring.explain.queue_report import PlaceInQueue
from scoring.explain.words import counted, two_runs
from scoring.explain.zones import ZoneVerdict
from scoring.ids import NodeName, PodUid
from scoring.model import Reason
from scoring.model.nearest import LIKE_VALUE, nearest
from scoring.model.policy import Preempting
from scoring.plan import Plan, Run
from scoring.plan.demand import GangDemand
from scoring.queue.admitted_condition import camel_case
from scoring.queue.service_levels import is_wide
from scoring.queue.states import JobState

_DETAIL_CHARS: Final = 400
_ROOM: Final = frozenset({Reason.NO_ROOM, Reason.IMPOSSIBLE, Reason.BEHIND, Reason.RESERVED, Reason.SPILL_WAIT})

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
) -> Cause | None:
    """The cause for which the gang of `ask` waits in `plan`; `None`: it does not wait. Cost: O(nodes).

    `run`: fresh, with what other gangs are committed to; `zones`, `turn`: made from it; `refusals`: waiting member →
    kube-scheduler's words; `notes`: what is known of quotas.
    """
    waiting = plan.waiting.get(ask.gang.key)
    if waiting is None:
        later = ask.gang.later
        advice = "Wait until it has ended, or give each run a gang name of its own."
        return Cause(camel_case(Reason.OTHER_RUN), f"{two_runs(ask.gang)}.", advice) if later else None
    if waiting.reason in _ROOM:
        cause = placement_cause(run, ask, zones, turn, waiting.reason)
        no_room = cause is not None and cause.reason is CauseReason.NO_ROOM
        if cause is not None and no_room and waiting.reason is Reason.SPILL_WAIT:
            text = f"{cause.message} It waits for room in one zone, and {waiting.detail}."
            return Cause(camel_case(Reason.SPILL_WAIT), text)
        # Whether it takes no room by its level (`scoring.queue.service_levels`).
        by_level = run.policy.preemption is Preempting.LEVELS and turn.state != JobState.STARVING
        if cause is not None and no_room and by_level and is_wide(ask.gang, run.table, run.policy.service):
            text = (
                f"{cause.message} It asks for more than {run.policy.service.wide_share:.0%} of the cluster: "
                "before it is STARVING no gang leaves for it by service level, and it starts with all "
                "its members or not at all."
            )
            return Cause(CauseReason.SERVICE_LEVEL, text, "Ask for less, or wait until it is STARVING.")
        if cause is not None:
            return cause
    detail = waiting.detail[:_DETAIL_CHARS]
    match waiting.reason:
        case Reason.INCOMPLETE:
            return incomplete(ask, notes)
        case Reason.FILTERED | Reason.UNCOUNTED | Reason.BACKING_OFF:
            return refused(run, ask, waiting.reason, detail, refusals)
        case Reason.BEHIND | Reason.NO_ROOM | Reason.SPILL_WAIT | Reason.IMPOSSIBLE:
            return _behind(turn)
        case Reason.NO_ALLOWED_ZONE:
            return _no_zone(run, ask, detail)
        case other:
            said = other.removeprefix("netgang: ")
            own = f": {detail}" if detail and other in _ADVICE else ""
            text = f"{said[0].upper()}{said[1:]}{own}."
            return Cause(camel_case(other), text, _ADVICE.get(other, ""))


def _behind(turn: PlaceInQueue) -> Cause:
    ahead, starting = len(turn.ahead.admitted), len(turn.ahead.starting)
    if not ahead and starting:
        gangs = f"{counted(starting, 'gang')} that {'is' if starting == 1 else 'are'} starting"
        return Cause(CauseReason.COMMITTED, f"The room that it needs is committed to {gangs}.")
    if ahead:
        return Cause(
            CauseReason.AHEAD,
            f"There is room for it, and {counted(ahead, 'gang')} ahead of it in the queue "
            f"{'was' if ahead == 1 else 'were'} given that room.",
            "netgang queue shows the order.",
        )
    return Cause(CauseReason.NO_ROOM, "There is room for each of its pods, but not for all of them at once.")


def _no_zone(run: Run, ask: GangDemand, detail: str) -> Cause:
    named = ask.options.zones or ()
    known = sorted(str(zone) for zone in run.zones if zone)
    table = run.table
    node = next((table.nodes[row] for zone in named if (row := table.index.get(NodeName(zone))) is not None), None)
    meant = next((found for zone in named if (found := nearest(zone, known, like=LIKE_VALUE))), "")
    hint = f" (did you mean {meant}?)" if meant else ""
    return Cause(
        camel_case(Reason.NO_ALLOWED_ZONE),
        f"It may use no zone: {detail}{hint if node is None else f' ({node.name} is a node of zone {node.zone})'}.",
        "Correct annotation netgang.io/zones, or give nodes the zone label.",
    )
