"""Where kube-scheduler puts a pod by default, and gangs that are put there whole.

Rule: on the node with most of its CPU and memory left (NodeResourcesFit, LeastAllocated); ties go to the first node by
name.
"""

from collections.abc import Sequence

import numpy as np

from lab.simulator.actions import Action, Advice, Deciding, Place
from lab.simulator.state import JobState, Slot, State
from scoring.model import Role
from scoring.model.pod import CPU, MEMORY
from scoring.network.matrix import Floats, Ints


class Room:
    """What is left of every node while pods are tried one after another.

    Each kind of pod keeps the nodes' scores from one pod to the next: a pod that is put changes those of one node.
    """

    def __init__(self, state: State) -> None:
        self._free = state.free()
        table = state.table
        self._columns = [table.axis.index(name) for name in (CPU, MEMORY) if name in table.axis]
        self._totals = np.maximum(table.allocatable[:, self._columns], 1)
        self._scores: dict[int, tuple[Ints, Floats]] = {}
        """id of a request's vector → the vector, and (nodes,): the score of each node, −∞ where it does not fit"""

    def put(self, vector: Ints | None) -> int | None:
        """Take room for one pod on the emptiest node. `None`: it fits nowhere. Cost: O(nodes)."""
        if vector is None:
            return None
        known = self._scores.get(id(vector))
        if known is None:
            known = self._scores[id(vector)] = (vector, self._score(vector, slice(None)))
        score = known[1]
        row = int(score.argmax())
        if score[row] == -np.inf:
            return None
        self._free[row] -= vector
        self._changed(row)
        return row

    def give_back(self, vector: Ints, row: int) -> None:
        """Take a pod back that was put."""
        self._free[row] += vector
        self._changed(row)

    def _changed(self, row: int) -> None:
        """The row has other room."""
        for vector, score in self._scores.values():
            score[row] = self._score(vector, slice(row, row + 1))[0]

    def _score(self, vector: Ints, rows: slice) -> Floats:
        """How empty these rows would be with the pod, as the sum of shares."""
        free, columns = self._free[rows], self._columns
        fits = (free >= vector).all(axis=1)
        return np.where(fits, ((free[:, columns] - vector[columns]) / self._totals[rows]).sum(axis=1), -np.inf)


def whole(room: Room, state: State, one: JobState, slots: Sequence[Slot]) -> dict[Slot, int] | None:
    """Rows for all of these pods, or none; room is taken only for all."""
    put: dict[Slot, int] = {}
    for slot in slots:
        row = room.put(state.vector(one, slot[0]))
        if row is None:
            for (role, _), taken in put.items():
                vector = state.vector(one, role)
                assert vector is not None
                room.give_back(vector, taken)
            return None
        put[slot] = row
    return put


def slots_of(one: JobState) -> list[Slot]:
    """All pods that the job's owner asked for: ps first."""
    return [(Role.PS, i) for i in range(one.job.ps_count)] + [(Role.WORKER, i) for i in range(one.job.workers)]


class Coscheduling(Deciding):
    """Gangs start whole and keep their workers, first come, first served, as the coscheduling plugin starts them.

    A gang that does not fit is passed over, and others behind it are tried.
    """

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
