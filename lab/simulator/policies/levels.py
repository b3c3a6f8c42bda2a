"""Service levels: jobs that have had much of the cluster shrink, or are suspended, for those that have had little.

Why here: it is the rule that netgang's planner is to follow (no lengths are needed), decided by counting and without
zones or the network, so that it can be compared with what is there. A job's level is how many of `THRESHOLDS` its
attained service has passed: its share of the cluster times hours, as in Tiresias (Gu et al., NSDI 2019).

Steps, at each look:
1. Waiting jobs in the queue's order (heaviest first, then by age), each at the size that it asked for. Where room lacks
   it is taken from jobs of a higher level, those that have had most first: workers above their minimum; then whole jobs
   that may be suspended and have run `MIN_RUN_S`. Nothing is taken unless it suffices, and no more than that; and
   nothing for a wide job, which asks for more than `WIDE_SHARE` of the cluster.
2. A job that still waits starts below its size in room that no waiting job can use whole, unless it is wide.
3. While no job waits, jobs below the size asked for grow to it, if that is a quarter more and `COOL_DOWN_S` are over.
   Growing beyond it made the mean completion time on the recorded workloads longer: speeds there do not rise with it.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field

from lab.simulator.actions import Action, Advice, Place, Remove, Suspend
from lab.simulator.model import SimJob
from lab.simulator.policies.spread import Room, whole
from lab.simulator.state import JobState, Slot, State
from scoring.model import Role
from scoring.network.matrix import Ints

THRESHOLDS = (1 / 16, 1.0)
"""Hours of the whole cluster's dominant resource from which a job is one level up."""
MIN_RUN_S = 1800.0
WIDE_SHARE = 0.25
COOL_DOWN_S = 60.0
_LEAST_GROWTH = 0.25


@dataclass(slots=True)
class _Look:
    """What is decided at one moment, and what is left by it."""

    state: State
    free: Ints
    sizes: dict[str, int]
    """running job → workers it is left with or grows to"""
    levels: dict[str, int]
    wide_share: float
    min_run_s: float
    suspended: list[JobState] = field(default_factory=list)
    starts: list[tuple[JobState, int]] = field(default_factory=list)

    def needs(self, one: JobState, workers: int) -> Ints | None:
        """Requests of so many workers, and of the ps of a job that waits; `None`: a pod fits no node."""
        worker = self.state.vector(one, Role.WORKER)
        if worker is None or one.job.name in self.state.running or not one.job.ps_count:
            return None if worker is None else worker * workers
        ps = self.state.vector(one, Role.PS)
        return None if ps is None else worker * workers + ps * one.job.ps_count

    def fits(self, one: JobState, workers: int, free: Ints | None = None) -> bool:
        """Whether so many workers fit into what is free in all."""
        needs = self.needs(one, workers)
        return needs is not None and bool((needs <= (self.free if free is None else free)).all())

    def start(self, one: JobState, workers: int) -> None:
        """The waiting job starts with so many workers."""
        needs = self.needs(one, workers)
        assert needs is not None
        self.free = self.free - needs
        self.starts.append((one, workers))

    def make_room(self, one: JobState) -> bool:
        """Take what the job lacks from those that have had more; whether that suffices (else nothing is taken)."""
        if self.is_wide(one):
            return False
        free = self.free
        cuts: dict[str, int] = {}
        stopped: list[JobState] = []
        higher = [other for other in self._by_service() if self.levels[other.job.name] > self.levels[one.job.name]]
        for other in higher:
            size = self.sizes[other.job.name]
            while size > other.job.min_workers and not self.fits(one, one.job.workers, free):
                size -= 1
                cuts[other.job.name] = self.sizes[other.job.name] - size
                free = free + self.worker(other)
        for other in filter(self._suspendable, higher):
            if self.fits(one, one.job.workers, free):
                break
            stopped.append(other)
            free = free + self._all_of(other, self.sizes[other.job.name] - cuts.pop(other.job.name, 0))
        if not self.fits(one, one.job.workers, free):
            return False
        for name in list(cuts) if stopped else ():  # a whole job may make what was taken before it needless
            worker = self.worker(self.state.running[name])
            while cuts[name] and self.fits(one, one.job.workers, free - worker):
                cuts[name] -= 1
                free = free - worker
        for name, cut in cuts.items():
            self.sizes[name] -= cut
        for other in stopped:
            del self.sizes[other.job.name]
        self.suspended += stopped
        self.free = free
        return True

    def is_wide(self, one: JobState) -> bool:
        """Whether the job asks for so much of the cluster that it soon is of the level of those that gave it room."""
        needs, total = self.needs(one, one.job.workers), self.state.table.allocatable.sum(axis=0)
        return needs is not None and float((needs[total > 0] / total[total > 0]).max()) > self.wide_share

    def _suspendable(self, one: JobState) -> bool:
        ran_since_s = one.ran_since_s
        return one.job.suspendable and ran_since_s is not None and self.state.now_s >= ran_since_s + self.min_run_s

    def _by_service(self) -> list[JobState]:
        """Those that have had most first."""
        running = (self.state.running[name] for name in self.sizes)
        now_s = self.state.now_s
        return sorted(running, key=lambda one: (-self.levels[one.job.name], -one.attained_s(now_s), one.number))

    def worker(self, one: JobState) -> Ints:
        """Request of one worker of a job that runs."""
        vector = self.state.vector(one, Role.WORKER)
        assert vector is not None
        return vector

    def _all_of(self, one: JobState, workers: int) -> Ints:
        ps = self.state.vector(one, Role.PS)
        return self.worker(one) * workers + (ps * len(one.ps) if ps is not None else 0)

    def actions(self) -> list[Action]:
        """All of it, with nodes for the pods that come."""
        state, room = self.state, Room(self.state)
        made: list[Action] = []
        for one in self.suspended:
            made.append(Suspend(one.job.name))
            _leave(room, state, one, [*((Role.PS, i) for i in one.ps), *((Role.WORKER, i) for i in one.workers)])
        for name, size in self.sizes.items():
            one = state.running[name]
            if len(one.workers) > size:
                going = sorted(one.workers)[size:]
                made.append(Remove(name, going, for_others=False))
                _leave(room, state, one, [(Role.WORKER, i) for i in going])
        for one, workers in self.starts:
            slots: list[Slot] = [(Role.PS, i) for i in range(one.job.ps_count)]
            put = whole(room, state, one, slots + [(Role.WORKER, i) for i in range(workers)])
            if put is not None:
                made.append(Place(one.job.name, put, wanted=workers))
        for name, size in self.sizes.items():
            one = state.running[name]
            first = max(one.workers) + 1
            more: list[Slot] = [(Role.WORKER, first + i) for i in range(size - len(one.workers))]
            put = whole(room, state, one, more) if more else None
            if put is not None:
                made.append(Place(name, put, wanted=size))
        return made


