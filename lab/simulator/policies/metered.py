"""netgang with jobs that report: worker counts follow their steps or their loss (PAPERS E2).

Reports are made every ten steps, as in E1, from what the engine says the job has trained; the demands come from
`scoring.scaling.metrics`, and whether they are granted is decided as everywhere. Rule: a report that the job
makes again after it went back to a checkpoint has the loss of that checkpoint's training, not a new one.
"""

from random import Random

import msgspec
from msgspec.structs import replace

from lab.simulator.actions import Advice
from lab.simulator.gangs import elastic_job
from lab.simulator.policies.planned import Planned
from lab.simulator.speed.loss import LossModel
from lab.simulator.state import JobState, State
from scoring.model.policy import Policy
from scoring.records import Point
from scoring.scaling.job import JobKey, Options, ReportHistory, Wants
from scoring.scaling.metrics import WorkerDemand, worker_demand

_REPORT_STEPS = 10
_LOOK_S = 10.0  # How often reports are read
_NOISE = 0.01
"""Standard deviation of a reported loss, as share of it."""


class Reports(msgspec.Struct):
    """What one job has reported."""

    history: ReportHistory = msgspec.field(default_factory=ReportHistory)
    demand: WorkerDemand | None = None
    marks: list[tuple[float, int, float]] = []
    """(samples, steps, loss) at each report"""


class Metered(Planned):
    """The planner, the scaling code, and metrics."""

    def __init__(self, wants: Wants, options: Options, *, seed: int = 0) -> None:
        super().__init__(str(wants), Policy(), options)
        self._wants, self._options = wants, options
        self._chance = Random(seed)  # noqa: S311 - noise of measurements
        self.reports: dict[str, Reports] = {}
        self.path: list[int] = []
        """Worker counts that the job had"""
        self.steps, self.loss = 0, 0.0

    def decide(self, state: State) -> Advice:
        """As the planner says; looks again when further reports are due, which are read even if nothing asks."""
        for one in state.running.values():
            if not self.path or self.path[-1] != len(one.workers):
                self.path.append(len(one.workers))
            _, self.steps, self.loss = self.take(state, one).marks[-1]
        advice = super().decide(state)
        if not state.running:
            return replace(advice, settled=False)
        return replace(advice, settled=False, wake_s=min(advice.wake_s or float("inf"), state.now_s + _LOOK_S))

    def wishes(self, state: State, running: list[JobState]) -> dict[JobKey, int]:
        """What the jobs' reports ask for."""
        found: dict[JobKey, int] = {}
        for one in running:
            reports = self.take(state, one)
            job = replace(elastic_job(one), wants=self._wants)
            asked = worker_demand(
                job, reports.history.series(), reports.demand, self._options.metrics, now_s=state.now_s
            )
            reports.demand = asked if asked.workers is not None else reports.demand
            found[job.key] = asked.workers if asked.workers is not None else job.workers
        return found

    def take(self, state: State, one: JobState) -> Reports:
        """What the job has reported up to now. Cost: O(reports since the last look)."""
        reports, now_s = self.reports.setdefault(one.job.name, Reports()), state.now_s
        loss = LossModel(one.job.work.batch, one.job.work.sync)
        if not reports.marks:
            reports.marks.append((0.0, 0, loss.start))
        trained = one.trained + (one.rate * (now_s - one.since_s) if one.training else 0.0)
        trained = min(trained, one.job.work.samples)
        while len(reports.marks) > 1 and reports.marks[-1][0] > trained + 1e-6:
            reports.history.undo(reports.marks.pop()[1])
        if not one.training:
            return reports
        workers, step = len(one.workers), one.step_samples
        samples, steps, value = reports.marks[-1]
        while samples + _REPORT_STEPS * step <= trained + 1e-6:
            samples += _REPORT_STEPS * step
            steps += _REPORT_STEPS
            value = loss.after(value, _REPORT_STEPS * step, workers)
            reports.marks.append((samples, steps, value))
            at_s = now_s - (trained - samples) / one.rate
            said = value * (1.0 + self._chance.gauss(0.0, _NOISE))
            reports.history.add(Point(steps, at_s, said, one.rate, workers=workers))
        return reports
