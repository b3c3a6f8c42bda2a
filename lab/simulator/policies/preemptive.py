"""Policies that stop running jobs as a whole for others: Tiresias, and the shortest remaining time.

At each look all jobs that have arrived are put in order, and the cluster is given to them from the first on, each at
the size that it asked for; running jobs that get nothing are suspended and wait. Every job may be suspended here,
whatever its owner says, as both methods assume.

- `tiresias`: two levels of attained service (GPU × seconds), first come, first served within each (Gu et al., NSDI
  2019: discretised two-dimensional least attained service, two queues). The threshold is that of the Pollux artifact.
- `srpt`: the shortest remaining time at the size asked for, as if lengths were known: no real queue can do it, so it is
  a bound for the mean.
"""

from collections.abc import Callable
from typing import TypeAlias

import numpy as np

from lab.simulator.actions import Action, Advice, Deciding, Place, Suspend
from lab.simulator.policies.spread import Room, slots_of, whole
from lab.simulator.state import JobState, State
from scoring.model import Role
from scoring.network.matrix import Ints

THRESHOLD_S = 16 * 3600.0
"""Attained service in GPU seconds from which a job is of the second level."""

Rank: TypeAlias = Callable[[JobState, float], tuple[float, ...]]
"""Orders jobs; the second argument is the time."""


def by_level(one: JobState, now_s: float) -> tuple[float, ...]:
    """Level, then first come, first served."""
    return (float(one.attained_s(now_s) >= THRESHOLD_S), one.job.arrival_s, one.number)


def by_remaining(one: JobState, now_s: float) -> tuple[float, ...]:
    """Seconds of training that are left on the workers asked for."""
    trained = one.trained + (one.rate * (now_s - one.since_s) if one.training else 0.0)
    return (one.job.work.samples - trained, one.job.arrival_s, one.number)


class Preemptive(Deciding):
    """The first jobs of an order run, all others wait."""

    def __init__(self, name: str, rank: Rank, *, levels: bool = False) -> None:
        """`levels`: the order changes when a job comes to the second level."""
        self.name = name
        self._rank, self._levels = rank, levels
        self._looked_at = (-1, -1.0)

    def decide(self, state: State) -> Advice:
        """Suspend those that are not among the first, and start those that are."""
        now_s = state.now_s
        if self._looked_at == (state.changes, now_s):
            return Advice((), wake_s=self._next_level_s(state))
        left = state.table.allocatable.sum(axis=0)
        first: list[JobState] = []
        for one in sorted(state.jobs().values(), key=lambda one: self._rank(one, now_s)):
            needs = _needs(state, one)
            if needs is not None and (needs <= left).all():
                left = left - needs
                first.append(one)
        chosen = {one.job.name for one in first}
        actions: list[Action] = [Suspend(name) for name in state.running if name not in chosen]
        room = Room(state)
        for name in state.running.keys() - chosen:
            one = state.running[name]
            for role, rows in ((Role.PS, one.ps), (Role.WORKER, one.workers)):
                vector = state.vector(one, role)
                for row in rows.values():
                    assert vector is not None
                    room.give_back(vector, row)
        actions += [
            Place(one.job.name, put)
            for one in first
            if one.job.name in state.waiting and (put := whole(room, state, one, slots_of(one))) is not None
        ]
        self._looked_at = (state.changes, now_s)
        return Advice(actions, settled=True, wake_s=self._next_level_s(state))

    def _next_level_s(self, state: State) -> float | None:
        """When the first running job comes to the second level."""
        found = [
            state.now_s + (THRESHOLD_S - done) / len(one.workers)
            for one in state.running.values()
            if (done := one.attained_s(state.now_s)) < THRESHOLD_S
        ]
        return min(found, default=None) if self._levels else None


def _needs(state: State, one: JobState) -> Ints | None:
    """All that the job asked for, over the table's axis; `None`: some pod fits no node."""
    total = np.zeros(len(state.table.axis), dtype=np.int64)
    for role, count in ((Role.WORKER, one.job.workers), (Role.PS, one.job.ps_count)):
        vector = state.vector(one, role)
        if count and vector is None:
            return None
        total = total if vector is None else total + vector * count
    return total
