"""The jobs of a run as the planner and the scaling code see them: gangs of pods, elastic jobs, a snapshot.

Why apart: the simulated decisions are those of the service only if they are made from the same values. Rule: a gang is
rebuilt only when its job's pods have changed, so that what the planner remembers of it stays valid.
"""

from collections.abc import Collection

from lab.simulator.state import JobState, Slot, State
from scoring import GangKey, Namespace, PodName, PodUid
from scoring.model import Constraints, Gang, GangSource, MemberClass, Phase, Pod, Role
from scoring.model.pod import PODS, Resources
from scoring.model.snapshot import NodeTable, Snapshot
from scoring.queue.weights import dominant_share
from scoring.scaling.job import ElasticJob, JobKey, Wants

_ONE_POD = Resources.from_amounts({PODS: 1})
_NO_CONSTRAINTS = Constraints()


def uid_of(one: JobState, slot: Slot) -> PodUid:
    """The uid of a job's pod."""
    return PodUid(f"{one.key}-{slot[0]}-{slot[1]}")


def elastic_job(one: JobState) -> ElasticJob:
    """A running job as the scaling decisions see it."""
    job = one.job
    return ElasticJob(
        key=JobKey(Namespace("default"), "TFJob.kubeflow.org", job.name),
        uid=job.name,
        gang=one.key,
        workers=one.wanted,
        min_workers=job.min_workers,
        max_workers=one.most,
        indexes={uid_of(one, (Role.WORKER, index)): index for index in one.wanted_indexes()},
        refusal=None,
        wants=Wants.OFF,
        changed_s=one.changed_s,
        changes_s=one.changes_s,
        grow_back_to=one.gave_up_from,
    )


class Gangs:
    """Gangs of jobs, kept while they are as they were."""

    def __init__(self, table: NodeTable) -> None:
        self._table = table
        self._known: dict[str, tuple[int, Gang]] = {}
        self._classes: dict[tuple[Role, int], tuple[Resources, MemberClass]] = {}
        self._slots: dict[PodUid, Slot] = {}

    def of(self, one: JobState) -> Gang:
        """The gang of a job."""
        known = self._known.get(one.job.name)
        if known is None or known[0] != one.changes:
            known = self._known[one.job.name] = (one.changes, self._built(one))
        return known[1]

    def slot(self, uid: PodUid) -> Slot:
        """What the uid of a pod in a known gang stands for."""
        return self._slots[uid]

    def forget(self, state: State) -> None:
        """Drop jobs that are gone, once they are many. Cost: O(known), then."""
        if len(self._known) > 2 * (len(state.waiting) + len(state.running)) + 1000:
            for name in self._known.keys() - state.waiting.keys() - state.running.keys():
                for pod in self._known.pop(name)[1].members:
                    self._slots.pop(pod.uid, None)

    def snapshot(self, state: State, jobs: Collection[JobState], *, version: int) -> Snapshot:
        """The cluster with the gangs of these jobs; all others are load."""
        gangs: dict[GangKey, Gang] = {one.key: self.of(one) for one in jobs}
        # cluster-hours before the last suspension, as netgang notes them: of those workers that were there at the end
        total = state.table.allocatable.sum(axis=0)
        vectors = {one: state.vector(one, Role.WORKER) for one in jobs if one.suspensions}
        past = {
            one.key: 0.0 if vector is None else one.before_s * dominant_share(vector, total) / 3600.0
            for one, vector in vectors.items()
        }
        return Snapshot(version, state.table, state.used.copy(), gangs=gangs, attained_h=past, network=state.network)

    def _class(self, role: Role, requests: Resources) -> MemberClass:
        """The very same object for the same object of requests, which the planner finds faster."""
        known = self._classes.get((role, id(requests)))
        if known is None or known[0] is not requests:
            made = MemberClass(role, Resources.from_amounts([*requests, *_ONE_POD]), _NO_CONSTRAINTS)
            known = self._classes[role, id(requests)] = (requests, made)
        return known[1]

    def _built(self, one: JobState) -> Gang:
        job = one.job
        slots: list[Slot] = [(Role.PS, index) for index in range(job.ps_count)]
        slots += [(Role.WORKER, index) for index in one.wanted_indexes()]
        namespace = Namespace("default")
        classes = {Role.PS: self._class(Role.PS, job.ps), Role.WORKER: self._class(Role.WORKER, job.worker)}
        members: list[Pod] = []
        for role, index in slots:
            row = (one.ps if role is Role.PS else one.workers).get(index)
            uid = uid_of(one, (role, index))
            self._slots[uid] = (role, index)
            members.append(
                Pod(
                    uid,
                    namespace,
                    PodName(f"{job.name}-{role}-{index}"),
                    classes[role],
                    node=None if row is None else self._table.names[row],
                    phase=Phase.PENDING if row is None else Phase.RUNNING,
                    created_s=one.asked_s,
                    scheduled_s=None if row is None else one.bound_s[role, index],
                    index=index,
                )
            )
        return Gang(
            one.key,
            GangSource.POD_GROUP,
            job.ps_count + one.needs,
            tuple(members),
            0,
            one.asked_s,
            options=(("suspendable", "true"),) if job.suspendable else (),
        )
