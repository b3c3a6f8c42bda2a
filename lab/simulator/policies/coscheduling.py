"""Gangs that start whole and keep their workers, first come, first served, as the coscheduling plugin starts them.

A gang that does not fit is passed over, and others behind it are tried; pods are spread as by the default scheduler.
"""

from lab.simulator.actions import Action, Advice, Deciding, Place
from lab.simulator.policies.spread import Room, slots_of, whole
from lab.simulator.state import State


class Coscheduling(Deciding):
    """All of a job's pods or none."""

    name = "coscheduling"

    def __init__(self) -> None:
        self._looked_at = -1

    def decide(self, state: State) -> Advice:
        """Start every job that fits."""
        if self._looked_at == state.changes:
            return Advice()
        room = Room(state)
        actions: list[Action] = []
        refused: set[tuple[object, ...]] = set()
        for one in sorted(state.waiting.values(), key=lambda one: (one.job.arrival_s, one.number)):
            job = one.job
            kind = (id(job.worker), job.workers, id(job.ps), job.ps_count)
            if kind in refused:
                continue
            put = whole(room, state, one, slots_of(one))
            if put is None:
                refused.add(kind)  # room only shrinks, so another one of its kind does not fit either
            else:
                actions.append(Place(job.name, put))
        self._looked_at = state.changes + len(actions)
        return Advice(actions)
