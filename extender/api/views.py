"""The documents behind /v1 and /readyz: read-only looks at the service."""

from collections import Counter
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass
from functools import partial
from statistics import fmean
from typing import Final

import msgspec
from msgspec import UNSET
from msgspec.structs import asdict, replace

from extender import schemas
from extender.api.network import USUAL_NODES, link_document, network_document
from extender.api.what_if import WhatIfs
from extender.controllers.context import ControllerContext
from extender.controllers.elastic.records import JobView, Records, Resize
from extender.controllers.elastic.reports import Reports, find_jobs
from extender.controllers.events.mistakes import UnreadableWords
from extender.controllers.events.nodes import NetworkAlarms
from extender.controllers.events.waiting import ExpectedStarts
from extender.controllers.owners import OwnerReader, kept_notes
from extender.decision_log import Recorder
from extender.network.mapping import MOST_NAMED
from extender.network.refresh import NetworkRefresh
from extender.runtime.decision_lines import RecentDecisions
from extender.runtime.slices import next_slice
from extender.scheduling.held_binds import Binds
from extender.scheduling.planner_loop import Planner
from scoring import GangKey, JobKey, NodeName
from scoring.explain.advice import not_planned
from scoring.explain.gang import explain, wants_nodes
from scoring.explain.queue_report import planned_gangs, report
from scoring.explain.words import NETWORK_UNKNOWN, counted, expected_text, near_names
from scoring.model import Gang, Pod, Snapshot
from scoring.model.gang import gang_key
from scoring.plan import Run, begin_run, take_commitments
from scoring.queue.states import JobState
from scoring.records import Explained, PlanInForce, Queue, QueuedGang
from scoring.scaling.shrink import link_points

MOST_JOBS: Final = 1000
USUAL_JOBS: Final = 200
STALE_S: Final = 300.0
"""Age of the last word about a kind of objects from which `/readyz` says no. An idle watch brings a bookmark about once
a minute; one that was silent for 120 s is opened again: below 180 an idle cluster could look stale."""


class _Moment(msgspec.Struct, frozen=True):
    now_s: float
    snapshot: Snapshot
    run: Run
    entries: Mapping[GangKey, QueuedGang]


