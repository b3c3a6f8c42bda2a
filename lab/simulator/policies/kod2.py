"""KOD2 as it was published: Algorithms 1 to 3, and its placement on few nodes (PAPERS K3–K6).

The algorithms are `lab.simulator.kod2_queue` and `lab.simulator.kod2_scaling`; here their answers become actions.
Where the paper leaves something open the reading is the kind one: a job whose minimum fits the sum of what is idle but
no nodes goes on waiting (a literal operator would make its pods and leave them half placed); a pass follows every
change, so one event may start several jobs; scale-out is tried once at each moment, after the passes. A job starts with
its minimum. l_dw and l_iw are 2, as netgang's defaults; STARVELIMIT is 30 minutes.
"""

from collections.abc import Sequence

import numpy as np

from lab.simulator import kod2_scaling
from lab.simulator.actions import Action, Advice, Place, Remove
from lab.simulator.gangs import Gangs, elastic_job
from lab.simulator.kod2_queue import Pass, Waiter, WeightKey, algorithm_1
from lab.simulator.model import SimJob
from lab.simulator.state import JobState, Slot, State
from scoring.model import Role
from scoring.model.policy import Policy, QueuePolicy
from scoring.network.matrix import Ints
from scoring.queue.weights import Scale, weight_of
from scoring.scaling.job import ElasticJob

_POLICY = Policy(queue=QueuePolicy(extended=()))


class Kod2:
    """Heaviest first, back-fill, scale-in, scale-out."""

    name = "kod2-literal"
    elastic = True

    def __init__(self, *, most_at_once: int | None = 2, starve_limit_s: float = 1800.0) -> None:
        """`most_at_once`: l_dw and l_iw."""
        self._most, self._starve_s = most_at_once, starve_limit_s
        self._gangs: Gangs | None = None
        self._weights: dict[str, WeightKey] = {}
        self._grown_at_s: float | None = None
        self._version = 0

    def wanted(self, job: SimJob) -> int:
        """The minimum: further ones come by scale-out."""
        return job.min_workers

    def decide(self, state: State) -> Advice:
        """One pass of Algorithm 1, then scale-in or scale-out."""
        gangs = self._gangs = self._gangs or Gangs(state.table)
        gangs.forget(state)
        for name in [name for name in self._weights if name not in state.waiting and name not in state.running]:
            del self._weights[name]
        actions: list[Action] = []
        if state.waiting:
            made = self._pass(state)
            free = state.free()
            for key in made.placed:
                one = next(one for one in state.waiting.values() if one.key == key)
                put = packed(state, one, free)
                if put is not None:
                    actions.append(Place(one.job.name, put, wanted=one.job.min_workers))
            if made.scale_in_for is not None:
                actions += self._scale_in(state, next(o for o in state.waiting.values() if o.key == made.scale_in_for))
        if not actions and self._grown_at_s != state.now_s:
            self._grown_at_s = state.now_s
            actions = self._scale_out(state)
        return Advice(actions, wake_s=self._wake_s(state))

    def _pass(self, state: State) -> Pass:
        waiters = [
            Waiter(
                one.key,
                self._weight(state, one),
                _minimum(state, one),
                one.job.arrival_s,
                starving=state.now_s >= one.job.arrival_s + self._starve_s,
            )
            for one in state.waiting.values()
        ]
        running = min((self._weight(state, one) for one in state.running.values()), default=None)
        return algorithm_1(waiters, running, state.free().sum(axis=0))

    def _weight(self, state: State, one: JobState) -> WeightKey:
        found = self._weights.get(one.job.name)
        if found is None:
            assert self._gangs is not None
            weight = weight_of(self._gangs.of(one), Scale.of(state.table), _POLICY.queue)
            found = self._weights[one.job.name] = (-weight.omega,)
        return found

    def _elastic(self, state: State) -> list[ElasticJob]:
        return [elastic_job(one) for one in state.elastic.values()]

    def _scale_in(self, state: State, new: JobState) -> list[Action]:
        """Algorithm 2: remove workers, and place the new job on the node that then has room."""
        assert self._gangs is not None
        jobs = self._elastic(state)
        self._version += 1
        snapshot = self._gangs.snapshot(state, (new, *state.running.values()), version=self._version)
        found = kod2_scaling.scale_in(snapshot, jobs, new.key, _POLICY, decrement=self._most)
        if not found.possible or found.node is None:
            return []
        leaving: dict[str, list[int]] = {}
        for removal in found.plan:
            leaving.setdefault(removal.job.name, []).append(self._gangs.slot(removal.pod)[1])
        row = state.table.index[found.node]
        put: dict[Slot, int] = dict.fromkeys(_least(new), row)
        removals: list[Action] = [Remove(name, sorted(indexes)) for name, indexes in sorted(leaving.items())]
        return [*removals, Place(new.job.name, put, wanted=new.job.min_workers)]

    def _scale_out(self, state: State) -> list[Action]:
        """Algorithm 3."""
        assert self._gangs is not None
        jobs = self._elastic(state)
        if all(not job.can_gain for job in jobs):
            return []
        self._version += 1
        snapshot = self._gangs.snapshot(state, state.running.values(), version=self._version)
        more: dict[str, list[int]] = {}
        for key, node in kod2_scaling.scale_out(snapshot, jobs, _POLICY, increment=self._most):
            more.setdefault(key.name, []).append(state.table.index[node])
        actions: list[Action] = []
        for name, rows in more.items():
            held = state.running[name].workers
            indexes = [index for index in range(len(held) + len(rows)) if index not in held]
            put: dict[Slot, int] = {(Role.WORKER, index): row for index, row in zip(indexes, rows, strict=False)}
            actions.append(Place(name, put, wanted=len(held) + len(rows)))
        return actions

    def _wake_s(self, state: State) -> float | None:
        found = (one.job.arrival_s + self._starve_s for one in state.waiting.values())
        return min((at_s for at_s in found if at_s > state.now_s), default=None)


def _least(one: JobState) -> list[Slot]:
    """The pods of the job's minimum."""
    ps: list[Slot] = [(Role.PS, index) for index in range(one.job.ps_count)]
    return [*ps, *((Role.WORKER, index) for index in range(one.job.min_workers))]


def _minimum(state: State, one: JobState) -> Ints:
    """What the minimum requests together; more than there is if a resource is nowhere."""
    vectors: Sequence[Ints | None] = [state.vector(one, role) for role, _ in _least(one)]
    known = [vector for vector in vectors if vector is not None]
    if len(known) < len(vectors):
        return np.asarray(state.table.allocatable.sum(axis=0) + 1)
    return np.asarray(np.sum(known, axis=0))


def packed(state: State, one: JobState, free: Ints) -> dict[Slot, int] | None:
    """K6: the whole minimum on the node with most idle, else over the nodes with most idle first; taken from `free`.

    Idle is compared as the sum of shares of what the node has. `None`, and `free` as it was: it does not fit.
    """
    totals = np.maximum(state.table.allocatable, 1)
    slots = _least(one)
    order = np.lexsort((np.arange(len(free)), -(free / totals).sum(axis=1)))
    together = _minimum(state, one)
    for row in order.tolist():
        if (together <= free[row]).all():
            free[row] -= together
            return dict.fromkeys(slots, row)
    left = free.copy()
    put: dict[Slot, int] = {}
    for slot in slots:
        vector = state.vector(one, slot[0])
        row = next((row for row in order.tolist() if vector is not None and (vector <= left[row]).all()), None)
        if row is None or vector is None:
            return None
        left[row] -= vector
        put[slot] = row
    free[:] = left
    return put
