"""How fast the running jobs train, kept up to date as pods come and go.

Rule: a job's speed changes only with its own pods and with what shares its nodes, so only jobs on the rows of a change
are looked at again; whoever's speed changes is settled first, so that nothing is trained at the wrong rate.
"""

from collections.abc import Callable, Iterable

from lab.simulator.speed.rate import Crowd, speed_of, talks
from lab.simulator.state import JobState, State
from scoring.model.pod import CPU


class Pace:
    """Speeds, talkers and the cores that are busy."""

    def __init__(self, state: State, *, retime: Callable[[JobState], None]) -> None:
        """`retime` is called with each training job whose end has moved."""
        self._state, self._retime = state, retime
        table = state.table
        self._cpu = table.axis.index(CPU) if CPU in table.axis else None
        self._talkers = [0] * len(table.nodes)
        """row → pods on it that talk to other nodes"""
        self._talking: dict[str, tuple[int, ...]] = {}
        """job → rows of its pods that talk to other nodes"""
        self.busy_cores = 0.0
        """Of all jobs that train now."""

    def settle(self, one: JobState) -> None:
        """Bring what the job has trained and used up to now."""
        now_s = self._state.now_s
        one.worker_s += len(one.workers) * (now_s - one.workers_since_s)
        one.workers_since_s = now_s
        if one.training:
            one.trained = min(one.trained + one.rate * (now_s - one.since_s), one.job.work.samples)
        one.since_s = now_s

    def start(self, one: JobState) -> None:
        """The job trains from now on."""
        one.training, one.since_s = True, self._state.now_s
        self.busy_cores += one.busy_cores

    def stop(self, one: JobState) -> None:
        """The settled job does not train any more."""
        self.busy_cores -= one.busy_cores if one.training else 0.0
        one.training = False

    def moved(self, one: JobState, rows: Iterable[int]) -> None:
        """The job's pods are where they are now; `rows`: where any came or went. Cost: O(pods of jobs on its nodes)."""
        for row in self._talking.get(one.job.name, ()):
            self._talkers[row] -= 1
        self._talking[one.job.name] = found = talks(one.placement)
        for row in found:
            self._talkers[row] += 1
        self.refresh({*rows, *one.ps.values(), *one.workers.values()})

    def gone(self, one: JobState, rows: Iterable[int]) -> None:
        """The job's pods have left these rows."""
        for row in self._talking.pop(one.job.name, ()):
            self._talkers[row] -= 1
        self.refresh(rows)

    def refresh(self, rows: Iterable[int]) -> None:
        """Speeds of all jobs with pods on these rows."""
        for name in sorted({name for row in rows for name in self._state.on_node[row]}):
            one = self._state.running.get(name)
            if one is not None:
                self._speed(one)

    def _speed(self, one: JobState) -> None:
        placement = one.placement
        rows = {*placement.ps, *placement.workers}
        cpu, used, total = self._cpu, self._state.used, self._state.table.allocatable
        ratios = {row: float(used[row, cpu] / total[row, cpu]) for row in rows} if cpu is not None else {}
        speed = speed_of(one.job, placement, Crowd({row: self._talkers[row] for row in rows}, ratios))
        one.step_samples = speed.step_samples
        if speed.samples_per_s == one.rate and speed.busy_cores == one.busy_cores:
            return
        self.settle(one)
        if one.training:
            self.busy_cores += speed.busy_cores - one.busy_cores
        one.rate, one.busy_cores = speed.samples_per_s, speed.busy_cores
        if one.training:
            self._retime(one)
