"""Expected starts in a simulated cluster: of each gang that had an interval, where it started.

Why: an interval of 80 % is worth something only if eight of ten starts are inside it. The jobs are runs of some
applications that come again and again, as on a training cluster; netgang knows of each application what its former runs
took, and learns it in the run as the service does, from three runs on. Rules: the same seed gives the same jobs
whatever the policy; planner, former runs, expected starts and their calibration are the service's code; the intervals
are looked at whenever a gang waits that has none yet.
"""

from dataclasses import dataclass
from math import exp
from random import Random
from typing import Final

from lab.simulator.actions import Advice
from lab.simulator.model import Scenario, SimJob, Work
from lab.simulator.policies.planned import Planned
from lab.simulator.recorded import Recorded
from lab.simulator.state import State
from lab.simulator.world import run
from scoring.ids import GangKey, NodeName, ZoneName
from scoring.lengths import Length
from scoring.lengths.fingerprint import Fingerprint, fingerprint
from scoring.lengths.former_runs import FormerRuns, Run
from scoring.model import Node
from scoring.model.policy import Backfill, Order, Policy, QueuePolicy
from scoring.model.resources import Resources
from scoring.model.snapshot import Snapshot
from scoring.network.matrix import NetworkMatrix
from scoring.plan import Plan, PlannerCache
from scoring.plan.expected import ExpectedStart, FirstIntervals, Result, expected_starts

_GPU: Final = "nvidia.com/gpu"
_NODES, _NODE_GPUS = 8, 8
_APPLICATIONS: Final = 16
_SIZES: Final = (1, 1, 2, 2, 4, 4, 8, 16)  # Workers, of one GPU each
_MEDIAN_S, _SPREAD = 1800.0, 0.8  # Of the applications' usual lengths, which are log-normal
_RUN_SPREAD: Final = 0.3  # Of an application's runs, likewise
_MOST_S: Final = 6 * 3600.0


@dataclass(frozen=True, slots=True)
class Start:
    """One gang that had an interval; seconds since it was given."""

    promised: bool
    low_s: float
    expected_s: float
    high_s: float
    waited_s: float
    result: Result


@dataclass(frozen=True, slots=True)
class Coverage:
    """What a run says of its intervals."""

    seed: int
    starts: tuple[Start, ...]
    """With intervals as the service gives them"""
    plain: tuple[Start, ...]
    """With intervals as the lengths alone give them"""


def workload(seed: int, count: int, load: float) -> Scenario:
    """Runs of some applications at random moments, which ask for `load` of the cluster's GPUs."""
    chance = Random(f"expected {seed}")  # noqa: S311 - the same jobs each time
    applications = [
        (f"app{chr(97 + number)}", chance.choice(_SIZES), _MEDIAN_S * exp(chance.gauss(0.0, _SPREAD)))
        for number in range(_APPLICATIONS)
    ]
    jobs: list[SimJob] = []
    at_s = 0.0
    mean_gpu_s = sum(size * usual_s for _, size, usual_s in applications) / len(applications)
    rate = load * _NODES * _NODE_GPUS / (mean_gpu_s * exp(_RUN_SPREAD**2 / 2))
    for number in range(count):
        at_s += chance.expovariate(rate)
        name, size, usual_s = chance.choice(applications)
        length_s = min(usual_s * exp(chance.gauss(0.0, _RUN_SPREAD)), _MOST_S)
        work = Work("resnet50", 32, length_s, recorded=Recorded(size, {size: 1.0}))
        worker = Resources.parse({"cpu": 4, "memory": "8Gi", _GPU: 1})
        jobs.append(SimJob(f"{name}-{number}", at_s, work, worker=worker, workers=size, min_workers=size))
    return Scenario(f"expected-{seed}", tuple(map(_node, range(_NODES))), NetworkMatrix(), tuple(jobs), seed=seed)


