"""Jobs as decisions see them: what each object says, joined with its pods, its gang, and what others do.

And how far their changes have come, with the room that is reserved meanwhile (docs/safety.md S13). Rules: whatever is
in doubt makes a text, and a job with a text is left alone; a job that claims to be elastic and must be left alone for
good gets an Event with it. Level-triggered, so a missed event, a restart in the middle and a slow kubelet all come to
the same end; every stage ends. What is reserved follows from the changes under way alone, as if removed pods were gone.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

import msgspec
from msgspec.structs import replace

from extender.controllers.elastic.kinds import KINDS, MIN_WORKERS, NotNow, Seen, Unsafe
from extender.controllers.elastic.records import ElasticParts, JobView, Resize, Stage, pods_job
from extender.controllers.recorder import Happening, pod_subject
from extender.runtime.slices import Steps
from scoring import GangKey, NodeName, PodUid
from scoring.feasibility.quorum import quorum_of
from scoring.model import Gang, Phase, Pod, Role
from scoring.model.snapshot import Reservation
from scoring.queue.states import JobState
from scoring.scaling.job import ElasticJob, JobKey, Wants
from scoring.scaling.shrink import without_workers


def gang_key_of(pods: Sequence[Pod]) -> GangKey | None:
    """The gang that a job's pods form; `None`: none, or several."""
    keys = {pod.group.key for pod in pods if pod.group is not None}
    return keys.pop() if len(keys) == 1 and all(pod.group is not None for pod in pods) else None


def view_of(
    seen: Seen,
    pods: Sequence[Pod],
    gang: Gang | None,
    hindrance: Unsafe | NotNow | None = None,
    *,
    default_wants: Wants = Wants.CURVE,
) -> JobView:
    """From all pods that carry its name; bounds not said are as now; `hindrance`: what else speaks against. O(pods)."""
    workers = [pod for pod in pods if pod.role is Role.WORKER and pod.index is not None]
    intent, bounds = seen.intent, seen.bounds
    standing = intent if intent is not None and intent.stands(seen.workers) else None
    least = bounds.least if bounds.least is not None else seen.workers
    if gang is not None and not KINDS[seen.key.kind].roles:
        least = max(least, gang.min_member - (len(gang.members) - len(workers)))
    submitted = standing.most or 0 if standing is not None else 0
    most = bounds.most if bounds.most is not None else max(submitted, seen.workers)
    no_gang = None if gang is not None and gang.actionable else NotNow.NO_GANG
    there = {pod.index for pod in workers if not pod.deleting and pod.phase is not Phase.FAILED}
    unsettled = None if there == set(range(seen.workers)) else NotNow.UNSETTLED
    job = ElasticJob(
        key=seen.key,
        uid=seen.uid,
        gang=gang.key if gang is not None else GangKey(""),
        workers=seen.workers,
        min_workers=max(least, 1),
        max_workers=max(most, least, 1),
        indexes={pod.uid: pod.index for pod in workers if pod.index is not None},
        refusal=seen.unsafe or hindrance or seen.rests or no_gang or unsettled,
        wants=seen.wants or default_wants,
        changed_s=intent.at_s if intent is not None else None,
        changes_s=intent.changes_s if intent is not None else (),
        grow_back_to=standing.grow_back_to if standing is not None else None,
    )
    elastic = gang is not None and seen.claims and seen.rests is not NotNow.ENDED and not bounds.bad
    running = JobState.RUNNING if any(pod.phase is Phase.RUNNING for pod in workers) else JobState.WAITING
    state = JobState.COMPLETED if seen.rests is NotNow.ENDED else running
    return JobView(seen, gang, hindrance, job, elastic, state)


def look_in_steps(parts: ElasticParts) -> Steps[None]:
    """Renew the records' views of all jobs, with a moment for others now and then. Cost: O(jobs that changed)."""
    everything = parts.jobs.all()
    names = Counter(map(pods_job, everything))
    scaled = set(parts.jobs.scaled.items.values())
    under_way = {change.uid for change in parts.records.open_changes()}
    now_s = parts.context.clock.monotonic_s()
    views: dict[JobKey, JobView] = {}
    for seen in everything:
        former = parts.records.views.get(seen.key)
        against: dict[Unsafe | NotNow, bool] = {
            Unsafe.AUTOSCALED: seen.key in scaled,
            NotNow.NAMESAKE: names[pods_job(seen)] > 1,
            NotNow.UNDER_WAY: seen.uid in under_way,
            NotNow.ATTEMPT_FAILED: former is not None and now_s < former.again_s,
        }
        hindrance = next((why for why, holds in against.items() if holds), None)
        views[seen.key] = _same_or_new(parts, seen, former, hindrance)
        yield
    parts.records.views = views


