"""What simulated jobs report of their end: exactly, or, of one job in five, a tenth of what remains.

Rule: as in the service a job has reported once it has run, and what was noted when it was suspended last counts.
"""

from collections.abc import Callable
from typing import Final, TypeAlias

from lab.simulator.state import JobState, State
from scoring.model import Role
from scoring.queue.service_levels import dominant_share

Reports: TypeAlias = Callable[[JobState, State], float | None]
"""Cluster-hours that a job says it will still take; `None`: it has not said"""

_LIARS: Final = 5  # One job in so many lies
_LIE: Final = 0.1  # What it says, as share of the truth


def exact_h(one: JobState, state: State) -> float | None:
    """The truth, at the size that it had when it was suspended."""
    vector = state.vector(one, Role.WORKER)
    if one.left_worker_s is None or vector is None:
        return None
    return one.left_worker_s * dominant_share(vector, state.table.allocatable.sum(axis=0)) / 3600.0


def some_lie_h(one: JobState, state: State) -> float | None:
    """The truth, but of every fifth job."""
    hours = exact_h(one, state)
    return hours * _LIE if hours is not None and lies(one) else hours


def lies(one: JobState) -> bool:
    """Whether this job reports too little."""
    return one.number % _LIARS == 0
