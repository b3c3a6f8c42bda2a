"""Changes under way as the cluster shows them: found again after a restart, and looked at in each round.

Rule: the note on the job says what was started; whether it is still under way is seen from pods and gangs alone.
"""

from collections.abc import Sequence

from extender.controllers.elastic.follow import Facts, Limits
from extender.controllers.elastic.kinds import Seen
from extender.controllers.elastic.parts import Parts, runs, takes_room
from extender.controllers.elastic.records import Change, Stage
from scoring.model import Gang


def from_notes(parts: Parts, limits: Limits) -> Sequence[Change]:
    """The last change of each job that has our note and is as the note says. Cost: O(jobs and their pods).

    Those for a gang that still waits are under way, and those without a beneficiary whose pods are still going.
    """
    now_s = parts.clock.now_s()
    return [change for seen in parts.jobs.all() if (change := _from_note(parts, seen, limits, now_s)) is not None]


def _from_note(parts: Parts, seen: Seen, limits: Limits, now_s: float) -> Change | None:
    intent = seen.intent
    if intent is None or not intent.stands(seen.workers):
        return None
    gang = parts.cache.gang(intent.beneficiary) if intent.beneficiary is not None else None
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
        step=intent.after if under_way and intent.target is not None else None,
        stepped_s=now_s if under_way and intent.target is not None else None,
    )


def facts_of(parts: Parts, change: Change, beneficiary: Gang | None) -> Facts:
    """What can be seen of a change now. Cost: O(pods of the job)."""
    seen = parts.jobs.get(change.job)
    running = beneficiary is not None and runs(beneficiary)
    workers = parts.workers(seen) if seen is not None else ()
    left = [pod for uid in change.removed if takes_room(pod := parts.cache.pod(uid)) and pod is not None]
    return Facts(
        seen=seen,
        left=len(left),
        ending=sum(1 for pod in left if pod.index is None or pod.index >= change.wanted),
        bound=sum(1 for pod in workers if pod.node is not None and not pod.deleting),
        waits=beneficiary is not None and not running,
        runs=running,
    )
