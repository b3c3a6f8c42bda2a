"""What a run used: integrals over time, and the result that is made of them and of the jobs' stories."""

from collections.abc import Sequence

import numpy as np

from lab.simulator.model import JobOutcome, RunResult, Scenario
from scoring.model.resources import CPU, PODS
from scoring.model.snapshot import NodeTable
from scoring.network.matrix import Floats, Ints


class Account:
    """Requested resources and busy cores, summed over the time since the first arrival."""

    def __init__(self, scenario: Scenario, table: NodeTable) -> None:
        self._table = table
        self.begin_s = min((job.arrival_s for job in scenario.jobs), default=0.0)
        self._requested: Floats = np.zeros(len(table.axis))
        """Now, over the table's axis"""
        self._requested_s: Floats = np.zeros(len(table.axis))
        self._busy_s = 0.0

    def take(self, vector: Ints) -> None:
        """A pod has a node from now on."""
        self._requested += vector

    def give_back(self, vector: Ints) -> None:
        """A pod has left its node."""
        self._requested -= vector

    def pass_by(self, from_s: float, to_s: float, *, busy_cores: float) -> None:
        """Nothing changes between these moments."""
        past_s = to_s - max(from_s, self.begin_s)
        if past_s > 0.0:
            self._requested_s += self._requested * past_s
            self._busy_s += busy_cores * past_s

    def result(self, policy: str, outcomes: Sequence[JobOutcome], *, end_s: float) -> RunResult:
        """The run's result, up to `end_s`."""
        table = self._table
        totals = table.allocatable.sum(axis=0) * max(end_s - self.begin_s, 1e-9)
        requested = {
            str(name): float(self._requested_s[i] / totals[i])
            for i, name in enumerate(table.axis)
            if totals[i] and name != PODS
        }
        cores_s = float(totals[table.axis.index(CPU)]) / 1000.0 if CPU in table.axis else 0.0
        return RunResult(
            policy=policy,
            outcomes=tuple(outcomes),
            makespan_s=end_s,
            requested_ratio=requested,
            busy_cpu_ratio=self._busy_s / cores_s if cores_s else 0.0,
        )
