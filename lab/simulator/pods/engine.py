"""Let a scenario's jobs arrive in a simulated cluster, and report their outcomes.

Rule: the run ends with its last job, where the scenario is cut, or when nothing has happened for
`Options.stuck_s` and no job trains: then a gang that uses room without its minimum is deadlocked.
"""

import asyncio
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field

from extender.settings.settings import Settings
from lab.simulator.model import Fate, JobOutcome, RunResult, Scenario
from lab.simulator.pods.cluster import Cluster, stream
from lab.simulator.pods.jobs import Habits, Jobs
from lab.simulator.pods.kube_scheduler.scheduler import SECOND, SchedulerProfile
from lab.simulator.pods.objects import Dialect, member_name
from lab.simulator.pods.record import JobRecord, Meter, PodRun
from lab.simulator.pods.sharing import Sharing
from lab.simulator.pods.training import Story, Training, constant, since
from lab.simulator.pods.virtual_time import Latencies, run_virtual
from scoring.model.resources import CPU, NO_RESOURCES, Resources

_POLICIES = {(True, False): "netgang", (False, True): "coscheduling", (False, False): "default"}
"""(extender, gang plugin) → what results call it"""


@dataclass(frozen=True, slots=True)
class Options:
    """How a scenario is run; what is not said is as in an installed cluster."""

    latencies: Latencies = field(default_factory=Latencies)
    training: Training = field(default_factory=constant)
    sharing: Sharing | None = None
    """Of this run: kept up to date, for a `training` that reads its crowd."""
    dialect: Dialect | None = None
    """`None`: gangs are said in labels, and under kube-scheduler alone not at all."""
    gated: bool = False
    """Pods wait at the scheduling gate, as the admission policy would have them."""
    stuck_s: float = 1800.0
    progress: Callable[[int, int], None] = lambda done, jobs: None
    """Called for each job that ends: how many have, of how many."""


