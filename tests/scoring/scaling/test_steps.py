"""One pass over many jobs in steps, between which the service answers kube-scheduler (docs/safety.md S15).

Work is counted, not timed: calls of functions between two pauses. 20,000 of them are some milliseconds; 400 jobs here
stand for the largest clusters, where the steps that grow with the jobs are three times as long.
"""

import sys
from collections.abc import Callable
from typing import Any

import pytest

from scoring.model import Gang, Node
from scoring.plan import PlannerCache, plan
from scoring.plan.steps import Steps
from scoring.scaling.adjust import Adjustment, adjust, adjust_in_steps
from scoring.scaling.options import Options
from tests.builders import node, snapshot
from tests.scoring.scaling.cases import TRUSTING, elastic, waiting, workers

JOBS = 400
MOST_CALLS = 20_000
NOW_S = 6000.0


def calls_of(steps: Steps[Adjustment]) -> tuple[list[int], Adjustment]:
    counts: list[int] = []
    calls = 0

    def count(*_: Any) -> None:
        nonlocal calls
        calls += 1

    before = sys.getprofile()
    try:
        while True:
            calls = 0
            sys.setprofile(count)
            try:
                next(steps)
            except StopIteration as done:
                made: Adjustment = done.value
                return counts, made
            finally:
                sys.setprofile(before)
                counts.append(calls)
    finally:
        sys.setprofile(before)


def idle() -> tuple[list[Node], list[Gang]]:
    return [node(f"m{i:03}", zone=f"z{i % 4}", cpu="4") for i in range(JOBS // 2)], []


CASES: dict[str, Callable[[], tuple[list[Node], list[Gang]]]] = {
    # case: further nodes, and gangs that wait
    "one large gang waits": lambda: ([], [waiting("heavy", 16, weight=99, created_s=5000.0)]),
    "many gangs wait": lambda: ([], [waiting(f"w{k:03}", 8 + k % 9, cpu="2", weight=50) for k in range(100)]),
    "there is idle room": idle,
}


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_no_step_is_long(case: Callable[[], tuple[list[Node], list[Gang]]]) -> None:
    """Whether jobs shrink or grow; and the result is that of doing it all at once."""
    nodes = [node(f"n{i:03}", zone=f"z{i % 4}", cpu="4") for i in range(JOBS)]
    gangs = [workers(f"l{i:03}", [f"n{i:03}"] * 4, weight=1 + i % 7, created_s=float(i)) for i in range(JOBS)]
    more_nodes, more_gangs = case()
    cluster = snapshot([*nodes, *more_nodes], [*gangs, *more_gangs])
    jobs = [elastic(gang, least=2, most=6) for gang in gangs]
    made = plan(cluster, TRUSTING, now_s=NOW_S)
    whole = adjust(cluster, made, jobs, {}, TRUSTING, Options(), now_s=NOW_S)
    assert whole.changes, "there is something to do"
    cache = PlannerCache()
    plan(cluster, TRUSTING, now_s=NOW_S, cache=cache)
    counts, found = calls_of(adjust_in_steps(cluster, made, jobs, {}, TRUSTING, Options(), now_s=NOW_S, cache=cache))
    assert found == whole
    assert max(counts) <= MOST_CALLS
