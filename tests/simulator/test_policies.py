"""What every policy of the simulator keeps to, and what tells them apart."""

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lab.simulator.model import Fate, RunResult, Scenario, SimJob
from lab.simulator.policies import POLICIES, Choices
from lab.simulator.speed.stall import START_S, resize_stall_s
from lab.simulator.state import State
from lab.simulator.summary import alone_s
from lab.simulator.world import run
from tests.example_counts import FEW
from tests.simulator.simulated import Watched, assert_accounts_agree, job, scenario


def play(policy: str, one: Scenario, **choices: Any) -> RunResult:
    made = POLICIES[policy](replace(Choices(seed=1), **choices))
    return run(one, Watched(made, assert_accounts_agree))


jobs = st.lists(
    st.tuples(
        *(st.integers(0, 5), st.integers(1, 3), st.integers(0, 3), st.integers(1, 3), st.integers(0, 1)),
        st.sampled_from([500.0, 5_000.0, 20_000.0]),
    ),
    min_size=1,
    max_size=8,
)
"""(arrival in minutes, fewest workers, more of them, cpu, parameter servers, samples)"""


@pytest.mark.parametrize("policy", POLICIES)
@FEW
@given(drawn=jobs)
def test_jobs_that_fit_end_and_nothing_is_promised_twice(
    policy: str, drawn: list[tuple[int, int, int, int, int, float]]
) -> None:
    """No node is ever over-committed, every job that fits an empty cluster ends, and never before its work is done."""
    made = [
        job(f"j{i}", at_s=60.0 * at, workers=least + more, least=least, cpu=cpu, ps=ps, samples=samples)
        for i, (at, least, more, cpu, ps, samples) in enumerate(drawn)
    ]
    result = play(policy, scenario(*made))
    for one in result.outcomes:
        assert one.fate is Fate.COMPLETED
        assert one.started_s is not None
        assert one.ended_s is not None
        assert one.job.arrival_s <= one.started_s <= one.ended_s - START_S
        most = one.job.workers
        assert one.worker_s <= most * (one.ended_s - one.job.arrival_s) + 1e-6
    assert all(0.0 <= ratio <= 1.0 for ratio in result.requested_ratio.values())
    assert 0.0 < result.busy_cpu_ratio <= result.requested_ratio["cpu"] + 1e-9


@pytest.mark.parametrize("policy", [name for name in POLICIES if name != "default"])
def test_gangs_start_whole(policy: str) -> None:
    """Under every policy but the default scheduler a job that waits holds nothing."""

    def look(state: State) -> None:
        assert all(not one.ps and not one.workers for one in state.waiting.values())
        for one in state.running.values():
            assert len(one.ps) == one.job.ps_count
            assert len(one.workers) >= one.needs

    made = [job(f"j{i}", at_s=10.0 * i, workers=5, least=2, cpu=2, samples=3_000.0) for i in range(8)]
    result = run(scenario(*made, count=2), Watched(POLICIES[policy](Choices(seed=1)), look))
    assert {one.fate for one in result.outcomes} == {Fate.COMPLETED}
    assert all(one.first_pod_s == one.started_s for one in result.outcomes)


def test_the_default_scheduler_starts_half_of_a_job() -> None:
    """G6: two jobs of four pods and room for six: one holds two nodes for nothing while it waits; gangs do not."""
    made = scenario(*(job(name, workers=4, ps=0) for name in ("a", "b")), count=6, cpu=1)
    half, whole = (play(policy, made).outcomes[1] for policy in ("default", "coscheduling"))
    assert half.first_pod_s == 0.0
    assert half.started_s == whole.started_s == whole.first_pod_s
    assert (whole.started_s or 0.0) > 100.0


def test_a_deadlocked_job_is_removed_after_its_time_and_comes_again() -> None:
    """It uses room for 30 minutes, frees it, waits behind all others, and completes later; or ends there."""
    first = job("first", workers=10, ps=0, samples=5_000.0)
    both = [job(f"b{i}", at_s=1.0, workers=8, ps=0, samples=100.0) for i in range(2)]
    one = scenario(first, *both, count=1)
    again, never = play("default", one), play("default", one, resubmit=False)
    assert [found.deadlocks > 0 for found in again.outcomes] == [False, True, True], "room for ten, sixteen pods"
    assert {found.fate for found in again.outcomes} == {Fate.COMPLETED}
    assert [found.fate for found in never.outcomes] == [Fate.COMPLETED, Fate.DEADLOCKED, Fate.DEADLOCKED]
    freed_s = never.outcomes[0].ended_s or 0.0
    assert all(found.started_s is None and found.ended_s == freed_s + 1800.0 for found in never.outcomes[1:])


def test_a_job_that_never_fits_does_not_stop_the_others() -> None:
    never = job("never", workers=2, cpu=11)
    for policy in POLICIES:
        if policy == "kod2-literal":
            continue  # while the heaviest job does not fit, Algorithm 1 looks at no other
        outcomes = play(policy, scenario(never, job("fits", at_s=1.0))).outcomes
        assert outcomes[1].fate is Fate.COMPLETED, policy
        assert outcomes[0].started_s is None


