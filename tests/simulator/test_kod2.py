"""KOD2's algorithms answer as they are printed: beside a transcription of Algorithm 2 in this project's own words."""

import random
from collections.abc import Sequence
from dataclasses import dataclass

import pytest

from lab.simulator.policies.kod2_algorithms import Pass, Running, Waiting, algorithm_1, algorithm_2


@dataclass(frozen=True)
class Printed:
    """A running job: node → its workers there in the order in which they go, the node of its ps, its minimum."""

    workers: dict[int, list[int]]
    ps: int | None
    least: int


def printed_algorithm_2(
    idle: dict[int, int], jobs: Sequence[Printed], need: int, l_dw: int | None
) -> tuple[bool, list[tuple[int, int, int]], int | None]:
    """Lines 9 to 32 of the paper, for jobs of ascending weight, all lighter than the new one, and workers of size 1."""
    idle, plan = dict(idle), list[tuple[int, int, int]]()
    for number, job in enumerate(jobs):
        spare = sum(map(len, job.workers.values())) - job.least
        limit, count, stop = spare if l_dw is None else min(l_dw, spare), 0, False
        for node in sorted(job.workers, key=lambda one: (one == job.ps, one)):
            for worker in job.workers[node]:
                if idle[node] >= need:
                    return True, plan, node
                if count >= limit:
                    stop = True
                    break
                idle[node] += 1
                plan.append((number, worker, node))
                count += 1
            if stop:
                break
    return False, plan, None


def as_ours(jobs: Sequence[Printed]) -> list[Running]:
    return [
        Running(str(number), float(number), number, job.workers, frozenset({job.ps} - {None}), (1,), job.least, 99)  # type: ignore[arg-type]
        for number, job in enumerate(jobs)
    ]


def drawn(chance: random.Random) -> tuple[dict[int, int], list[Printed], int, int | None]:
    """Small clusters, most of them full, so that what is removed last matters."""
    count = chance.randint(1, 4)
    jobs = []
    for _ in range(chance.randint(1, 4)):
        places = [chance.randrange(count) for _ in range(chance.randint(0, 5))]
        workers: dict[int, list[int]] = {}
        for index in reversed(range(len(places))):
            workers.setdefault(places[index], []).append(index)
        ps = chance.choice([None, chance.randrange(count)])
        jobs.append(Printed(workers, ps, chance.randint(0, len(places))))
    idle = {node: chance.choice([0, 0, 0, 1, 2]) for node in range(count)}
    return idle, jobs, chance.randint(1, 4), chance.choice([None, 1, 2, 2])


@pytest.mark.parametrize(("inputs", "seed"), [(5_000, 1), pytest.param(100_000, 2, marks=pytest.mark.slow)])
def test_scale_in_is_what_is_printed(inputs: int, seed: int) -> None:
    chance = random.Random(seed)
    possible = 0
    for _ in range(inputs):
        idle, jobs, need, l_dw = drawn(chance)
        new = Waiting("new", 99.0, 99, (need,))
        found = algorithm_2(as_ours(jobs), new, {node: (free,) for node, free in idle.items()}, decrement=l_dw)
        plan = [(int(name), index, node) for name, index, node in found.plan]
        assert (found.possible, plan, found.node) == printed_algorithm_2(idle, jobs, need, l_dw), (idle, jobs, need)
        possible += found.possible
    assert 0.1 < possible / inputs < 0.9


def test_a_job_as_heavy_gives_nothing_to_one_that_entered_later() -> None:
    equal = Running("equal", 5.0, 1, {0: (0, 1)}, frozenset(), (1,), 0, 2)
    later, earlier = (Waiting("new", 5.0, entered, (1,)) for entered in (2, 0))
    assert not algorithm_2([equal], later, {0: (0,)}, decrement=None).possible
    assert algorithm_2([equal], earlier, {0: (0,)}, decrement=None).possible


def test_the_first_branch_looks_at_the_heaviest_alone_and_compares_with_at_least() -> None:
    queue = [Waiting("heavy", 5.0, 1, (3,)), Waiting("light", 1.0, 0, (1,))]
    assert algorithm_1(queue, 5.0, (3,)) == Pass(("heavy",))
    assert algorithm_1(queue, 5.0, (2,)) == Pass(scale_in_for="heavy")
    assert algorithm_1(queue, None, (2,)) == Pass(scale_in_for="heavy")
    assert algorithm_1(queue, 5.1, (2,)) == Pass(("light",), back_filled=True)
    assert algorithm_1(queue, 5.1, (4,)) == Pass(("heavy", "light"), back_filled=True)


def test_the_fit_test_adds_up_what_no_node_has() -> None:
    """Whether a node has room is not asked."""
    assert algorithm_1([Waiting("wide", 1.0, 0, (4, 1))], None, (4, 1)).placed == ("wide",)
    assert algorithm_1([Waiting("wide", 1.0, 0, (4, 2))], None, (4, 1)).placed == ()