class _Run:
    """One scenario in one cluster."""

    def __init__(self, cluster: Cluster, scenario: Scenario, habits: Habits, options: Options, seed: int) -> None:
        self._cluster = cluster
        self._scenario = scenario
        self._options = options
        self._meter = Meter()
        rng = stream(seed, "jobs")
        self.jobs = Jobs(
            cluster.store,
            options.latencies,
            rng,
            habits,
            options.training,
            self._meter,
            ended=self._job_ended,
            sharing=options.sharing,
        )
        self._ended: dict[str, Story] = {}
        """namespace/name → a story that is over"""
        self._all_ended = asyncio.Event()
        self._arrived = False
        self.zero_s = 0.0

    async def play(self) -> None:
        """Let the jobs arrive, and wait for the end."""
        self.jobs.start()
        self.zero_s = asyncio.get_running_loop().time()
        if not self._scenario.jobs:
            return
        until_s = self._scenario.until_s
        cut = asyncio.timeout_at(self.zero_s + until_s if until_s is not None else None)
        with suppress(TimeoutError):
            async with cut:
                for job in sorted(self._scenario.jobs, key=lambda one: one.arrival_s):
                    await asyncio.sleep(max(self.zero_s + job.arrival_s - asyncio.get_running_loop().time(), 0.0))
                    self.jobs.submit(job)
                self._arrived = True
                await self._until_over()

    def result(self, policy: str, seed: int) -> PodRun:
        """The jobs' outcomes."""
        end_s = self._end_s()
        self.jobs.close()
        open_ = {f"{one.job.namespace}/{one.job.name}": one for one in self.jobs.stories}
        stories = [
            self._ended.get(key) or open_.get(key)
            for key in (f"{job.namespace}/{job.name}" for job in self._scenario.jobs)
        ]
        outcomes = [
            JobOutcome(job, Fate.NEVER_STARTED, None, None, None)
            if story is None
            else story.outcome(self._fate(story), zero_s=self.zero_s)
            for job, story in zip(self._scenario.jobs, stories, strict=True)
        ]
        first_s = self.zero_s + min((job.arrival_s for job in self._scenario.jobs), default=0.0)
        capacity = sum((node.allocatable for node in self._scenario.nodes), NO_RESOURCES)
        record, api = self._cluster.record, self._cluster.api
        result = RunResult(
            scenario=self._scenario.name,
            policy=policy,
            seed=seed,
            outcomes=tuple(outcomes),
            makespan_s=since(end_s, self.zero_s) or 0.0,
            requested_ratio=self._meter.ratios(capacity, from_s=first_s, to_s=end_s),
            busy_cpu_ratio=_busy(stories, capacity, span_s=end_s - first_s),
            decisions=record.asked["filter"],
        )
        listed = tuple(
            _job_record(outcome, story, self.zero_s) for outcome, story in zip(outcomes, stories, strict=True)
        )
        return PodRun(
            result,
            listed,
            asked=dict(record.asked),
            tries=dict(record.tries),
            calls=dict(api.calls),
            pods=self.jobs.made,
            virtual_s=since(asyncio.get_running_loop().time(), 0.0) or 0.0,
        )

    async def _until_over(self) -> None:
        """All jobs have ended, or nothing goes on."""
        while self.jobs.stories:
            self._all_ended.clear()
            with suppress(TimeoutError):
                async with asyncio.timeout(self._options.stuck_s):
                    await self._all_ended.wait()
                continue
            quiet_s = asyncio.get_running_loop().time() - self.jobs.changed_s
            if quiet_s >= self._options.stuck_s and not any(story.timer for story in self.jobs.stories):
                return

    def _job_ended(self, story: Story) -> None:
        self._ended[f"{story.job.namespace}/{story.job.name}"] = story
        self._options.progress(len(self._ended), len(self._scenario.jobs))
        if not self.jobs.stories:
            self._all_ended.set()

    def _end_s(self) -> float:
        """End of the last job, or where the run was cut or found stuck."""
        if self._arrived and not self.jobs.stories:
            return max((story.ended_s or self.zero_s for story in self._ended.values()), default=self.zero_s)
        return asyncio.get_running_loop().time()

    def _fate(self, story: Story) -> Fate:
        if story.ended_s is not None:
            return Fate.COMPLETED
        cut = self._scenario.until_s is not None and not self._arrived
        if story.started_s is None and story.first_pod_s is not None and not cut:
            return Fate.DEADLOCKED
        return Fate.NEVER_STARTED if story.first_pod_s is None else Fate.UNFINISHED


def record(
    scenario: Scenario,
    *,
    settings: Settings | None = None,
    seed: int | None = None,
    scheduler: SchedulerProfile = SECOND,
    options: Options | None = None,
) -> PodRun:
    """Simulate the scenario pod by pod: the result, and where each pod was and when.

    `seed` is the scenario's own unless another one is given. Same arguments, same bytes.
    """
    options, chosen = options or Options(), scenario.seed if seed is None else seed
    settings = settings if settings is not None else Settings(scheduler_names=(scheduler.name,))
    ganged = scheduler.extender or scheduler.gangs
    dialect = options.dialect or (Dialect.LABELS if ganged else Dialect.NONE)
    habits = Habits(scheduler.name, dialect, gated=options.gated, elastic=settings.elastic.enabled)

    async def whole() -> PodRun:
        cluster = Cluster(settings, [scheduler], options.latencies, chosen, scenario)
        playing = _Run(cluster, scenario, habits, options, chosen)
        async with cluster.running():
            await playing.play()
            return playing.result(_POLICIES[scheduler.extender, scheduler.gangs], chosen)

    return run_virtual(whole())


def _busy(stories: Sequence[Story | None], capacity: Resources, *, span_s: float) -> float:
    cores_s = capacity.get(CPU) / 1000.0 * span_s
    return sum(story.busy_core_s for story in stories if story is not None) / cores_s if cores_s > 0.0 else 0.0


def _job_record(outcome: JobOutcome, story: Story | None, zero_s: float) -> JobRecord:
    placed = {
        member_name(outcome.job, role, index): (node, round(at_s - zero_s, 6))
        for (role, index), (node, at_s) in (sorted(story.was_bound.items()) if story is not None else ())
    }
    return JobRecord(outcome.job.name, outcome.fate, outcome.job.arrival_s, outcome.started_s, outcome.ended_s, placed)
