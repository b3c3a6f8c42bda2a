"""Scale-in: which running jobs give up how many workers so that the first gang that waits can start (PAPERS K4).

Only for one gang, and only if it then starts; docs/explanation/elastic.md says for which, and from which jobs.
Differences to the published algorithm (`lab.simulator.policies.kod2_algorithms`): the gang is placed for real over the
nodes of a zone, not on one node; the fewest workers go; the highest index goes first, because frameworks let no caller
choose.

With `ElasticCondition.LEVELS` gangs are tried in the queue's order, of equal ones the first, at most `MOST_KINDS`.
The fewest workers of the first jobs in order (`_offer`, `_in_order`): a good way by counting (`_Gathering`), then all
ways with fewer, bounded by `MOST_COUNTS` (`fewer`); where counting and placing disagree, because kinds of members
compete for nodes, as few of the first jobs as pass (`enough`). The planner itself must give the gang its places then:
otherwise another gang would have the room.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final, TypeAlias, TypeVar

import msgspec
import numpy as np

from scoring import NodeName
from scoring.model import Gang, Pod, Role
from scoring.model.policy import Policy
from scoring.model.snapshot import Snapshot
from scoring.network.matrix import Ints
from scoring.plan import Plan, PlannerCache, Run, begin_run
from scoring.plan import plan as planned
from scoring.plan.cluster_without import Group, Without
from scoring.plan.demand import whole_of
from scoring.plan.placement import kind_of
from scoring.plan.queue_order import QueueOrder
from scoring.plan.result import WANTS_ROOM, Placed
from scoring.queue.weights import hours_of, level, level_of_waiting
from scoring.scaling.job import (
    Change,
    ElasticCondition,
    ElasticJob,
    JobRefusal,
    Jobs,
    No,
    Options,
    Scaling,
    going,
    resizable,
    steps_down,
)
from scoring.selection.demand import pairs_count

MOST_KINDS: Final = 16  # Different gangs for which room is looked for in one pass: each costs a look at all jobs
MOST_COUNTS: Final = 2000  # Ways that `fewer` looks at by counting: one or two tenths of a second in all
MOST_TRIALS: Final = 48  # The same for real placements
_MOST_JOBS: Final = 64  # With more jobs there are too many ways to look at any part of them
T = TypeVar("T")
Taken: TypeAlias = tuple[int, ...]  # Workers taken from each job, in the order in which jobs give


class Giver(msgspec.Struct, frozen=True):
    """A job that may give up workers, with its gang and what it can give up, highest index first."""

    job: ElasticJob
    gang: Gang
    weight: tuple[Any, ...]  # Smaller is heavier; with `ElasticCondition.LEVELS` the cluster-hours that it has had
    pods: list[Pod]


def scale_in(
    snapshot: Snapshot, plan: Plan, jobs: Jobs, policy: Policy, options: Options, *, now_s: float, cache: PlannerCache
) -> Scaling:
    """The jobs that give up workers for the first gang that waits, or why none does; `plan`: of this snapshot.

    Cost: at most about fifty placements of one gang, and one run of the planner where workers go.
    """
    waiting = sorted((wait.rank, wait.gang) for wait in plan.waiting.values() if wait.reason in WANTS_ROOM)
    keys = [key for _, key in waiting[: None if options.condition is ElasticCondition.LEVELS else 1]]
    gangs = [snapshot.gangs[key] for key in keys if key in snapshot.gangs]
    if (claimed := next((gang.key for gang in gangs if gang.key in snapshot.claims), None)) is not None:
        return Scaling(claimed, reason=No.ROOM_IS_COMING, detail="others leave for it")
    if len(gangs) > 1:
        kinds: dict[object, Gang] = {}  # The first of each
        run = begin_run(snapshot, policy, cache)
        for gang in gangs:
            kinds.setdefault((id(kind_of(run, run.view.demand(gang))), gang.priority), gang)
        gangs = list(kinds.values())[:MOST_KINDS]
    gone = going(snapshot, jobs)
    first: Scaling | None = None
    whole = options.condition is ElasticCondition.LEVELS
    for gang in gangs:
        # A resized job would stand still for longer. A promise that is late has a later start: then jobs do shrink.
        if (wait_s := plan.starts_in_s(gang.key, now_s=now_s)) <= options.metrics.stall_s:
            first = first or Scaling(gang.key, reason=No.STARTS_SOON, detail=f"in {wait_s:.0f} s")
            continue
        without = without_workers(snapshot, plan, gang, policy, now_s=now_s, cache=cache, leaving=gone, whole=whole)
        scaling = _for_one(without, plan, jobs, options, going=len(gone))
        if scaling.changes or (gone and scaling.reason is No.ROOM_IS_COMING):
            return scaling
        first = first or scaling
    return first or Scaling(None, reason=No.NOBODY_WAITS)


def without_workers(
    snapshot: Snapshot,
    plan: Plan,
    gang: Gang,
    policy: Policy,
    *,
    now_s: float,
    cache: PlannerCache,
    leaving: Sequence[Pod] = (),  # These go anyway
    whole: bool = False,  # All members that the gang asks for must fit, not its minimum alone
) -> Without:
    """What the gang would find without some workers, beside what gangs before it in the queue are given."""
    ask, waiting = cache.demands.of_gang(gang, policy, snapshot.table.index), plan.waiting.get(gang.key)
    ahead = [admission for admission in plan.admitted.values() if waiting is not None and admission.rank < waiting.rank]
    wanted = whole_of(ask) if whole else ask
    return Without(snapshot, policy, wanted, cache, now_s=now_s, planned=ahead, leaving=leaving)


def _for_one(without: Without, plan: Plan, jobs: Jobs, options: Options, *, going: int) -> Scaling:
    run, ask, now_s = without.run, without.ask, without.now_s
    key = ask.gang.key
    if without.may_fit(()) and without.place(()) is not None:
        words = f"{going} pods are going" if going else "there is room already"
        return Scaling(key, reason=No.ROOM_IS_COMING, detail=words)
    turns = QueueOrder(run, now_s=now_s)
    if options.condition is ElasticCondition.LEVELS and not turns.takes_by_level(ask):
        return Scaling(key, reason=No.TOO_WIDE)
    others = sorted((job for job in jobs if job.gang != key), key=lambda job: job.key)
    total = run.table.allocatable.sum(axis=0)
    offers = [_offer(without, job, turns, options, total) for job in others]
    near = [offer for offer in offers if isinstance(offer, Giver)]
    refusals = [offer for offer in offers if isinstance(offer, JobRefusal)]
    if not near:
        return Scaling(key, reason=No.NO_JOB, refusals=tuple(sorted(refusals)))
    everything = _pods(near, [len(giver.pods) for giver in near])
    best = without.place(everything) if without.may_fit(everything) else None
    if best is None:
        offered = f"{len(everything)} workers of {len(near)} jobs at most"
        return Scaling(key, reason=No.NOT_ENOUGH, detail=offered, refusals=tuple(sorted(refusals)))
    ordered = _in_order(run, near, best)
    taken, placed = _chosen(without, ordered, best)
    some = [(giver.job, giver.pods[:number]) for giver, number in zip(ordered, taken, strict=True)]
    refusals += [JobRefusal(job.key, No.NOT_NEEDED) for job, pods in some if not pods]
    then = run.snapshot.without(_pods(ordered, taken))
    after = planned(then, run.policy, now_s=now_s, previous=plan, cache=run.cache)
    if key in after.admitted and placed.nodes.keys() <= after.admitted[key].members.keys():
        ends = [(job, job.indexes[pods[-1].uid]) for job, pods in some if pods]
        changes = [Change(job.key, job.uid, job.workers, after) for job, after in ends]
        return Scaling(key, tuple(changes), placed.nodes, refusals=tuple(sorted(refusals)))
    refusals += [JobRefusal(job.key, No.GIVEN_TO_OTHERS) for job, pods in some if pods]
    return Scaling(key, reason=No.GIVEN_TO_OTHERS, refusals=tuple(sorted(refusals)))


def _offer(without: Without, job: ElasticJob, turns: QueueOrder, options: Options, total: Ints) -> Giver | JobRefusal:
    """What the job may give up, or why it gives nothing. `total`: of all nodes. Cost: O(members)."""
    run, ask, now_s = without.run, without.ask, without.now_s
    gang = run.snapshot.gangs.get(job.gang)
    refusal = resizable(job, gang, options, now_s=now_s)
    if gang is None or refusal is not None:
        return refusal or JobRefusal(job.key, No.NOT_RUNNING)
    if gang.priority > ask.gang.priority:
        return JobRefusal(job.key, No.HIGHER_PRIORITY, f"{gang.priority} and {ask.gang.priority}")
    weight: tuple[Any, ...]
    if options.condition is ElasticCondition.LEVELS:
        hours = hours_of(gang, run.snapshot, now_s=now_s, total=total)
        weight = (hours,)
        had, asks = level(hours, run.policy.service), level_of_waiting(ask.gang.key, run.snapshot, run.policy.service)
        if had <= asks:
            return JobRefusal(job.key, No.NOT_ABOVE, f"level {had}, the gang's {asks}")
    else:
        mine, its = turns.weight(ask), turns.weight(run.view.demand(gang))
        weight = its.key
        later = (mine.key, ask.gang.created_s, ask.gang.key) >= (its.key, gang.created_s, gang.key)
        if later and not turns.starving(ask):
            return JobRefusal(job.key, No.NOT_LIGHTER, f"ω′ {its.omega_prime:.6g}, the gang's {mine.omega_prime:.6g}")
    if not (pods := steps_down(job, gang, most=options.decrement)):
        return JobRefusal(job.key, No.AT_MINIMUM, f"{job.workers} workers, at least {job.floor}")
    rows = [without.row(pod) for pod in pods]  # down to the last on a node that concerns the gang
    last = max((n for n, row in enumerate(rows, start=1) if row is not None and without.reached[row]), default=0)
    return Giver(job, gang, weight, pods[:last]) if last else JobRefusal(job.key, No.ELSEWHERE)


def _chosen(without: Without, ordered: Sequence[Giver], best: Placed) -> tuple[Taken, Placed]:
    """Steps of each job in this order, and where the gang goes then. `best`: the same with all of them."""

    def passes(taken: Taken) -> Placed | None:
        return without.place(_pods(ordered, taken))

    limits, table = [len(giver.pods) for giver in ordered], without.run.table
    freed = [[(without.row(pod), table.vector(pod.requests).tolist()) for pod in giver.pods] for giver in ordered]
    gathered = [way for group in without.groups if (way := _Gathering(without, group, freed).way()) is not None]
    gathered.sort(key=lambda taken: (sum(taken), [-number for number in taken]))
    by_counting = ((way, there) for way in gathered if (there := passes(way)) is not None)
    choice = next(by_counting, None) or enough(limits, best, passes)
    return fewer(limits, sum(choice[0]), lambda taken: without.may_fit(_pods(ordered, taken)), passes) or choice


def _pods(givers: Sequence[Giver], taken: Sequence[int]) -> list[Pod]:
    return [pod for giver, number in zip(givers, taken, strict=True) for pod in giver.pods[:number]]


def _in_order(run: Run, near: Sequence[Giver], best: Placed) -> list[Giver]:
    """The lowest priority first, then the lightest (LEVELS: that has had most), then whose workers are worth least.

    Worth, the highest index first: those on nodes of `best`, where the gang would go if it could choose; those that
    share no node with a ps or chief of their own (PAPERS K4); the worst linked. Then by name.
    """
    wanted = frozenset(best.nodes.values())

    def worth(giver: Giver) -> tuple[Any, ...]:
        leaders = {pod.node for pod in giver.gang.placed if pod.role in (Role.PS, Role.CHIEF)}
        nodes = [pod.node for pod in giver.pods if pod.node is not None]
        points = link_points(run, giver.gang, nodes)
        return tuple((node not in wanted, node in leaders, points.get(node, 0.0)) for node in nodes), giver.job.key

    ordered = sorted(near, key=worth)
    ordered.sort(key=lambda giver: giver.weight, reverse=True)  # A small key is a heavy job; equal ones stay in order
    ordered.sort(key=lambda giver: giver.gang.priority)
    return ordered


def link_points(run: Run, gang: Gang, nodes: Sequence[NodeName]) -> dict[NodeName, float]:
    """Node → mean points to the placed members a worker there exchanges data with, rounded: equal ones tie."""
    all_reduce, index = not any(pod.role is Role.PS for pod in gang.members), run.table.index
    peers = [pod for pod in gang.placed if pairs_count(Role.WORKER, pod.role, all_reduce=all_reduce)]
    ends = tuple(sorted(pod.node for pod in peers if pod.node is not None and pod.node in index))
    names = tuple(sorted({node for node in nodes if node in index}))
    if not ends or not names:
        return {}
    points = run.scores.toward(names, ends, run.view.score(run.view.demand(gang))).points.mean(axis=1)
    return {node: round(float(value), 6) for node, value in zip(names, points, strict=True)}


class _Gathering:
    """A way that is enough by counting in one group of zones; the fewest workers are not promised.

    Step by step whatever brings most room for each worker that goes, the first job among equals; then what is not
    needed is given back, the last first. What a pod that leaves or comes back changes is counted at its node alone.
    Cost: O(steps · classes) for each worker taken.
    """

    def __init__(self, without: Without, group: Group, jobs: Sequence[Sequence[tuple[int | None, list[int]]]]) -> None:
        """`jobs`: of each pod its node's row and what it leaves there."""
        self._start, self._jobs = without.free, jobs
        self._inside = np.isin(without.zone_of, group)
        self._asked = [
            (kind.allowed, [(column, amount) for column, amount in enumerate(kind.request.tolist()) if amount > 0])
            for kind in without.classes
        ]
        # Members of each class that find no place; below 0: places beyond what is wanted
        self._short = [kind.wanted - int(kind.sums[list(group)].sum()) for kind in without.classes]
        self._free: dict[int, list[int]] = {}  # Row → what is free there by now, where a pod left
        self._taken = [0] * len(jobs)
        self._offers: dict[int, tuple[float, int]] = {}  # Job → (gain per pod, pods) of its best next pods
        self._near = [n for n, pods in enumerate(jobs) if any(row is not None and self._inside[row] for row, _ in pods)]
        self._at: dict[int | None, set[int]] = {}  # Row → jobs with a pod there
        for number in self._near:
            for row, _ in jobs[number]:
                self._at.setdefault(row, set()).add(number)

    def way(self) -> Taken | None:
        """The way; `None`: all that are near are not enough together."""
        for number in self._near:
            self._look_at(number)
        while self._lacking():
            if not self._offers:
                return None
            number = min(self._offers, key=lambda job: (-self._offers[job][0], job))
            begin, pods = self._taken[number], self._offers[number][1]
            chosen = self._jobs[number][begin : begin + pods]
            for pod in chosen:
                self._leave(pod)
            self._taken[number] += pods
            for other in {number}.union(*(self._at[row] for row, _ in chosen)):
                if other in self._offers:
                    self._look_at(other)
        for number in reversed(self._near):
            while self._taken[number]:
                pod = self._jobs[number][self._taken[number] - 1]
                self._leave(pod, back=True)
                if self._lacking():
                    self._leave(pod)
                    break
                self._taken[number] -= 1
        return tuple(self._taken)

    def _lacking(self) -> int:
        return sum([max(short, 0) for short in self._short])

    def _leave(self, pod: tuple[int | None, list[int]], *, back: bool = False) -> None:
        row, amounts = pod
        if row is None or not self._inside[row]:
            return
        sign = -1 if back else 1
        before = self._free.get(row) or self._start[row].tolist()
        after = self._free[row] = [a + sign * b for a, b in zip(before, amounts, strict=True)]
        for number, (allowed, asked) in enumerate(self._asked):
            if allowed[row] and asked:  # What asks for nothing fits as before
                fit = [min([free[column] // amount for column, amount in asked]) for free in (before, after)]
                self._short[number] += max(fit[0], 0) - max(fit[1], 0)

    def _look_at(self, number: int) -> None:
        """What the job's next pods would bring; if none brings anything, one at a time may help another job's."""
        if not (left := self._jobs[number][self._taken[number] :]):
            self._offers.pop(number, None)
            return
        before, best = self._lacking(), (0.0, 1)
        for count, pod in enumerate(left, start=1):
            self._leave(pod)
            gain = (before - self._lacking()) / count
            best = (gain, count) if gain > best[0] else best
        for pod in left:
            self._leave(pod, back=True)
        self._offers[number] = best


def fewer(
    limits: Sequence[int], than: int, perhaps: Callable[[Taken], bool], passes: Callable[[Taken], T | None]
) -> tuple[Taken, T] | None:
    """A way with fewer steps than `than`; `None`: there is none, or it is too far.

    >>> def sum_of_weights(taken): return taken[0] * 1 + taken[1] * 3 >= 4
    >>> fewer([2, 2], 9, sum_of_weights, lambda taken: "fits")
    ((1, 1), 'fits')
    >>> fewer([2, 2], 2, sum_of_weights, lambda taken: "fits")
    """
    counts = trials = 0
    for size in range(1, than if len(limits) <= _MOST_JOBS else 0):
        for taken in ways(limits, size):
            counts += 1
            if counts > MOST_COUNTS or trials > MOST_TRIALS:
                return None
            if perhaps(taken):
                trials += 1
                if (result := passes(taken)) is not None:
                    return taken, result
    return None


def enough(limits: Sequence[int], result: T, passes: Callable[[Taken], T | None]) -> tuple[Taken, T]:
    """As few of the first jobs as pass with all their steps. All jobs do, with `result`."""
    too_few, number, best = 0, len(limits), tuple(limits)
    while number - too_few > 1:
        middle = (number + too_few) // 2
        taken = (*limits[:middle], *[0] * (len(limits) - middle))
        if (answer := passes(taken)) is None:
            too_few = middle
        else:
            number, best, result = middle, taken, answer
    return best, result


def ways(limits: Sequence[int], size: int) -> Iterator[Taken]:
    """All ways to take `size` steps, those that take most from the first jobs first.

    >>> list(ways([2, 1, 2], 2))
    [(2, 0, 0), (1, 1, 0), (1, 0, 1), (0, 1, 1), (0, 0, 2)]
    """
    if not limits:
        yield from [()] if size == 0 else []
        return
    for first in range(min(limits[0], size), max(size - sum(limits[1:]), 0) - 1, -1):
        for others in ways(limits[1:], size - first):
            yield (first, *others)
