"""The documents behind /v1/jobs, of one moment: from the controller's records, the queue, the plan and the reports."""

from collections import Counter
from collections.abc import Mapping, Sequence
from statistics import fmean
from typing import Final

import msgspec
from msgspec.structs import asdict

from extender import schemas
from extender.controllers.elastic.records import JobView, Records, Resize
from extender.controllers.elastic.reports import ReportBook, find_jobs
from extender.runtime.slices import next_slice
from extender.scheduling.planner_loop import Planner
from scoring.explain.queue_report import QueuedGang, report
from scoring.ids import GangKey
from scoring.model import Snapshot
from scoring.plan import Run, begin_run, take_commitments
from scoring.queue.states import JobState
from scoring.scaling.shrink import link_points

MOST_JOBS: Final = 1000
USUAL_JOBS: Final = 200


class _Moment(msgspec.Struct, frozen=True):
    now_s: float
    snapshot: Snapshot
    run: Run
    entries: Mapping[GangKey, QueuedGang]


class JobsView(msgspec.Struct, frozen=True):
    """The jobs of a running service."""

    planner: Planner
    records: Records
    book: ReportBook

    async def listed(self, *, namespace: str | None = None, limit: int = USUAL_JOBS) -> schemas.JobList:
        """All jobs by name, the first `limit` in short, of one moment. Cost: as the queue, and O(nodes) a job."""
        moment = await self._moment()
        found = sorted(
            (view for key, view in self.records.views.items() if namespace in (None, key.namespace)),
            key=lambda view: view.job.key,
        )
        verdict = self.records.verdict
        shown = []
        for number, view in enumerate(found[:limit], start=1):
            shown.append(self._short(view, moment))
            if number % 4 == 0:  # the links of each are looked up
                await next_slice()
        return schemas.JobList(
            at_s=moment.now_s,
            counts=dict(sorted(Counter(_state(view, moment) for view in found).items())),
            first_waiting=schemas.FirstWaiting(verdict.beneficiary, verdict.reason, verdict.detail),
            jobs=tuple(shown),
            of=len(found),
        )

    async def job(self, namespace: str, name: str, *, kind: str | None = None) -> Sequence[schemas.JobInFull]:
        """Everything about the jobs of this name, nearly always one; empty: none is known."""
        views = find_jobs(self.records.views, namespace, name, kind=kind)
        moment = await self._moment()
        return [self._long(view, moment) for view in views]

    async def _moment(self) -> _Moment:
        planner, now_s = self.planner, self.planner.now_s
        snapshot = planner.snapshot or planner.cluster.snapshot()
        queue = await planner.ask(report, snapshot, planner.current, planner.policy, now_s=now_s)
        run = begin_run(snapshot, planner.policy, planner.cache)
        take_commitments(run)
        return _Moment(now_s, snapshot, run, {one.gang: one for one in queue.gangs})

    def _short(self, view: JobView, moment: _Moment) -> schemas.Job:
        job, key, entry = view.job, view.job.key, moment.entries.get(view.job.gang)
        gang = moment.snapshot.gangs.get(job.gang)
        changes = self.records.changes_of(job.uid)
        last = self.book.last(key, job.uid)
        age_s = round(max(moment.now_s - last.time_s, 0.0), 3) if last is not None else 0.0
        index, nodes = moment.snapshot.table.index, moment.snapshot.table.nodes
        placed = Counter(pod.node for pod in (gang.placed if gang is not None else ()) if pod.node is not None)
        demand = self.book.demand(job) if view.elastic else None
        said = () if demand is None else (demand.workers, str(demand.reason), demand.detail)
        zones = {str(nodes[index[node]].zone) for node in placed if node in index}
        links = link_points(moment.run, gang, sorted(placed)).values() if gang is not None else ()
        return schemas.Job(
            job=f"{key.namespace}/{key.name}",
            kind=key.kind,
            state=_state(view, moment),
            gang=job.gang or None,
            weight=entry.weight if entry is not None else None,
            workers=schemas.Workers(
                now=job.workers, min=job.min_workers, max=job.max_workers, min_from=view.seen.bounds.source or None
            ),
            placement=schemas.Placement(zones=tuple(sorted(zones)), nodes=dict(sorted(placed.items()))),
            network=round(fmean(links), 3) if links else None,
            refusal=job.refusal,
            wish=view.wish,
            metrics=schemas.MetricsDemand(job.wants.value, *said) if view.elastic else None,
            reported=None if last is None else schemas.LastReport(**asdict(last), age_s=age_s),
            last_change=_change(changes[-1]) if changes else None,
        )

    def _long(self, view: JobView, moment: _Moment) -> schemas.JobInFull:
        job, gang = view.job, moment.snapshot.gangs.get(view.job.gang)
        points = self.book.points(job.key, job.uid)
        return schemas.JobInFull(
            **asdict(self._short(view, moment)),
            uid=job.uid,
            pods={str(pod.name): pod.node for pod in gang.members} if gang is not None else {},
            changes=tuple(_change(one) for one in self.records.changes_of(job.uid)),
            points=schemas.Points(kept=len(points), last=tuple(points[-20:])),
        )


def _state(view: JobView, moment: _Moment) -> str:
    """As the queue has it, which knows STARVING; jobs that netgang does not queue by their pods."""
    entry = moment.entries.get(view.job.gang)
    return view.rough_state if entry is None or view.rough_state is JobState.COMPLETED else entry.state


def _change(change: Resize) -> schemas.WorkerChange:
    intent, times = change.intent, (change.gone_s, change.ended_s, change.took_s, change.lost_pod_s)
    decided = (intent.before, intent.goal, intent.requester.value, intent.why, intent.beneficiary)
    return schemas.WorkerChange(*decided, change.stage.value, intent.at_s, *times)
