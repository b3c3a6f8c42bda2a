"""Where kube-scheduler puts a pod by default.

Rule: on the node with most of its CPU and memory left (NodeResourcesFit, LeastAllocated); ties go to the first node by
name.
"""

from collections.abc import Sequence

import numpy as np

from scoring.model import Role
from scoring.network import Ints
from scoring.resources import CPU, MEMORY
from simulator.state import JobState, Slot, State


class Room:
    """What is left of every node while pods are tried one after another."""

    def __init__(self, state: State) -> None:
        self._state = state
        self._free = state.free()
        table = state.table
        self._columns = [table.axis.index(name) for name in (CPU, MEMORY) if name in table.axis]
        self._totals = np.maximum(table.allocatable[:, self._columns], 1)
        self._refused: dict[int, int] = {}
        """id of a request's vector → its vectors placed when it was refused: room only shrinks"""

    def put(self, vector: Ints | None, *, rows: Ints | None = None) -> int | None:
        """Take room for one pod on the emptiest node; `rows`: one of these. `None`: it fits nowhere. Cost: O(nodes)."""
        if vector is None or (rows is None and id(vector) in self._refused):
            return None
        free, columns = self._free, self._columns
        fits = (free >= vector).all(axis=1)
        if rows is not None:
            allowed = np.zeros(len(free), np.bool_)
            allowed[rows] = True
            fits &= allowed
        if not fits.any():
            if rows is None:
                self._refused[id(vector)] = 0
            return None
        score = np.where(fits, ((free[:, columns] - vector[columns]) / self._totals).sum(axis=1), -np.inf)
        row = int(score.argmax())
        free[row] -= vector
        return row

    def give_back(self, vector: Ints, row: int) -> None:
        """Take a pod back that was put."""
        self._free[row] += vector
        self._refused.clear()


def whole(room: Room, state: State, one: JobState, slots: Sequence[Slot]) -> dict[Slot, int] | None:
    """Rows for all of these pods, or none; room is taken only for all. Jobs keep to one allowed zone each."""
    zones = [zone for zone in one.job.zones if zone in state.table.zones]
    choices: list[Ints | None] = [state.table.zones[zone] for zone in zones] if zones else [None]  # type: ignore[index]
    for rows in choices:
        put: dict[Slot, int] = {}
        for slot in slots:
            row = room.put(state.vector(one, slot[0]), rows=rows)
            if row is None:
                break
            put[slot] = row
        else:
            return put
        for (role, _), row in put.items():
            vector = state.vector(one, role)
            assert vector is not None
            room.give_back(vector, row)
    return None


def slots_of(one: JobState) -> list[Slot]:
    """All pods that the job's owner asked for: ps first."""
    return [(Role.PS, i) for i in range(one.job.ps_count)] + [(Role.WORKER, i) for i in range(one.job.workers)]
