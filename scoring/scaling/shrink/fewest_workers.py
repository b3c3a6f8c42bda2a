"""Take the fewest steps from the cheapest jobs so that the gang fits; the jobs come in the order in which they give.

1. `gathered`: a good way by counting. For each zone, step by step whatever brings most room for each worker that goes,
   the cheaper job among equals; then what is not needed is given back, the dearest first. Quick for any number of jobs.
2. `fewer`: all ways with fewer steps than that, those that take most from the first jobs first; the first that counting
   allows and a placement confirms. Bounded by `MOST_COUNTS`: with many jobs the way of part 1 stays.
3. `enough`: where counting and placing disagree (kinds of members that compete for nodes): as few of the cheapest jobs,
   with all that they may give, as pass, found by halving.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import TypeVar

import numpy as np

from scoring.model import Pod
from scoring.preempt.cluster_without import Group, Without

T = TypeVar("T")
Taken = tuple[int, ...]  # Steps taken from each job, in the order given

MOST_COUNTS = 2000  # Ways that `fewer` looks at by counting: one or two tenths of a second in all
MOST_TRIALS = 48  # The same for real placements
_MOST_JOBS = 64  # With more jobs there are too many ways to look at any part of them


def gathered(without: Without, jobs: Sequence[Sequence[Pod]]) -> Iterator[Taken]:
    """For each zone a way that is enough there by counting, if there is one; the fewest steps are not promised.

    `jobs`: each job's pods in the order in which they leave. Cost: O(steps · classes) for each zone and worker taken.
    """
    table = without.run.table
    freed = [[(without.row(pod), table.vector(pod.requests).tolist()) for pod in pods] for pods in jobs]
    ways_there = (_Gathering(without, group, freed).run() for group in without.groups)
    return (way for way in ways_there if way is not None)


class _Gathering:
    """A way in one group of zones; what a pod that leaves or comes back changes is counted at its node alone."""

    def __init__(self, without: Without, group: Group, jobs: Sequence[Sequence[tuple[int | None, list[int]]]]) -> None:
        """`jobs`: of each pod its node's row and what it leaves there."""
        self._start, self._jobs = without.free, jobs
        self._inside = np.isin(without.zone_of, group)
        self._asked = [
            (one.allowed, [(column, amount) for column, amount in enumerate(one.request.tolist()) if amount > 0])
            for one in without.classes
        ]
        self._short = [one.wanted - int(one.sums[list(group)].sum()) for one in without.classes]
        """Members of each class that find no place; below 0: places beyond what is wanted"""
        self._free: dict[int, list[int]] = {}  # Row → what is free there by now, where a pod left
        self._taken = [0] * len(jobs)
        self._offers: dict[int, tuple[float, int]] = {}  # Job → (gain per pod, pods) of its best next pods
        self._near = [n for n, pods in enumerate(jobs) if any(row is not None and self._inside[row] for row, _ in pods)]
        self._at: dict[int | None, set[int]] = {}  # Row → jobs with a pod there
        for number in self._near:
            for row, _ in jobs[number]:
                self._at.setdefault(row, set()).add(number)

    def run(self) -> Taken | None:
        """The way; `None`: all that are near are not enough together."""
        for number in self._near:
            self._look_at(number)
        while self._lacking():
            if not self._offers:
                return None
            number = min(self._offers, key=lambda one: (-self._offers[one][0], one))
            self._take(number, self._offers[number][1])
        for number in reversed(self._near):
            self._give_back(number)
        return tuple(self._taken)

    def _lacking(self) -> int:
        return sum([max(short, 0) for short in self._short])

    def _leave(self, pod: tuple[int | None, list[int]], *, back: bool = False) -> None:
        """The pod is gone, or `back` after all."""
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

    def _take(self, number: int, pods: int) -> None:
        begin = self._taken[number]
        chosen = self._jobs[number][begin : begin + pods]
        for pod in chosen:
            self._leave(pod)
        self._taken[number] += pods
        for other in {number}.union(*(self._at[row] for row, _ in chosen)):
            if other in self._offers:
                self._look_at(other)

    def _look_at(self, number: int) -> None:
        """What the job's next pods would bring; if none brings anything, one at a time may help another job's."""
        left = self._jobs[number][self._taken[number] :]
        if not left:
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

    def _give_back(self, number: int) -> None:
        while self._taken[number]:
            pod = self._jobs[number][self._taken[number] - 1]
            self._leave(pod, back=True)
            if self._lacking():
                self._leave(pod)
                return
            self._taken[number] -= 1


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
        found = passes(taken)
        if found is None:
            too_few = middle
        else:
            number, best, result = middle, taken, found
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