def coverage(seed: int, *, jobs: int = 400, load: float = 0.9, mode: Backfill = Backfill.EASY) -> Coverage:
    """One run to its end."""
    watch = _Watch(Policy(queue=QueuePolicy(order=Order.WEIGHT, backfill=mode)))
    run(workload(seed, jobs, load), watch)
    moved, plain = watch.books
    return Coverage(seed, tuple(moved.starts), tuple(plain.starts))


def _node(number: int) -> Node:
    room = Resources.parse({"cpu": 64, "memory": "256Gi", _GPU: _NODE_GPUS, "pods": 110})
    return Node(NodeName(f"n{number}"), ZoneName("ab"[number % 2]), room)


class _Book:
    """The intervals that gangs were given, and where they started."""

    def __init__(self, *, calibrated: bool) -> None:
        self._calibrated = calibrated
        self._first = FirstIntervals()
        self._given: dict[GangKey, tuple[float, ExpectedStart]] = {}
        """gang → when it was given its interval, and the interval"""
        self.starts: list[Start] = []

    def lacks(self, plan: Plan) -> bool:
        """Whether a gang waits that has no interval."""
        return not all(key in self._given for key in plan.waiting)

    def look(self, snapshot: Snapshot, plan: Plan, policy: Policy, cache: PlannerCache, *, now_s: float) -> None:
        """Give an interval to each gang that waits and has none."""
        known = self._first.calibration if self._calibrated else None
        found = expected_starts(snapshot, plan, policy, now_s=now_s, calibration=known, cache=cache)
        self._first.given(found)
        for key, one in found.items():
            if isinstance(one, ExpectedStart):
                self._given.setdefault(key, (now_s, one))

    def overdue(self, plan: Plan, now_s: float) -> None:
        """Learn of intervals that are over."""
        self._first.overdue(plan.waiting.keys(), now_s)

    def started(self, key: GangKey, now_s: float) -> None:
        """A gang has started."""
        result = self._first.started(key, now_s)
        if (given := self._given.get(key)) is not None:
            at_s, first = given
            ends = (first.low_s - at_s, first.start_s - at_s, first.high_s - at_s)
            self.starts.append(Start(first.promised, *ends, now_s - at_s, result or Result.LATE))


class _Watch:
    """The planner as installed with back-fill, and a look at what it says of starts."""

    elastic = False
    name = "netgang"

    def __init__(self, policy: Policy) -> None:
        self._policy, self._planned = policy, Planned("netgang", policy, lengths=self._length, watched=self._look)
        self._former = FormerRuns()
        self._running: dict[str, tuple[SimJob, float]] = {}
        self._cache = PlannerCache()
        self.books = (_Book(calibrated=True), _Book(calibrated=False))

    def wanted(self, job: SimJob) -> int:
        """All that it asked for."""
        return self._planned.wanted(job)

    def decide(self, state: State) -> Advice:
        """As netgang decides; before that, learn from what has ended."""
        for name, (job, began_s) in list(self._running.items()):
            if name not in state.running:
                del self._running[name]
                length_s = round(state.now_s - began_s)
                self._former.record(_fingerprint(job), Run(length_s, round(state.now_s)))
        for name, one in state.running.items():
            if name not in self._running:
                self._running[name] = (one.job, state.now_s)
                for book in self.books:
                    book.started(one.key, state.now_s)
        return self._planned.decide(state)

    def _look(self, snapshot: Snapshot, plan: Plan, now_s: float) -> None:
        if plan.admitted:
            return  # it is made again at this very moment
        for book in self.books:
            book.overdue(plan, now_s)
            if book.lacks(plan):
                book.look(snapshot, plan, self._policy, self._cache, now_s=now_s)

    def _length(self, job: SimJob) -> Length | None:
        return self._former.length(_fingerprint(job))


def _fingerprint(job: SimJob) -> Fingerprint:
    return fingerprint(job.namespace, "Job", job.name, f"{job.workers}")
