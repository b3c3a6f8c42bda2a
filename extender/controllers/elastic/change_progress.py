"""How far a change has come, from what can be seen now: each look starts from the facts and not from the last event.

Rule: level-triggered, so a missed event, a restart in the middle and a slow kubelet all come to the same end; every
stage has an end of its own, so no record stays without end. After a restart the notes on the jobs say what was started;
whether it is still under way is seen from pods and gangs alone.
"""

import msgspec
from msgspec.structs import replace

from extender.controllers.elastic.elastic_context import Parts, runs
from extender.controllers.elastic.kinds import Seen, State
from extender.controllers.elastic.records import Change, Stage
from scoring.model import Gang

ARRIVES_S = 30.0  # A patch that the watch does not show after this long never took effect
REMOVAL_S = 600.0  # How long it may take until removed pods are gone
RESERVE_S = 120.0  # Until the gang runs: twice as long as an admitted one may take to come to bind
GROWTH_S = 300.0  # Until added workers have nodes; others may grow there afterwards


class Facts(msgspec.Struct, frozen=True):
    """What can be seen now of one change."""

    seen: Seen | None  # The job; `None`: it is gone
    left: int  # Removed pods that still take room
    ending: int  # Of them those that the job has to remove by now
    bound: int  # Workers on nodes
    waits: bool  # The beneficiary exists and does not run yet
    runs: bool  # The beneficiary runs


def followed(change: Change, facts: Facts, *, now_s: float) -> Change:
    """The change as it is now; the same object if nothing is new.

    >>> from scoring.ids import GangKey, Namespace
    >>> from scoring.scaling.job import JobKey
    >>> from extender.controllers.elastic.intent import Intent, Requester
    >>> job, intent = JobKey(Namespace("a"), "Job.batch", "l"), Intent(6, 2, 0.0, Requester.QUEUE, "", GangKey("a/h"))
    >>> gone = Facts(None, 4, 4, 6, waits=True, runs=False)
    >>> followed(Change(job, "u", intent, Stage.REMOVING), gone, now_s=1.0).stage
    <Stage.OVERRULED: 'overruled'>
    """
    stage = _stage(change, facts, now_s=now_s)
    if stage is change.stage:
        return change
    if stage is Stage.FREED:
        return replace(change, stage=stage, gone_s=now_s)
    gone_s = now_s if change.shrinks and facts.left == 0 and change.gone_s is None else change.gone_s
    return replace(change, stage=stage, intent=change.intent.ended_here(), gone_s=gone_s, ended_s=now_s)


def by_others(change: Change, facts: Facts) -> bool:
    """Whether another client gave the job another worker count meanwhile."""
    seen, wanted = facts.seen, change.intent.after
    if seen is None or seen.uid != change.uid or seen.workers == wanted:
        return False
    intent, former = seen.intent, change.intent.before if change.stepped_s is None else wanted + 1
    # our note says that the last patch took effect, whatever the worker count is by now
    arrived = intent is not None and (intent.at_s, intent.after) == (change.intent.at_s, wanted)
    return arrived or seen.workers != former


def steps_on(change: Change, facts: Facts) -> bool:
    """Whether it is time to remove the next worker, where they leave one by one."""
    seen, intent = facts.seen, change.intent
    due = change.stage is Stage.REMOVING and intent.target is not None and facts.ending == 0
    return due and seen is not None and seen.workers == intent.after


def _stage(change: Change, facts: Facts, *, now_s: float) -> Stage:
    seen, intent = facts.seen, change.intent
    if seen is None or seen.uid != change.uid or seen.state in (State.ENDED, State.DELETED):
        return Stage.OVERRULED
    age_s = now_s - (change.stepped_s if change.stepped_s is not None else intent.at_s)
    if seen.workers != intent.after:
        on_the_way = not by_others(change, facts) and age_s <= ARRIVES_S
        return change.stage if on_the_way else Stage.OVERRULED
    if not change.shrinks:
        if facts.bound >= intent.goal:
            return Stage.DONE
        return change.stage if age_s <= GROWTH_S else Stage.GIVEN_BACK
    gone = facts.left == 0 and intent.target is None
    in_time = change.stage if age_s <= REMOVAL_S else Stage.GIVEN_BACK
    if intent.beneficiary is None:
        return Stage.DONE if gone else in_time
    if facts.runs:
        return Stage.DONE
    if not facts.waits:
        return Stage.GIVEN_BACK
    if change.stage is Stage.REMOVING:
        return Stage.FREED if gone else in_time
    return change.stage if now_s - (change.gone_s or intent.at_s) <= RESERVE_S else Stage.GIVEN_BACK


def from_note(parts: Parts, seen: Seen) -> Change | None:
    """The last change of a job; `None`: it has no note of ours, or is not as that says. Cost: O(its pods).

    One for a gang that still waits is under way, and one without a beneficiary whose pods are still going.
    """
    intent, now_s = seen.intent, parts.context.clock.now_s()
    if intent is None or not intent.stands(seen.workers):
        return None
    gang = parts.context.cache.gang(intent.beneficiary) if intent.beneficiary is not None else None
    steps = intent.before - intent.goal if intent.target is not None else 1
    waits = gang is not None and not runs(gang) and now_s - intent.at_s < steps * REMOVAL_S + RESERVE_S
    surplus = parts.surplus(seen, intent.goal)
    if intent.goal < intent.before and (waits or (intent.beneficiary is None and bool(surplus))):
        stepped_s = now_s if intent.target is not None else None
        return Change(seen.key, seen.uid, intent, Stage.REMOVING, surplus, stepped_s)
    return Change(seen.key, seen.uid, intent.ended_here(), Stage.DONE, surplus)


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
        ending=sum(1 for pod in left if pod.index is None or pod.index >= change.intent.after),
        bound=sum(1 for pod in workers if pod.node is not None and not pod.deleting),
        waits=beneficiary is not None and not running,
        runs=running,
    )
