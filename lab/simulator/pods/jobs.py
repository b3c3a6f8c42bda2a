"""The jobs' operator: pods are made and counted, jobs are resized, suspended and resumed, what is done goes away.

Rules: pods are made in the order of their indexes and removed from the highest index down, one after the other; a
member that is lost is recreated; a job's pods end together when it has trained enough, and are removed with it at once.
What the members do while they run is `lab.simulator.pods.training`'s.
"""

import asyncio
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from extender.errors import ApiError
from extender.kube.calls import OWNERS, POD_GROUPS, PODS
from lab.simulator.apiserver.store import ApiStore, Change, ChangeType
from lab.simulator.model import SimJob
from lab.simulator.pods.objects import (
    Dialect,
    group_object,
    is_suspended,
    job_object,
    member_name,
    member_object,
    workers_of,
)
from lab.simulator.pods.record import Meter
from lab.simulator.pods.sharing import Sharing
from lab.simulator.pods.training import Member, MemberKey, Placed, Story, Trainer, Training
from lab.simulator.pods.virtual_time import Latencies
from scoring.ids import NodeName
from scoring.model import Role
from scoring.model.resources import CPU

TF_JOBS = OWNERS["kubeflow.org", "TFJob"]


@dataclass(frozen=True, slots=True)
class Habits:
    """How jobs are written."""

    scheduler: str
    dialect: Dialect = Dialect.LABELS
    gated: bool = False
    """Their pods wait at our scheduling gate, as the admission policy would have them."""
    elastic: bool = False
    """They say between which counts they may be resized."""


