"""How far a change has come, from what can be seen now; and the room that is reserved meanwhile (docs/safety.md S13).

Rules: level-triggered, so a missed event, a restart in the middle and a slow kubelet all come to the same end; every
stage ends. After a restart the notes on the jobs say what was started. What is reserved follows from the changes under
way alone; where a beneficiary's members would go is found by placing them as if the removed pods were gone.
"""

from collections.abc import Iterable, Mapping, Sequence

import msgspec
from msgspec.structs import replace

from extender.controllers.elastic.jobs import gang_key_of
from extender.controllers.elastic.kinds import NotNow, Seen
from extender.controllers.elastic.records import ElasticParts, Resize, Stage, pods_job, runs
from scoring.ids import GangKey, NodeName, PodUid
from scoring.model import Pod
from scoring.model.snapshot import Reservation
from scoring.scaling.shrink import without_workers

ARRIVES_S = 30.0  # A patch that the watch does not show after this long never took effect
REMOVAL_S = 600.0  # How long it may take until removed pods are gone
RESERVE_S = 120.0  # Until the gang runs: twice as long as an admitted one may take to come to bind
GROWTH_S = 300.0  # Until added workers have nodes; others may grow there afterwards


class ChangeFacts(msgspec.Struct, frozen=True):
    """What can be seen now of one change."""

    seen: Seen | None  # The job; `None`: it is gone
    left: int  # Removed pods that still take room
    ending: int  # Of them those that the job has to remove by now
    bound: int  # Workers on nodes
    waits: bool  # The beneficiary exists and does not run yet
    runs: bool  # The beneficiary runs


def followed(change: Resize, facts: ChangeFacts, *, now_s: float) -> Resize:
    """The change as it is now; the same object if nothing is new."""
    stage = _stage(change, facts, now_s=now_s)
    if stage is change.stage:
        return change
    if stage is Stage.FREED:
        return replace(change, stage=stage, gone_s=now_s)
    gone_s = now_s if change.shrinks and facts.left == 0 and change.gone_s is None else change.gone_s
    return replace(change, stage=stage, intent=replace(change.intent, target=None), gone_s=gone_s, ended_s=now_s)


def by_others(change: Resize, facts: ChangeFacts) -> bool:
    """Whether another client gave the job another worker count meanwhile."""
    seen, wanted = facts.seen, change.intent.after
    if seen is None or seen.uid != change.uid or seen.workers == wanted:
        return False
    intent, former = seen.intent, change.intent.before if change.stepped_s is None else wanted + 1
    # our note says that the last patch took effect, whatever the worker count is by now
    arrived = intent is not None and (intent.at_s, intent.after) == (change.intent.at_s, wanted)
    return arrived or seen.workers != former


def steps_on(change: Resize, facts: ChangeFacts) -> bool:
    """Whether it is time to remove the next worker, where they leave one by one."""
    seen, intent = facts.seen, change.intent
    due = change.stage is Stage.REMOVING and intent.target is not None and facts.ending == 0
    return due and seen is not None and seen.workers == intent.after


def _stage(change: Resize, facts: ChangeFacts, *, now_s: float) -> Stage:
    seen, intent = facts.seen, change.intent
    if seen is None or seen.uid != change.uid or seen.rests in (NotNow.ENDED, NotNow.DELETED):
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


def from_note(parts: ElasticParts, seen: Seen) -> Resize | None:
    """The last change of a job; `None`: it has no note of ours, or is not as that says. Cost: O(its pods).

    One for a gang that still waits is under way, and one without a beneficiary whose pods are still going.
    """
    intent, now_s = seen.intent, parts.context.clock.now_s()
    if intent is None or not intent.stands(seen.workers):
        return None
    change = Resize(seen.key, seen.uid, intent, Stage.REMOVING)
    gang = parts.beneficiary(change)
    steps = intent.before - intent.goal if intent.target is not None else 1
    waits = gang is not None and not runs(gang) and now_s - intent.at_s < steps * REMOVAL_S + RESERVE_S
    if change.shrinks and (waits or (intent.beneficiary is None and parts.surplus(seen, intent.goal))):
        return replace(change, stepped_s=now_s if intent.target is not None else None)
    return replace(change, intent=replace(intent, target=None), stage=Stage.DONE)


def facts_of(parts: ElasticParts, change: Resize) -> ChangeFacts:
    """What can be seen of a change now. Cost: O(pods of the job)."""
    seen, beneficiary = parts.jobs.get(change.job), parts.beneficiary(change)
    running = beneficiary is not None and runs(beneficiary)
    workers, left, ending = (
        [pod for pod in parts.surplus(seen, least) if pod.node is not None] if seen is not None else []
        for least in (0, change.intent.goal, change.intent.after)
    )
    return ChangeFacts(
        seen=seen,
        left=len(left),
        ending=len(ending),
        bound=sum(1 for pod in workers if not pod.deleting),
        waits=beneficiary is not None and not running,
        runs=running,
    )


class Rooms:
    """The claims that we have set."""

    def __init__(self, parts: ElasticParts) -> None:
        self._parts, self._cache = parts, parts.context.cache
        self._mine: dict[GangKey, Reservation] = {}

    def keep(self, gang: GangKey, places: Mapping[PodUid, NodeName], givers: Iterable[GangKey]) -> None:
        """Reserve room for the gang from now on."""
        self._mine[gang] = Reservation(gang, dict(places), tuple(sorted(set(givers))))
        self._cache.set_claim(self._mine[gang])

    def release(self, gang: GangKey) -> None:
        """Reserve none for it any more."""
        if self._mine.pop(gang, None) is not None:
            self._cache.clear_claim(gang)

    def agree_with(self, changes: Sequence[Resize]) -> None:
        """Reserve room for the gangs that wait for these open changes, and for no others."""
        wanted: dict[GangKey, list[Resize]] = {}
        for change in changes:
            gang = self._parts.beneficiary(change)
            if gang is not None and change.shrinks and not runs(gang):
                wanted.setdefault(gang.key, []).append(change)
        for key in self._mine.keys() - wanted.keys():
            self.release(key)
        for key, theirs in wanted.items():
            claim, waiting = self._mine.get(key), self._cache.gang(key)
            uids = {pod.uid for pod in waiting.members} if waiting is not None else set()
            if claim is None or not uids.issuperset(claim.assignment):
                jobs = [(seen, one) for one in theirs if (seen := self._parts.jobs.get(one.job)) is not None]
                going = [pod for seen, one in jobs for pod in self._parts.surplus(seen, one.intent.goal)]
                places = self._places(key, [pod for pod in going if pod.node is not None])
                givers = [gang_key_of(self._cache.pods.of_job(pods_job(seen))) for seen, _ in jobs]
                if places is not None:
                    self.keep(key, places, (giver for giver in givers if giver is not None))

    def _places(self, key: GangKey, going: Sequence[Pod]) -> Mapping[PodUid, NodeName] | None:
        """Where the gang's minimum goes once these pods are gone; `None`: nowhere. Cost: one placement."""
        snapshot, planner = self._cache.snapshot(), self._parts.context.planner
        gang, plan = snapshot.gangs.get(key), planner.current
        if gang is None or (key not in plan.waiting and planner.snapshot is not None):
            return None
        now_s = self._parts.context.clock.now_s()
        placed = without_workers(snapshot, plan, gang, planner.policy, now_s=now_s, cache=planner.cache).place(going)
        return placed.nodes if placed is not None else None
