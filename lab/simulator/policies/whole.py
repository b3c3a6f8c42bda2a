"""Gangs that start whole and keep their workers: coscheduling's first come first served, and the shortest first.

A gang that does not fit is passed over, and others behind it are tried (as the coscheduling plugin does after it has
rejected one); its pods are spread as by the default scheduler. `shortest-first` knows how long each job will run, as no
real queue does: it is a bound for the mean, and unfair to long jobs.
"""

from collections.abc import Callable

from lab.simulator.actions import Action, Advice, Place
from lab.simulator.model import SimJob
from lab.simulator.policies.spread import Room, slots_of, whole
from lab.simulator.speed import profile_of
from lab.simulator.speed.rate import GPU
from lab.simulator.state import JobState, State
from scoring.model.resources import CPU

Turn = Callable[[JobState], tuple[float, ...]]


def by_arrival(one: JobState) -> tuple[float, ...]:
    """Higher priority first, then first come, first served."""
    return (-one.job.priority, one.job.arrival_s, one.number)


def by_length(one: JobState) -> tuple[float, ...]:
    """Higher priority first, then the one that needs least compute time with all its workers."""
    work, job = one.job.work, one.job
    step_s = profile_of(work.model).compute_s(work.batch, cores=job.worker.get(CPU) / 1000.0, gpus=job.worker.get(GPU))
    return (-job.priority, work.samples / work.batch * step_s / job.workers, one.number)


class Whole:
    """All of a job's pods or none, in the order of `turn`."""

    elastic = False

    def __init__(self, name: str, turn: Turn) -> None:
        self.name = name
        self._turn = turn
        self._turns: dict[str, tuple[float, ...]] = {}
        self._looked_at = -1

    def wanted(self, job: SimJob) -> int:
        """All that it asked for."""
        return job.workers

    def decide(self, state: State) -> Advice:
        """Start every job that fits."""
        if self._looked_at == state.changes:
            return Advice()
        room = Room(state)
        actions: list[Action] = []
        refused: set[tuple[object, ...]] = set()
        for one in sorted(state.waiting.values(), key=self._key):
            job = one.job
            kind = (id(job.worker), job.workers, id(job.ps), job.ps_count, job.zones)
            if kind in refused:
                continue
            put = whole(room, state, one, slots_of(one))
            if put is None:
                refused.add(kind)  # room only shrinks, so another one of its kind does not fit either
            else:
                actions.append(Place(job.name, put))
                self._turns.pop(job.name, None)
        self._looked_at = state.changes + len(actions)
        return Advice(actions)

    def _key(self, one: JobState) -> tuple[float, ...]:
        found = self._turns.get(one.job.name)
        if found is None:
            found = self._turns[one.job.name] = self._turn(one)
        return found