def test_shortest_first_starts_the_shortest_of_those_that_wait() -> None:
    lengths = {"first": 5_000.0, "long": 9_000.0, "middle": 6_000.0, "short": 3_000.0}
    made = [job(name, at_s=float(i), workers=9, samples=s) for i, (name, s) in enumerate(lengths.items())]
    outcomes = play("shortest-first", scenario(*made, count=1)).outcomes
    started = [one.job.name for one in sorted(outcomes, key=lambda one: one.started_s or 0.0)]
    assert started == ["first", "short", "middle", "long"]


@pytest.mark.parametrize("policy", ["kod2-literal", "netgang-elastic"])
def test_elastic_policies_grow_a_lonely_job(policy: str) -> None:
    """A job that may have more workers gets them, before it trains, without a stall."""
    [outcome] = play(policy, scenario(job("j", workers=2, least=1, most=6))).outcomes
    assert outcome.resizes == 0
    fixed = play("coscheduling", scenario(job("j", workers=2))).outcomes[0]
    assert (outcome.completion_s or 0.0) < 0.6 * (fixed.completion_s or 0.0)


def test_a_change_stalls_and_repeats_steps() -> None:
    """A lighter job is shrunk for a heavier one: it stalls as measured, and what it repeats is counted."""
    wide = job("wide", workers=4, least=2, cpu=2, samples=40_000.0)
    urgent = job("urgent", at_s=300.0, workers=4, cpu=1, ps=0, samples=1_000.0)
    shrunk, started = play("netgang-elastic", scenario(wide, urgent, count=1, cpu=9)).outcomes
    assert started.started_s == 300.0
    assert shrunk.resizes == 2, "down for the other job, and up again"
    least = resize_stall_s(2) + resize_stall_s(4)
    assert least <= shrunk.stalled_s < least + 2 * 60.0


WITHOUT = {
    # policy → workers that the first job ever has: alone and after the second, and beside it
    "netgang-rigid": {4},
    "netgang-elastic-unchanged": {4},
    "netgang-elastic-ungrown": {4, 3},
    "netgang-elastic-unreserved": {5, 3},
}


@pytest.mark.parametrize(("policy", "counts"), WITHOUT.items(), ids=WITHOUT)
def test_parts_of_the_scaling_can_be_left_out(policy: str, counts: set[int]) -> None:
    """One asks for 4 of 2 to 6 workers, 5 have room, and a heavier one comes: it never gives any, or never has 5."""
    seen: set[int] = set()

    def look(state: State) -> None:
        one = state.running.get("wide")
        if one is not None and one.resumes_s != state.now_s + START_S:  # not in the moment in which it starts
            seen.add(len(one.workers))

    wide = job("wide", workers=4, least=2, most=6, ps=0, cpu=2, samples=40_000.0)
    urgent = job("urgent", at_s=300.0, workers=4, ps=0, samples=1_000.0)
    run(scenario(wide, urgent, count=1, cpu=10), Watched(POLICIES[policy](Choices()), look))
    assert seen == counts


def test_whoever_waits_may_have_what_a_heavier_job_can_do_without() -> None:
    wide = job("wide", workers=6, least=4, ps=0, samples=400_000.0)
    light = job("light", at_s=300.0, workers=1, ps=1, samples=1_000.0)
    one = scenario(wide, light, count=1, cpu=6)
    waited = {
        policy: play(policy, one).outcomes[1].started_s
        for policy in ("netgang-elastic-any", "netgang-elastic-unreserved")
    }
    assert waited == {"netgang-elastic-any": 300.0, "netgang-elastic-unreserved": 300.0 + 1800.0}


def test_alone_is_a_bound_for_rigid_jobs() -> None:
    """Nobody is faster than with all workers on one node and no other there."""
    made: list[SimJob] = [job(f"j{i}", workers=3, samples=4_000.0) for i in range(4)]
    for one in play("coscheduling", scenario(*made)).outcomes:
        assert (one.completion_s or 0.0) >= alone_s(one.job) - 1e-6


def test_paper_n_keeps_to_one_zone() -> None:
    seen: list[set[str]] = []

    def look(state: State) -> None:
        for one in state.running.values():
            rows = (*one.ps.values(), *one.workers.values())
            seen.append({str(state.table.nodes[row].zone) for row in rows})

    made = [job(f"j{i}", at_s=float(i), workers=6, cpu=2, samples=1_000.0) for i in range(4)]
    run(scenario(*made, count=4, zones=2), Watched(POLICIES["paper-n"](Choices()), look))
    assert seen
    assert all(len(zones) == 1 for zones in seen)


def test_a_cut_run_says_who_was_not_done() -> None:
    """`until_s` ends the run there: jobs are unfinished or have not started, and nothing is counted beyond."""
    made = [job("runs", workers=9), job("waits", at_s=1.0, workers=9), job("later", at_s=500.0)]
    result = play("coscheduling", scenario(*made, count=1, until_s=100.0))
    assert [one.fate for one in result.outcomes] == [Fate.UNFINISHED, Fate.NEVER_STARTED, Fate.NEVER_STARTED]
    assert result.makespan_s == 100.0
    assert all(one.completion_s is None for one in result.outcomes)