def _same_or_new(parts: ElasticParts, seen: Seen, former: JobView | None, hindrance: Unsafe | NotNow | None) -> JobView:
    cache = parts.context.cache
    seen = seen.with_newest_note(former.seen) if former is not None else seen
    gang = former.gang if former is not None and former.seen == seen and former.hindrance == hindrance else None
    if gang is not None and cache.gang(gang.key) is gang and former is not None:
        return former  # its members are those that they were
    pods = cache.pods.of_job(pods_job(seen))
    key = gang_key_of(pods)
    gang = cache.gang(key) if key is not None else None
    view = view_of(seen, pods, gang, hindrance, default_wants=parts.options.metrics.default)
    if former is not None:
        view.wish, view.failures, view.again_s = former.wish, former.failures, former.again_s
    asked, least = seen.bounds.asked, seen.bounds.least
    asks = asked is not None and (asked < seen.workers or seen.workers == 0)  # 0: its workers are not known
    if (seen.claims or asks) and view.job.refusal in list(Unsafe):
        parts.post_job_event(seen, Happening.JOB_NOT_RESIZED, f"It is not resized, because {view.job.refusal}")
    elif asked is not None and least is not None and asked < least:
        words = f"Its pods have {seen.bounds.source} {least}: it never has fewer workers than that, so"
        note = f"{words} annotation {MIN_WORKERS}={asked} has no effect; lower the label"
        parts.post_job_event(seen, Happening.MISTAKE, note)
    if seen.bad_wants:
        words = ", ".join(Wants)
        parts.post_job_event(seen, Happening.MISTAKE, f"Annotation netgang.io/scaling is none of {words}")
    return view


def post_unknown_kinds(parts: ElasticParts) -> None:
    """An Event for each gang that asks to be elastic and is no job we know. Cost: O(gangs)."""
    jobs = set(map(pods_job, parts.jobs.all()))
    for gang in parts.context.cache.snapshot().gangs.values():
        first = gang.members[0]
        asks = not {"min-workers", "max-workers"}.isdisjoint(dict(gang.options))
        if gang.own and first.job not in jobs and asks:
            why, owner = "its pods belong to no controller", first.owner
            if owner is not None:
                why = f"how jobs of kind {owner.kind} ({owner.api_version}) are resized is not known"
            note = f"It is not resized, because {why}"
            parts.context.events.post(pod_subject(first), Happening.JOB_NOT_RESIZED, note, "kind")


ARRIVES_S = 30.0  # A patch that the watch does not show after this long never took effect
REMOVAL_S = 600.0  # How long it may take until removed pods are gone
RESERVE_S = 120.0  # Until the gang runs: twice as long as an admitted one may take to come to bind
GROWTH_S = 300.0  # Until added workers have nodes; others may grow there afterwards


class ChangeFacts(msgspec.Struct, frozen=True):
    """What can be seen now of one change, and what follows from it."""

    change: Resize
    seen: Seen | None  # The job; `None`: it is gone
    left: int  # Removed pods that still take room
    ending: int  # Of them those that the job has to remove by now
    bound: int  # Workers on nodes
    waits: bool  # The beneficiary exists and does not run yet
    runs: bool  # The beneficiary runs

    def followed(self, now_s: float) -> Resize:
        """The change as it is now; the same object if nothing is new."""
        change, stage = self.change, self._stage(now_s)
        if stage is change.stage:
            return change
        if stage is Stage.FREED:
            return replace(change, stage=stage, gone_s=now_s)
        gone_s = now_s if change.shrinks and self.left == 0 and change.gone_s is None else change.gone_s
        return replace(change, stage=stage, intent=replace(change.intent, target=None), gone_s=gone_s, ended_s=now_s)

    @property
    def by_others(self) -> bool:
        """Whether another client gave the job another worker count meanwhile."""
        seen, last = self.seen, self.change.intent
        if seen is None or seen.uid != self.change.uid or seen.workers == last.after:
            return False
        intent, former = seen.intent, last.before if self.change.stepped_s is None else last.after + 1
        # our note says that the last patch took effect, whatever the worker count is by now
        arrived = intent is not None and (intent.at_s, intent.after) == (last.at_s, last.after)
        return arrived or seen.workers != former

    @property
    def steps_on(self) -> bool:
        """Whether it is time to remove the next worker, where they leave one by one."""
        seen, intent = self.seen, self.change.intent
        due = self.change.stage is Stage.REMOVING and intent.target is not None and self.ending == 0
        return due and seen is not None and seen.workers == intent.after

    def _stage(self, now_s: float) -> Stage:
        change, seen, intent = self.change, self.seen, self.change.intent
        if seen is None or seen.uid != change.uid or seen.rests in (NotNow.ENDED, NotNow.DELETED):
            return Stage.OVERRULED
        age_s = now_s - (change.stepped_s if change.stepped_s is not None else intent.at_s)
        if seen.workers != intent.after:
            return change.stage if not self.by_others and age_s <= ARRIVES_S else Stage.OVERRULED
        if not change.shrinks:
            if self.bound >= intent.goal:
                return Stage.DONE
            return change.stage if age_s <= GROWTH_S else Stage.GIVEN_BACK
        gone = self.left == 0 and intent.target is None
        in_time = change.stage if age_s <= REMOVAL_S else Stage.GIVEN_BACK
        if intent.beneficiary is None:
            return Stage.DONE if gone else in_time
        if self.runs:
            return Stage.DONE
        if not self.waits:
            return Stage.GIVEN_BACK
        if change.stage is Stage.REMOVING:
            return Stage.FREED if gone else in_time
        return change.stage if now_s - (change.gone_s or intent.at_s) <= RESERVE_S else Stage.GIVEN_BACK


