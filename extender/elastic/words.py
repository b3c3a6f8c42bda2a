"""What a pass over the jobs came to, in words for people: verdicts, refusals, causes."""

from collections.abc import Mapping

from extender.elastic.records import Records, Verdict, Who
from extender.elastic.resizes import Cause
from extender.elastic.views import NotNow
from scoring.scaling.adjust import Adjustment
from scoring.scaling.change import Change, Refusal
from scoring.scaling.job import ElasticJob, JobKey


def remember(records: Records, decided: Adjustment) -> None:
    """Note of each job why it keeps its size, and of the first waiting gang why nobody gives way. O(jobs)."""
    given = decided.scale_in
    reason = given.reason.value if given.reason is not None else ""
    records.verdict = Verdict(given.beneficiary, reason, given.detail)
    words = {one.job: f"keeps its size: {_words(one)}" for one in decided.scale_out.refusals}
    words |= {one.job: f"keeps its size: {_words(one)}" for one in decided.fewer_refused}
    if given.beneficiary is not None:
        words |= {one.job: f"gives up nothing for {given.beneficiary}: {_words(one)}" for one in given.refusals}
    records.views = {
        # what the API server said to a failed attempt tells more than that it failed
        key: view if view.refusal == NotNow.ATTEMPT_FAILED else view.wishing(words.get(key, ""))
        for key, view in records.views.items()
    }


def cause_of_growth(one: Change, job: ElasticJob, wishes: Mapping[JobKey, int]) -> Cause:
    """Why a job gets workers."""
    if job.grow_back_to is not None:
        return Cause(Who.QUEUE, "it gets back what it gave up")
    if one.job in wishes:
        return Cause(Who.METRICS, f"it wishes {wishes[one.job]} workers")
    return Cause(Who.QUEUE, "there is idle room")


def _words(refusal: Refusal) -> str:
    return f"{refusal.reason} ({refusal.detail})" if refusal.detail else refusal.reason.value
