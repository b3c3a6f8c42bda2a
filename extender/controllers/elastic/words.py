"""What a pass over the jobs came to, in words for people: verdicts, refusals, causes."""

from collections import Counter
from collections.abc import Mapping
from typing import Final

from extender.controllers.elastic.intent import Requester, ResizeCause
from extender.controllers.elastic.kinds import NotNow
from extender.controllers.elastic.records import ElasticParts, Records, pods_job
from extender.controllers.events.recorder import Happening, pod_subject
from scoring.scaling.change import Change, JobRefusal, No, ScaleIn
from scoring.scaling.grow import Adjustment
from scoring.scaling.job import ElasticJob, JobKey

_ALL_STAY: Final = frozenset({No.NO_JOB, No.NOT_ENOUGH, No.GIVEN_TO_OTHERS, No.TOO_WIDE})
"""Reasons for which a gang waits on although there are elastic jobs"""


def remember(records: Records, decided: Adjustment) -> None:
    """Record why each job keeps its size, and why no job shrinks for the first waiting gang. O(jobs)."""
    given = records.verdict = decided.scale_in
    words = {one.job: f"keeps its size: {_words(one)}" for one in decided.scale_out.refusals}
    if given.beneficiary is not None:
        words |= {one.job: f"gives up nothing for {given.beneficiary}: {_words(one)}" for one in given.refusals}
    for key, view in records.views.items():
        if view.job.refusal != NotNow.ATTEMPT_FAILED:  # what the API server said to it is better than that it failed
            view.wish = words.get(key, "")


def post_why_none_shrinks(parts: ElasticParts, given: ScaleIn) -> None:
    """An Event on the waiting gang's job (on one of its pods, if that is no job we know) when no job shrinks for it.

    Once for each reason in a while; nothing while room is on its way to it. Cost: O(jobs).
    """
    gang = parts.context.cache.gang(given.beneficiary) if given.beneficiary is not None else None
    if gang is None or given.reason not in _ALL_STAY:
        return
    first = gang.members[0]
    about = pod_subject(first)
    for seen in parts.jobs.all() if first.job is not None else ():
        if pods_job(seen) == first.job:
            about = parts.subject(seen)
    parts.context.post_event(about, Happening.GANG_WAITING, why_none_shrinks(given), f"elastic: {given.reason}")


def why_none_shrinks(given: ScaleIn) -> str:
    """Why no running job gives up workers for the first waiting gang, with how many jobs keep theirs for which reason.

    >>> from scoring.ids import GangKey, Namespace
    >>> heavy = JobRefusal(JobKey(Namespace("a"), "Job.batch", "j"), No.NOT_LIGHTER, "ω′ 2, the gang's 1")
    >>> why_none_shrinks(ScaleIn(GangKey("a/g"), reason=No.NO_JOB, refusals=(heavy,))).partition("; ")[2]
    '1 job: the job is heavier than the gang, or as heavy and earlier'
    """
    counts = Counter(one.reason.value for one in given.refusals)
    reasons = [f"{count} job{'s' if count > 1 else ''}: {reason}" for reason, count in sorted(counts.items())]
    detail = f" ({given.detail})" if given.detail else ""
    return "; ".join([f"No running job gives up workers for it: {given.reason}{detail}", *reasons])


def cause_of(one: Change, job: ElasticJob, demands: Mapping[JobKey, int]) -> ResizeCause:
    """Why a job gets fewer or more workers for its own sake."""
    if one.removed < 0 and job.grow_back_to is not None:
        return ResizeCause(Requester.QUEUE, "it gets back what it gave up")
    if one.job in demands:
        return ResizeCause(Requester.METRICS, f"its metrics ask for {demands[one.job]} workers")
    return ResizeCause(Requester.QUEUE, "there is idle room")


def _words(refusal: JobRefusal) -> str:
    return f"{refusal.reason} ({refusal.detail})" if refusal.detail else refusal.reason.value