class Jobs:
    """All jobs that have arrived and have not ended. `ended` hears each story when it is over."""

    def __init__(
        self,
        store: ApiStore,
        latencies: Latencies,
        rng: random.Random,
        habits: Habits,
        training: Training,
        meter: Meter,
        *,
        ended: Callable[[Story], None],
        sharing: Sharing | None = None,
    ) -> None:
        self._store = store
        self._latencies = latencies
        self._rng = rng
        self._habits = habits
        self._trainer = Trainer(training, self._complete)
        self._meter = meter
        self._ended = ended
        self._sharing = sharing
        self._of_pod: dict[str, tuple[Story, MemberKey]] = {}
        """uid → whose pod it is"""
        self._of_job: dict[str, Story] = {}
        """uid → story"""
        self.made = 0
        """Pods made so far."""
        self.changed_s = 0.0
        """When anything last happened to any member."""

    @property
    def stories(self) -> list[Story]:
        """Those that have not ended, in the order of their arrival."""
        return list(self._of_job.values())

    def start(self) -> None:
        """Follow jobs and pods."""
        self._store.follow(PODS, self._hear_pod)
        self._store.follow(TF_JOBS, self._hear_job)

    def submit(self, job: SimJob) -> None:
        """A user creates the job now."""
        made = self._store.create(TF_JOBS, job_object(job, elastic=self._habits.elastic))
        if self._habits.dialect is Dialect.POD_GROUP:
            self._store.create(POD_GROUPS, group_object(job))
        story = Story(job, made["metadata"]["uid"], job.workers, since_s=self._now_s())
        self._of_job[story.uid] = story
        self._reconcile(story)

    def close(self) -> None:
        """Count everything up to now; nothing goes on after that."""
        for story in self._of_job.values():
            self._trainer.stop(story)
            if story.making is not None:
                story.making.cancel()

    # -- the operator -------------------------------------------------------------------------------------------------

    def _reconcile(self, story: Story) -> None:
        if story.making is None or story.making.done():
            story.making = asyncio.create_task(self._make(story))

    async def _make(self, story: Story) -> None:
        """Make what is missing and delete what is too much, one after the other, until there is neither."""
        while (step := self._step(story)) is not None:
            key, missing = step
            await asyncio.sleep(self._latencies.pod_create.draw(self._rng))
            name = member_name(story.job, *key)
            if missing and key in story.wanted and self._store.find(PODS, story.job.namespace, name) is None:
                obj = member_object(
                    story.job,
                    story.uid,
                    *key,
                    scheduler=self._habits.scheduler,
                    dialect=self._habits.dialect,
                    gated=self._habits.gated,
                )
                self.made += 1
                uid = self._store.create(PODS, obj)["metadata"]["uid"]
                story.members[key] = Member(uid)
                self._of_pod[uid] = (story, key)
            elif not missing and key in story.members and key not in story.wanted:
                story.members[key].leaving = True
                self._delete(story, key)

    def _step(self, story: Story) -> tuple[MemberKey, bool] | None:
        """The next member to make (True) or to delete (False)."""
        wanted = story.wanted
        for key in wanted:
            if key not in story.members:
                return key, True
        among = set(wanted)
        surplus = [key for key, one in story.members.items() if key not in among and not one.leaving]
        return (max(surplus), False) if surplus else None

    def _delete(self, story: Story, key: MemberKey) -> None:
        try:
            self._store.delete_pod(story.job.namespace, member_name(story.job, *key))
        except ApiError:
            return  # gone already; the watch will show it

    # -- what happens -------------------------------------------------------------------------------------------------

    def _hear_job(self, change: Change) -> None:
        story = self._of_job.get(change.new["metadata"]["uid"])
        if story is None or change.type is not ChangeType.MODIFIED:
            return
        workers, suspended = workers_of(change.new), is_suspended(change.new)
        if (workers, suspended) != (story.workers, story.suspended):
            story.workers, story.suspended = workers, suspended
            self._reconcile(story)

    def _hear_pod(self, change: Change) -> None:
        known = self._of_pod.get(change.new["metadata"]["uid"])
        if known is None:
            return
        story, key = known
        if change.type is ChangeType.DELETED:
            del self._of_pod[change.new["metadata"]["uid"]]
            member = story.members.pop(key)
            self.changed_s = self._now_s()
            if member.node is not None and story.ended_s is None:
                self._gone(member)
            if story.ended_s is None:
                if member.running:
                    self._members_changed(story)
                self._reconcile(story)
            return
        member = story.members[key]
        node, now_s = change.new["spec"].get("nodeName"), self._now_s()
        if node is not None and member.node is None:
            self.changed_s = now_s
            self._bound(story, key, member, NodeName(node))
        if change.new["status"].get("phase") == "Running" and not member.running and not member.leaving:
            member.running = True
            self._members_changed(story)
        if "deletionTimestamp" in change.new["metadata"] and (member.running or not member.leaving):
            member.leaving, was_running = True, member.running
            member.running = False
            if was_running:
                self._members_changed(story)

    def _bound(self, story: Story, key: MemberKey, member: Member, node: NodeName) -> None:
        now_s = self._now_s()
        self._trainer.settle(story)
        member.node, member.bound_s = node, now_s
        story.was_bound[key] = (node, now_s)
        requests = story.job.ps if key[0] is Role.PS else story.job.worker
        self._meter.take(member.uid, requests, now_s=now_s)
        if self._sharing is not None:
            self._look_again(self._sharing.take(member.uid, story.uid, node, requests.get(CPU)))
        if story.first_pod_s is None:
            story.first_pod_s = now_s
        servers, workers = story.bound()
        if story.started_s is None and servers >= story.job.ps_count and workers >= story.job.min_workers:
            story.started_s = now_s

    def _complete(self, story: Story) -> None:
        """Its containers end, and its owner removes what is left."""
        story.ended_s = self.changed_s = self._now_s()
        namespace, name = story.job.namespace, story.job.name
        for key, member in sorted(story.members.items()):
            self._gone(member)
            pod = self._store.find(PODS, namespace, member_name(story.job, *key))
            if pod is None:
                continue
            if pod["spec"].get("nodeName"):
                self._store.replace(PODS, {**pod, "status": {**pod["status"], "phase": "Succeeded"}})
            self._delete(story, key)
        self._store.remove(TF_JOBS, namespace, name)
        if self._habits.dialect is Dialect.POD_GROUP:
            self._store.remove(POD_GROUPS, namespace, name)
        del self._of_job[story.uid]
        if self._sharing is not None:
            self._look_again(self._sharing.talk(story.uid, (), ()))
        self._ended(story)

    def _members_changed(self, story: Story) -> None:
        self._trainer.members_changed(story)
        if self._sharing is not None:
            at = story.placed() if story.trains_with(story.placed()) else Placed((), ())
            self._look_again(self._sharing.talk(story.uid, at.ps, at.workers))

    def _gone(self, member: Member) -> None:
        """The member's room is free."""
        self._meter.give(member.uid, now_s=self._now_s())
        if self._sharing is not None:
            self._look_again(self._sharing.give(member.uid))

    def _look_again(self, jobs: Sequence[str]) -> None:
        """These jobs, by their uids, share a node with a change."""
        for uid in jobs:
            if (story := self._of_job.get(uid)) is not None:
                self._trainer.look_again(story)

    def _now_s(self) -> float:
        return asyncio.get_running_loop().time()