def from_note(parts: ElasticParts, seen: Seen) -> Resize | None:
    """The last change of a job, under way if its gang waits or pods still go; `None`: no note stands. O(its pods)."""
    intent, now_s = seen.intent, parts.context.clock.now_s()
    if intent is None or not intent.stands(seen.workers):
        return None
    change = Resize(seen.key, seen.uid, intent, Stage.REMOVING)
    gang = parts.beneficiary(change)
    steps = intent.before - intent.goal if intent.target is not None else 1
    waits = gang is not None and not quorum_of(gang).whole and now_s - intent.at_s < steps * REMOVAL_S + RESERVE_S
    if change.shrinks and (waits or (intent.beneficiary is None and parts.surplus(seen, intent.goal))):
        return replace(change, stepped_s=now_s if intent.target is not None else None)
    return replace(change, intent=replace(intent, target=None), stage=Stage.DONE)


def facts_of(parts: ElasticParts, change: Resize) -> ChangeFacts:
    """What can be seen of a change now. Cost: O(pods of the job)."""
    seen, beneficiary = parts.jobs.get(change.job), parts.beneficiary(change)
    running = beneficiary is not None and quorum_of(beneficiary).whole
    workers, left, ending = (
        [pod for pod in parts.surplus(seen, least) if pod.node is not None] if seen is not None else []
        for least in (0, change.intent.goal, change.intent.after)
    )
    bound = sum(not pod.deleting for pod in workers)
    waits = beneficiary is not None and not running
    return ChangeFacts(change, seen, len(left), len(ending), bound, waits, running)


class Rooms:
    """The claims that we have set."""

    def __init__(self, parts: ElasticParts) -> None:
        self._parts, self._cache = parts, parts.context.cache
        self._mine: dict[GangKey, Reservation] = {}

    def keep(self, gang: GangKey, places: Mapping[PodUid, NodeName], givers: Iterable[GangKey]) -> None:
        """Reserve room for the gang from now on."""
        self._mine[gang] = Reservation(gang, dict(places), tuple(sorted(set(givers))))
        self._cache.set_claim(gang, self._mine[gang])

    def release(self, gang: GangKey) -> None:
        """Reserve none for it any more."""
        if self._mine.pop(gang, None) is not None:
            self._cache.set_claim(gang, None)

    def agree_with(self, changes: Sequence[Resize]) -> None:
        """Reserve room for the gangs that wait for these open changes, and for no others."""
        wanted: dict[GangKey, list[Resize]] = {}
        for change in changes:
            gang = self._parts.beneficiary(change)
            if gang is not None and change.shrinks and not quorum_of(gang).whole:
                wanted.setdefault(gang.key, []).append(change)
        for key in self._mine.keys() - wanted.keys():
            self.release(key)
        for key, theirs in wanted.items():
            claim, waiting = self._mine.get(key), self._cache.gang(key)
            uids = {pod.uid for pod in waiting.members} if waiting is not None else set()
            if claim is None or not uids.issuperset(claim.assignment):
                jobs = [(seen, change) for change in theirs if (seen := self._parts.jobs.get(change.job)) is not None]
                going = [pod for seen, change in jobs for pod in self._parts.surplus(seen, change.intent.goal)]
                places = self._places(key, [pod for pod in going if pod.node is not None])
                givers = [gang_key_of(self._cache.pods.of_job(pods_job(seen))) for seen, _ in jobs]
                if places is not None:
                    self.keep(key, places, (giver for giver in givers if giver is not None))

    def _places(self, key: GangKey, going: Sequence[Pod]) -> Mapping[PodUid, NodeName] | None:
        """Where the gang's minimum goes once these pods are gone. Cost: one placement."""
        snapshot, planner = self._cache.snapshot(), self._parts.context.planner
        gang, plan = snapshot.gangs.get(key), planner.current
        if gang is None or (key not in plan.waiting and planner.snapshot is not None):
            return None
        now_s = self._parts.context.clock.now_s()
        placed = without_workers(snapshot, plan, gang, planner.policy, now_s=now_s, cache=planner.cache).place(going)
        return placed.nodes if placed is not None else None
