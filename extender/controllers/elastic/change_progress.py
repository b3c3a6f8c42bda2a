"""How far a change has come, from what can be seen now: each look starts from the facts and not from the last event.

Rule: level-triggered, so a missed event, a restart in the middle and a slow kubelet all come to the same end; every
stage has an end of its own, so no record stays without end. After a restart the notes on the jobs say what was started;
whether it is still under way is seen from pods and gangs alone.
"""

from dataclasses import dataclass, replace

from extender.controllers.elastic.elastic_context import Parts, runs
from extender.controllers.elastic.kinds import Seen, State
from extender.controllers.elastic.records import Change, Stage
from scoring.model import Gang

ARRIVES_S = 30.0  # A patch that the watch does not show after this long never took effect


@dataclass(frozen=True, slots=True)
class Limits:
    """How long the stages of a change may take, seconds."""

    removal_s: float = 600.0  # Until removed pods are gone
    reserve_s: float = 120.0  # Until the gang runs: twice as long as an admitted one may take to come to bind
    growth_s: float = 300.0  # Until added workers have nodes; others may grow there afterwards


@dataclass(frozen=True, slots=True)
class Facts:
    """What can be seen now of one change."""

    seen: Seen | None  # The job; `None`: it is gone
    left: int  # Removed pods that still take room
    ending: int  # Of them those that the job has to remove by now
    bound: int  # Workers on nodes
    waits: bool  # The beneficiary exists and does not run yet
    runs: bool  # The beneficiary runs


def followed(change: Change, facts: Facts, limits: Limits, *, now_s: float) -> Change:
    """The change as it is now; the same object if nothing is new.

    >>> from scoring.ids import GangKey, Namespace
    >>> from scoring.scaling.job import JobKey
    >>> from extender.controllers.elastic.records import Requester
    >>> job = JobKey(Namespace("a"), "Job.batch", "l")
    >>> one = Change(job, "u", 6, 2, Requester.QUEUE, "", GangKey("a/h"), 0.0, Stage.REMOVING)
    >>> followed(one, Facts(None, 4, 4, 6, waits=True, runs=False), Limits(), now_s=1.0).stage
    <Stage.OVERRULED: 'overruled'>
    """
    stage = _stage(change, facts, limits, now_s=now_s)
    if stage is change.stage:
        return change
    if stage is Stage.FREED:
        return replace(change, stage=stage, gone_s=now_s)
    gone_s = now_s if change.shrinks and facts.left == 0 and change.gone_s is None else change.gone_s
    return replace(change, stage=stage, after=change.wanted, step=None, gone_s=gone_s, ended_s=now_s)


def by_others(change: Change, facts: Facts) -> bool:
    """Whether another client gave the job another worker count meanwhile."""
    seen = facts.seen
    if seen is None or seen.uid != change.uid or seen.workers == change.wanted:
        return False
    intent, former = seen.intent, change.before if change.stepped_s is None else change.wanted + 1
    # our note says that the last patch took effect, whatever the worker count is by now
    arrived = intent is not None and (intent.at_s, intent.after) == (change.decided_s, change.wanted)
    return arrived or seen.workers != former


def steps_on(change: Change, facts: Facts) -> bool:
    """Whether it is time to remove the next worker, where they leave one by one."""
    seen = facts.seen
    due = change.stage is Stage.REMOVING and change.step is not None and facts.ending == 0
    return due and seen is not None and seen.workers == change.step


def _stage(change: Change, facts: Facts, limits: Limits, *, now_s: float) -> Stage:
    seen = facts.seen
    if seen is None or seen.uid != change.uid or seen.state in (State.ENDED, State.DELETED):
        return Stage.OVERRULED
    asked_s = change.stepped_s if change.stepped_s is not None else change.decided_s
    age_s = now_s - asked_s
    if seen.workers != change.wanted:
        on_the_way = not by_others(change, facts) and age_s <= ARRIVES_S
        return change.stage if on_the_way else Stage.OVERRULED
    if not change.shrinks:
        if facts.bound >= change.after:
            return Stage.DONE
        return Stage.GIVEN_BACK if age_s > limits.growth_s else change.stage
    gone = facts.left == 0 and change.step is None
    in_time = _within(limits.removal_s, change, age_s=age_s)
    if change.beneficiary is None:
        return Stage.DONE if gone else in_time
    if facts.runs:
        return Stage.DONE
    if not facts.waits:
        return Stage.GIVEN_BACK
    if change.stage is Stage.REMOVING:
        return Stage.FREED if gone else in_time
    return _within(limits.reserve_s, change, age_s=now_s - (change.gone_s or change.decided_s))


def _within(limit_s: float, change: Change, *, age_s: float) -> Stage:
    return change.stage if age_s <= limit_s else Stage.GIVEN_BACK


def from_note(parts: Parts, seen: Seen, limits: Limits) -> Change | None:
    """The last change of a job; `None`: it has no note of ours, or is not as that says. Cost: O(its pods).

    One for a gang that still waits is under way, and one without a beneficiary whose pods are still going.
    """
    intent, now_s = seen.intent, parts.context.clock.now_s()
    if intent is None or not intent.stands(seen.workers):
        return None
    gang = parts.context.cache.gang(intent.beneficiary) if intent.beneficiary is not None else None
    steps = intent.before - intent.goal if intent.target is not None else 1
    in_time = now_s - intent.at_s < steps * limits.removal_s + limits.reserve_s
    waits = gang is not None and not runs(gang) and in_time
    surplus = parts.surplus(seen, intent.goal)
    under_way = intent.goal < intent.before and (waits or (intent.beneficiary is None and bool(surplus)))
    return Change(
        job=seen.key,
        uid=seen.uid,
        before=intent.before,
        after=intent.goal if under_way else intent.after,
        requester=intent.requester,
        why=intent.why,
        beneficiary=intent.beneficiary,
        decided_s=intent.at_s,
        stage=Stage.REMOVING if under_way else Stage.DONE,
        removed=surplus,
        step=intent.step if under_way else None,
        stepped_s=now_s if under_way and intent.target is not None else None,
    )


def facts_of(parts: Parts, change: Change, beneficiary: Gang | None) -> Facts:
    """What can be seen of a change now. Cost: O(pods of the job)."""
    seen = parts.jobs.get(change.job)
    running = beneficiary is not None and runs(beneficiary)
    workers = parts.workers(seen) if seen is not None else ()
    removed = [pod for uid in change.removed if (pod := parts.context.cache.pod(uid)) is not None]
    left = [pod for pod in removed if pod.node is not None and not pod.terminal]
    return Facts(
        seen=seen,
        left=len(left),
        ending=sum(1 for pod in left if pod.index is None or pod.index >= change.wanted),
        bound=sum(1 for pod in workers if pod.node is not None and not pod.deleting),
        waits=beneficiary is not None and not running,
        runs=running,
    )
