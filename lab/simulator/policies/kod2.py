"""KOD2 as it was published: Algorithms 1 to 3 (`kod2_algorithms`), its weight (K1), its placement on few nodes (K6).

Where the paper leaves something open: the weight's requests are those of one worker, normalised by the cluster's
totals, and compared as ω′, because ω saturates. A STARVING job weighs more than all that are not, from the pass that
says so until its end. A pass follows every event; a job that starts is one, a worker that comes or goes is not, else
l_dw and l_iw would mean nothing. A job whose minimum fits the sum of what is idle but no nodes goes on waiting (a
literal operator would make its pods and leave them half placed). A job starts with its minimum.
"""

import numpy as np

from lab.simulator.actions import Action, Advice, Deciding, Place, Remove
from lab.simulator.model import SimJob
from lab.simulator.policies.kod2_algorithms import Running, Waiting, algorithm_1, algorithm_2, algorithm_3
from lab.simulator.state import JobState, Slot, State
from scoring.model import Role
from scoring.model.pod import CPU, MEMORY
from scoring.network.matrix import Ints

_STARVING = float("inf")
LIMIT_S = 1800.0
"""STARVELIMIT"""
MOST = 2
"""l_dw and l_iw"""


class Kod2(Deciding):
    """Heaviest first, back-fill, scale-in, scale-out."""

    elastic = True

    def __init__(self, name: str, *, limit_s: float = LIMIT_S, most: int | None = MOST) -> None:
        self.name, self._limit_s, self._most = name, limit_s, most
        self._weights: dict[str, float] = {}
        self._again = self._scales_out = False
        """Whether a job has started in this pass; whether what is left of the pass is its scale-out"""

    def wanted(self, job: SimJob) -> int:
        """The minimum: further ones come by scale-out."""
        return job.min_workers

    def decide(self, state: State) -> Advice:
        """Algorithm 1, then scale-out as its end; and all of it again if a job has started."""
        for name in self._weights.keys() - state.waiting.keys() - state.running.keys():
            del self._weights[name]
        while True:
            if self._scales_out:
                self._scales_out = False
                grown = self._grown(state)
                if grown or not self._again:
                    return Advice(grown, settled=not self._again, wake_s=self._wake_s(state))
            actions = self._started(state, state.free())
            self._again = any(isinstance(one, Place) for one in actions)
            self._scales_out = True
            if actions:
                return Advice(actions)

    def _started(self, state: State, free: Ints) -> list[Action]:
        """What Algorithm 1 does with WQ; taken from `free`."""
        queue = [
            Waiting(one.job.name, self._weight(state, one), one.number, _minimum(state, one).tolist())
            for one in state.waiting.values()
        ]
        running = [self._weight(state, one) for one in state.running.values()]
        made = algorithm_1(queue, max(running, default=None), free.sum(axis=0).tolist())
        actions: list[Action] = []
        for name in made.placed:
            put = packed(state, state.waiting[name], free)
            if put is not None:
                actions.append(Place(name, put, wanted=state.waiting[name].job.min_workers))
        if made.scale_in_for is not None:
            new = next(one for one in queue if one.name == made.scale_in_for)
            actions = self._scaled_in(state, new)
        if made.back_filled:
            for name, one in state.waiting.items():
                if name not in made.placed and state.now_s >= one.job.arrival_s + self._limit_s:
                    self._weights[name] = _STARVING
        return actions

    def _scaled_in(self, state: State, new: Waiting) -> list[Action]:
        """Algorithm 2: remove workers, and place the new job on the node that then has room."""
        found = algorithm_2(self._running(state), new, dict(enumerate(state.free().tolist())), decrement=self._most)
        if not found.possible or found.node is None:
            return []
        leaving: dict[str, list[int]] = {}
        for name, index, _ in found.plan:
            leaving.setdefault(name, []).append(index)
        one = state.waiting[new.name]
        removals: list[Action] = [Remove(name, sorted(indexes)) for name, indexes in sorted(leaving.items())]
        return [*removals, Place(new.name, dict.fromkeys(_least(one), found.node), wanted=one.job.min_workers)]

    def _grown(self, state: State) -> list[Action]:
        """Algorithm 3."""
        more: dict[str, list[int]] = {}
        idle = dict(enumerate(state.free().tolist()))
        for name, row in algorithm_3(self._running(state), idle, increment=self._most):
            more.setdefault(name, []).append(row)
        actions: list[Action] = []
        for name, rows in more.items():
            held = state.running[name].workers
            indexes = [index for index in range(len(held) + len(rows)) if index not in held]
            put: dict[Slot, int] = {(Role.WORKER, index): row for index, row in zip(indexes, rows, strict=False)}
            actions.append(Place(name, put, wanted=len(held) + len(rows)))
        return actions

    def _running(self, state: State) -> list[Running]:
        found = []
        for name, one in state.running.items():
            workers: dict[int, list[int]] = {}
            for index, row in one.workers.items():
                workers.setdefault(row, []).append(index)
            worker, ps = state.vector(one, Role.WORKER), frozenset(one.ps.values())
            assert worker is not None
            weight, least = self._weight(state, one), one.job.min_workers
            found.append(Running(name, weight, one.number, workers, ps, worker.tolist(), least, one.most))
        return found

    def _weight(self, state: State, one: JobState) -> float:
        """ω′ (K1): the minimum number of workers by the share of the cluster that one of them requests."""
        found = self._weights.get(one.job.name)
        if found is None:
            totals = state.table.allocatable.sum(axis=0)
            worker, axis = one.job.worker, state.table.axis
            share = sum(worker.get(name) / totals[axis.index(name)] for name in (CPU, MEMORY))
            found = self._weights[one.job.name] = one.job.min_workers / share if share else _STARVING
        return found

    def _wake_s(self, state: State) -> float | None:
        found = (one.job.arrival_s + self._limit_s for one in state.waiting.values())
        return min((at_s for at_s in found if at_s > state.now_s), default=None)


def _least(one: JobState) -> list[Slot]:
    """The pods of the job's minimum."""
    ps: list[Slot] = [(Role.PS, index) for index in range(one.job.ps_count)]
    return [*ps, *((Role.WORKER, index) for index in range(one.job.min_workers))]


def _minimum(state: State, one: JobState) -> Ints:
    """What the minimum requests together; more than there is if a resource is nowhere."""
    found = [state.vector(one, role) for role, _ in _least(one)]
    known = [vector for vector in found if vector is not None]
    if len(known) < len(found):
        return np.asarray(state.table.allocatable.sum(axis=0) + 1)
    return np.asarray(np.sum(known, axis=0))


def packed(state: State, one: JobState, free: Ints) -> dict[Slot, int] | None:
    """K6: the whole minimum on the node with most idle, else over the nodes with most idle first; taken from `free`.

    Idle is compared as the sum of shares of what the node has. `None`, and `free` as it was: it does not fit.
    """
    totals = np.maximum(state.table.allocatable, 1)
    slots, together = _least(one), _minimum(state, one)
    order = np.lexsort((np.arange(len(free)), -(free / totals).sum(axis=1))).tolist()
    for row in order:
        if (together <= free[row]).all():
            free[row] -= together
            return dict.fromkeys(slots, row)
    left = free.copy()
    put: dict[Slot, int] = {}
    for slot in slots:
        vector = state.vector(one, slot[0])
        row = next((row for row in order if vector is not None and (vector <= left[row]).all()), None)
        if row is None or vector is None:
            return None
        left[row] -= vector
        put[slot] = row
    free[:] = left
    return put
