"""One job as decisions and people see it: what its object says, joined with its pods and its gang.

Rule: whatever is in doubt makes a text, and a job with a text is left alone. Pure: records in, a view out.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from extender.controllers.elastic.kinds import Seen, State, Unsafe
from extender.controllers.elastic.records import JobView
from scoring.ids import GangKey, PodUid
from scoring.model import Gang, Phase, Pod, Role
from scoring.queue.states import JobState
from scoring.scaling.job import ElasticJob, Wants


class NotNow(StrEnum):
    """Why a job is left alone at the moment; completes "it is not resized, because …"."""

    NO_GANG = "its pods form no gang that netgang starts"
    NAMESAKE = "a job of another kind in its namespace has its name"
    SUSPENDED = "it is suspended"
    RESTARTING = "its operator is restarting pods"
    DELETED = "it is being deleted"
    ENDED = "it has ended"
    UNSETTLED = "its worker pods are not those that its spec asks for"
    UNDER_WAY = "its last change is under way"
    ATTEMPT_FAILED = "the last attempt to change it failed"


_BY_STATE = {
    State.SUSPENDED: NotNow.SUSPENDED,
    State.RESTARTING: NotNow.RESTARTING,
    State.DELETED: NotNow.DELETED,
    State.ENDED: NotNow.ENDED,
}


@dataclass(frozen=True, slots=True)
class Surroundings:
    """What else is known of a job."""

    pods: Sequence[Pod] = ()
    """All that carry its name."""
    gang: Gang | None = None
    """The one that they form."""
    autoscaled: bool = False
    namesake: bool = False
    under_way: bool = False
    failed: bool = False
    default_wants: Wants = Wants.CURVE


def gang_key_of(pods: Sequence[Pod]) -> GangKey | None:
    """The gang that a job's pods form; `None`: none, or several."""
    keys = {pod.group.key for pod in pods if pod.group is not None}
    return keys.pop() if len(keys) == 1 and all(pod.group is not None for pod in pods) else None


def view_of(seen: Seen, around: Surroundings) -> JobView:
    """The job's view. Cost: O(pods)."""
    workers = [pod for pod in around.pods if pod.role is Role.WORKER and pod.index is not None]
    least, most = _bounds(seen, around.gang, workers)
    refusal = _refusal(seen, around, workers)
    gang = around.gang
    job = None
    if gang is not None and seen.claims and seen.state is not State.ENDED and not seen.bounds.bad:
        job = _job(
            seen, gang, workers, least=least, most=most, refusal=refusal, wants=seen.wants or around.default_wants
        )
    return JobView(
        key=seen.key,
        uid=seen.uid,
        api_version=seen.api_version,
        gang=gang.key if gang is not None else None,
        workers=seen.workers,
        min_workers=least,
        max_workers=most,
        min_source=seen.bounds.source,
        refusal=refusal,
        job=job,
        running=any(pod.phase is Phase.RUNNING for pod in workers),
        finished=seen.state is State.ENDED,
        owned=seen.owned,
    )


def _job(
    seen: Seen, gang: Gang, workers: Sequence[Pod], *, least: int, most: int, refusal: str | None, wants: Wants
) -> ElasticJob:
    intent = seen.intent
    stands = intent is not None and intent.stands(seen.workers)
    return ElasticJob(
        key=seen.key,
        uid=seen.uid,
        gang=gang.key,
        workers=seen.workers,
        min_workers=least,
        max_workers=most,
        indexes={PodUid(pod.uid): pod.index for pod in workers if pod.index is not None},
        refusal=refusal,
        wants=wants,
        changed_s=intent.at_s if intent is not None else None,
        created_s=seen.created_s,
        changes_s=intent.changes_s if intent is not None else (),
        grow_back_to=intent.grow_back_to if intent is not None and stands else None,
    )


def _bounds(seen: Seen, gang: Gang | None, workers: Sequence[Pod]) -> tuple[int, int]:
    """Least and most workers: what is said, within what the gang allows; what is not said is as it is now."""
    least = seen.bounds.least if seen.bounds.least is not None else seen.workers
    if gang is not None and not seen.steers_gang:
        others = len(gang.members) - len(workers)
        least = max(least, gang.min_member - others)
    intent = seen.intent
    submitted = intent.most if intent is not None and intent.stands(seen.workers) else None
    most = seen.bounds.most if seen.bounds.most is not None else max(submitted or 0, seen.workers)
    return max(least, 1), max(most, least, 1)


def _refusal(seen: Seen, around: Surroundings, workers: Sequence[Pod]) -> str | None:
    if seen.unsafe is not None:
        return seen.unsafe
    if around.autoscaled:
        return Unsafe.AUTOSCALED
    if around.namesake:
        return NotNow.NAMESAKE
    if seen.state is not State.ACTIVE:
        return _BY_STATE[seen.state]
    gang = around.gang
    if gang is None or not gang.actionable:
        return NotNow.NO_GANG
    if around.under_way:
        return NotNow.UNDER_WAY
    if around.failed:
        return NotNow.ATTEMPT_FAILED
    there = {pod.index for pod in workers if not pod.deleting and pod.phase is not Phase.FAILED}
    return None if there == set(range(seen.workers)) else NotNow.UNSETTLED


def rough_state(view: JobView) -> JobState:
    """What the job and its pods show by themselves; the queue adds whether it is starving."""
    if view.finished:
        return JobState.COMPLETED
    return JobState.RUNNING if view.running else JobState.WAITING
