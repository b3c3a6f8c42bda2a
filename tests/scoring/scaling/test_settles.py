"""Pass after pass, each carried out at once: everything comes to rest, and nobody is left out who could be helped."""

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from scoring.ids import GangKey, NodeName
from scoring.model import Gang, Phase, Role
from scoring.model.snapshot import Snapshot
from scoring.plan import Plan, plan
from scoring.scaling.adjust import Adjustment, adjust
from scoring.scaling.change import Change
from scoring.scaling.job import ElasticJob, Options, newcomers, steps_down
from tests.builders import snapshot
from tests.scoring.scaling.cases import TRUSTING
from tests.scoring.scaling.test_properties import FREE, clusters, options_of

MOST_PASSES = 40


class Cluster:
    def __init__(self, start: Snapshot, jobs: list[ElasticJob]) -> None:
        self.nodes = start.table.nodes
        self.gangs = dict(start.gangs)
        self.jobs = {job.key: job for job in jobs}
        self.plan: Plan | None = None

    @property
    def snapshot(self) -> Snapshot:
        return snapshot(self.nodes, self.gangs.values())

    def pass_once(self, options: Options) -> Adjustment:
        self.plan = plan(self.snapshot, TRUSTING, now_s=10.0, previous=self.plan)
        found = adjust(self.snapshot, self.plan, list(self.jobs.values()), {}, TRUSTING, options, now_s=10.0)
        for key, admission in self.plan.admitted.items():
            gang = self.gangs[key]
            self._set(
                key,
                tuple(
                    replace(p, node=admission.members[p.uid], phase=Phase.RUNNING) if p.uid in admission.members else p
                    for p in gang.members
                ),
            )
        for change in found.changes:
            self._carry_out(change)
        return found

    def rest(self, options: Options) -> None:
        """Pass after pass until one changes nothing; AssertionError if that never comes, or bounds do not hold."""
        for _ in range(MOST_PASSES):
            before = {key: gang.members for key, gang in self.gangs.items()}
            self.pass_once(options)
            now = self.snapshot
            assert (now.used <= now.table.allocatable).all()
            assert all(job.min_workers <= job.workers <= job.max_workers for job in self.jobs.values())
            if before == {key: gang.members for key, gang in self.gangs.items()}:
                return
        raise AssertionError("it goes on and on")

    def _carry_out(self, change: Change) -> None:
        job = self.jobs[change.job]
        gang = self.gangs[job.gang]
        gone = {uid for uid, index in job.indexes.items() if index >= change.after}
        members = [p for p in gang.members if p.uid not in gone]
        new = newcomers(job, gang, first=change.before, number=max(-change.removed, 0), zone_label="zone")
        members += [
            replace(p, node=NodeName(node), phase=Phase.RUNNING) for p, node in zip(new, change.nodes, strict=True)
        ] if change.removed < 0 else []  # fmt: skip
        self._set(job.gang, tuple(members))
        indexes = {p.uid: p.index for p in members if p.role is Role.WORKER and p.index is not None}
        debt = job.grow_back_to if job.grow_back_to is not None else change.before
        grow_back_to = debt if change.after < debt else None
        self.jobs[change.job] = replace(job, workers=change.after, indexes=indexes, grow_back_to=grow_back_to)

    def _set(self, key: GangKey, members: tuple[object, ...]) -> None:
        gang: Gang = self.gangs[key]
        self.gangs[key] = replace(gang, members=members)  # type: ignore[arg-type]


@given(clusters(), options_of)
def test_everything_comes_to_rest(made: tuple[Snapshot, list[ElasticJob]], options: Options) -> None:
    """No job is shrunk and grown without end; room is never given twice; bounds hold all the way."""
    Cluster(*made).rest(options)


@given(clusters(), st.data())
def test_when_the_beneficiary_ends_everybody_is_as_before(
    made: tuple[Snapshot, list[ElasticJob]], data: st.DataObject
) -> None:
    """At rest, somebody comes, is made room for, and ends: nobody who gave up workers is left with fewer."""
    start, jobs = made
    cluster = Cluster(start, jobs)
    cluster.rest(FREE)
    givers = [
        job
        for job in cluster.jobs.values()
        if steps_down(job, cluster.gangs[job.gang], most=None) and job.key in {one.key for one in jobs}
    ]
    if not givers or cluster.plan is None or cluster.plan.waiting:
        return
    sizes = {key: job.workers for key, job in cluster.jobs.items()}
    giver = data.draw(st.sampled_from(sorted(givers, key=lambda job: job.key)))
    worker = next(p for p in cluster.gangs[giver.gang].members if p.role is Role.WORKER)
    newcomer = replace(
        cluster.gangs[giver.gang],
        key=GangKey("default/late"),
        min_member=1,
        members=(replace(worker, uid=worker.uid.__class__("late"), name=worker.name.__class__("late"), node=None,
                         phase=Phase.PENDING, index=0),),
        options=(("weight", "99"),),
        created_s=5.0,
    )  # fmt: skip
    cluster.gangs[newcomer.key] = newcomer
    cluster.rest(FREE)
    assert newcomer.key not in cluster.plan.waiting, "a worker's room is enough for it"
    del cluster.gangs[newcomer.key]
    cluster.rest(FREE)
    assert {key: job.workers for key, job in cluster.jobs.items()} == sizes
