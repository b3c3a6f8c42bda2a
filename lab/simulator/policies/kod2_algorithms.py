"""KOD2's Algorithms 1, 2 and 3, line by line as they are printed (PAPERS K3 to K5).

Rule: nothing is mended here, and every comparison is the printed one. Algorithm 1 adds up what is idle in the whole
cluster, whatever node it is on. Algorithm 2 asks whether one node has room for the new job's whole minimum before each
removal, and never after the last one; workers that were removed where it did not help stay in the plan; what ends a
job's turn ends all of it, not that of one node.

Open in the paper, and our reading: an empty RQ weighs less than any job; jobs of the same weight come in the order in
which they entered the queue, nodes in the order of their rows, those with the job's ps last; on a node the highest
index goes first; `None` for l_dw or l_iw is no limit.
"""

from collections.abc import Mapping, Sequence
from typing import TypeAlias

import msgspec

Amounts: TypeAlias = Sequence[int]
"""Of each resource."""


class Waiting(msgspec.Struct, frozen=True):
    """A job in WQ. `entered`: its place among all jobs that ever entered."""

    name: str
    weight: float
    entered: int
    minimum: Amounts
    """What its minimum requests together."""


class Running(msgspec.Struct, frozen=True):
    """A job in RQ."""

    name: str
    weight: float
    entered: int
    workers: Mapping[int, Sequence[int]]
    """node → indexes of the workers there"""
    ps: frozenset[int]
    """Nodes of its parameter servers."""
    worker: Amounts
    """What one of its workers requests."""
    least: int
    most: int

    @property
    def count(self) -> int:
        """Its workers."""
        return sum(map(len, self.workers.values()))


class Pass(msgspec.Struct, frozen=True):
    """What one pass of Algorithm 1 does with WQ."""

    placed: tuple[str, ...] = ()
    scale_in_for: str | None = None
    """The heaviest job, which does not fit: scale-in is tried for it, and it is placed if that suffices."""
    back_filled: bool = False
    """Whether it went through WQ; then those that have waited for STARVELIMIT are weighed anew."""


class ScaleIn(msgspec.Struct, frozen=True):
    """Algorithm 2's answer."""

    possible: bool
    plan: tuple[tuple[str, int, int], ...]
    """(job, index of a worker, node) in the order of removal"""
    node: int | None = None
    """Where the new job's minimum fits then."""


def fits(wanted: Amounts, idle: Amounts) -> bool:
    """Whether there is as much of each resource."""
    return all(some <= there for some, there in zip(wanted, idle, strict=True))


def algorithm_1(queue: Sequence[Waiting], heaviest_running: float | None, idle: Amounts) -> Pass:
    """One pass over WQ; `idle` is the cluster's, summed.

    >>> light, heavy = Waiting("light", 1.0, 0, (1,)), Waiting("heavy", 9.0, 1, (5,))
    >>> algorithm_1([light, heavy], 3.0, (4,))  # the light one fits, but is not looked at
    Pass(placed=(), scale_in_for='heavy', back_filled=False)
    >>> algorithm_1([light, heavy], 10.0, (4,)).placed
    ('light',)
    """
    if not queue:
        return Pass()
    ordered = sorted(queue, key=lambda job: (-job.weight, job.entered))
    heaviest = ordered[0]
    if heaviest_running is None or heaviest.weight >= heaviest_running:
        return Pass((heaviest.name,)) if fits(heaviest.minimum, idle) else Pass(scale_in_for=heaviest.name)
    left = list(idle)
    placed = []
    for job in ordered:
        if fits(job.minimum, left):
            left = [there - some for there, some in zip(left, job.minimum, strict=True)]
            placed.append(job.name)
    return Pass(tuple(placed), back_filled=True)


def algorithm_2(
    running: Sequence[Running], new: Waiting, idle: Mapping[int, Amounts], *, decrement: int | None
) -> ScaleIn:
    """Scale-in for `new`; `idle`: of each node; `decrement`: l_dw.

    >>> two = Running("two", 1.0, 0, {0: (0,), 1: (1,)}, frozenset(), (2,), least=0, most=2)
    >>> algorithm_2([two], Waiting("new", 2.0, 1, (2,)), {0: (0,), 1: (0,)}, decrement=2)  # a worker on each full node
    ScaleIn(possible=False, plan=(('two', 0, 0), ('two', 1, 1)), node=None)
    """
    room = {node: list(there) for node, there in idle.items()}
    plan: list[tuple[str, int, int]] = []
    for job in sorted(running, key=lambda job: (job.weight, job.entered)):
        if job.weight == new.weight and job.entered < new.entered:
            continue
        spare = job.count - job.least
        limit = spare if decrement is None else min(decrement, spare)
        count, stop = 0, False
        for node in sorted(job.workers, key=lambda node: (node in job.ps, node)):
            for index in sorted(job.workers[node], reverse=True):
                if fits(new.minimum, room[node]):
                    return ScaleIn(True, tuple(plan), node)
                if count >= limit:
                    stop = True
                    break
                room[node] = [there + some for there, some in zip(room[node], job.worker, strict=True)]
                plan.append((job.name, index, node))
                count += 1
            if stop:
                break
    return ScaleIn(False, tuple(plan))


def algorithm_3(
    running: Sequence[Running], idle: Mapping[int, Amounts], *, increment: int | None
) -> tuple[tuple[str, int], ...]:
    """Scale-out: (job, node) of each further worker; `increment`: l_iw.

    >>> light, heavy = (Running(name, w, 0, {0: (0,)}, frozenset(), (1,), 1, 3) for name, w in (("a", 1.0), ("b", 2.0)))
    >>> algorithm_3([light, heavy], {0: (2,), 1: (1,)}, increment=2)
    (('b', 0), ('b', 0), ('a', 1))
    """
    room = {node: list(there) for node, there in idle.items()}
    given: list[tuple[str, int]] = []
    for job in sorted(running, key=lambda job: (-job.weight, job.entered)):
        more = job.most - job.count
        limit = more if increment is None else min(increment, more)
        count = 0
        for node, there in room.items():
            while count < limit and fits(job.worker, there):
                there[:] = [have - some for have, some in zip(there, job.worker, strict=True)]
                given.append((job.name, node))
                count += 1
    return tuple(given)
