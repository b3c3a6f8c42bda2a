"""Why a gang waits, in a sentence or two for people: its cause, what helps, behind which gangs, and which leave for it.

Why not the plan's own detail: that is one fact for logs; its owner wants to know what would help. Rule: only from the
explanation and the plan, so the sentence and `/v1/explain` cannot differ; names are few, the rest is counted.
Events and conditions carry it, which people of the gang's namespace read: gangs of others are not named. Also whether
pods that wait for another scheduler probably name the wrong one: netgang then never hears of them.
"""

from collections.abc import Set as AbstractSet
from typing import Final

from scoring.explain.gang import Explained
from scoring.explain.words import counted, gangs_seen_from
from scoring.model import GangSource, Pod, Reason, Snapshot
from scoring.model.nearest import nearest

NEVER = frozenset({Reason.IMPOSSIBLE, Reason.NO_ALLOWED_ZONE})  # Neither time nor the end of jobs helps
_NAMED = 2
_DEFAULT_SCHEDULER: Final = "default-scheduler"
_PATIENCE_S: Final = 30.0  # A scheduler that exists has mostly placed or refused a pod by then
_LABELLED: Final = frozenset({GangSource.POD_GROUP, GangSource.LABELS})


def why_it_waits(explanation: Explained, snapshot: Snapshot) -> str:
    """The sentences; empty when the gang does not wait. Cost: O(gangs)."""
    code, cause = explanation.code, explanation.cause
    if code is None or cause is None:
        return ""
    parts, ahead, key = [cause.message, cause.suggestion], explanation.turn.ahead, explanation.gang
    if code == Reason.NO_ROOM.name and (count := len(ahead.waiting)):
        parts.append(f"{counted(count, 'gang')} {'waits' if count == 1 else 'wait'} ahead of it.")
    if code == Reason.BEHIND.name:
        names = dict.fromkeys((*ahead.admitted, *ahead.starting))
        named = gangs_seen_from(key.partition("/")[0], names, _NAMED) or "gangs that are being started"
        parts.append(f"Planned ahead of it: {named}.")
    if (claim := snapshot.claims.get(key)) is not None and claim.givers:
        leave = "leaves" if len(claim.givers) == 1 else "leave"
        givers = gangs_seen_from(key.partition("/")[0], claim.givers, _NAMED)
        parts.append(f"{givers} {leave} for it, and the room is reserved.")
    return " ".join(filter(None, parts))


def probably_wrong_scheduler(
    pod: Pod, ours: AbstractSet[str], at_work: AbstractSet[str], *, now_s: float
) -> str | None:
    """What to say about a pod that waits and is marked as a gang's; `None`: nothing.

    `at_work`: schedulers that have placed a pod which still exists. The annotations of Volcano's gangs are used by its
    scheduler, too, so with those the default scheduler is no sign of a mistake. `now_s`: Unix seconds.
    """
    name, names = pod.scheduler_name, ", ".join(sorted(ours))
    if pod.group is None or pod.group.source is GangSource.NATIVE or name in ours:
        return None
    meant = nearest(name, ours)
    if meant is not None and name not in at_work:
        return f"The gang's pods have schedulerName {name}: did you mean {meant}?"
    if now_s - pod.created_s < _PATIENCE_S:
        return None
    if name == _DEFAULT_SCHEDULER and pod.group.source in _LABELLED:
        return (
            f"The pods have labels of a gang and schedulerName {name}, so netgang does not start them together: "
            f"set schedulerName to {names}, unless a plugin of that scheduler reads these labels."
        )
    if name not in at_work:
        return f"The gang's pods have schedulerName {name}, and no pod of the cluster was placed by it: is it {names}?"
    return None
