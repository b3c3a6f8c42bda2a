"""What is known of how long jobs run: what their users say, or what is learned from former runs.

Why: back-fill by end times is as good as the lengths that it is given. Users say it exactly, two to five times too long
(their estimates are a small multiple of the run time: Mu'alem and Feitelson 2001), or only half of them say it. Rules:
what one job's user says depends on the seed, not on the policy nor on other jobs. What is learned is what netgang
learns: by the job's name without its number, and by what it runs (application, batch size, workers); of a recorded job
without an application nothing is learned.
"""

from collections.abc import Callable
from random import Random
from typing import Final, TypeAlias

from lab.simulator.model import SimJob
from lab.simulator.state import State
from lab.simulator.summary import alone_s
from scoring.lengths import Length, LengthSource, exact
from scoring.lengths.fingerprint import Fingerprint, fingerprint
from scoring.lengths.former_runs import FormerRuns, Run

Lengths: TypeAlias = Callable[[SimJob], Length | None]
"""The length of a job that is known; `None`: nothing is"""

_FACTORS: Final = (2.0, 5.0)


def true_length(job: SimJob) -> Length | None:
    """The run time with all workers on one node."""
    return exact(alone_s(job), LengthSource.DECLARED)


def too_long(seed: int) -> Lengths:
    """Two to five times that, drawn for each job."""

    def said(job: SimJob) -> Length:
        factor = Random(f"{seed} {job.name}").uniform(*_FACTORS)  # noqa: S311 - drawn workloads, no secrets
        return exact(alone_s(job) * factor, LengthSource.DECLARED)

    return said


def of_half(seed: int) -> Lengths:
    """The truth of one job in two, drawn for each."""

    def said(job: SimJob) -> Length | None:
        return true_length(job) if Random(f"{seed} {job.name}").random() < 0.5 else None  # noqa: S311 - as above

    return said


class Learned:
    """Lengths from the jobs of this simulation that have ended."""

    def __init__(self) -> None:
        self._former = FormerRuns()
        self._running: dict[str, tuple[SimJob, float]] = {}  # job that ran when it was looked → since when, seconds

    def length(self, job: SimJob) -> Length | None:
        """What former runs of such a job show."""
        known = _fingerprint(job)
        return self._former.length(known) if known is not None else None

    def look(self, state: State) -> None:
        """Record the runs that have ended since the last time; suspended ones have not."""
        for name in [name for name in self._running if name not in state.running]:
            job, since_s = self._running.pop(name)
            known = _fingerprint(job)
            if known is not None and name not in state.waiting:
                self._former.record(known, Run(round(state.now_s - since_s), round(state.now_s)))
        for name, one in state.running.items():
            if one.ran_since_s is not None:
                self._running[name] = one.job, one.ran_since_s


def _fingerprint(job: SimJob) -> Fingerprint | None:
    if job.work.recorded is not None and not job.work.batch:
        return None
    return fingerprint(job.namespace, "TFJob", job.name, f"{job.work.model} {job.work.batch} {job.workers}")