class JobsView(msgspec.Struct, frozen=True):
    """The jobs of a running service."""

    planner: Planner
    records: Records
    reports: Reports

    async def listed(self, *, namespace: str | None = None, limit: int = USUAL_JOBS) -> schemas.JobList:
        """All jobs by name, the first `limit` in short, of one moment. Cost: as the queue, and O(nodes) a job."""
        moment = await self._moment()
        views = sorted(
            (view for key, view in self.records.views.items() if namespace in (None, key.namespace)),
            key=lambda view: view.job.key,
        )
        verdict = self.records.verdict
        shown = []
        for number, view in enumerate(views[:limit], start=1):
            shown.append(self._short(view, moment))
            if number % 4 == 0:  # the links of each are looked up
                await next_slice()
        return schemas.JobList(
            at_s=moment.now_s,
            counts=dict(sorted(Counter(_state(view, moment) for view in views).items())),
            first_waiting=schemas.FirstWaiting(verdict.beneficiary, verdict.reason, verdict.detail),
            jobs=tuple(shown),
            of=len(views),
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
        return _Moment(now_s, snapshot, run, {entry.gang: entry for entry in queue.gangs})

    def _short(self, view: JobView, moment: _Moment) -> schemas.Job:
        job, key, entry = view.job, view.job.key, moment.entries.get(view.job.gang)
        gang = moment.snapshot.gangs.get(job.gang)
        changes = self.records.changes_of(job.uid)
        last = self.reports.last(key, job.uid)
        age_s = round(max(moment.now_s - last.time_s, 0.0), 3) if last is not None else 0.0
        index, nodes = moment.snapshot.table.index, moment.snapshot.table.nodes
        placed = Counter(pod.node for pod in (gang.placed if gang is not None else ()) if pod.node is not None)
        demand = self.reports.demand(job) if view.elastic else None
        demanded = () if demand is None else (demand.workers, str(demand.reason), demand.detail)
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
            metrics=schemas.MetricsDemand(job.wants.value, *demanded) if view.elastic else None,
            reported=None if last is None else schemas.LastReport(**asdict(last), age_s=age_s),
            last_change=_change(changes[-1]) if changes else None,
        )

    def _long(self, view: JobView, moment: _Moment) -> schemas.JobInFull:
        job, gang = view.job, moment.snapshot.gangs.get(view.job.gang)
        points = self.reports.points(job.key, job.uid)
        return schemas.JobInFull(
            **asdict(self._short(view, moment)),
            uid=job.uid,
            pods={str(pod.name): pod.node for pod in gang.members} if gang is not None else {},
            changes=tuple(_change(change) for change in self.records.changes_of(job.uid)),
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


@dataclass(frozen=True, slots=True)
class Views:
    """What the service shows."""

    context: ControllerContext
    planner: Planner
    binds: Binds
    _: KW_ONLY
    jobs: JobsView | None
    recorder: Recorder | None
    sync: Callable[[], dict[str, schemas.Watch]]  # kind → how its reflector does
    refresh: NetworkRefresh | None  # `None`: there are no sources
    alarms: NetworkAlarms
    probe_agents: Callable[[], schemas.ProbeAgents | None]  # `None`: the probe is off, or this replica does not lead
    leadership: Callable[[], schemas.Standing] | None  # How the election stands; `None`: there is none
    repair: Callable[[GangKey], str]  # What is wrong with a gang that lost members; empty: nothing
    preemption_blocked: Callable[[GangKey], str | None]
    recent: RecentDecisions
    what_ifs: WhatIfs
    circumstances: Callable[[Gang], Awaitable[tuple[str, ...]]]
    unreadable_objects: UnreadableWords
    ignored_notes: Callable[[Gang], tuple[str, ...]]
    owners: OwnerReader
    expected: ExpectedStarts
    started_problem: Callable[[], str]  # Why gangs that have started are not kept; empty: they are
    demo: str  # What this cluster in memory is; empty: a real one

    def plan(self) -> PlanInForce:
        """The current plan."""
        plan = planned_gangs(self.planner.current, self.planner.snapshot or self.context.cache.snapshot())
        commitments = self.context.cache.snapshot().commitments
        return PlanInForce(
            plan.version,
            plan.admitted,
            plan.waiting,
            held_binds=self.binds.held_count,
            committed={key: len(commitment.assignment) for key, commitment in sorted(commitments.items())},
            being_admitted=tuple(sorted(self.binds.admissions.open)),
        )

    async def queue(self) -> Queue:
        """The queue in order."""
        planner = self.planner
        snapshot = planner.snapshot or self.context.cache.snapshot()
        return await planner.ask(
            report, snapshot, planner.current, planner.policy, now_s=planner.now_s, expected=self.expected.of_gang
        )

    async def explain(self, namespace: str, name: str) -> Explained | str:
        """Why the gang so named, or of that pod or job, is where it is; a sentence: netgang plans none, and why."""
        cache, planner = self.context.cache, self.planner
        before, _ = self._named(namespace, name)
        read = await self.circumstances(before) if before is not None else ()
        gang, pods = self._named(namespace, name)  # as it is once the API server has answered
        if gang is None:
            return await self._unplanned(gang_key(namespace, name), pods)
        binds, members = self.binds.state(gang.key), [cache.pod(pod.uid) for pod in gang.pending]
        notes = (*self.unreadable_objects.of_gang(gang.key), *read, *self.ignored_notes(gang))
        notes += self.owners.about(gang.key, gang.members)
        if wants_nodes(planner.current.waiting.get(gang.key)):
            notes += kept_notes(cache.daemon_sets.kept(), now_s=planner.now_s)
        if self.refresh is None:
            notes += (NETWORK_UNKNOWN,)
        explanation = await planner.ask(
            explain,
            cache.snapshot(),
            planner.current,
            gang,
            planner.policy,
            now_s=planner.now_s,
            notes=notes,
            held=tuple(binds.held) if binds is not None else (),
            refusals={pod.uid: pod.refusal for pod in members if pod is not None and pod.refusal},
        )
        start = self.expected.of_gang(gang.key) if gang.key in planner.current.waiting else None
        return replace(
            explanation,
            turn=replace(explanation.turn, ahead=explanation.turn.ahead.first(10)),  # the others are counted
            preemption=replace(explanation.preemption, blocked=self.preemption_blocked(gang.key)),
            decisions=self.recent.of_gang(gang.key),
            expected_start=start and replace(start, text=expected_text(start, now_s=planner.now_s)),
            being_admitted=gang.key in self.binds.admissions.open,
            admission_refused=self.binds.admissions.refusal(gang.key),
            admission_lapses_in_s=self.binds.admissions.lapses_in_s(gang.key),
            repair=self.repair(gang.key),
        )

    def _named(self, namespace: str, name: str) -> tuple[Gang | None, Sequence[Pod]]:
        """The gang of that name, or of that pod or job; and the pods that are meant."""
        cache, key = self.context.cache, gang_key(namespace, name)
        gangs, pod, group = cache.snapshot().gangs, cache.pod_by_name(namespace, name), cache.gangs.groups.get(key)
        if key in gangs:
            return gangs[key], ()
        pods = [pod] if pod is not None else [*group.pods.values()] if group else cache.pods.of_job(JobKey(key))
        of = (gangs.get(pod.group.key) for pod in pods if pod.group is not None)
        return next((gang for gang in of if gang is not None), None), pods

    async def _unplanned(self, key: GangKey, pods: Sequence[Pod]) -> str:
        cache, (namespace, _, name) = self.context.cache, key.partition("/")
        if unreadable := self.unreadable_objects.named(namespace, name):
            return unreadable
        if pods:
            await self.owners.settled(pods[0])
        misplaced = "; ".join(("", *self.owners.about(key, pods)))
        if pods:
            why = not_planned(pods, frozenset(self.what_ifs.settings.scheduler_names))
            return f"netgang plans no gang of {key}: {counted(len(pods), 'pod')} with {why}{misplaced}"
        if key in cache.pod_groups.by_key or key in cache.native_groups.by_key:
            return f"PodGroup {key} exists, and no pod names it"
        near = await self.planner.questions(partial(near_names, key, list(cache.gangs.groups)))
        return f"no gang, job or pod {key} is known{misplaced or near}"

    def network_status(self, *, most: int = MOST_NAMED) -> schemas.SourcesStatus | None:
        """How sources and mapping do, with `most` names of each list; `None`: there are no sources."""
        return self.refresh.status(most=most) if self.refresh is not None else None

    def network(self, *, zone: str | None = None, limit: int = USUAL_NODES) -> schemas.Network:
        """Sources, mapping and coverage of the network data, and the values between some nodes."""
        snapshot, probe = self.context.cache.snapshot(), self.probe_agents() or UNSET
        degraded = self.alarms.bad_now()
        return network_document(snapshot, self.network_status(), zone=zone, limit=limit, degraded=degraded, probe=probe)

    async def link(self, source: str, target: str) -> schemas.LinkInFull | str:
        """Both directions of the link between two nodes: value, age and source; text: which of them is no node."""
        snapshot = self.context.cache.snapshot()
        unknown = next((name for name in (source, target) if name not in snapshot.table.index), None)
        if unknown is None:
            return link_document(snapshot, NodeName(source), NodeName(target), self.planner.policy.score)
        names = [f"the cluster/{name}" for name in snapshot.table.names]
        near = await self.planner.questions(partial(near_names, f"the cluster/{unknown}", names, "nodes"))
        return f"no node {unknown} is known{near}"

    def readiness(self) -> schemas.Readiness:
        """Ready once every kind that decides was read (or is absent) and planned from, and while it is followed."""
        sync = self.sync()
        reasons = [f"{kind} are not read yet" for kind, watch in sync.items() if not watch.synced]
        reasons.extend(
            f"{kind} are out of step: nothing heard for {age_s:.0f} s ({watch.last_error or 'no error'})"
            for kind, watch in sync.items()
            if watch.synced and (age_s := watch.contact_age_s or 0.0) >= STALE_S
        )
        if not reasons and self.planner.snapshot is None:
            reasons.append("the first plan is not made yet")
        network = self.network_status(most=10)
        if network is not None and network.crash is not None:  # failing sources alone do not make it unready
            reasons.append(f"reading network data failed inside: {network.crash}")
        probe, problem, started = self.probe_agents() or UNSET, self.context.notes.problem, self.started_problem()
        sources = UNSET if network is None else schemas.NetworkSources(network.sources, network.mapping or UNSET, probe)
        detail = schemas.PartStates(
            sync=sync,
            cache=self.context.cache.sizes(),
            notes=f"no gang is suspended and no job resized: {problem}" if problem else UNSET,
            started=f"the next netgang would not know which gangs have started: {started}" if started else UNSET,
            leadership=self.leadership() if self.leadership is not None else UNSET,
            network=sources,
        )
        return schemas.Readiness(ready=not reasons, reasons=tuple(reasons), detail=detail)