def _leave(room: Room, state: State, one: JobState, slots: list[Slot]) -> None:
    for role, index in slots:
        vector = state.vector(one, role)
        assert vector is not None
        room.give_back(vector, (one.ps if role is Role.PS else one.workers)[index])


class Levels:
    """The rule of the module."""

    name = "service-levels"
    elastic = True

    def __init__(self, *, wide_share: float = WIDE_SHARE, min_run_s: float = MIN_RUN_S) -> None:
        self._wide_share, self._min_run_s = wide_share, min_run_s

    def wanted(self, job: SimJob) -> int:
        """All that it asked for."""
        return job.workers

    def decide(self, state: State) -> Advice:
        """Steps 1 to 3 of the module."""
        look = self._look(state)
        waiting = sorted(state.waiting.values(), key=lambda one: (-one.job.min_workers, one.job.arrival_s, one.number))
        left: list[JobState] = []
        for one in waiting:
            if look.fits(one, one.job.workers) or look.make_room(one):
                look.start(one, one.job.workers)
            else:
                left.append(one)
        for one in list(left):
            whole_fits = any(look.fits(other, other.job.workers) for other in left if other is not one)
            if not whole_fits and not look.is_wide(one):
                fitting = [n for n in range(one.job.workers, one.job.min_workers - 1, -1) if look.fits(one, n)]
                if fitting:
                    look.start(one, fitting[0])
                    left.remove(one)
        wakes = self._grow(look) if not left and not look.starts else []
        if left:
            wakes = [*wakes, *self._next_levels(state)]
        return Advice(look.actions(), wake_s=min((at_s for at_s in wakes if at_s > state.now_s), default=None))

    def _look(self, state: State) -> _Look:
        total = state.table.allocatable.sum(axis=0)
        levels = {one.job.name: self._level(state, one, total) for one in state.jobs().values()}
        sizes = {name: len(one.workers) for name, one in state.running.items()}
        return _Look(state, total - state.used.sum(axis=0), sizes, levels, self._wide_share, self._min_run_s)

    def _grow(self, look: _Look) -> list[float]:
        """Step 3; gives moments at which another job may grow."""
        state, wakes = look.state, []
        for one in sorted(state.running.values(), key=lambda one: (one.attained_s(state.now_s), one.number)):
            ready_s = max(one.ran_since_s or 0.0, one.changed_s or 0.0) + COOL_DOWN_S
            size = look.sizes[one.job.name]
            if not one.elastic or size >= one.job.workers:
                continue
            if state.now_s < ready_s:
                wakes.append(ready_s)
                continue
            fitting = [n for n in range(one.job.workers, size, -1) if look.fits(one, n - size)]
            if fitting and fitting[0] >= size * (1.0 + _LEAST_GROWTH):
                look.free = look.free - look.worker(one) * (fitting[0] - size)
                look.sizes[one.job.name] = fitting[0]
        return wakes

    def _next_levels(self, state: State) -> Iterator[float]:
        """When a running job comes to a level, or may be suspended."""
        total = state.table.allocatable.sum(axis=0)
        for one in state.running.values():
            share = self._share(state, one, total)
            for hours in THRESHOLDS:
                yield state.now_s + (hours * 3600.0 / share - one.attained_s(state.now_s)) / len(one.workers)
            yield (one.ran_since_s or 0.0) + self._min_run_s

    def _level(self, state: State, one: JobState, total: Ints) -> int:
        hours = one.attained_s(state.now_s) * self._share(state, one, total) / 3600.0
        return sum(hours >= threshold for threshold in THRESHOLDS)

    def _share(self, state: State, one: JobState, total: Ints) -> float:
        """One worker's dominant share of the cluster."""
        vector = state.vector(one, Role.WORKER)
        return 1.0 if vector is None else float((vector[total > 0] / total[total > 0]).max())
